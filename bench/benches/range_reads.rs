//! Where the instructions of a range of ten records go, and the misses of the caches: of each function, for one range, see
//! `pipkin_bench::counted`. Records with 24-byte keys, written in no order.
//!
//! `cargo bench -p pipkin-bench --bench range_reads` (`apt-get install valgrind`).
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::Db;
use pipkin_bench::{Random, VALUE_LEN, counted};
use std::hint::black_box;
use std::path::Path;

/// The argument of the process that reads.
const READ: &str = "--read-it";
const RECORDS: u64 = 1_000_000;
const RANGES: u64 = 20_000;
/// Records of a range.
const LEN: usize = 10;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path, records, rounds] = arguments.as_slice()
        && what == READ
    {
        return read(Path::new(path), records.parse().expect("a number"), rounds.parse().expect("a number"));
    }
    // `cargo bench -- --test` only looks whether it runs.
    let records = if arguments.iter().any(|argument| argument == "--test") { 1_000 } else { RECORDS };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("read.pipkin");
    fill(&path, records);
    let count = |rounds: &str| {
        let records = records.to_string();
        let arguments = [READ.as_ref(), path.as_os_str(), records.as_ref(), rounds.as_ref()];
        counted::by_function(&path.with_extension("counts"), &arguments).expect("the reader")
    };
    let (Some(short), Some(long)) = (count("1"), count("2")) else {
        println!("valgrind is not there: nothing was counted");
        return;
    };
    counted::print("ranges of ten", (RANGES, "a range"), &short, &long);
}

fn key(number: u64) -> String {
    format!("{:016x}/{:07}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number % 10_000_000)
}

fn fill(path: &Path, records: u64) {
    let db = Db::builder().path(path).ordered(true).open().expect("an empty store");
    let all: Vec<u64> = (0..records).collect();
    for numbers in all.chunks(50_000) {
        db.insert_many(numbers.iter().map(|&number| (key(number), [7; VALUE_LEN]))).expect("inserted");
    }
    db.close().expect("closed");
}

/// Reads so many times all ranges, each from a record that is chosen at random.
fn read(path: &Path, records: u64, rounds: u64) {
    let db = Db::builder().path(path).ordered(true).background(false).open().expect("a store");
    let mut random = Random::new(1);
    for _ in 0..rounds * RANGES {
        let from = key(random.below(records));
        for record in db.range(from..).expect("in order").take(LEN) {
            black_box(record.expect("read"));
        }
    }
    // What the end costs is no part of reading.
    std::mem::forget(db);
}
