//! Records that expire at a steady rate: each lives for an hour of a clock that the bench turns, so that as many die as are written. How long the file
//! is against what lives, and the memory of a record that expires, also when each was refreshed many times.
//!
//! `PIPKIN_BENCH_RECORDS=10000000 cargo bench -p pipkin-bench --bench expiry`
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::{Clock, Db, Result, Ttl};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HOUR_MS: u64 = 60 * 60 * 1000;
/// Records of one call.
const TOGETHER: u64 = 1000;
/// Hours that are played, the first of which only fills the store.
const HOURS: u64 = 3;
/// How often each record is refreshed for the figure of memory.
const REFRESHED: u64 = 1000;

/// Microseconds since 1970.
#[derive(Clone, Debug)]
struct Turned(Arc<AtomicU64>);

impl Turned {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_700_000_000_000_000)))
    }

    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_micros() as u64, Ordering::Relaxed);
    }
}

impl Clock for Turned {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed) / 1000
    }
}

fn key(number: u64) -> String {
    format!("session/{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn open(path: &Path, clock: &Turned) -> Result<Db> {
    // Maintenance in the writing thread: at the rate that the clock tells, it would always be done in time.
    Db::builder().path(path).clock(clock.clone()).background(false).open()
}

fn steady(path: &Path, living: u64) -> Result<()> {
    let clock = Turned::new();
    let db = open(path, &clock)?;
    let step = Duration::from_micros(HOUR_MS * 1000 * TOGETHER / living);
    let hour = db.default_namespace().with_ttl(Ttl::After(Duration::from_millis(HOUR_MS)));
    let (mut longest, mut sum, mut steps) = (0.0_f64, 0.0, 0_u32);
    let started = Instant::now();
    for first in (0..living * HOURS).step_by(TOGETHER as usize) {
        hour.insert_many((first..first + TOGETHER).map(|number| (key(number), [7; 100])))?;
        clock.advance(step);
        if first >= living && (first / TOGETHER).is_multiple_of(living / TOGETHER / 100) {
            // Of those that live by the clock; a record takes 138 bytes in the log.
            let stats = db.stats()?;
            let record = 138;
            let ratio = stats.file_bytes as f64 / (living * record) as f64;
            (longest, sum, steps) = (longest.max(ratio), sum + ratio, steps + 1);
        }
    }
    let took = started.elapsed();
    let len = db.len()?;
    let stats = db.stats()?;
    println!(
        "{living} records live for an hour, {HOURS} hours in {took:.1?}: {len} live, file {} bytes, {} of them live, {} dead, {} free; file against \
         what lives: {:.2} on average, {longest:.2} at most",
        stats.file_bytes,
        stats.live_bytes,
        stats.dead_bytes,
        stats.free_bytes,
        sum / f64::from(steps)
    );
    db.close()
}

/// Bytes of memory that the index takes for a record, without expiry, with it, and when each was refreshed.
fn memory(folder: &Path, records: u64) -> Result<()> {
    let clock = Turned::new();
    let bytes = |name: &str, ttl: Ttl, rounds: u64| -> Result<f64> {
        let db = open(&folder.join(name), &clock)?;
        let space = db.default_namespace().with_ttl(ttl);
        for round in 0..rounds {
            for first in (0..records).step_by(TOGETHER as usize) {
                space.insert_many((first..first + TOGETHER).map(|number| (key(number), round.to_le_bytes())))?;
            }
            clock.advance(Duration::from_millis(1));
        }
        let found = db.stats()?.index_bytes as f64 / records as f64;
        db.close()?;
        std::fs::remove_file(folder.join(name)).expect("the file");
        Ok(found)
    };
    let week = Ttl::After(Duration::from_secs(7 * 24 * 3600));
    let plain = bytes("plain.pipkin", Ttl::Never, 1)?;
    let once = bytes("once.pipkin", week, 1)?;
    let plain_often = bytes("plain-often.pipkin", Ttl::Never, REFRESHED)?;
    let often = bytes("often.pipkin", week, REFRESHED)?;
    println!(
        "memory of the index: {plain:.1} bytes a record, {:.1} more if it expires; written {REFRESHED} times each {plain_often:.1}, {:.1} more",
        once - plain,
        often - plain_often
    );
    Ok(())
}

fn main() -> Result<()> {
    let living: u64 = std::env::var("PIPKIN_BENCH_RECORDS").ok().and_then(|records| records.parse().ok()).unwrap_or(100_000);
    let folder = tempfile::tempdir_in(".").expect("a folder");
    memory(folder.path(), living.min(50_000))?;
    steady(&folder.path().join("steady.pipkin"), living)
}
