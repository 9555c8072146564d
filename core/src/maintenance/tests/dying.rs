//! Records that expire in the order in which they were written.

use crate::Db;
use crate::testing::TestClock;
use crate::ttl::Ttl;
use core::time::Duration;

const LIVING: u32 = 8_000;

/// Bytes that the log has grown by for each byte that was written, and the most bytes of the file for each that lives, of three lives of a store whose
/// records expire when as many were written behind them; every eighth only after `longest` times as long.
fn steady(longest: u32) -> (f64, f64) {
    let clock = TestClock::new(1_700_000_000_000);
    let db =
        Db::builder().clock(clock.clone()).segment_size(16_384).replay_debt_max(65_536).background(false).in_memory().unwrap();
    let life = Duration::from_secs(u64::from(LIVING));
    let (mut written, mut most) = (0, 0.0_f64);
    for number in 0..LIVING * 3 {
        let ttl = if number % 8 == 0 { life * longest } else { life };
        db.insert_with_ttl(number.to_le_bytes(), [7; 100], Ttl::After(ttl)).unwrap();
        written += 100 + 4 + 8;
        clock.advance(Duration::from_secs(1));
        if number > LIVING {
            most = most.max(if number % 64 == 0 { db.stats().unwrap().file_bytes as f64 / f64::from(LIVING * 112) } else { 0.0 });
        }
    }
    (db.store().engine.log.end() as f64 / f64::from(written), most)
}

/// Copied, they took 1.29 and 1.82.
#[test]
fn a_segment_whose_records_all_expire_before_long_is_freed_without_copies() {
    let (log, file) = steady(1);
    assert!(log < 1.22 && file < 1.76, "{log} of the bytes in the log, {file} of the file");
}

/// Waiting for the last record would keep seven dead ones for each that lives.
#[test]
fn a_segment_with_a_record_that_lives_longer_is_compacted() {
    let (log, file) = steady(50);
    assert!(log > 1.1 && file < 2.2, "{log} of the bytes in the log, {file} of the file");
}
