//! The tape on the hosts of this machine, and the golden files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a failed step is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Durability, Error, OrderState, SnapshotState};
use pipkin_tape::Tape;
use pipkin_tape::compressed::{KEY, check_compressed};
use pipkin_tape::expiring::{SPACE, check_expiring, expected};
use pipkin_tape::kinds::check_kinds;

#[test]
fn the_tape_leaves_in_memory_what_it_should() {
    for (tape, segment_size) in [(Tape::FULL, 4 << 20), (Tape::SMALL, 16 << 10), (Tape::FULL, 4 << 10)] {
        let storage = MemoryStorage::new();
        let open = || Db::builder().entropy([1; 32]).segment_size(segment_size).open_storage(Box::new(storage.clone())).unwrap();
        assert_eq!(tape.begin(&open()), Ok(Durability::None));
        assert_eq!(tape.resume(&open()), Ok(Durability::None));
        assert_eq!(tape.finish(&open()), Ok(tape.expected()));
    }
}

#[test]
fn the_tape_leaves_in_a_file_what_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tape.pipkin");
    assert_eq!(Tape::FULL.begin(&Db::open(&path).unwrap()), Ok(Durability::Device));
    assert_eq!(Tape::FULL.resume(&Db::open(&path).unwrap()), Ok(Durability::Device));
    assert_eq!(Tape::FULL.finish(&Db::open(&path).unwrap()), Ok(Tape::FULL.expected()));
}

#[test]
fn every_golden_file_opens_reads_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let golden = golden_files();
    assert!(!golden.is_empty());
    for source in golden {
        let name = source.file_name().unwrap().to_str().unwrap();
        let before = fs::read(&source).unwrap();
        let db = Db::builder().path(&source).read_only(true).open().unwrap();
        assert_eq!(Tape::SMALL.finish(&db), Ok(Tape::SMALL.expected()), "{name}");
        drop(db);
        assert!(fs::read(&source).unwrap() == before, "reading changed {name}");

        let copy = folder.path().join(name);
        fs::write(&copy, &before).unwrap();
        Db::open(&copy).unwrap().insert("written natively", "yes").unwrap();
        let db = Db::open(&copy).unwrap();
        assert_eq!(db.get("written natively").unwrap().as_deref(), Some(&b"yes"[..]), "{name}");
        assert_eq!(pipkin_tape::digest(&db).unwrap().records, Tape::SMALL.expected().records + 1, "{name}");
    }
}

#[test]
fn sealed_stores_of_both_suites_are_read_with_their_key_and_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sealed.pipkin");
    for name in ["aes", "chacha"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/sealed").join(name).with_extension("pipkin");
        let before = fs::read(&source).unwrap();
        let sealed = || Db::builder().encryption_key([7; 32]);
        let db = sealed().path(&source).read_only(true).open().unwrap();
        assert_eq!(db.open_report().snapshot, SnapshotState::Loaded, "{name}");
        assert_eq!(Tape::SMALL.finish(&db), Ok(Tape::SMALL.expected()), "{name}");
        drop(db);
        assert!(matches!(Db::builder().path(&source).read_only(true).open(), Err(Error::KeyNeeded)), "{name}");
        assert!(fs::read(&source).unwrap() == before, "reading changed {name}");
        fs::write(&path, &before).unwrap();
        sealed().path(&path).open().unwrap().insert("written natively", "yes").unwrap();
        let db = sealed().path(&path).open().unwrap();
        db.compact().unwrap();
        assert_eq!(pipkin_tape::digest(&db).unwrap().records, Tape::SMALL.expected().records + 1, "{name}");
    }
}

/// A golden plain store that a crash has left while it was being sealed.
#[test]
fn a_store_that_has_begun_to_be_sealed_is_read_and_sealed_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("begun.pipkin");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/enabling/begun.pipkin");
    let before = fs::read(&source).unwrap();
    let sealed = || Db::builder().encryption_key([7; 32]).background(false);
    let db = sealed().path(&source).read_only(true).open().unwrap();
    assert!(db.key_rotation_pending());
    assert_eq!(Tape::SMALL.finish(&db), Ok(Tape::SMALL.expected()));
    drop(db);
    assert!(fs::read(&source).unwrap() == before, "reading changed it");
    assert!(matches!(Db::builder().path(&source).read_only(true).open(), Err(Error::KeyNeeded)));
    fs::write(&path, &before).unwrap();
    let db = sealed().path(&path).open().unwrap();
    assert!(db.finish_key_rotation(|_| {}).unwrap().is_finished);
    assert!(db.verify().unwrap().is_ok());
    db.close().unwrap();
    assert_eq!(Tape::SMALL.finish(&sealed().path(&path).open().unwrap()), Ok(Tape::SMALL.expected()));
}

