//! Every record read once, in random order, by threads that share the keys among them: one by one, in groups, and with one update among ten reads.
//!
//! Criterion draws a line for each of the three over the number of threads: `target/criterion/concurrent_reads_*/report/lines.svg`.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use criterion::{BenchmarkId, Criterion, Throughput};
use pipkin::Db;
use pipkin_bench::{KEY_LEN, Place, record_count, records, shuffled_keys, sum, thread_counts, value_len};
use std::time::Duration;

/// Keys of one call of `get_many_with`.
const BATCH: usize = 1_000;
/// Operations of which one is an update.
const UPDATED: usize = 10;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let records = records(record_count(), 1);
    let keys = shuffled_keys(&records);
    let expected = records.iter().map(|(_, value)| sum(value)).sum::<u64>();
    let place = Place::file(env!("CARGO_TARGET_TMPDIR"));
    let store = place.create().and_then(|store| store.load(&records)).expect("a loaded store");
    let mut group = criterion.benchmark_group(format!("concurrent_reads/{}", records.len()));
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).throughput(Throughput::Elements(keys.len() as u64));
    for threads in thread_counts() {
        for (name, read) in [("get_zerocopy", one_by_one as Read), ("get_many_with", in_groups)] {
            group.bench_function(BenchmarkId::new(name, threads), |bench| {
                bench.iter(|| assert_eq!(shared(&store.db, &keys, threads, read), expected));
            });
        }
    }
    // Last: it overwrites what the others have counted.
    for threads in thread_counts() {
        group.bench_function(BenchmarkId::new("mixed", threads), |bench| {
            bench.iter(|| shared(&store.db, &keys, threads, mixed));
        });
    }
    group.finish();
    criterion.final_summary();
}

type Keys = [[u8; KEY_LEN]];
type Read = fn(&Db, &Keys) -> u64;

fn one_by_one(db: &Db, keys: &Keys) -> u64 {
    keys.iter().filter_map(|key| db.get_zerocopy(key).expect("get_zerocopy")).map(|value| sum(&value)).sum()
}

fn in_groups(db: &Db, keys: &Keys) -> u64 {
    let mut total = 0;
    for batch in keys.chunks(BATCH) {
        db.get_many_with(batch, |_, value| total += value.map_or(0, sum)).expect("get_many_with");
    }
    total
}

fn mixed(db: &Db, keys: &Keys) -> u64 {
    let value = vec![7; value_len()];
    let mut total = 0;
    for keys in keys.chunks(UPDATED) {
        let (updated, read) = keys.split_first().expect("a chunk is not empty");
        db.insert(updated, &value).expect("insert");
        total += one_by_one(db, read);
    }
    total
}

fn shared(db: &Db, keys: &Keys, threads: usize, read: Read) -> u64 {
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            keys.chunks(keys.len().div_ceil(threads)).map(|share| scope.spawn(move || read(db, share))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a reader")).sum()
    })
}
