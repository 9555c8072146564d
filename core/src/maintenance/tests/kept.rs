//! Which stranded records are a reason to keep their segment: those whose key has another state in the log.

use super::filled::append_tombstone;
use super::stranded::noise;
use crate::frame::{FrameSpec, Kind, Meta, NAMESPACE_OF_NAMES};
use crate::limits::NAMESPACE_NUMBER_MAX;
use crate::log::Purpose;
use crate::maintenance::stranded::is_kept;
use crate::storage::MemoryStorage;
use crate::{Builder, Db};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

const VALUE: [u8; 400] = [7; 400];
const HOUR: Duration = Duration::from_secs(3600);

fn builder() -> Builder {
    Db::builder().segment_size(64 * 1024).entropy([7; 32]).background(false)
}

fn place_of(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap()
}

/// The file of one session that wrote what is in `front`, and of a second one that was killed: it wrote a record that is damaged, and then what is `behind`.
fn damaged(sessions: [Builder; 2], front: &dyn Fn(&Db), behind: &dyn Fn(&Db)) -> Vec<u8> {
    let storage = MemoryStorage::new();
    let [first, second] = sessions;
    let db = first.open_storage(Box::new(storage.clone())).unwrap();
    front(&db);
    db.close().unwrap();
    let db = second.open_storage(Box::new(storage.clone())).unwrap();
    db.insert("first", [1; 400]).unwrap();
    let value = noise(3, 100);
    db.insert("damaged", &value).unwrap();
    behind(&db);
    let mut bytes = storage.to_vec();
    core::mem::forget(db);
    let at = place_of(&bytes, &value);
    bytes[at] ^= 1;
    bytes
}

/// How many records are stranded, and whether a segment is kept for them.
fn kept(bytes: Vec<u8>) -> (u64, bool) {
    let db = builder().open_storage(Box::new(MemoryStorage::from_vec(bytes))).unwrap();
    let engine = &db.store().engine;
    let is_kept = engine.log.segments().iter().any(|segment| is_kept(engine, segment));
    (db.open_report().stranded_records, is_kept)
}

fn kept_behind(behind: &dyn Fn(&Db)) -> (u64, bool) {
    let front = |db: &Db| ["a", "b"].iter().for_each(|key| db.insert(key, VALUE).unwrap());
    kept(damaged([builder(), builder()], &front, behind))
}

#[test]
fn records_that_the_log_has_as_well_keep_no_segment() {
    assert_eq!(kept_behind(&|_| {}), (0, false));
    assert_eq!(kept_behind(&|db| db.insert("a", VALUE).unwrap()), (1, false));
    assert_eq!(kept_behind(&|db| ["a", "b"].iter().for_each(|key| db.insert(key, VALUE).unwrap())), (2, false));
}

#[test]
fn a_single_record_that_the_log_does_not_have_keeps_its_segment() {
    assert_eq!(kept_behind(&|db| db.insert("c", VALUE).unwrap()), (1, true));
    assert_eq!(kept_behind(&|db| db.insert("a", [8; 400]).unwrap()), (1, true));
    assert_eq!(kept_behind(&|db| db.insert_with_ttl("a", VALUE, HOUR).unwrap()), (1, true));
    for keys in [["a", "c"], ["c", "a"]] {
        assert_eq!(kept_behind(&|db| keys.iter().for_each(|key| db.insert(key, VALUE).unwrap())), (2, true), "{keys:?}");
    }
}

#[test]
fn a_record_of_another_namespace_is_another_record() {
    let frame = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(77), key: b"a", value: &VALUE };
    let append = |db: &Db| {
        db.store().engine.log.append_one(&frame, Purpose::Store).unwrap();
    };
    assert_eq!(kept_behind(&append), (1, true));
}

#[test]
fn a_copy_of_a_name_keeps_no_segment_and_that_name_with_another_number_does() {
    let front = |db: &Db| db.namespace("a name").unwrap().insert("a", VALUE).unwrap();
    let kept_behind = |changed: u8| {
        let behind = |db: &Db| {
            let engine = &db.store().engine;
            let key = engine.full_key(NAMESPACE_OF_NAMES, b"a name");
            let mut value = engine.find(&engine.pins.pin(), key).unwrap().unwrap().value().to_vec();
            value[0] ^= changed;
            let meta = Meta::plain(NAMESPACE_OF_NAMES);
            let frame = FrameSpec { kind: Kind::Put, continues: false, meta, key: b"a name", value: &value };
            engine.log.append_one(&frame, Purpose::Store).unwrap();
        };
        kept(damaged([builder(), builder()], &front, &behind))
    };
    assert_eq!(kept_behind(0), (1, false));
    assert_eq!(kept_behind(2), (1, true));
}

