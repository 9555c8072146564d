//! One operation at a time, over a native file and over memory. Every figure is for the whole set of records; criterion divides by
//! their number and tells the rate.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput};
use pipkin_bench::{KEY_LEN, Place, Record, Store, record_count, records, shuffled_keys, sum};
use std::hint::black_box;
use std::time::Duration;

/// Records of one commit of `insert_many`.
const BATCH: usize = 1_000;

type Group<'a> = BenchmarkGroup<'a, WallTime>;
type Keys = [[u8; KEY_LEN]];

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let records = records(record_count(), 1);
    let (keys, missing) = (shuffled_keys(&records), shuffled_keys(&pipkin_bench::records(records.len(), 2)));
    for place in Place::both(env!("CARGO_TARGET_TMPDIR")) {
        let mut group = criterion.benchmark_group(format!("kv/{}/{}", place.name(), records.len()));
        group.sample_size(10).warm_up_time(Duration::from_secs(1)).throughput(Throughput::Elements(records.len() as u64));
        writes(&mut group, &place, &records, &keys);
        let store = loaded(&place, &records);
        reads(&mut group, &store, &records, &keys, &missing);
        group.finish();
    }
    criterion.final_summary();
}

fn empty(place: &Place) -> Store {
    place.create().expect("an empty store")
}

fn loaded(place: &Place, records: &[Record]) -> Store {
    empty(place).load(records).expect("a loaded store")
}

/// Each round has a store of its own; it is made and thrown away outside the clock. Nothing is flushed.
fn writes(group: &mut Group<'_>, place: &Place, records: &[Record], keys: &Keys) {
    let insert = |store: Store| {
        let store = store.load(records).expect("insert");
        assert_eq!(store.db.len().expect("len"), records.len() as u64);
        store
    };
    group.bench_function("insert", |bench| bench.iter_batched(|| empty(place), insert, BatchSize::PerIteration));

    let insert_many = |store: Store| {
        for batch in records.chunks(BATCH) {
            store.db.insert_many(batch.iter().map(|(key, value)| (key, value))).expect("insert_many");
        }
        assert_eq!(store.db.len().expect("len"), records.len() as u64);
        store
    };
    group.bench_function("insert_many", |bench| bench.iter_batched(|| empty(place), insert_many, BatchSize::PerIteration));

    let remove = |store: Store| {
        let hits = keys.iter().filter(|key| store.db.remove(key).expect("remove")).count();
        assert_eq!((hits, store.db.len().expect("len")), (keys.len(), 0));
        store
    };
    group.bench_function("remove", |bench| bench.iter_batched(|| loaded(place, records), remove, BatchSize::PerIteration));
}

fn reads(group: &mut Group<'_>, store: &Store, records: &[Record], keys: &Keys, missing: &Keys) {
    let db = &store.db;
    let expected = records.iter().map(|(_, value)| sum(value)).sum::<u64>();
    let read = |keys: &Keys, one: &dyn Fn(&[u8; KEY_LEN]) -> Option<u64>| {
        let found = keys.iter().filter_map(one);
        found.fold((0, 0), |(hits, total), value| (hits + 1, total + value))
    };
    let zerocopy = |key: &[u8; KEY_LEN]| db.get_zerocopy(key).expect("get_zerocopy").map(|value| sum(&value));
    let copying = |key: &[u8; KEY_LEN]| db.get(key).expect("get").map(|value| sum(&value));

    group.bench_function("get_zerocopy", |bench| {
        bench.iter(|| assert_eq!(read(black_box(keys), &zerocopy), (keys.len(), expected)));
    });
    group.bench_function("get", |bench| bench.iter(|| assert_eq!(read(black_box(keys), &copying), (keys.len(), expected))));
    group.bench_function("get_missing", |bench| bench.iter(|| assert_eq!(read(black_box(missing), &zerocopy), (0, 0))));
}
