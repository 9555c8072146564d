//! Threads that each want every record of theirs on the device: how far they share the syncs. The more threads, the fewer syncs a record.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use pipkin::Db;
use pipkin_bench::{Place, Record, Store, records};
use std::time::Duration;

const THREADS: [usize; 4] = [1, 2, 4, 8];
/// Records of each thread: `PIPKIN_BENCH_RECORDS` would be too many syncs.
const RECORDS: usize = 200;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let place = Place::File(env!("CARGO_TARGET_TMPDIR").into());
    let mut group = criterion.benchmark_group("group_commit");
    group.sample_size(10).warm_up_time(Duration::from_secs(1));
    for threads in THREADS {
        let records = records(threads * RECORDS, threads as u64);
        group.throughput(Throughput::Elements(records.len() as u64));
        let write = |store: Store| {
            std::thread::scope(|scope| {
                for share in records.chunks(RECORDS) {
                    let db = &store.db;
                    scope.spawn(move || durable(db, share));
                }
            });
            assert_eq!(store.db.len().expect("len"), records.len() as u64);
            store
        };
        let new = || place.create().expect("an empty store");
        group.bench_function(BenchmarkId::from_parameter(threads), |bench| {
            bench.iter_batched(new, write, BatchSize::PerIteration);
        });
    }
    group.finish();
    criterion.final_summary();
}

fn durable(db: &Db, records: &[Record]) {
    for (key, value) in records {
        db.insert(key, value).and_then(|()| db.flush()).expect("a durable insert");
    }
}
