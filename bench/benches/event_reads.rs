//! Where the instructions of reading events go, and the misses of the caches: of each function, for one event, see `pipkin_bench::counted`.
//!
//! `cargo bench -p pipkin-bench --bench event_reads` (`apt-get install valgrind`).
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::{Db, Expected, NewEvent};
use pipkin_bench::{Random, counted};
use std::hint::black_box;
use std::path::Path;

/// The argument of the process that reads.
const READ: &str = "--read-it";
const EVENTS: u64 = 100_000;
const STREAM: &str = "stream";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path, how, rounds] = arguments.as_slice()
        && what == READ
    {
        return read(Path::new(path), how, rounds.parse().expect("a number"));
    }
    // `cargo bench -- --test` only looks whether it runs.
    let events = if arguments.iter().any(|argument| argument == "--test") { 1_000 } else { EVENTS };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("read.pipkin");
    fill(&path, events);
    for (how, name) in [
        ("all", "all in order, in place"),
        ("number", "by number, any order"),
        ("version", "by version of the stream, any order"),
    ] {
        // The longer run reads everything once more, and the difference is that alone.
        let count = |rounds: &str| {
            let arguments = [READ.as_ref(), path.as_os_str(), how.as_ref(), rounds.as_ref()];
            counted::by_function(&path.with_extension("counts"), &arguments).expect("the reader")
        };
        let (Some(short), Some(long)) = (count("1"), count("2")) else {
            println!("valgrind is not there: nothing was counted");
            return;
        };
        counted::print(name, (events, "an event"), &short, &long);
    }
}

fn fill(path: &Path, events: u64) {
    let db = Db::open(path).expect("an empty store");
    let log = db.events("log").expect("a log");
    for _ in 0..events / 1000 {
        log.append(STREAM, Expected::Any, (0..1000).map(|_| NewEvent::new("T", [7; 150]))).expect("appended");
    }
    db.close().expect("closed");
}

/// Reads all events so many times.
fn read(path: &Path, how: &str, rounds: u64) {
    let db = Db::open(path).expect("a store");
    let log = db.events("log").expect("a log");
    let last = log.last_number().expect("a number");
    let mut random = Random::new(1);
    for _ in 0..rounds {
        match how {
            "all" => log.all().for_each(|event| _ = black_box(event.payload())).expect("read"),
            "number" => (0..last).for_each(|_| {
                black_box(log.get_by_number(1 + random.below(last)).expect("read"));
            }),
            _ => (0..last).for_each(|_| {
                black_box(log.get_with(STREAM, 1 + random.below(last), |event| event.payload().len()).expect("read"));
            }),
        }
    }
    // What the end costs is no part of reading.
    std::mem::forget((db, log));
}
