//! Which records of a segment a compaction looks at, and how many together.

use super::opened;
use crate::Db;
use crate::frame::Header;
use crate::log::Segment;
use crate::maintenance::sift::{Prior, Sieve, whole};
use crate::scan::{Found, scan};
use crate::storage::MemoryStorage;
use crate::ttl::Ttl;
use alloc::vec::Vec;

/// The records of the only segment.
fn records(db: &Db) -> (Segment, Vec<(u64, Header)>) {
    let engine = &db.store().engine;
    let [segment] = engine.log.segments()[..] else { panic!("one segment") };
    let mut records = Vec::new();
    scan(&*engine.log.storage, whole(engine, &segment), &mut |found| {
        match found {
            Found::Frame { offset, header } if !header.kind.is_control() => records.push((offset, header)),
            _ => {}
        }
        Ok(())
    })
    .unwrap();
    (segment, records)
}

const NEWER: Prior<'static> = Prior { oldest: false, pointed: None };
const OLDEST: Prior<'static> = Prior { oldest: true, pointed: None };

#[test]
fn a_group_ends_with_the_record_that_brings_it_to_its_number_or_to_its_bytes() {
    let db = opened(&MemoryStorage::new());
    (0..6_u8).for_each(|key| db.insert([key], [key; 100]).unwrap());
    let (engine, (_, records)) = (&db.store().engine, records(&db));
    let len = records[0].1.frame_len();
    assert!(records.len() == 6 && records.iter().all(|(_, header)| header.frame_len() == len));
    // After which of the six records a group ends.
    let ends = |most: (usize, usize)| {
        let mut sieve = Sieve::new(engine, NEWER, most);
        let mut ends = Vec::new();
        for (number, (offset, header)) in (1..).zip(&records) {
            if sieve.add(*offset, header).unwrap() {
                assert_eq!(sieve.sift().len(), number - ends.last().unwrap_or(&0));
                ends.push(number);
            }
        }
        ends
    };
    assert_eq!((ends((3, usize::MAX)), ends((4, usize::MAX)), ends((7, usize::MAX))), ([3, 6].into(), [4].into(), [].into()));
    assert_eq!((ends((64, 2 * len)), ends((64, 2 * len + 1))), ([2, 4, 6].into(), [3, 6].into()));
    assert_eq!(
        (ends((64, 1)), ends((2, 3 * len)), ends((64, 6 * len + 1))),
        ([1, 2, 3, 4, 5, 6].into(), [2, 4, 6].into(), [].into())
    );
}

#[test]
fn what_was_replaced_is_left_out_unless_it_expires_and_tombstones_where_nothing_is_older() {
    let db = opened(&MemoryStorage::new());
    let later = Ttl::At(4_000_000_000_000);
    db.insert("replaced", "old").unwrap();
    db.insert("kept", "value").unwrap();
    db.insert_with_ttl("expires", "old", later).unwrap();
    db.insert("removed", "value").unwrap();
    db.insert("replaced", "new").unwrap();
    db.insert_with_ttl("expires", "new", later).unwrap();
    db.remove("removed").unwrap();
    let (engine, (_, records)) = (&db.store().engine, records(&db));
    let sifted = |prior: Prior<'_>| {
        let mut sieve = Sieve::new(engine, prior, (64, usize::MAX));
        assert!(records.iter().all(|(offset, header)| !sieve.add(*offset, header).unwrap()));
        let sifted = sieve.sift();
        assert!(sieve.sift().is_empty() && sifted.iter().all(|(hash, frame)| *hash == engine.full_key(0, frame.key()).hash));
        sifted.iter().map(|(_, frame)| (frame.key().to_vec(), frame.value().to_vec())).collect::<Vec<_>>()
    };
    let expected = [("kept", "value"), ("expires", "old"), ("replaced", "new"), ("expires", "new"), ("removed", "")]
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
    assert_eq!((sifted(NEWER), sifted(OLDEST)), (expected.to_vec(), expected[..4].to_vec()));
}
