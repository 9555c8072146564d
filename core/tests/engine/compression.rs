//! Compressed values: every way of reading returns what was written, whatever compaction, reopening and other builds have done.
#![cfg(all(feature = "compress", feature = "ordered", feature = "salvage"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Builder, Change, Compression, Cursor, Db, Error, Namespace, Position, salvage, verify_storage};
use std::collections::BTreeMap;

/// Keys and values of a namespace.
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn builder(compression: Compression) -> Builder {
    Db::builder().entropy([9; 32]).ordered(true).segment_size(64 * 1024).compression(compression)
}

fn open(storage: &MemoryStorage, compression: Compression) -> Db {
    builder(compression).open_storage(Box::new(storage.clone())).unwrap()
}

fn document(number: u32, round: u32) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9) ^ round;
    format!(
        r#"{{"feature":"api.Interface{}.method{:x}","browser":"{}","support":{{"version_added":"{}"}},"status":{{"deprecated":{},"experimental":false,"standard_track":true}}}}"#,
        number % 97,
        mixed,
        ["chrome", "firefox", "safari", "edge"][number as usize % 4],
        round * 7 + number % 50,
        number.is_multiple_of(3),
    )
    .into_bytes()
}

fn key(number: u32) -> Vec<u8> {
    format!("doc-{number:05}").into_bytes()
}

pub(crate) fn write(space: &Namespace, model: &mut Model, numbers: impl Iterator<Item = u32>, round: u32) {
    let records: Vec<_> = numbers.map(|number| (key(number), document(number, round))).collect();
    for chunk in records.chunks(100) {
        space.insert_many(chunk.iter().map(|(key, value)| (key, value))).unwrap();
    }
    model.extend(records);
}

/// Fails unless every way of reading shows the model.
pub(crate) fn check(db: &Db, space: &Namespace, model: &Model) {
    let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
    let all: Vec<(Vec<u8>, Vec<u8>)> = model.iter().map(owned).collect();
    let mut walked = space.iter().collect::<pipkin::Result<Vec<_>>>().unwrap();
    walked.sort();
    assert!(walked == all, "iter");
    assert!(space.range(..).unwrap().collect::<pipkin::Result<Vec<_>>>().unwrap() == all, "range");
    let (mut paged, mut cursor) = (Vec::new(), Some(Cursor::default()));
    while let Some(from) = cursor {
        let full = paged.len() + 50;
        cursor = space
            .page(from, |key, value| {
                paged.push((key.to_vec(), value.to_vec()));
                paged.len() < full
            })
            .unwrap();
    }
    paged.sort();
    assert!(paged == all, "page");
    let many = space.get_many(model.keys()).unwrap();
    assert!(many.iter().map(Option::as_ref).eq(model.values().map(Some)), "get_many");
    let snapshot = db.snapshot();
    let there =
        if space.name().is_empty() { snapshot.default_namespace() } else { snapshot.namespace(space.name()).unwrap().unwrap() };
    let mut shown = there.iter().collect::<pipkin::Result<Vec<_>>>().unwrap();
    shown.sort();
    assert!(shown == all && there.range(..).unwrap().collect::<pipkin::Result<Vec<_>>>().unwrap() == all, "snapshot");
    for (key, value) in model.iter().step_by(37) {
        assert_eq!(space.get(key).unwrap().as_ref(), Some(value));
        assert!(space.get_zerocopy(key).unwrap().unwrap() == *value && space.get_zerocopy_owned(key).unwrap().unwrap() == *value);
        assert_eq!(space.get_versioned(key).unwrap().map(|(found, _)| found).as_ref(), Some(value));
        assert!(space.contains_key(key).unwrap() && there.get(key).unwrap().as_ref() == Some(value));
        assert_eq!(space.transaction(|tx| tx.get(key)).unwrap().as_ref(), Some(value), "transaction");
        assert!(space.compare_and_swap(key, Some(value), Some(value)).unwrap(), "compare_and_swap");
    }
    assert_eq!(space.len().unwrap(), model.len() as u64);
    assert!(db.verify().unwrap().is_ok(), "{:?}", db.verify().unwrap().damage);
}

