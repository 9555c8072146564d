//! What a thread that waits for changes costs the threads that write: the instructions of the writing thread with and without one, counted by
//! valgrind, so that what else the machine does is not measured.
//!
//! `cargo bench -p pipkin-bench --bench watchers` (`apt-get install valgrind`).
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::Db;
use std::path::Path;
use std::process::{Command, Stdio};

/// Keys that are overwritten in turn.
const KEYS: u64 = 10_000;
/// The argument of the process that writes.
const WRITE: &str = "--write-it";
/// Puts of the shorter run; the longer one has twice as many, and the difference is theirs alone.
const PUTS: u64 = 50_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path, watched, every, puts] = arguments.as_slice()
        && what == WRITE
    {
        let number = |text: &str| text.parse().expect("a number");
        return write(Path::new(path), watched == "watched", number(every), number(puts));
    }
    // `cargo bench -- --test` only looks whether it runs.
    let puts = if arguments.iter().any(|argument| argument == "--test") { 500 } else { PUTS };
    for (name, every) in [("puts that nobody flushes", 0), ("puts, a flush after each 100", 100)] {
        let (Some(alone), Some(watched)) = (instructions("alone", every, puts), instructions("watched", every, puts)) else {
            println!("valgrind is not there: nothing was counted");
            return;
        };
        println!("{name}: {alone:.0} instructions each, {watched:.0} with a watcher that waits: {:.4} of it", watched / alone);
    }
}

/// Instructions of the writing thread for a put.
fn instructions(watched: &str, every: u64, puts: u64) -> Option<f64> {
    let [short, long] = [puts, 2 * puts].map(|puts| counted(watched, every, puts));
    Some((long? as f64 - short? as f64) / puts as f64)
}

/// Instructions of the writing thread in a run; `None` without valgrind.
fn counted(watched: &str, every: u64, puts: u64) -> Option<u64> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let counts = folder.path().join("counts");
    let status = Command::new("valgrind")
        .args(["-q", "--tool=callgrind", "--separate-threads=yes"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe().expect("this program"))
        .args([WRITE.as_ref(), folder.path().join("watched.pipkin").as_os_str()])
        .args([watched, &every.to_string(), &puts.to_string()])
        .stdout(Stdio::null())
        .status()
        .ok()?;
    assert!(status.success(), "the writer failed: {status}");
    // The first thread is the one that writes.
    let report = std::fs::read_to_string(folder.path().join("counts-01")).expect("the counts of the first thread");
    let totals = report.lines().find_map(|line| line.strip_prefix("totals: ")).expect("a line of totals");
    Some(totals.trim().parse().expect("a number"))
}

/// Puts, with a flush after each so many (0: none).
fn write(path: &Path, is_watched: bool, every: u64, puts: u64) {
    let db = Db::open(path).expect("an empty store");
    let watching = is_watched.then(|| {
        let waits = db.watch("a prefix that nobody writes");
        waits.spawn(|commit| drop(commit.expect("no commit fails"))).expect("a thread")
    });
    for number in 0..puts {
        db.insert((number % KEYS).to_be_bytes(), [7; 100]).expect("insert");
        if every != 0 && number % every == every - 1 {
            db.flush().expect("flush");
        }
    }
    drop(watching);
    // A close, and what it writes, is part of neither: it is the same for both numbers of puts, up to the size of the index.
    std::mem::forget(db);
}
