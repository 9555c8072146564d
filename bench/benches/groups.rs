//! What deleting a group costs, and how long others wait for it: records with 24-byte keys and 100-byte values, as many again that stay, and
//! beside the deletion a thread that inserts and one that looks up keys of the others. Without the ordered index and with it.
//!
//! `PIPKIN_BENCH_RECORDS=1000000 cargo bench -p pipkin-bench --bench groups`
#![expect(clippy::expect_used, reason = "a failure ends the measurement")]

use pipkin::{Db, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Calls `call` until `done`; returns its longest time.
fn longest(done: &AtomicBool, calls: &AtomicU64, mut call: impl FnMut(u64) -> Result<()>) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for number in 0.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let started = Instant::now();
        call(number)?;
        longest = longest.max(started.elapsed());
        calls.fetch_add(1, Ordering::Relaxed);
    }
    Ok(longest)
}

fn measure(records: u64, ordered: bool) -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let db = Db::builder().path(folder.path().join("groups.pipkin")).ordered(ordered).open()?;
    let scattered = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for first in (0..records).step_by(1000) {
        let numbers = first..(first + 1000).min(records);
        let of = |group: &'static str| numbers.clone().map(move |n| (format!("{group}.{:016x}.name", scattered(n)), [7; 100]));
        db.insert_many(of("aa").chain(of("bb")))?;
    }
    db.flush()?;
    db.checkpoint()?;
    let (done, inserted, read) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (took, removed, insert, get) = std::thread::scope(|scope| -> Result<_> {
        let inserts = scope.spawn(|| longest(&done, &inserted, |n| db.insert(format!("cc.{n}"), [1; 100])));
        let reads =
            scope.spawn(|| longest(&done, &read, |n| db.get(format!("bb.{:016x}.name", scattered(n % records))).map(drop)));
        while inserted.load(Ordering::Relaxed) < 1000 || read.load(Ordering::Relaxed) < 1000 {
            std::thread::yield_now();
        }
        let started = Instant::now();
        let removed = db.delete_group("aa")?;
        let took = started.elapsed();
        done.store(true, Ordering::Relaxed);
        Ok((took, removed, inserts.join().expect("no panic")?, reads.join().expect("no panic")?))
    })?;
    assert_eq!((removed, db.focus("bb").len()?), (records, records));
    println!(
        "{removed} of {} records, {}: {took:.0?}; the longest insert beside it {insert:.1?}, the longest get {get:.1?}",
        2 * records,
        if ordered { "with the ordered index" } else { "without order" }
    );
    db.close()
}

fn main() -> Result<()> {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let asked = std::env::var("PIPKIN_BENCH_RECORDS").ok().and_then(|text| text.parse().ok());
    let records = if is_test { 1_000 } else { asked.unwrap_or(1_000_000) };
    measure(records, false)?;
    measure(records, true)
}