/// Bytes of the file, after everything is compacted.
fn compacted(db: &Db) -> u64 {
    db.compact().unwrap();
    db.stats().unwrap().live_bytes
}

#[test]
fn compaction_compresses_with_a_dictionary_and_every_read_decodes() {
    let (storage, plain) = (MemoryStorage::new(), MemoryStorage::new());
    let (db, other) = (open(&storage, Compression::OnCompaction), open(&plain, Compression::Off));
    let (mut model, mut same) = (Model::new(), Model::new());
    write(&db, &mut model, 0..4000, 0);
    write(&other, &mut same, 0..4000, 0);
    let before = compacted(&other);
    let after = compacted(&db);
    assert!(after * 5 < before * 2, "{before} {after}");
    // Nothing is left to do: the second time copies nothing.
    let again = db.compact().unwrap();
    assert!(again.bytes_copied < 1000, "{again:?}");
    check(&db, &db, &model);
    db.close().unwrap();
    assert!(verify_storage(&storage).unwrap().is_ok());
    for compression in [Compression::Off, Compression::OnWrite, Compression::OnCompaction] {
        let db = open(&storage, compression);
        check(&db, &db, &model);
        write(&db, &mut model, 3000..3400, 5);
        db.remove(key(17)).unwrap();
        model.remove(&key(17));
        check(&db, &db, &model);
        db.compact().unwrap();
        check(&db, &db, &model);
    }
}

#[test]
fn writes_compress_when_asked_to() {
    let storage = MemoryStorage::new();
    let db = open(&storage, Compression::OnWrite);
    let mut model = Model::new();
    write(&db, &mut model, 0..2000, 0);
    db.compact().unwrap();
    let before = db.stats().unwrap().live_bytes;
    for number in 2000..3000 {
        db.insert(key(number), document(number, 1)).unwrap();
        model.insert(key(number), document(number, 1));
    }
    let grown = db.stats().unwrap().live_bytes - before;
    assert!(grown < 1000 * 110, "{grown}");
    db.update(key(5), |old| Some([old.unwrap(), b" and more"].concat())).unwrap();
    model.get_mut(&key(5)).unwrap().extend_from_slice(b" and more");
    assert_eq!(db.swap(key(6), document(6, 9)).unwrap().as_ref(), model.insert(key(6), document(6, 9)).as_ref());
    assert_eq!(db.take(key(7)).unwrap(), model.remove(&key(7)));
    let mut tx = db.begin().unwrap();
    tx.insert(key(8), document(8, 9)).unwrap();
    tx.commit().unwrap();
    model.insert(key(8), document(8, 9));
    check(&db, &db, &model);
    drop(db);
    let db = open(&storage, Compression::Off);
    check(&db, &db, &model);
}

#[test]
fn what_does_not_compress_does_not_grow() {
    let (storage, plain) = (MemoryStorage::new(), MemoryStorage::new());
    let (db, other) = (open(&storage, Compression::OnWrite), open(&plain, Compression::Off));
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    for number in 0..3000_u32 {
        let value: Vec<u8> = (0..200).map(|_| random()).collect();
        db.insert(number.to_le_bytes(), &value).unwrap();
        other.insert(number.to_le_bytes(), &value).unwrap();
    }
    let (live, live_plain) = (compacted(&db), compacted(&other));
    // A system namespace with the note that there is nothing to gain.
    assert!(live >= live_plain && live < live_plain + 300, "{live} {live_plain}");
    let again = db.compact().unwrap();
    assert!(again.bytes_copied * 4 < live, "{again:?}");
}

