//! A medium that is full: what is written and removed there goes on, and what is dead makes room.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::opened;
use pipkin::Error;
use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::FaultStorage;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A medium that fills up, under a snapshot that ends then or without one, takes writes again while most of it is dead, whatever its segments
/// are: many short ones, a list of which takes more than one, or few.
#[test]
fn a_medium_that_has_filled_up_takes_writes_again_while_most_of_it_is_dead() {
    const MEDIA: [(u32, u64); 9] = [
        (4096, 100_000),
        (4096, 200_000),
        (4096, 400_000),
        (4096, 2_000_000),
        (16_384, 300_000),
        (16_384, 1_000_000),
        (16_384, 3_000_000),
        (65_536, 1_000_000),
        (65_536, 3_000_000),
    ];
    for (number, (segment, capacity)) in MEDIA.into_iter().enumerate() {
        for (has_snapshot, compacts) in [(false, false), (true, false), (true, true)] {
            let medium = FaultStorage::new(MemoryStorage::new());
            medium.set_capacity(Some(capacity));
            let db = opened(medium.clone(), segment);
            let keys = if number % 2 == 0 { 100 } else { 500 };
            let value = |round: u32| [&round.to_le_bytes()[..], &[7; 96]].concat();
            db.insert_many((0..keys).map(|number| (key(number), value(0)))).unwrap();
            let snapshot = has_snapshot.then(|| db.snapshot());
            let fill = 2 * capacity as u32 / 100;
            let full = (1..fill).find_map(|round| db.insert(key(round % keys), value(round)).err());
            assert!(matches!(full, None | Some(Error::NoSpace)), "{full:?}");
            assert!(has_snapshot || full.is_none(), "{segment}, {capacity}: all but {keys} records are dead");
            if let Some(snapshot) = snapshot {
                assert!(snapshot.iter().all(|record| record.unwrap().1 == value(0)));
            }
            if compacts {
                db.compact().unwrap();
            }
            for round in 0..3_000 {
                let written = db.insert(key(round % keys), value(round));
                assert!(written.is_ok(), "{segment}, {capacity}, {has_snapshot}, {compacts}: write {round}: {written:?}");
            }
            assert!(db.verify().unwrap().is_ok());
        }
    }
}
