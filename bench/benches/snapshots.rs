//! What snapshots cost: taking one, also beside writers and right after opening; a living one beside reads and updates; and its memory.
//!
//! `cargo bench -p pipkin-bench --bench snapshots`; `PIPKIN_RECORDS` is the number of keys of the store that is opened (default 5,000,000).
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::Db;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Threads that write while snapshots are taken.
const WRITERS: u32 = 8;
/// Keys that are read and updated.
const KEYS: u32 = 200_000;
/// Longer than nearly all are to take.
const LATE: Duration = Duration::from_micros(50);
/// Alternations of rounds with and without a snapshot.
const ROUNDS: usize = 10;

fn key(number: u32) -> [u8; 8] {
    (u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes()
}

fn open(path: &std::path::Path) -> Db {
    Db::builder().path(path).open().expect("the store opens")
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// How long something took, and how long of that the thread was ready to run and had no processor, where the system says so.
struct Taken {
    time: Duration,
    waited: Duration,
}

/// For how long this thread has been ready to run without a processor so far.
fn waited() -> Duration {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(said.split(' ').nth(1).and_then(|nanos| nanos.parse().ok()).unwrap_or_default())
}

fn print_times(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times.get(((times.len() - 1) as f64 * share) as usize).copied().unwrap_or_default();
    println!("{what:44} median {:8.2} us, 99 % {:8.2} us, of {}", micros(at(0.5)), micros(at(0.99)), times.len());
}

fn print_taken(what: &str, taken: &[Taken]) {
    print_times(what, taken.iter().map(|taken| taken.time).collect());
    let late: Vec<&Taken> = taken.iter().filter(|taken| taken.time > LATE).collect();
    let unscheduled = late.iter().filter(|taken| taken.time - taken.waited.min(taken.time) <= LATE).count();
    println!("{:44} {} took more than {LATE:?}, of which {unscheduled} waited for a processor", "", late.len());
}

fn take(db: &Db, count: usize, pause: Duration) -> Vec<Taken> {
    let mut taken = Vec::with_capacity(count);
    for _ in 0..count {
        let before = waited();
        let begun = Instant::now();
        let snapshot = db.snapshot();
        let time = begun.elapsed();
        taken.push(Taken { time, waited: waited() - before });
        drop(black_box(snapshot));
        std::thread::sleep(pause);
    }
    taken
}

fn beside_writers(db: &Db, count: usize) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let stop = &stop;
            scope.spawn(move || {
                let mut number = writer;
                while !stop.load(Ordering::Relaxed) {
                    db.insert(key(number % KEYS), [1; 100]).expect("insert");
                    number = number.wrapping_add(WRITERS);
                }
            });
        }
        let taken = take(db, count, Duration::from_micros(200));
        stop.store(true, Ordering::Relaxed);
        print_taken("taken beside 8 writers", &taken);
    });
}

/// Half reads, half updates, of keys in no order, each key of the store overwritten some ten times.
fn mixed(db: &Db, operations: u32, seed: u32) -> Duration {
    let mut random = u64::from(seed) | 1;
    let begun = Instant::now();
    for number in 0..operations {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = (random >> 33) as u32 % KEYS;
        if number % 2 == 0 {
            db.insert(key(place), [number as u8; 100]).expect("insert");
        } else {
            black_box(db.get_zerocopy(key(place)).expect("get"));
        }
    }
    begun.elapsed()
}

fn main() {
    // `cargo bench -- --test` only looks whether it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let opened = std::env::var("PIPKIN_RECORDS").ok().and_then(|count| count.parse().ok()).unwrap_or(5_000_000_u32);
    let (opened, operations, count) = if is_test { (1_000, 1_000, 10) } else { (opened, 20 * KEYS, 2_000) };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");

    let path = folder.path().join("opened.pipkin");
    let db = open(&path);
    for from in (0..opened).step_by(10_000) {
        db.insert_many((from..opened.min(from + 10_000)).map(|number| (key(number), [0; 8]))).expect("insert");
    }
    db.close().expect("close");
    let mut first = Vec::new();
    for _ in 0..10 {
        let db = Db::builder().path(&path).background(false).open().expect("the store opens");
        first.extend(take(&db, 1, Duration::ZERO));
    }
    print_taken(&format!("first one after opening {opened} keys"), &first);

    let path = folder.path().join("used.pipkin");
    let db = open(&path);
    db.insert_many((0..KEYS).map(|number| (key(number), [0; 100]))).expect("insert");
    print_taken("taken alone", &take(&db, count, Duration::ZERO));
    beside_writers(&db, count);

    let (mut without, mut with) = (Duration::ZERO, Duration::ZERO);
    for round in 0..if is_test { 1 } else { ROUNDS } {
        without += mixed(&db, operations / 10, round as u32);
        let snapshot = db.snapshot();
        // Only the first overwrite of a key leaves a note: ten of them, as over a whole run.
        with += mixed(&db, operations / 10, round as u32 + 100);
        drop(snapshot);
    }
    println!(
        "half reads, half updates: without {:.2} s, with a snapshot {:.2} s: {:+.1} %",
        without.as_secs_f64(),
        with.as_secs_f64(),
        (with.as_secs_f64() / without.as_secs_f64() - 1.0) * 100.0
    );
    let baseline = mixed(&db, operations, 7);
    let snapshot = db.snapshot();
    let whole = mixed(&db, operations, 8);
    println!(
        "each key overwritten ten times: without {:.2} s, with a snapshot {:.2} s: {:+.1} %",
        baseline.as_secs_f64(),
        whole.as_secs_f64(),
        (whole.as_secs_f64() / baseline.as_secs_f64() - 1.0) * 100.0
    );
    let stats = db.stats().expect("stats");
    println!(
        "{} bytes of memory for {KEYS} overwritten keys, {:.1} each; {} bytes of the file held",
        stats.snapshot_memory_bytes,
        stats.snapshot_memory_bytes as f64 / f64::from(KEYS),
        stats.snapshot_held_bytes
    );
    let dropped = Instant::now();
    drop(snapshot);
    println!(
        "dropped in {:.1} ms; {} bytes of memory left",
        dropped.elapsed().as_secs_f64() * 1e3,
        db.stats().expect("stats").snapshot_memory_bytes
    );
}
