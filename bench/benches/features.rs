//! What each option costs or saves: the same inserts, reads and, where there is an order, ranges, with one option changed at a time.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use pipkin::{Builder, Db};
use pipkin_bench::{Place, Store, record_count, records, shuffled_keys, sum};
use std::time::Duration;

/// Makes the options of a store.
type Options = fn() -> Builder;

/// Records of one range.
const RANGE: usize = 10;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let place = Place::file(env!("CARGO_TARGET_TMPDIR"));
    let records = records(record_count(), 1);
    let keys = shuffled_keys(&records);
    let mut group = criterion.benchmark_group(format!("features/{}", records.len()));
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).throughput(Throughput::Elements(records.len() as u64));
    let options: [(&str, Options); 5] = [
        ("default", Db::builder),
        ("unverified", || Db::builder().verify_on_read(false)),
        ("unmapped", || Db::builder().mmap(false)),
        ("ordered", || Db::builder().ordered(true)),
        ("small segments", || Db::builder().segment_size(64 * 1024)),
    ];
    for (name, builder) in options {
        let new = || place.create_with(builder()).expect("an empty store");
        let load = |store: Store| store.load(&records).expect("insert");
        group.bench_function(BenchmarkId::new("insert", name), |bench| {
            bench.iter_batched(new, load, BatchSize::PerIteration);
        });
        let store = load(new());
        group.bench_function(BenchmarkId::new("get_zerocopy", name), |bench| {
            bench.iter(|| {
                keys.iter().filter_map(|key| store.db.get_zerocopy(key).expect("get")).map(|value| sum(&value)).sum::<u64>()
            });
        });
        if store.db.range_with(.., |_, _| false).is_ok() {
            group.bench_function(BenchmarkId::new("ranges of 10", name), |bench| {
                bench.iter(|| keys.iter().step_by(RANGE).map(|key| range(&store.db, key)).sum::<u64>());
            });
        }
    }
    group.finish();
    criterion.final_summary();
}

fn range(db: &Db, from: &[u8]) -> u64 {
    let (mut left, mut total) = (RANGE, 0);
    let each = |_: &[u8], value: &[u8]| {
        total += sum(value);
        left -= 1;
        left > 0
    };
    db.range_with(from.., each).expect("range");
    total
}
