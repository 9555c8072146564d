//! When maintenance heals an index in the file that is damaged.

use crate::error::Error;
use crate::position::Position;
use crate::storage::{MemoryStorage, Storage};
use crate::store::Registered;
use crate::sync::Ordering;
use crate::{Db, IndexMemory};
use alloc::boxed::Box;
use alloc::vec::Vec;

fn flip(storage: &MemoryStorage, at: u64) {
    let mut byte = [0];
    storage.read_at(at, &mut byte).unwrap();
    storage.write_at(at, &[&[byte[0] ^ 1]]).unwrap();
}

#[test]
fn damage_makes_maintenance_due_which_tries_again_later_where_the_log_is_damaged_too() {
    let storage = MemoryStorage::new();
    let builder = Db::builder().segment_size(64 * 1024).entropy([7; 32]).background(false);
    let db = builder.index_memory(IndexMemory::InFile { newer_max: 0 }).open_storage(Box::new(storage.clone())).unwrap();
    db.insert_many((0..1_000_u32).map(|key| (key.to_le_bytes(), [7; 20]))).unwrap();
    db.checkpoint().unwrap();
    let (store, engine) = (db.store(), &db.store().engine);
    let (rot, log) = (&engine.bases.rot, &engine.log);
    // Nothing is damaged.
    store.heal_unasked().unwrap();
    assert!(!engine.is_rotten() && !engine.should_heal() && store.checkpoint_due.load(Ordering::Relaxed) > log.end());
    rot.note();
    assert!(engine.is_rotten() && engine.should_heal());
    assert_eq!(store.checkpoint_due.load(Ordering::Relaxed), 0);
    assert_eq!((engine.heal().unwrap(), engine.is_rotten()), (0, false));

    // The slots of one shard, and a record of another.
    let key = 7_u32.to_le_bytes();
    let hash = engine.full_key(0, &key).hash;
    let slots = engine.index.lock_shard(hash.shard()).base_place().unwrap().slots;
    flip(&storage, slots);
    assert!(matches!(db.get(key), Err(Error::IndexDamaged { .. })));
    let record = log.segments()[0].first_frame(log.geometry) + 12;
    flip(&storage, record);
    store.heal_unasked().unwrap();
    let next = log.end() + log.between_lists(store.options.replay_debt_max);
    assert_eq!(engine.bases.heal_next.load(Ordering::Relaxed), next);
    assert!(engine.is_rotten() && !engine.should_heal());
    flip(&storage, record);
    store.heal_unasked().unwrap();
    assert!(engine.is_rotten(), "it is not time for that");
    for (next, heals) in [(log.end() + 1, false), (log.end(), true)] {
        engine.bases.heal_next.store(next, Ordering::Relaxed);
        assert_eq!(engine.should_heal(), heals);
    }
    store.heal_unasked().unwrap();
    assert!(!engine.is_rotten());
    assert_eq!((engine.bases.built_anew.load(Ordering::Relaxed), db.get(key).unwrap()), (1, Some(Vec::from([7; 20]))));
}

#[test]
fn a_consumer_is_too_far_behind_once_more_is_unread_than_may_be_kept_for_it() {
    let db = Db::open_in_memory().unwrap();
    db.insert("key", "value").unwrap();
    let unread = db.store().engine.log.end() - 100;
    let is_too_far_behind = |retain: u64| {
        let consumer = Registered { name: "name".into(), cursor: Position::new(100, 0), retain };
        db.store().is_too_far_behind(&consumer)
    };
    assert_eq!([unread - 1, unread, unread + 1].map(is_too_far_behind), [true, false, false]);
}

#[test]
fn a_compaction_that_was_put_off_is_due_after_another_segment_of_log() {
    let db = Db::builder().segment_size(8192).background(false).in_memory().unwrap();
    db.insert("key", "value").unwrap();
    db.store().put_compaction_off();
    assert_eq!(db.store().compaction_due.load(Ordering::Relaxed), db.store().engine.log.end() + 8192);
}
