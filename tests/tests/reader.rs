//! The engine carries whole what it does not know yet, and `pipkin-reader`, which knows the specification alone, finds it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::frame::{Optional, build};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error};
use pipkin_reader::{Contents, Fields, Record};
use pipkin_tape::kinds::check_kinds;
use pipkin_tests::forge::{placeholder, put_frame};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn golden(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn open(storage: &MemoryStorage) -> Db {
    Db::builder().entropy([9; 32]).background(false).open_storage(Box::new(storage.clone())).unwrap()
}

/// What a store holds, whoever has written its records: origins aside, which compaction gives to copies.
fn contents(storage: &MemoryStorage) -> Contents {
    // At a time at which what expired long ago has expired.
    let mut contents = pipkin_reader::read_at(&storage.to_vec(), 2).unwrap();
    contents.clock = 0;
    // A copy says that it is one; it needs no origin, since nobody holds a position.
    for record in contents.records.values_mut() {
        (record.copied, record.fields.origin) = (false, None);
    }
    contents.events.iter_mut().for_each(|event| event.fields.origin = None);
    Contents { torn: None, found: Default::default(), ..contents }
}

/// What salvage leaves: values that it can read are plain.
fn decompressed(contents: Contents) -> Contents {
    let plain = |record: &Record| record.fields.codec.and_then(|_| contents.plain(record));
    let record = |record: &Record| match plain(record) {
        Some(value) => Record { value, fields: Fields { codec: None, ..record.fields.clone() }, ..record.clone() },
        None => record.clone(),
    };
    let records = contents.records.iter().map(|(key, one)| (key.clone(), record(one))).collect();
    Contents { records, ..contents }
}

/// A sealed store that became plain is one to a reader that knows the format of plain stores alone, with values that were compressed, too.
#[test]
fn a_sealed_store_that_became_plain_reads_as_the_specification_says() {
    for name in ["sealed/aes", "sealed/chacha", "disabling/begun", "compressed/sealed"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name).with_extension("pipkin");
        let storage = MemoryStorage::from_vec(fs::read(path).unwrap());
        assert_eq!(pipkin_reader::read(&storage.to_vec()).unwrap_err(), pipkin_reader::Refusal::Newer, "{name}");
        let sealed = || Db::builder().encryption_key([7; 32]).background(false);
        let db = sealed().disable_encryption_in(Box::new(storage.clone())).unwrap();
        assert!(!db.key_rotation_pending(), "{name}");
        for is_closed in [false, true] {
            if is_closed {
                db.clone().close().unwrap();
            }
            let found = pipkin_reader::read(&storage.to_vec()).unwrap();
            assert!(found.found.has_checkpoint && found.found.has_snapshot, "{name}");
            let db = Db::builder().background(false).read_only(true).open_storage(Box::new(storage.clone())).unwrap();
            let mut seen = 0;
            let mut check = |space: &str, (key, value): (Vec<u8>, Vec<u8>)| {
                let read = &found.records[&(space.to_owned(), key)];
                assert!(found.plain(read).unwrap() == value, "{name}");
                seen += 1;
            };
            db.iter().for_each(|record| check("", record.unwrap()));
            for space in db.list_namespaces() {
                db.namespace(space.as_str()).unwrap().iter().for_each(|record| check(&space, record.unwrap()));
            }
            assert!(seen > 400, "{name}: {seen} records");
        }
    }
}

#[test]
fn every_kind_and_flag_lives_through_checkpoint_compaction_backup_and_salvage() {
    let files = golden("kinds");
    assert_eq!(files.len(), 3);
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let storage = MemoryStorage::from_vec(fs::read(&path).unwrap());
        let before = contents(&storage);
        assert_eq!((before.records.len(), before.events.len()), (14, 4), "{name}");
        let db = open(&storage);
        check_kinds(&db).unwrap();
        for round in 0..3 {
            db.insert("one more", [round; 3000]).unwrap();
            db.remove("one more").unwrap();
            db.checkpoint().unwrap();
            db.compact().unwrap();
            check_kinds(&db).unwrap();
            assert_eq!(contents(&storage), before, "{name}, round {round}");
            let found = pipkin_reader::read(&storage.to_vec()).unwrap().found;
            assert!(found.has_checkpoint && found.next_event == 5, "{name}, round {round}: {found:?}");
        }
        let backup = MemoryStorage::new();
        db.backup_to_storage(&backup).unwrap();
        assert_eq!(contents(&backup), before, "{name}, backup");
        check_kinds(&open(&backup)).unwrap();
        db.close().unwrap();
        assert_eq!(contents(&storage), before, "{name}, closed");
        check_kinds(&open(&storage)).unwrap();

        let target = MemoryStorage::new();
        let saved = open(&target);
        pipkin::salvage(&storage, &saved, &mut |_, _| {}).unwrap();
        saved.close().unwrap();
        assert_eq!(contents(&target), decompressed(before), "{name}, salvage");
        let saved = open(&target);
        saved.checkpoint().unwrap();
        assert_eq!(pipkin_reader::read(&target.to_vec()).unwrap().found.next_event, 5, "{name}, salvage");
    }
}

