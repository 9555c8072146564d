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
