//! Every record read once, in random order, by 1, 2, 4 and 8 threads that share the keys among them.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use criterion::{BenchmarkId, Criterion, Throughput};
use pipkin::Db;
use pipkin_bench::{KEY_LEN, Place, record_count, records, shuffled_keys, sum};
use std::time::Duration;

const THREADS: [usize; 4] = [1, 2, 4, 8];
/// Keys of one call of `get_many_with`.
const BATCH: usize = 1_000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let records = records(record_count(), 1);
    let keys = shuffled_keys(&records);
    let expected = records.iter().map(|(_, value)| sum(value)).sum::<u64>();
    let place = Place::File(env!("CARGO_TARGET_TMPDIR").into());
    let store = place.create().and_then(|store| store.load(&records)).expect("a loaded store");
    let mut group = criterion.benchmark_group(format!("concurrent_reads/{}", records.len()));
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).throughput(Throughput::Elements(keys.len() as u64));
    for threads in THREADS {
        for (name, read) in [("get_zerocopy", one_by_one as Read), ("get_many_with", in_groups)] {
            group.bench_function(BenchmarkId::new(name, threads), |bench| {
                bench.iter(|| assert_eq!(shared(&store.db, &keys, threads, read), expected));
            });
        }
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

fn shared(db: &Db, keys: &Keys, threads: usize, read: Read) -> u64 {
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            keys.chunks(keys.len().div_ceil(threads)).map(|share| scope.spawn(move || read(db, share))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a reader")).sum()
    })
}
