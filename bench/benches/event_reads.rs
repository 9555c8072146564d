//! Where the instructions of reading events go: of each function, for one event, counted by valgrind, so that what else the machine does is not
//! measured. What the compiler has put into another function counts as part of that one.
//!
//! `cargo bench -p pipkin-bench --bench event_reads` (`apt-get install valgrind`).
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::{Db, Expected, NewEvent};
use pipkin_bench::Random;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

/// The argument of the process that reads.
const READ: &str = "--read-it";
const EVENTS: u64 = 100_000;
const STREAM: &str = "stream";
/// Functions below this share of all are added up.
const LEAST: f64 = 0.02;

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
        let (Some(short), Some(long)) = (counted(&path, how, 1), counted(&path, how, 2)) else {
            println!("valgrind is not there: nothing was counted");
            return;
        };
        print(name, &short, &long, events);
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

/// Instructions by function; `None` without valgrind.
fn counted(path: &Path, how: &str, rounds: u64) -> Option<BTreeMap<String, u64>> {
    let counts = path.with_extension("counts");
    let status = Command::new("valgrind")
        .args(["-q", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe().expect("this program"))
        .args([READ.as_ref(), path.as_os_str()])
        .args([how, &rounds.to_string()])
        .stdout(Stdio::null())
        .status()
        .ok()?;
    assert!(status.success(), "the reader failed: {status}");
    let said =
        Command::new("callgrind_annotate").args(["--threshold=100", "--auto=no", "--tree=none"]).arg(&counts).output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut functions = BTreeMap::new();
    // 1,234 (5.67%)  file:function [program]
    for line in said.lines() {
        let Some((number, name)) =
            line.trim().split_once(" (").and_then(|(number, rest)| Some((number, rest.split_once("%)")?.1)))
        else {
            continue;
        };
        let (Ok(number), Some((_, name))) = (number.replace(',', "").parse::<u64>(), name.trim().split_once(':')) else {
            continue;
        };
        let name = name.split(" [").next().unwrap_or(name);
        *functions.entry(name.to_owned()).or_default() += number;
    }
    Some(functions)
}

fn print(name: &str, short: &BTreeMap<String, u64>, long: &BTreeMap<String, u64>, events: u64) {
    let each =
        |function: &String, count: &u64| (*count as f64 - short.get(function).copied().unwrap_or(0) as f64) / events as f64;
    let mut parts: Vec<(f64, &str)> = long.iter().map(|(function, count)| (each(function, count), function.as_str())).collect();
    parts.sort_by(|one, other| other.0.total_cmp(&one.0));
    let total: f64 = parts.iter().map(|(count, _)| count).sum();
    println!("\n{name}: {total:.0} instructions an event");
    let (large, small): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(count, _)| *count >= total * LEAST);
    for (count, function) in large {
        println!("{count:>8.0}  {function}");
    }
    println!("{:>8.0}  everything else", small.iter().map(|(count, _)| count).sum::<f64>());
}
