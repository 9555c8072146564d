//! One file for all hosts: what persists, who may open it at the same time, and what the component is made of.

use super::{build, host, open, small};
use pipkin::Db as Native;
use pipkin_tape::{Change, Step, Tape};
use pipkin_wasi_host::{Db, Durability, Error, Op, Options};
use std::fs;

#[test]
fn a_store_outlives_its_instances() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(&folder.path().join("made with the first store"));
    for round in 0..10_u8 {
        let mut db = open(&host, "a.pipkin");
        assert_eq!(db.len().unwrap(), u64::from(round));
        db.insert(&[round], &[round; 100]).unwrap();
        if round % 2 == 0 {
            db.close().unwrap();
        }
    }
}

#[test]
fn native_and_component_write_one_file_by_turns() {
    let folder = tempfile::tempdir().unwrap();
    let (host, path) = (host(folder.path()), folder.path().join("a.pipkin"));
    for turn in 0..6_u8 {
        if turn % 2 == 0 {
            open(&host, "a.pipkin").insert(&[turn], b"component").unwrap();
        } else {
            Native::open(&path).unwrap().insert([turn], "native").unwrap();
        }
    }
    let native = Native::open(&path).unwrap();
    assert!(native.verify().unwrap().is_ok());
    assert_eq!(native.len().unwrap(), 6);
    drop(native);
    let mut db = open(&host, "a.pipkin");
    assert!((0..6).all(|turn| db.contains_key(&[turn]).unwrap()));
}

#[test]
fn the_host_keeps_everybody_else_away() {
    let folder = tempfile::tempdir().unwrap();
    let (host, path) = (host(folder.path()), folder.path().join("a.pipkin"));
    let mut db = open(&host, "a.pipkin");
    db.insert(b"k", b"v").unwrap();
    let native = Native::open(&path).unwrap_err();
    let own = std::process::id();
    assert!(matches!(native, pipkin::Error::Locked { holder: Some(pid), .. } if pid == own), "{native:?}");
    let other = host.open("a.pipkin").map(drop).unwrap_err();
    assert!(matches!(other, Error::Lock(pipkin::Error::Locked { holder: Some(pid), .. }) if pid == own), "{other:?}");
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"v");
    db.close().unwrap();

    let native = Native::open(&path).unwrap();
    assert!(matches!(host.open("a.pipkin"), Err(Error::Lock(pipkin::Error::Locked { .. }))));
    drop(native);
    assert_eq!(open(&host, "a.pipkin").get(b"k").unwrap().unwrap(), b"v");
}

#[test]
fn what_was_only_buffered_reaches_the_file_with_a_flush_or_a_close() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let options = Options { durability: Durability::Buffered, ..small() };
    let mut db = host.open_with("a.pipkin", options).unwrap();
    for n in 0..2000_u32 {
        db.insert(&n.to_le_bytes(), &[7; 100]).unwrap();
    }
    assert_eq!(db.flush().unwrap(), Durability::Synced);
    let copy = folder.path().join("copy.pipkin");
    fs::copy(folder.path().join("a.pipkin"), &copy).unwrap();
    assert_eq!(Native::open(&copy).unwrap().len().unwrap(), 2000, "a copy at this moment is what a power cut leaves");
    db.insert(b"last", b"1").unwrap();
    drop(db);
    assert_eq!(Native::open(folder.path().join("a.pipkin")).unwrap().len().unwrap(), 2001);
}

#[test]
fn the_tape_through_the_verbs_leaves_what_it_leaves_natively() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    for half in Tape::FULL.halves() {
        let mut db = host.open("tape.pipkin").unwrap();
        half.iter().for_each(|step| play(&mut db, step));
        db.close().unwrap();
    }
    let native = Native::open(folder.path().join("tape.pipkin")).unwrap();
    pipkin_tape::verified(&native).unwrap();
    assert_eq!(pipkin_tape::digest(&native).unwrap(), Tape::FULL.expected());
}

