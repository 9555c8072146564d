//! The longest waits, which averages hide: of a writer and a reader beside compaction, and of single inserts while the index grows.
//!
//! Two threads overwrite and read random records of a full store. A third one does nothing, or only burns its processor (where there
//! are fewer processors than threads, that alone makes the others wait for their turn), or compacts without a break. What the last row has
//! over the one before it is what compaction causes.
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::Db;
use pipkin_bench::{Place, Record, Store, record_count, records, shuffled_keys, sum, value_len};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long each row is watched.
const WATCHED: Duration = Duration::from_secs(5);

/// What the third thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Third {
    Nothing,
    Spins,
    Compacts,
}

fn main() {
    // `cargo bench -- --test` only looks whether it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let records = records(if is_test { 1_000 } else { record_count() }, 1);
    let watched = if is_test { Duration::from_millis(50) } else { WATCHED };
    let place = Place::file(env!("CARGO_TARGET_TMPDIR"));
    println!(
        "{:32} {:>10} {:>9} {:>9} {:>9} {:>9} {:>10}",
        "microseconds", "operations", "p50", "p99", "p99.9", "longest", "over 1 ms"
    );

    let mut inserts = Latencies::default();
    let builder = Db::builder().background(false).auto_compact_dead_share(2.0);
    let store = place.create_with(builder).expect("an empty store");
    for (key, value) in &records {
        inserts.time(|| store.db.insert(key, value).expect("insert"));
    }
    inserts.print("insert, index growing");

    for third in [Third::Nothing, Third::Spins, Third::Compacts] {
        let (writes, reads, compacted) = watch(&store, &records, third, watched);
        writes.print(&format!("overwrite; third thread: {third:?}"));
        reads.print(&format!("get; third thread: {third:?}"));
        if third == Third::Compacts {
            println!("{compacted} segments were compacted meanwhile");
            assert!(compacted > 0 || is_test, "nothing to compact");
        }
    }
}

/// A writer and a reader for some time: their latencies, and how many segments were compacted.
fn watch(store: &Store, records: &[Record], third: Third, time: Duration) -> (Latencies, Latencies, u64) {
    let db = &store.db;
    let (keys, value) = (shuffled_keys(records), vec![3; value_len()]);
    let stop = AtomicBool::new(false);
    let going = || !stop.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut latencies = Latencies::default();
            for key in keys.iter().cycle().take_while(|_| going()) {
                latencies.time(|| db.insert(key, &value).expect("insert"));
            }
            latencies
        });
        let reader = scope.spawn(|| {
            let mut latencies = Latencies::default();
            for key in keys.iter().rev().cycle().take_while(|_| going()) {
                latencies.time(|| black_box(sum(&db.get_zerocopy(key).expect("get").expect("a record"))));
            }
            latencies
        });
        let compactor = scope.spawn(|| {
            let mut segments = 0;
            while going() {
                match third {
                    Third::Nothing => std::thread::sleep(time / 100),
                    Third::Spins => spin_loop(),
                    Third::Compacts => {
                        let step = db.compact_step().expect("compact_step");
                        segments += step.map_or(0, |report| report.segments_retired);
                        if step.is_none() {
                            // What was overwritten behind the last checkpoint can be compacted after the next.
                            db.checkpoint().expect("checkpoint");
                        }
                    }
                }
            }
            segments
        });
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let join = |thread: std::thread::ScopedJoinHandle<'_, Latencies>| thread.join().expect("a thread");
        (join(writer), join(reader), compactor.join().expect("a thread"))
    })
}

/// Nanoseconds of single operations.
#[derive(Debug, Default)]
struct Latencies(Vec<u32>);

impl Latencies {
    fn time<T>(&mut self, operation: impl FnOnce() -> T) {
        let start = Instant::now();
        black_box(operation());
        self.0.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }

    fn print(mut self, name: &str) {
        self.0.sort_unstable();
        let count = self.0.len();
        let at = |share: f64| {
            let place = ((count as f64 * share) as usize).min(count.saturating_sub(1));
            self.0.get(place).map_or(0.0, |&nanos| f64::from(nanos) / 1000.0)
        };
        let over = count - self.0.partition_point(|&nanos| nanos <= 1_000_000);
        println!("{name:32} {count:>10} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {over:>10}", at(0.5), at(0.99), at(0.999), at(1.0));
    }
}
