//! Records inserted by threads that share them, none flushed: what the one lock costs under which a record is copied to the end of the log.
//!
//! Criterion draws a line for each place over the number of threads: `target/criterion/concurrent_writes_*/report/lines.svg`.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use pipkin_bench::{Place, Store, record_count, records, thread_counts};
use std::time::Duration;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let records = records(record_count(), 1);
    let mut group = criterion.benchmark_group(format!("concurrent_writes/{}", records.len()));
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).throughput(Throughput::Elements(records.len() as u64));
    for place in Place::both(env!("CARGO_TARGET_TMPDIR")) {
        for threads in thread_counts() {
            let write = |store: Store| {
                std::thread::scope(|scope| {
                    for share in records.chunks(records.len().div_ceil(threads)) {
                        let db = &store.db;
                        scope.spawn(move || {
                            share.iter().try_for_each(|(key, value)| db.insert(key, value)).expect("insert");
                        });
                    }
                });
                store
            };
            let new = || place.create().expect("an empty store");
            group.bench_function(BenchmarkId::new(place.name(), threads), |bench| {
                bench.iter_batched(new, write, BatchSize::PerIteration);
            });
        }
    }
    group.finish();
    criterion.final_summary();
}
