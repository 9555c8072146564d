//! One thread that wants every record on the device, under each flush policy.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use criterion::{BatchSize, Criterion, Throughput};
use pipkin::{Db, FlushPolicy};
use pipkin_bench::{Place, Store, records};
use std::time::Duration;

/// `PIPKIN_BENCH_RECORDS` would be too many syncs.
const RECORDS: usize = 300;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let place = Place::file(env!("CARGO_TARGET_TMPDIR"));
    let records = records(RECORDS, 1);
    let mut group = criterion.benchmark_group("write_through");
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).throughput(Throughput::Elements(RECORDS as u64));
    for policy in [FlushPolicy::Group, FlushPolicy::OnEachFlush, FlushPolicy::WriteThrough] {
        let new = || place.create_with(Db::builder().flush_policy(policy)).expect("an empty store");
        let write = |store: Store| {
            for (key, value) in &records {
                store.db.insert(key, value).expect("insert");
                if policy != FlushPolicy::WriteThrough {
                    store.db.flush().expect("flush");
                }
            }
            store
        };
        group.bench_function(format!("{policy:?}"), |bench| bench.iter_batched(new, write, BatchSize::PerIteration));
    }
    group.finish();
    criterion.final_summary();
}
