//! The engine in a `wasm32-wasip2` component under Wasmtime: storage contract, file format, and the way between hosts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a failed step is a failed test")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use pipkin::Db;
use pipkin_tape::Tape;
use support::medium::Medium;
use support::{Guest, imports};

/// The storage contract has this many checks and more.
const CHECKS_MIN: u32 = 1000;
const ENTROPY: (u64, u64) = (0x5eed_0001, 0x5eed_0002);

#[test]
fn the_guest_storage_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let checks = Guest::new(folder.path()).conformance("file").unwrap();
    assert!(checks >= CHECKS_MIN, "only {checks} checks ran");
}

#[test]
fn the_guest_storage_keeps_the_contract_when_every_call_is_short() {
    let folder = tempfile::tempdir().unwrap();
    let checks = Guest::on(folder.path(), Medium::Short(1000)).conformance("file").unwrap();
    assert!(checks >= CHECKS_MIN, "only {checks} checks ran");
}

#[test]
fn the_tape_leaves_the_same_store_as_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let digest = Guest::new(folder.path()).tape("tape.pipkin", ENTROPY).unwrap();
    assert_eq!(digest, Tape::FULL.expected());
}

#[test]
fn a_file_written_in_the_guest_opens_natively() {
    let folder = tempfile::tempdir().unwrap();
    let digest = Guest::new(folder.path()).tape("tape.pipkin", ENTROPY).unwrap();
    let db = Db::open(folder.path().join("tape.pipkin")).unwrap();
    assert!(db.open_report().clean);
    pipkin_tape::verified(&db).unwrap();
    assert_eq!(digest, pipkin_tape::digest(&db).unwrap());
}

#[test]
fn a_file_written_natively_opens_in_the_guest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tape.pipkin");
    Tape::FULL.begin(&Db::open(&path).unwrap()).unwrap();
    Tape::FULL.resume(&Db::open(&path).unwrap()).unwrap();
    let digest = Guest::new(folder.path()).read("tape.pipkin").unwrap();
    assert_eq!(digest, Tape::FULL.expected());
}

#[test]
fn host_and_guest_write_one_file_by_turns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("turns.pipkin");
    for turn in 0..6_u64 {
        let key = format!("turn {turn}");
        if turn % 2 == 0 {
            Guest::new(folder.path()).put("turns.pipkin", (turn, 1), key.as_bytes(), 1000).unwrap();
        } else {
            let db = Db::open(&path).unwrap();
            db.insert(&key, [0x70; 1000]).unwrap();
            db.close().unwrap();
        }
    }
    let db = Db::open(&path).unwrap();
    assert_eq!(db.len().unwrap(), 6);
    assert!((0..6).all(|turn| db.get(format!("turn {turn}")).unwrap() == Some(vec![0x70; 1000])));
}

#[test]
fn a_full_medium_loses_nothing_that_was_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let mut guest = Guest::on(folder.path(), Medium::Full(9 * 1024 * 1024));
    guest.put("full.pipkin", ENTROPY, b"fits", 1024 * 1024).unwrap();
    let refused = guest.put("full.pipkin", ENTROPY, b"does not fit", 20 * 1024 * 1024).unwrap_err();
    assert!(refused.contains("no space left"), "{refused}");
    drop(guest);

    let db = Db::open(folder.path().join("full.pipkin")).unwrap();
    pipkin_tape::verified(&db).unwrap();
    assert_eq!(db.get("fits").unwrap().map(|value| value.len()), Some(1024 * 1024));
    assert_eq!(db.get("does not fit").unwrap(), None);
}

/// Space that only a longer file promises is none: on a full medium a put was counted, failed, and locked the store for good.
#[test]
fn a_full_medium_refuses_puts_and_takes_removals() {
    let folder = tempfile::tempdir().unwrap();
    let puts = Guest::on(folder.path(), Medium::Full(22 * 1024 * 1024)).fill("full.pipkin").unwrap();
    assert!(puts > 500, "only {puts} puts");
    let db = Db::open(folder.path().join("full.pipkin")).unwrap();
    pipkin_tape::verified(&db).unwrap();
    assert_eq!(db.len().unwrap(), 1);
}

#[test]
fn an_instance_that_dies_at_any_write_leaves_a_prefix_of_its_commits() {
    let folder = tempfile::tempdir().unwrap();
    let prefixes = Tape::FULL.prefixes();
    let mut deaths = 0;
    for writes in (0..40).chain((40..1000).step_by(97)) {
        let name = format!("{writes}.pipkin");
        if Guest::on(folder.path(), Medium::Dies(writes)).try_tape(&name, ENTROPY).is_some() {
            continue;
        }
        deaths += 1;
        let db = Db::open(folder.path().join(&name)).unwrap();
        let native = pipkin_tape::digest(&db).unwrap();
        assert!(prefixes.contains(&native), "killed after {writes} writes: {native:?}");
        db.close().unwrap();
        assert_eq!(Guest::new(folder.path()).read(&name).unwrap(), native, "killed after {writes} writes");
    }
    assert!(deaths >= 40, "only {deaths} instances died");
}

#[test]
fn every_golden_file_opens_in_the_guest() {
    let golden = golden_files();
    assert!(!golden.is_empty());
    let folder = tempfile::tempdir().unwrap();
    for source in golden {
        let copy = folder.path().join(source.file_name().unwrap());
        fs::copy(&source, &copy).unwrap();
        let name = copy.file_name().unwrap().to_str().unwrap();

        let digest = Guest::new(folder.path()).read(name).unwrap();
        assert_eq!(fs::read(&source).unwrap(), fs::read(&copy).unwrap(), "reading changed {name}");
        assert_eq!(digest, Tape::SMALL.expected(), "{name}");

        Guest::new(folder.path()).put(name, ENTROPY, b"written by the guest", 10).unwrap();
        let db = Db::open(&copy).unwrap();
        assert_eq!(db.get("written by the guest").unwrap(), Some(vec![0x70; 10]));
        assert_eq!(pipkin_tape::digest(&db).unwrap().records, digest.records + 1);
    }
}

#[test]
fn bad_paths_are_answered_in_words() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    fs::write(folder.path().join("text"), "this is not a store").unwrap();
    let mut guest = Guest::new(folder.path());
    for (path, words) in [("missing", "there is no store"), ("folder", "is a directory"), ("text", "not a pipkin store")] {
        let error = guest.read(path).unwrap_err();
        assert!(error.contains(words), "{path}: {error}");
    }
    assert_eq!(fs::read(folder.path().join("text")).unwrap(), b"this is not a store");
}

#[test]
fn the_component_imports_nothing_but_files() {
    let imports = imports();
    let allowed = ["wasi:filesystem/", "wasi:io/", "wasi:clocks/wall-clock", "wasi:random/random"];
    assert!(imports.iter().any(|name| name.starts_with("wasi:filesystem/types")), "{imports:?}");
    assert!(imports.iter().all(|name| allowed.iter().any(|prefix| name.starts_with(prefix))), "{imports:?}");
}

fn golden_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "pipkin")).collect()
}