/// Golden stores with history: a consumer of a later session reads what was kept for it.
#[test]
fn the_consumers_of_golden_stores_miss_nothing() {
    for (name, from, to) in [("listed", 0, 120), ("tail", 60, 200)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/history").join(name).with_extension("pipkin");
        let storage = MemoryStorage::from_vec(fs::read(&path).unwrap());
        let before = contents(&storage);
        let db = open(&storage);
        let mut mirror = db.consumer("mirror").start().unwrap();
        let mut heard = Vec::new();
        while let Some(commit) = mirror.try_next().unwrap() {
            for change in commit.into_changes() {
                if let pipkin::Change::Put { namespace, value, .. } = change
                    && namespace.is_empty()
                {
                    heard.push(u32::from_le_bytes(value[..4].try_into().unwrap()));
                }
            }
        }
        assert_eq!(heard, (from..to).collect::<Vec<_>>(), "{name}");
        db.compact().unwrap();
        assert!(db.verify().unwrap().is_ok(), "{name}");
        db.close().unwrap();
        let after = contents(&storage);
        assert_eq!(after.namespaces, before.namespaces, "{name}");
        assert!(pipkin_reader::read(&storage.to_vec()).unwrap().found.history > 0, "{name}");
    }
}

/// Golden stores with event streams: a later session reads them in every way, and goes on.
#[test]
fn the_event_streams_of_golden_stores_are_read_and_go_on() {
    for (name, last) in [("listed", 10), ("tail", 20)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/events").join(name).with_extension("pipkin");
        let storage = MemoryStorage::from_vec(fs::read(&path).unwrap());
        let db = open(&storage);
        let orders = db.events("orders").unwrap();
        let check = |orders: &pipkin::Events| {
            let versions = |reader: pipkin::EventReader| -> Vec<u64> {
                reader.iter().unwrap().map(|event| event.unwrap().version()).collect()
            };
            for event in orders.stream("order").iter().unwrap().map(Result::unwrap) {
                let index = event.version() as u8 - 1;
                let number = event.version() + u64::from(index >= 10);
                assert_eq!((event.number(), event.id(), event.time_ms()), (number, [index; 16], 1_700_000_000_000), "{name}");
                assert_eq!(event.kind(), if index.is_multiple_of(3) { "Paid" } else { "Placed" }, "{name}");
                assert_eq!(event.payload(), vec![index; usize::from(index) * 20], "{name}");
                assert_eq!(event.tags().collect::<Vec<_>>(), [&*format!("customer:{}", index % 2), "all"], "{name}");
                let metadata = if index.is_multiple_of(4) { format!("by {index}") } else { String::new() };
                assert_eq!(event.metadata(), metadata.as_bytes(), "{name}");
            }
            assert_eq!(versions(orders.all()), (1..=last).collect::<Vec<_>>(), "{name}");
            assert_eq!(versions(orders.tagged("customer:0")), (1..=last).step_by(2).collect::<Vec<_>>(), "{name}");
            assert_eq!(versions(orders.of_type("Paid").backwards(true)).last(), Some(&1), "{name}");
            // By a jump.
            assert_eq!(versions(orders.stream("order").from(3).limit(1)), [3], "{name}");
        };
        check(&orders);
        let audit = db.events("audit").unwrap().all().iter().unwrap().map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!((audit.len(), audit[0].number(), audit[0].payload()), (1, 11, &b"in another log"[..]), "{name}");
        assert_eq!((db.get("orders").unwrap(), db.get("mailed").unwrap()), (Some(vec![last as u8]), Some(vec![1])), "{name}");
        assert_eq!(orders.cursors().unwrap(), [("mailer".into(), 2)], "{name}");
        let mut mailer = orders.tagged("customer:1").cursor("mailer").unwrap();
        assert_eq!(mailer.try_next().unwrap().unwrap().number(), 4, "{name}");
        db.compact().unwrap();
        check(&orders);
        let event = [pipkin::NewEvent::new("Sent", "")];
        let next = orders.append("order", pipkin::Expected::Version(last), event).unwrap();
        assert_eq!((next.version, next.first_number), (last + 1, last + 2), "{name}");
        assert!(db.verify().unwrap().is_ok(), "{name}");
        db.close().unwrap();
    }
}

