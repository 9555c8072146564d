//! Where the instructions of a range of ten records go, and the misses of the caches: of each function, for one range, see
//! `pipkin_bench::counted`. Records with 24-byte keys, written in no order; read where they stand, and as copies.
//!
//! `cargo bench -p pipkin-bench --bench range_reads` (`apt-get install valgrind`).
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::Db;
use pipkin_bench::{Random, VALUE_LEN, counted};
use std::hint::black_box;
use std::path::Path;

/// The arguments of the process that reads.
const IN_PLACE: &str = "--in-place";
const COPIES: &str = "--copies";
const RECORDS: u64 = 1_000_000;
const RANGES: u64 = 20_000;
/// Records of a range.
const LEN: usize = 10;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path, records, rounds] = arguments.as_slice()
        && (what == IN_PLACE || what == COPIES)
    {
        let (records, rounds) = (records.parse().expect("a number"), rounds.parse().expect("a number"));
        return read(Path::new(path), records, rounds, if what == IN_PLACE { in_place } else { copies });
    }
    // `cargo bench -- --test` only looks whether it runs.
    let records = if arguments.iter().any(|argument| argument == "--test") { 1_000 } else { RECORDS };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("read.pipkin");
    fill(&path, records);
    for (what, name) in [(IN_PLACE, "ranges of ten, in place"), (COPIES, "ranges of ten, as copies")] {
        let count = |rounds: &str| {
            let records = records.to_string();
            let arguments = [what.as_ref(), path.as_os_str(), records.as_ref(), rounds.as_ref()];
            counted::by_function(&path.with_extension("counts"), &arguments).expect("the reader")
        };
        let (Some(short), Some(long)) = (count("1"), count("2")) else {
            println!("valgrind is not there: nothing was counted");
            return;
        };
        counted::print(name, (RANGES, "a range"), &short, &long);
    }
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
fn read(path: &Path, records: u64, rounds: u64, range: fn(&Db, &str)) {
    let db = Db::builder().path(path).ordered(true).background(false).open().expect("a store");
    let mut random = Random::new(1);
    for _ in 0..rounds * RANGES {
        range(&db, &key(random.below(records)));
    }
    // What the end costs is no part of reading.
    std::mem::forget(db);
}

fn in_place(db: &Db, from: &str) {
    let mut left = LEN;
    let read = db.range_with(from.., |key, value| {
        black_box((key, value));
        left -= 1;
        left > 0
    });
    read.expect("read");
}

fn copies(db: &Db, from: &str) {
    for record in db.range(from..).expect("in order").take(LEN) {
        black_box(record.expect("read"));
    }
}