#[test]
fn each_namespace_has_its_own_rule_and_the_file_keeps_it() {
    let storage = MemoryStorage::new();
    let db = open(&storage, Compression::Off);
    let [squeezed, loose] = ["squeezed", "loose"].map(|name| db.namespace(name).unwrap());
    squeezed.set_compression(Some(Compression::OnCompaction)).unwrap();
    let (mut one, mut other) = (Model::new(), Model::new());
    write(&squeezed, &mut one, 0..2000, 0);
    write(&loose, &mut other, 0..2000, 0);
    let plain = db.stats().unwrap().live_bytes;
    db.compact().unwrap();
    let stats = db.stats().unwrap();
    assert!(stats.live_bytes * 10 < plain * 8 && stats.live_bytes * 10 > plain * 5, "{plain} {}", stats.live_bytes);
    db.close().unwrap();
    let db = open(&storage, Compression::OnWrite);
    let [squeezed, loose] = ["squeezed", "loose"].map(|name| db.namespace(name).unwrap());
    assert_eq!((squeezed.compression(), loose.compression()), (Compression::OnCompaction, Compression::OnWrite));
    check(&db, &squeezed, &one);
    check(&db, &loose, &other);
    loose.set_compression(Some(Compression::Off)).unwrap();
    squeezed.set_compression(None).unwrap();
    assert_eq!((squeezed.compression(), loose.compression()), (Compression::OnWrite, Compression::Off));
    squeezed.clear().unwrap();
    write(&squeezed, &mut Model::new(), 0..100, 3);
    db.drop_namespace("loose").unwrap();
    db.compact().unwrap();
    let mut model = Model::new();
    write(&squeezed, &mut model, 0..100, 3);
    check(&db, &squeezed, &model);
}

#[test]
fn snapshots_and_readers_of_changes_see_compressed_values() {
    let storage = MemoryStorage::new();
    let db = open(&storage, Compression::OnWrite);
    let mut model = Model::new();
    write(&db, &mut model, 0..1500, 0);
    db.compact().unwrap();
    let (before, old) = (db.snapshot(), model.clone());
    let (_, mut changes) = db.changes().appended(true).with_state().unwrap();
    write(&db, &mut model, 0..700, 1);
    db.compact().unwrap();
    write(&db, &mut model, 0..900, 2);
    db.compact().unwrap();
    let mut shown = before.iter().collect::<pipkin::Result<Vec<_>>>().unwrap();
    shown.sort();
    assert!(shown.into_iter().eq(old), "the snapshot shows the values from before");
    let mut heard = 0;
    for commit in changes.drain().unwrap() {
        for change in commit.changes() {
            let Change::Put { value, .. } = change else { panic!("{change:?}") };
            heard += 1;
            assert!(value.starts_with(b"{\"feature\":\"api."));
        }
    }
    assert_eq!(heard, 1600);
    check(&db, &db, &model);
    drop(before);
    assert!(matches!(db.changes().from(Position::START).start(), Ok(_) | Err(Error::Compacted { .. })));
}

/// Offsets of the records with a dictionary: a put with a namespace, a key of five bytes and a value that is some kilobytes long.
fn places_of_dictionaries(bytes: &[u8]) -> Vec<usize> {
    let is_one = |frame: &[u8]| {
        let [.., head, flags, key_len, low, high] = *frame.first_chunk::<9>().unwrap();
        head & 0x4f == 0x41 && flags == 1 && key_len == 5 && low >= 0x80 && high >= 0x10
    };
    let places = bytes.windows(9).enumerate().filter(|(_, frame)| is_one(frame));
    places.map(|(at, _)| at).collect()
}

