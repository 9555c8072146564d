//! Opening a file that was closed, and one that was not. The file has been read a moment before, so the system has it in memory.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use criterion::{BatchSize, Criterion};
use pipkin::Db;
use pipkin_bench::{KEY_LEN, Record, new_folder, record_count, records, value_len};
use std::fs;
use std::path::Path;
use std::time::Duration;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let records = records(record_count(), 1);
    let folder = new_folder(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a folder");
    let (closed, unclean) = (folder.path().join("closed.pipkin"), folder.path().join("unclean.pipkin"));
    prepare(&closed, &unclean, &records);

    let mut group = criterion.benchmark_group(format!("reopen/{}", records.len()));
    group.sample_size(10).warm_up_time(Duration::from_secs(1));
    // The store that is opened is closed again outside the clock.
    group.bench_function("clean", |bench| {
        bench.iter_batched(|| (), |()| open(&closed, true), BatchSize::PerIteration);
    });
    group.bench_function("clean, whole index", |bench| {
        bench.iter_batched(|| (), |()| open_whole(&closed, true, records.len()), BatchSize::PerIteration);
    });
    // Closing mends the file, so each round gets a copy of the image.
    let work = folder.path().join("work.pipkin");
    let copy = || fs::copy(&unclean, &work).expect("a copy of the image");
    group.bench_function("unclean", |bench| {
        bench.iter_batched(copy, |_| open(&work, false), BatchSize::PerIteration);
    });
    group.bench_function("unclean, whole index", |bench| {
        bench.iter_batched(copy, |_| open_whole(&work, false, records.len()), BatchSize::PerIteration);
    });
    group.finish();
    criterion.final_summary();
}

fn open(path: &Path, clean: bool) -> Db {
    let db = Db::open(path).expect("open");
    assert_eq!(db.open_report().clean, clean);
    db
}

/// Opening leaves the index to those who need it; counting needs all of it.
fn open_whole(path: &Path, clean: bool, records: usize) -> Db {
    let db = open(path, clean);
    assert_eq!(db.len().expect("len"), records as u64);
    db
}

/// `unclean` is what a kill would have left: a copy from before the close, of a store in which no thread is at work.
fn prepare(closed: &Path, unclean: &Path, records: &[Record]) {
    let db = Db::builder().path(closed).background(false).open().expect("a new store");
    for (key, value) in records {
        db.insert(key, value).expect("insert");
    }
    db.flush().expect("flush");
    fs::copy(closed, unclean).expect("an image");
    let stats = db.stats().expect("stats");
    println!("the unclean image has {} bytes of log to replay", stats.replay_debt);
    println!("the index takes {:.1} bytes of memory a record", stats.index_bytes as f64 / records.len() as f64);
    db.close().expect("close");
    let payload = (records.len() * (KEY_LEN + value_len())) as f64;
    for (state, path) in [("not closed", unclean), ("closed", closed)] {
        let len = fs::metadata(path).expect("the file").len();
        println!("{state}: {len} bytes, {:.4} of keys and values", len as f64 / payload);
    }
}
