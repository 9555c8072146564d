//! Records that expire: exact in every way of reading, under a clock that goes forward, back and wrong.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::testing::TestClock;
use pipkin::{Db, Error};
use pipkin_tape::expiring::{GONE, SPACE, START, expected, value_of};
use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::expiry::{Budget, run, under};

/// Histories of the normal run; the nightly one has 20,000.
const HISTORIES: u64 = 600;

#[test]
fn every_read_agrees_with_a_model_of_the_same_clock() {
    let histories = env_u64("PIPKIN_EXPIRY_HISTORIES", HISTORIES);
    let quota = Quota::new("expiry", histories);
    let budget = Budget { histories, calls: 120, seed: env_u64("PIPKIN_SEED", 1) };
    unwrap("expiry", run(&budget, &quota));
    quota.finish(format_args!("seeds from {}", budget.seed));
}

#[test]
fn the_tombstone_of_an_expired_record_stays_as_long_as_an_earlier_version_does() {
    unwrap("expiry", under());
}

/// The calendars of an index snapshot are bytes like all others: a damaged one costs time, and no answer.
#[test]
fn no_flipped_bit_of_a_store_whose_snapshot_has_calendars_brings_back_or_hides_a_record() {
    let golden = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/expiry/calendar.pipkin")).unwrap();
    // Of so many bytes in a row one is flipped; odd, so that each bit of a byte has its turn.
    let stride = env_u64("PIPKIN_FLIP_STRIDE", 3);
    let quota = Quota::new("expiry, flipped bits", golden.len() as u64 / stride);
    let clock = TestClock::new(START + 1000);
    let answers = |bytes: Vec<u8>| -> pipkin::Result<usize> {
        let db = Db::builder().clock(clock.clone()).open_storage(Box::new(MemoryStorage::from_vec(bytes)))?;
        let mut damaged = 0;
        let named = db.find_namespace(SPACE).unwrap();
        for (space, records) in [("", db.default_namespace()), (SPACE, named)] {
            let expected = expected(space);
            for (key, expiry) in &expected {
                match records.get(key) {
                    Err(Error::Corrupt { .. }) => damaged += 1,
                    found => assert_eq!(found?, Some(value_of(key, *expiry).into_bytes()), "{space:?} {key}"),
                }
            }
            for key in GONE {
                match records.get(key) {
                    Err(Error::Corrupt { .. }) => damaged += 1,
                    found => assert_eq!(found?, None, "{space:?} {key} came back"),
                }
            }
            match records.len() {
                Err(Error::Corrupt { .. }) => damaged += 1,
                // A damaged record counts, and nobody knows when it expires.
                found => assert!((expected.len()..=expected.len() + damaged).contains(&(found? as usize)), "{space:?}"),
            }
        }
        Ok(damaged)
    };
    assert_eq!(answers(golden.clone()).unwrap(), 0);
    let flipped = |place: usize| {
        let mut bytes = golden.clone();
        bytes[place] ^= 1 << (place % 8);
        bytes
    };
    let (mut refused, mut damaged) = (0, 0);
    for place in (0..golden.len()).step_by(stride as usize) {
        match std::panic::catch_unwind(|| answers(flipped(place))).unwrap_or_else(|_| panic!("byte {place}")) {
            Ok(0) => {}
            Ok(_) => damaged += 1,
            Err(Error::Corrupt { .. } | Error::NewerVersion { .. } | Error::Unsupported { .. } | Error::NotAStore { .. }) => {
                refused += 1
            }
            Err(error) => panic!("byte {place}: {error:?}"),
        }
        quota.add(1);
    }
    quota.finish(format_args!("{refused} refused to open, {damaged} answered damage"));
}
