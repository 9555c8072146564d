//! Records that expire in the order in which they were written.

use crate::Db;
use crate::log::Segment;
use crate::storage::{MemoryStorage, Storage};
use crate::testing::TestClock;
use crate::ttl::Ttl;
use alloc::boxed::Box;
use core::time::Duration;

const LIVING: u32 = 8_000;
const START: u64 = 1_700_000_000_000;

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

/// A store of a hundred records with these lives, in one segment behind which the log goes on.
fn one_segment(storage: &MemoryStorage, lives: impl Iterator<Item = Ttl>) -> (Db, TestClock, Segment) {
    let clock = TestClock::new(START);
    let db = Db::builder().clock(clock.clone()).segment_size(32_768).background(false);
    let db = db.open_storage(Box::new(storage.clone())).unwrap();
    db.insert_many([("first", "record")]).unwrap();
    db.store().engine.log.seal_active().unwrap();
    for (number, ttl) in lives.enumerate() {
        db.insert_with_ttl(number.to_le_bytes(), [7; 100], ttl).unwrap();
    }
    let number = db.store().engine.log.segments().len();
    db.store().engine.log.seal_active().unwrap();
    let segment = db.store().engine.log.segments()[number - 1];
    (db, clock, segment)
}

fn seconds(count: u64) -> Ttl {
    Ttl::After(Duration::from_secs(count))
}

#[test]
fn a_segment_is_left_alone_once_it_has_been_dying_for_a_while() {
    let (db, clock, segment) = one_segment(&MemoryStorage::new(), (1..=100).map(seconds));
    clock.advance(Duration::from_secs(20));
    assert!(!db.store().is_dying(&segment), "eighty seconds are long against the seven since an eighth of them had expired");
    clock.advance(Duration::from_secs(30));
    assert!(db.store().is_dying(&segment));
    let other = db.store().engine.log.segments()[0];
    assert!(other.base != segment.base && !db.store().is_dying(&other), "one that is dying says nothing of another one");
    clock.advance(Duration::from_secs(49));
    assert!(db.store().is_dying(&segment));
    clock.advance(Duration::from_secs(1));
    assert!(!db.store().is_dying(&segment), "all of them have expired");
}

/// An eighth of them has expired with the thirteenth, and nobody waits more than twice as long as since then.
#[test]
fn a_segment_is_left_alone_from_the_moment_when_the_rest_is_twice_what_has_passed() {
    let (db, clock, segment) = one_segment(&MemoryStorage::new(), (1..=100).map(seconds));
    let is_dying = [(41_999, false), (42_000, true), (41_999, false), (99_999, true), (100_000, false)];
    for (after, expected) in is_dying {
        clock.set(START + after);
        assert_eq!(db.store().is_dying(&segment), expected, "{after} ms");
    }
}

#[test]
fn a_record_that_lives_on_or_died_long_ago_makes_nobody_wait() {
    let lives_on = (1..=100).map(seconds).chain([Ttl::Never]);
    let (db, clock, segment) = one_segment(&MemoryStorage::new(), lives_on);
    clock.advance(Duration::from_secs(50));
    assert!(!db.store().is_dying(&segment));
    let long_ago = (0..100).map(|number| if number < 10 { Ttl::At(1) } else { seconds(365 * 24 * 3600) });
    let (db, clock, segment) = one_segment(&MemoryStorage::new(), long_ago);
    clock.advance(Duration::from_secs(24 * 3600));
    assert!(!db.store().is_dying(&segment));
}

#[test]
fn a_segment_with_damage_or_before_a_clock_that_was_reset_is_not_left_alone() {
    let storage = MemoryStorage::new();
    let (db, clock, segment) = one_segment(&storage, (1..=100).map(seconds));
    clock.advance(Duration::from_secs(50));
    assert!(db.store().is_dying(&segment));
    clock.set(START - 1);
    db.reset_clock().unwrap();
    assert!(!db.store().is_dying(&segment));
    clock.set(START + 50_000);
    let middle = u64::midpoint(segment.first_frame(db.store().engine.log.geometry), segment.end);
    storage.write_at(middle, &[&[0; 8]]).unwrap();
    assert!(!db.store().is_dying(&segment));
}