/// A golden store with a stream that was removed twice and has begun anew each time: its versions are those of its last life.
#[test]
fn a_stream_that_has_begun_anew_in_a_golden_store_goes_on() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/events/anew.pipkin");
    let storage = MemoryStorage::from_vec(fs::read(&path).unwrap());
    let db = open(&storage);
    let orders = db.events("orders").unwrap();
    let check = |last: u64| {
        for reader in [orders.stream("order"), orders.all(), orders.tagged("all"), orders.of_type("Placed")] {
            let events: Vec<_> = reader.iter().unwrap().map(Result::unwrap).collect();
            assert_eq!(events.iter().map(pipkin::Event::version).collect::<Vec<_>>(), (2..=last).collect::<Vec<_>>());
            assert!(events.iter().take(3).all(|event| event.payload() == [2, event.version() as u8] && event.time_ms() == 2));
        }
        assert_eq!((orders.version("order").unwrap(), orders.get("order", 1).unwrap()), (last, None));
    };
    check(4);
    let refused = orders.append("order", pipkin::Expected::Anew, [pipkin::NewEvent::new("Placed", "")]);
    assert!(matches!(refused, Err(pipkin::Error::AppendRefused { .. })), "{refused:?}");
    let again = pipkin::NewEvent::new("Placed", [2, 5]).tag("all");
    assert_eq!(orders.append("order", pipkin::Expected::Version(4), [again]).unwrap().version, 5);
    check(5);
    db.compact().unwrap();
    check(5);
    assert!(db.verify().unwrap().is_ok());
    drop(orders);
    db.close().unwrap();
}

/// What a later version says about a namespace behind its number, as its expiry: salvage left it out, and that version would have found the
/// namespace without.
#[test]
fn the_options_of_a_namespace_live_through_checkpoint_compaction_clearing_backup_and_salvage() {
    let named = [&1_u32.to_le_bytes()[..], b"options of a later version"].concat();
    let frame = build(1, u32::MAX, &Optional::default(), b"named", &named).unwrap();
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let (key, value) = placeholder(0, &frame);
    db.namespace("named").unwrap().insert("key", "value").unwrap();
    db.insert(key, value).unwrap();
    db.insert("key", "value").unwrap();
    db.flush().unwrap();
    let mut bytes = storage.to_vec();
    put_frame(&mut bytes, 0, &frame);

    let check = |storage: &MemoryStorage, what: &str| {
        let options = &pipkin_reader::read(&storage.to_vec()).unwrap().namespaces["named"];
        assert_eq!(String::from_utf8_lossy(options), "options of a later version", "{what}");
    };
    let storage = MemoryStorage::from_vec(bytes);
    check(&storage, "written");
    let db = open(&storage);
    for what in ["compacted", "compacted again"] {
        db.insert("filler", [7; 3000]).unwrap();
        db.checkpoint().unwrap();
        db.compact().unwrap();
        check(&storage, what);
    }
    db.namespace("named").unwrap().clear().unwrap();
    check(&storage, "cleared");
    let backup = MemoryStorage::new();
    db.backup_to_storage(&backup).unwrap();
    check(&backup, "backup");
    for (what, close) in [("salvaged from the log", false), ("salvaged from a snapshot", true)] {
        if close {
            db.checkpoint().unwrap();
            db.clone().close().unwrap();
        }
        let target = MemoryStorage::new();
        pipkin::salvage(&MemoryStorage::from_vec(storage.to_vec()), &open(&target), &mut |_, _| {}).unwrap();
        check(&target, what);
    }
}

/// Each is refused for what it is, and not a byte of it changes.
#[test]
fn a_store_of_a_newer_version_is_refused_and_left_alone() {
    for path in golden("refused") {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&path).unwrap();
        let storage = MemoryStorage::from_vec(bytes.clone());
        let refused = Db::builder().open_storage(Box::new(storage.clone())).unwrap_err();
        let is_right = match name.as_str() {
            "adopt" => matches!(refused, Error::Unsupported { .. }),
            _ => matches!(refused, Error::NewerVersion { .. }),
        };
        assert!(is_right, "{name}: {refused:?}");
        assert!(storage.to_vec() == bytes, "{name}");
    }
}

/// A namespace that only gets another option says that its number is the one that it had: in the option of kind 2, which a reader that does not
/// know it carries. A namespace that is cleared has a new number, and says nothing.
#[test]
fn a_namespace_that_keeps_its_number_says_so() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let users = db.namespace("users").unwrap();
    users.insert("ada", "1").unwrap();
    let (_, mut changes) = db.changes().with_state().unwrap();
    users.set_default_ttl(Some(Duration::from_millis(0x0102))).unwrap();
    db.flush().unwrap();
    let read = pipkin_reader::read(&storage.to_vec()).unwrap();
    assert_eq!(read.namespaces["users"], [&[1, 6, 2, 1, 0, 0, 0, 0][..], &[2, 4], &1_u32.to_le_bytes()].concat());
    assert!(read.records.contains_key(&("users".to_owned(), b"ada".to_vec())));
    assert_eq!(changes.drain().unwrap(), []);
    db.checkpoint().unwrap();
    db.compact().unwrap();
    assert_eq!(pipkin_reader::read(&storage.to_vec()).unwrap().namespaces, read.namespaces);
    users.clear().unwrap();
    db.flush().unwrap();
    let read = pipkin_reader::read(&storage.to_vec()).unwrap();
    assert_eq!(read.namespaces["users"], [1, 6, 2, 1, 0, 0, 0, 0]);
    assert!(read.records.is_empty());
    assert_eq!(changes.drain().unwrap().len(), 1);
}
