//! The names are checked against their records before a record without a name is dropped.

use super::opened;
use crate::Db;
use crate::error::Error;
use crate::frame::NAMESPACE_OF_NAMES;
use crate::storage::{MemoryStorage, Storage};
use crate::sync::Ordering;

/// A store of two namespaces, of which nobody has checked the names.
fn unchecked(storage: &MemoryStorage) -> Db {
    let db = opened(storage);
    for name in ["one", "two"] {
        db.namespace(name).unwrap().insert("key", "value").unwrap();
    }
    db.store().names_checked.store(false, Ordering::Relaxed);
    db
}

fn is_checked(db: &Db) -> bool {
    db.store().names_checked.load(Ordering::Relaxed)
}

/// The offset of the record of a name.
fn record_of(db: &Db, name: &str) -> u64 {
    let engine = &db.store().engine;
    let key = engine.full_key(NAMESPACE_OF_NAMES, name.as_bytes());
    engine.find_locked(&engine.lock(key.hash).unwrap(), key).unwrap().unwrap().offset
}

/// Takes the record of a name out of the index.
fn forget_record(db: &Db, name: &str) {
    let (engine, offset) = (&db.store().engine, record_of(db, name));
    let hash = engine.full_key(NAMESPACE_OF_NAMES, name.as_bytes()).hash;
    assert!(engine.lock(hash).unwrap().remove(&engine.pins, hash, NAMESPACE_OF_NAMES, offset));
}

/// Where the check finds names and records that differ.
fn differ_at(db: &Db) -> u64 {
    match db.store().check_names() {
        Err(Error::Corrupt { offset, what, .. }) => {
            assert_eq!(what, "an index snapshot whose namespaces are not those of the log");
            offset
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_that_have_their_records_are_checked_once() {
    let db = unchecked(&MemoryStorage::new());
    db.store().check_names().unwrap();
    assert!(is_checked(&db));
    // The default namespace has a record once it has got another number.
    db.clear().unwrap();
    db.store().names_checked.store(false, Ordering::Relaxed);
    db.store().check_names().unwrap();
    assert!(is_checked(&db));
    forget_record(&db, "one");
    db.store().check_names().unwrap();
}

#[test]
fn a_name_may_lack_its_record_and_a_record_without_its_name_stops_every_compaction() {
    let db = unchecked(&MemoryStorage::new());
    let engine = &db.store().engine;
    forget_record(&db, "two");
    db.store().check_names().unwrap();
    // A record under a key that is no name.
    let (other, record) = (engine.full_key(NAMESPACE_OF_NAMES, b"other").hash, record_of(&db, "one"));
    engine.lock(other).unwrap().insert(&engine.pins, other, NAMESPACE_OF_NAMES, record);
    db.store().names_checked.store(false, Ordering::Relaxed);
    assert_eq!(differ_at(&db), 0, "no snapshot names it");
    let compacted = db.store().compact_one(&engine.log.segments()[0], &mut |_| {});
    assert!(!is_checked(&db) && matches!(compacted, Err(Error::Corrupt { .. })));
    db.checkpoint().unwrap();
    let directory = engine.log.newest_checkpoint().and_then(|place| place.directory).unwrap();
    assert_eq!(differ_at(&db), directory.offset);
}

#[test]
fn a_damaged_record_counts_as_that_of_its_name() {
    let storage = MemoryStorage::new();
    let db = unchecked(&storage);
    let (engine, offset) = (&db.store().engine, record_of(&db, "one"));
    let header = engine.log.header(offset).unwrap();
    let number_at = offset + (header.header_len() + header.key_len()) as u64;
    storage.write_at(number_at, &[&[0xff]]).unwrap();
    assert!(engine.log.frame(offset).unwrap().check().is_err());
    db.store().check_names().unwrap();
    assert!(is_checked(&db));
}
