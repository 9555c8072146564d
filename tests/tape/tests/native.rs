//! The tape on the hosts of this machine, and the golden files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a failed step is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Durability, SnapshotState};
use pipkin_tape::Tape;
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

fn golden_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "pipkin")).collect()
}