#[test]
fn a_tombstone_keeps_its_segment_if_the_key_is_in_the_log() {
    assert_eq!(kept_behind(&|db| assert!(db.remove("a").unwrap())), (1, true));
    let in_namespace = |number: u32| kept_behind(&|db| append_tombstone(&db.store().engine.log, number, b"absent"));
    assert_eq!(in_namespace(0), (1, false));
    assert_eq!(in_namespace(NAMESPACE_NUMBER_MAX), (1, false));
    assert_eq!(in_namespace(NAMESPACE_NUMBER_MAX + 1), (1, true), "no namespace has that number");
}

#[cfg(feature = "compress")]
mod compressed {
    use super::*;
    use crate::Compression;

    fn compressing() -> Builder {
        builder().compression(Compression::OnWrite)
    }

    fn kept_compressed(behind: &dyn Fn(&Db)) -> (u64, bool) {
        kept(damaged([builder(), compressing()], &|db| db.insert("a", VALUE).unwrap(), behind))
    }

    #[test]
    fn a_value_is_the_same_compressed_or_not() {
        let insert = |db: &Db| db.insert("a", VALUE).unwrap();
        let plain_first = damaged([builder(), compressing()], &insert, &insert);
        assert_eq!(plain_first.windows(400).filter(|window| *window == VALUE).count(), 1, "one of them is compressed");
        assert_eq!(kept(plain_first), (1, false));
        assert_eq!(kept(damaged([compressing(), builder()], &insert, &insert)), (1, false));
        assert_eq!(kept(damaged([compressing(), compressing()], &insert, &insert)), (1, false));
    }

    #[test]
    fn another_value_and_another_expiry_are_another_record_also_compressed() {
        assert_eq!(kept_compressed(&|db| db.insert("a", [8; 400]).unwrap()), (1, true));
        assert_eq!(kept_compressed(&|db| db.insert("c", VALUE).unwrap()), (1, true));
        assert_eq!(kept_compressed(&|db| db.insert_with_ttl("a", VALUE, HOUR).unwrap()), (1, true));
    }

    #[test]
    fn a_stranded_value_is_kept_if_the_one_in_the_log_is_damaged() {
        let insert = |db: &Db| db.insert("a", VALUE).unwrap();
        // Behind a checkpoint, opening does not read the record.
        let front = |db: &Db| {
            insert(db);
            db.checkpoint().unwrap();
        };
        let mut bytes = damaged([builder(), compressing()], &front, &insert);
        let at = place_of(&bytes, &VALUE);
        bytes[at + 100] ^= 1;
        assert_eq!(kept(bytes), (1, true));
    }
}

#[cfg(feature = "events")]
mod events {
    use super::{builder, damaged, kept};
    use crate::frame::{FrameSpec, Kind, Meta};
    use crate::log::Purpose;
    use crate::{Db, Expected, NewEvent};
    use alloc::vec::Vec;

    struct Record {
        namespace: u32,
        key: Vec<u8>,
        value: Vec<u8>,
    }

    /// The only event.
    fn event_of(db: &Db) -> Record {
        let engine = &db.store().engine;
        let stored = engine.events().unwrap().by_number(&engine.log, 1).unwrap().unwrap();
        let (key, value) = (stored.frame().key().to_vec(), stored.frame().value().to_vec());
        Record { namespace: stored.namespace(), key, value }
    }

    /// Stranded is a copy of the event, changed by `change`.
    fn kept_behind(change: &dyn Fn(&mut Record)) -> (u64, bool) {
        let front = |db: &Db| {
            let event = NewEvent::new("of a type", [5; 40]);
            db.events("log").unwrap().append("stream", Expected::NoStream, [event]).unwrap();
        };
        let behind = |db: &Db| {
            let mut copy = event_of(db);
            change(&mut copy);
            let mut meta = Meta::plain(copy.namespace);
            meta.copied = true;
            let frame = FrameSpec { kind: Kind::Event, continues: false, meta, key: &copy.key, value: &copy.value };
            db.store().engine.log.append_one(&frame, Purpose::Store).unwrap();
        };
        kept(damaged([builder(), builder()], &front, &behind))
    }

    #[test]
    fn a_copy_of_an_event_keeps_no_segment_and_any_other_event_does() {
        assert_eq!(kept_behind(&|_| {}), (1, false));
        assert_eq!(kept_behind(&|event| event.namespace += 1), (1, true));
        assert_eq!(kept_behind(&|event| event.key[0] ^= 1), (1, true));
        assert_eq!(kept_behind(&|event| *event.value.last_mut().unwrap() ^= 1), (1, true));
        for number in [0, 3, u64::MAX] {
            let forge = |event: &mut Record| event.value[..8].copy_from_slice(&number.to_le_bytes());
            assert_eq!(kept_behind(&forge), (1, true), "{number}: there is no such event");
        }
    }
}