#[test]
fn both_copies_of_a_dictionary_stand_apart_and_one_is_enough() {
    let storage = MemoryStorage::new();
    let db = open(&storage, Compression::OnCompaction);
    let mut model = Model::new();
    write(&db, &mut model, 0..2500, 0);
    for _ in 0..3 {
        db.compact().unwrap();
        write(&db, &mut model, 0..50, 1);
    }
    db.checkpoint().unwrap();
    db.close().unwrap();
    let bytes = storage.to_vec();
    let places = places_of_dictionaries(&bytes);
    assert_eq!(places.len(), 2);
    for place in &places {
        let mut damaged = bytes.clone();
        damaged[place + 40] ^= 0x10;
        let storage = MemoryStorage::from_vec(damaged);
        assert_eq!(verify_storage(&storage).unwrap().damage.len(), 1, "{place}");
        let db = open(&storage, Compression::OnCompaction);
        for (key, value) in &model {
            assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
        }
        // Compaction writes the lost copy again.
        write(&db, &mut Model::new(), 0..2500, 0);
        db.compact().unwrap();
        db.compact().unwrap();
        db.close().unwrap();
        assert!(verify_storage(&storage).unwrap().is_ok(), "{:?}", verify_storage(&storage).unwrap());
    }
    let mut damaged = bytes;
    places.iter().for_each(|place| damaged[place + 40] ^= 0x10);
    let db = open(&MemoryStorage::from_vec(damaged), Compression::OnCompaction);
    let (mut lost, mut wrong) = (0, 0);
    for (key, value) in &model {
        match db.get(key) {
            Ok(found) => wrong += u32::from(found.as_ref() != Some(value)),
            Err(Error::Corrupt { .. }) => lost += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(wrong == 0 && lost > 1000, "{lost} {wrong}");
}

#[test]
fn the_namespace_of_dictionaries_cannot_be_reached() {
    let db = builder(Compression::OnCompaction).in_memory().unwrap();
    write(&db, &mut Model::new(), 0..2000, 0);
    db.compact().unwrap();
    assert!(matches!(db.system_namespace("dictionaries"), Err(Error::SystemNamespace)));
    assert!(db.find_system_namespace("dictionaries").is_none());
    assert!(matches!(db.namespace("\0dictionaries"), Err(Error::SystemNamespace)));
    assert!(db.list_namespaces().is_empty());
    assert_eq!(db.stats().unwrap().records, 2000);
}

#[test]
fn salvage_backup_and_followers_have_the_plain_values() {
    let storage = MemoryStorage::new();
    let db = open(&storage, Compression::OnCompaction);
    let mut model = Model::new();
    write(&db, &mut model, 0..2500, 0);
    db.compact().unwrap();
    write(&db, &mut model, 0..100, 1);
    db.flush().unwrap();
    let copy = MemoryStorage::new();
    db.backup_to_storage(&copy).unwrap();
    let restored = open(&copy, Compression::Off);
    check(&restored, &restored, &model);
    let target = builder(Compression::Off).in_memory().unwrap();
    let report = salvage(&storage, &target, &mut |_, _| ()).unwrap();
    assert!(report.damage.is_empty(), "{report:?}");
    check(&target, &target, &model);
    target.close().unwrap();
    assert!(!storage.is_empty().unwrap());
}

/// The first compaction of a store that was not closed makes the namespace of dictionaries, and the write that this is must not wait for what is
/// overdue: that waits for the lock that compaction holds.
#[test]
fn the_first_training_of_a_store_that_was_not_closed_ends() {
    let storage = MemoryStorage::new();
    let builder = || builder(Compression::Off).background(false).replay_debt_max(64 * 1024);
    let db = builder().open_storage(Box::new(storage.clone())).unwrap();
    let mut model = Model::new();
    write(&db, &mut model, 0..2000, 0);
    db.flush().unwrap();
    // The debt of a session that was killed in front of its next checkpoint.
    let killed = MemoryStorage::from_vec(storage.to_vec());
    drop(db);
    let db = builder().compression(Compression::OnCompaction).replay_debt_max(1).open_storage(Box::new(killed)).unwrap();
    let (ended, end) = std::sync::mpsc::channel();
    let compacting = db.clone();
    std::thread::spawn(move || ended.send(compacting.compact().map(drop)));
    let compacted = end.recv_timeout(std::time::Duration::from_secs(60));
    assert!(matches!(compacted, Ok(Ok(()))), "compaction waits for itself, or {compacted:?}");
    assert!(db.compression_stats().unwrap().dictionaries == 1);
    check(&db, &db, &model);
}