/// A golden sealed store that was being made plain when the medium was full: its key alone does not open it.
#[test]
fn a_store_that_has_begun_to_become_plain_takes_a_word_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("begun.pipkin");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/disabling/begun.pipkin");
    let before = fs::read(&source).unwrap();
    let sealed = || Db::builder().encryption_key([7; 32]).background(false);
    assert!(matches!(sealed().path(&source).read_only(true).open(), Err(Error::DisablingEncryption)));
    assert!(matches!(Db::builder().path(&source).read_only(true).open(), Err(Error::KeyNeeded)));
    assert!(fs::read(&source).unwrap() == before, "reading changed it");
    fs::write(&path, &before).unwrap();
    assert!(matches!(sealed().path(&path).open(), Err(Error::DisablingEncryption)));
    let db = sealed().path(&path).disable_encryption().unwrap();
    assert!(!db.key_rotation_pending() && db.verify().unwrap().is_ok());
    assert_eq!(Tape::SMALL.finish(&db), Ok(Tape::SMALL.expected()));
    db.close().unwrap();
    assert_eq!(Tape::SMALL.finish(&Db::builder().path(&path).open().unwrap()), Ok(Tape::SMALL.expected()));
}

#[test]
fn stores_with_compressed_values_are_read_and_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("compressed.pipkin");
    for name in ["plain", "sealed"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/compressed").join(name).with_extension("pipkin");
        let before = fs::read(&source).unwrap();
        let builder = || if name == "sealed" { Db::builder().encryption_key(KEY).compress_sealed(true) } else { Db::builder() };
        check_compressed(&builder().path(&source).read_only(true).open().unwrap()).unwrap();
        assert!(fs::read(&source).unwrap() == before, "reading changed {name}");
        fs::write(&path, &before).unwrap();
        let db = builder().path(&path).open().unwrap();
        db.compact().unwrap();
        check_compressed(&db).unwrap();
        db.close().unwrap();
        let db = builder().path(&path).open().unwrap();
        check_compressed(&db).unwrap();
        assert!(db.compression_stats().unwrap().records > 690 && db.verify().unwrap().is_ok(), "{name}");
    }
}

#[test]
fn stores_with_every_kind_and_flag_are_read_and_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kinds.pipkin");
    for name in ["written", "killed", "compacted"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/kinds").join(name).with_extension("pipkin");
        let before = fs::read(&source).unwrap();
        let db = Db::builder().path(&source).read_only(true).open().unwrap();
        let snapshot = if name == "written" { SnapshotState::None } else { SnapshotState::Loaded };
        assert_eq!(db.open_report().snapshot, snapshot, "{name}");
        check_kinds(&db).unwrap();
        drop(db);
        assert!(fs::read(&source).unwrap() == before, "reading changed {name}");
        fs::write(&path, &before).unwrap();
        let db = Db::open(&path).unwrap();
        db.compact().unwrap();
        db.close().unwrap();
        check_kinds(&Db::open(&path).unwrap()).unwrap();
    }
}

#[test]
fn stores_with_records_that_expire_are_read_and_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("expiring.pipkin");
    for (name, ordered) in ["killed", "compacted", "calendar"].into_iter().flat_map(|name| [(name, true), (name, false)]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/expiry").join(name).with_extension("pipkin");
        let before = fs::read(&source).unwrap();
        let builder = || Db::builder().ordered(ordered);
        check_expiring(&builder().path(&source).read_only(true).open().unwrap()).unwrap();
        assert!(fs::read(&source).unwrap() == before, "reading changed {name}");
        fs::write(&path, &before).unwrap();
        let db = builder().path(&path).open().unwrap();
        if ordered {
            let space = db.namespace(SPACE).unwrap();
            let keys: Vec<Vec<u8>> = space.range_keys(..).unwrap().map(Result::unwrap).collect();
            assert!(keys.iter().map(Vec::as_slice).eq(expected(SPACE).iter().map(|(key, _)| key.as_bytes())), "{name}: {keys:?}");
        }
        db.compact().unwrap();
        check_expiring(&db).unwrap();
        db.close().unwrap();
        check_expiring(&builder().path(&path).open().unwrap()).unwrap();
    }
}

/// 2500 keys: in the killed store ten were removed behind the snapshot, and as many added.
#[test]
fn stores_with_keys_in_order_open_with_that_order_and_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("order.pipkin");
    for (name, numbers) in [("closed", 0..2500_u32), ("killed", 10..2510)] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/order").join(name).with_extension("pipkin");
        let before = fs::read(&source).unwrap();
        let is_right = |db: &Db, numbers: std::ops::Range<u32>| {
            let found: Vec<_> = db.range(..).unwrap().map(Result::unwrap).collect();
            let expected = numbers.map(|number| (format!("key/{number:04}").into_bytes(), number.to_le_bytes().to_vec()));
            assert!(found.into_iter().eq(expected), "{name}");
        };
        let db = Db::builder().path(&source).ordered(true).read_only(true).open().unwrap();
        assert_eq!(db.open_report().order, OrderState::Loaded, "{name}");
        is_right(&db, numbers.clone());
        drop(db);
        assert!(fs::read(&source).unwrap() == before, "reading changed {name}");
        fs::write(&path, &before).unwrap();
        for end in [numbers.end + 1, numbers.end + 2] {
            let db = Db::builder().path(&path).ordered(true).open().unwrap();
            db.insert(format!("key/{:04}", end - 1), (end - 1).to_le_bytes()).unwrap();
            is_right(&db, numbers.start..end);
        }
    }
}

fn golden_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "pipkin")).collect()
}
