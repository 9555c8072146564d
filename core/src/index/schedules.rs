//! The index under a scheduler that tries orders of its threads' steps; see `core/tests/schedules.rs`.

use super::*;
use crate::limits::DATA_START;
use alloc::sync::Arc;

#[test]
fn a_shard_that_is_being_built_never_looks_empty() {
    shuttle::check_random(
        || {
            let index = Arc::new(Index::default());
            index.lock_shard(7).park();
            let builder = Arc::clone(&index);
            let building = shuttle::thread::spawn(move || {
                let pins = Pins::default();
                let (slots, counts) = (alloc::vec![Slot::new(1, DATA_START)], alloc::vec![(0, 1)]);
                let image = ShardImage { slots, counts, expiring: Vec::new() };
                let built = builder.lock_shard(7).unpark(&pins, |shard, _| {
                    shard.load(&pins, image);
                    Ok(())
                });
                assert!(built.is_ok());
            });
            for _ in 0..3 {
                assert!(!index.is_empty_at(7), "its record would be missing from counts and walks");
            }
            assert!(building.join().is_ok());
            assert!(!index.is_empty_at(7) && index.is_empty_at(8));
        },
        2000,
    );
}

/// A reader beside a writer that replaces a record of the base again and again, until its table and the masked slots have grown, and puts another
/// base below: it finds the record, and never an older one than before.
#[test]
fn a_record_of_the_base_that_is_replaced_is_found_all_the_time() {
    const ROUNDS: u64 = 3;
    let hash = KeyHash(3 << 56);
    let begun = move || {
        let (index, pins) = (Index::default(), Pins::default());
        index.keep_in_file();
        // Nine others of the tag fill the only line of the masked slots while they are removed.
        let slots: Vec<Slot> = (0..10).map(|number| hash.slot(DATA_START + number)).collect();
        let (base, storage) = over_tests::base_of(&slots);
        let image = ShardImage { slots: slots.clone(), counts: alloc::vec![(0, 10)], expiring: Vec::new() };
        index.lock_shard(3).load_over(&pins, image, base, &slots);
        Arc::new((index, pins, storage))
    };
    shuttle::check_random(
        move || {
            let shared = begun();
            let writer = Arc::clone(&shared);
            let writing = shuttle::thread::spawn(move || {
                let (index, pins, storage) = &*writer;
                let mut old = DATA_START;
                for round in 1..=ROUNDS {
                    let new = DATA_START + 100 * round;
                    assert!(index.lock_shard(3).replace(pins, hash, old, new));
                    for other in (round - 1) * 3..round * 3 {
                        assert!(index.lock_shard(3).remove(pins, hash, 0, DATA_START + 1 + other));
                    }
                    old = new;
                }
                let (base, _) = over_tests::base_of(&[]);
                assert!(index.lock_shard(3).rebase(storage, pins, Some((base, Vec::new()))).is_ok());
            });
            let (index, pins, storage) = &*shared;
            let mut before = 0;
            for _ in 0..4 {
                let pin = pins.pin();
                let is_it = |offset: u64| (offset == DATA_START || offset >= DATA_START + 100).then_some(offset);
                let found = index.find_anywhere(storage, &pin, hash, |offset| Ok(is_it(offset)));
                let found = found.ok().flatten().expect("neither the old nor the new record");
                assert!(found >= before, "an older record than before");
                before = found;
            }
            assert!(writing.join().is_ok());
        },
        4000,
    );
}
