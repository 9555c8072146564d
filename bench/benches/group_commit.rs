//! Threads that each want every record of theirs on the device, under each flush policy: how far they share the syncs. The more threads, the fewer
//! syncs a record. Which disk it is decides: `PIPKIN_BENCH_DIR` names one.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use pipkin::{Db, FlushPolicy};
use pipkin_bench::{Place, Record, Store, records, thread_counts};
use std::time::Duration;

/// Records of each thread: `PIPKIN_BENCH_RECORDS` would be too many syncs.
const RECORDS: usize = 200;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let place = Place::file(env!("CARGO_TARGET_TMPDIR"));
    let mut group = criterion.benchmark_group("group_commit");
    group.sample_size(10).warm_up_time(Duration::from_secs(1));
    for policy in [FlushPolicy::Group, FlushPolicy::OnEachFlush, FlushPolicy::WriteThrough] {
        for threads in thread_counts() {
            let records = records(threads * RECORDS, threads as u64);
            group.throughput(Throughput::Elements(records.len() as u64));
            let write = |store: Store| {
                std::thread::scope(|scope| {
                    for share in records.chunks(RECORDS) {
                        let db = &store.db;
                        scope.spawn(move || durable(db, policy, share));
                    }
                });
                assert_eq!(store.db.len().expect("len"), records.len() as u64);
                store
            };
            let new = || place.create_with(Db::builder().flush_policy(policy)).expect("an empty store");
            group.bench_function(BenchmarkId::new(format!("{policy:?}"), threads), |bench| {
                bench.iter_batched(new, write, BatchSize::PerIteration);
            });
        }
    }
    group.finish();
    criterion.final_summary();
}

fn durable(db: &Db, policy: FlushPolicy, records: &[Record]) {
    for (key, value) in records {
        db.insert(key, value).expect("insert");
        if policy != FlushPolicy::WriteThrough {
            db.flush().expect("flush");
        }
    }
}
