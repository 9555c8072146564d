//! `compact()` on a store of which every second record was overwritten, so that about a third of every segment is dead; and the same where its
//! keys are kept in order.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use criterion::{BatchSize, Criterion, Throughput};
use pipkin::Db;
use pipkin_bench::{KEY_LEN, Place, Record, Store, record_count, records, shuffled_keys, value_len};
use std::time::Duration;

/// With fewer there is no whole segment to compact.
const RECORDS_LEAST: usize = 50_000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let records = records(record_count().max(RECORDS_LEAST), 1);
    for place in Place::both(env!("CARGO_TARGET_TMPDIR")) {
        let mut group = criterion.benchmark_group(format!("compaction/{}/{}", place.name(), records.len()));
        group.sample_size(10).warm_up_time(Duration::from_secs(1)).throughput(Throughput::Elements(records.len() as u64));
        for (name, ordered) in [("compact", false), ("compact ordered", true)] {
            group.bench_function(name, |bench| {
                bench.iter_batched(|| half_overwritten(&place, &records, ordered), compact, BatchSize::PerIteration);
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

/// Nothing compacts by itself, neither here nor in the clocked part.
fn half_overwritten(place: &Place, records: &[Record], ordered: bool) -> Store {
    let builder = Db::builder().background(false).ordered(ordered).auto_compact_dead_share(2.0);
    let store = place.create_with(builder).and_then(|store| store.load(records)).expect("a loaded store");
    let value = vec![7; value_len()];
    for key in shuffled_keys(records).iter().step_by(2) {
        store.db.insert(key, &value).expect("insert");
    }
    store
}

fn compact(store: Store) -> Store {
    let before = store.db.len().expect("len");
    let report = store.db.compact().expect("compact");
    // The first copies go to the end of the file and move to the front at last: some are made twice.
    assert!(report.segments_retired > 0 && report.records_copied < 2 * before, "{report:?}");
    let stats = store.db.stats().expect("stats");
    let live = before * (KEY_LEN + value_len()) as u64;
    assert!(stats.records == before && stats.live_bytes >= live, "{stats:?}");
    store
}