fn play(db: &mut Db, step: &Step) {
    let op = |space: &str, key: &Vec<u8>, value: &Option<Vec<u8>>| Op {
        namespace: (!space.is_empty()).then(|| space.to_owned()),
        key: key.clone(),
        value: value.clone(),
        ttl: None,
    };
    match step {
        Step::One(Change { space, key, value }) => {
            let mut records = db.records((!space.is_empty()).then_some(*space));
            match value {
                Some(value) => records.insert(key, value).unwrap(),
                None => drop(records.remove(key).unwrap()),
            }
            assert_eq!(records.get(key).unwrap(), *value);
        }
        Step::Batch(records) => {
            let ops: Vec<Op> = records.iter().map(|(key, value)| op("", key, &Some(value.clone()))).collect();
            db.write(&ops, Durability::Written).unwrap();
        }
        Step::Transaction(changes) => {
            let ops: Vec<Op> = changes.iter().map(|change| op(change.space, &change.key, &change.value)).collect();
            db.write(&ops, Durability::Synced).unwrap();
        }
        Step::DropNamespace(name) => drop(db.drop_namespace(name).unwrap()),
        Step::Flush => assert_eq!(db.flush().unwrap(), Durability::Synced),
        Step::Checkpoint => db.checkpoint().unwrap(),
        Step::Compact => while db.compact_step().unwrap().is_some() {},
    }
}

/// A killed instance of an older component, and a native compaction, leave holes, which a full medium would not fill.
#[cfg(target_os = "linux")]
#[test]
fn holes_that_are_found_are_filled_before_records_go_there() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let folder = tempfile::tempdir().unwrap();
    let (host, path) = (host(folder.path()), folder.path().join("a.pipkin"));
    host.open("a.pipkin").unwrap().insert(b"k", b"v").unwrap();
    let whole = fs::read(&path).unwrap();
    let file = fs::File::create(&path).unwrap();
    file.set_len(20 << 20).unwrap();
    for (block, at) in whole.chunks(4096).zip((0..).step_by(4096)).filter(|(block, _)| block.iter().any(|byte| *byte != 0)) {
        file.write_all_at(block, at).unwrap();
    }
    let bytes = || file.metadata().unwrap().blocks() * 512;
    assert!(bytes() < 1 << 20, "this file system makes no holes");
    let mut db = host.open("a.pipkin").unwrap();
    db.insert(b"l", b"w").unwrap();
    assert!(bytes() > 4 << 20, "{} bytes for a short segment in use and a full one in reserve", bytes());
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"v");
}

#[test]
fn the_component_imports_files_a_clock_and_randomness() {
    let engine = pipkin_wasi_host::engine().unwrap();
    let component = wasmtime::component::Component::from_file(&engine, build::product()).unwrap();
    let imports: Vec<String> = component.component_type().imports(&engine).map(|(name, _)| name.to_string()).collect();
    let allowed = ["wasi:filesystem/", "wasi:io/", "wasi:clocks/", "wasi:random/random"];
    assert!(imports.iter().all(|name| allowed.iter().any(|prefix| name.starts_with(prefix))), "{imports:?}");
    let exports: Vec<String> = component.component_type().exports(&engine).map(|(name, _)| name.to_string()).collect();
    for wanted in [
        "pipkin:kv/store@0.1.0",
        "pipkin:kv/admin@0.1.0",
        "wasi:keyvalue/store@0.2.0-draft",
        "wasi:keyvalue/atomics@0.2.0-draft2",
    ] {
        assert!(exports.iter().any(|name| name == wanted), "{wanted} is missing in {exports:?}");
    }
    assert!(!exports.iter().any(|name| name.starts_with("pipkin:proof")), "{exports:?}");
    println!("the component has {} bytes", fs::metadata(build::product()).unwrap().len());
}
