//! A program with the engine in it, sealing: its store is the same one in every hand that has the key.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failed step is a failed test")]

#[path = "support/build.rs"]
mod build;
#[path = "support/program.rs"]
mod program;

use pipkin::{Db, Error};
use program::Program;
use std::path::Path;
use std::sync::LazyLock;

static KEEPER: LazyLock<Program> = LazyLock::new(|| Program::new(&build::sealing_program("keeper")));

const STORE: &str = "s.pipkin";
const SECRET: &[u8] = b"the secret of visit";

/// A visit of the program: how many there were until then, or what it said of its failure.
fn visit(folder: &Path, args: &[&str]) -> Result<u64, String> {
    let said = KEEPER.run_in(folder, args)?;
    Ok(said.strip_suffix(" visits\n").unwrap().parse().unwrap())
}

/// A visit from outside, with a key or without one.
fn native(folder: &Path, key: Option<[u8; 32]>) -> u64 {
    let builder = Db::builder().path(folder.join(STORE));
    let db = match key {
        Some(key) => builder.encryption_key(key),
        None => builder,
    };
    let db = db.open().unwrap();
    let visits = db.len().unwrap();
    let said = |number: u64| format!("the secret of visit {number}");
    assert!(
        (0..visits).all(|number| db.get(number.to_be_bytes()).unwrap().is_some_and(|value| value == said(number).as_bytes()))
    );
    db.insert(visits.to_be_bytes(), said(visits)).unwrap();
    assert!(db.verify().unwrap().is_ok());
    db.close().unwrap();
    visits + 1
}

fn is_readable(folder: &Path) -> bool {
    std::fs::read(folder.join(STORE)).unwrap().windows(SECRET.len()).any(|window| window == SECRET)
}

#[test]
fn what_it_has_sealed_is_read_and_written_outside_of_the_sandbox_and_the_reverse() {
    for begins_inside in [false, true] {
        for how in [&["visit", STORE][..], &["visit", STORE, "shared"]] {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            std::fs::write(folder.join("key"), [7; 32]).unwrap();
            for round in 1..=6 {
                let is_inside = (round % 2 == 1) == begins_inside;
                let visits = if is_inside { visit(folder, how).unwrap() } else { native(folder, Some([7; 32])) };
                assert_eq!(visits, round);
                assert!(!is_readable(folder));
            }
            std::fs::write(folder.join("key"), [8; 32]).unwrap();
            let before = std::fs::read(folder.join(STORE)).unwrap();
            assert!(visit(folder, how).unwrap_err().contains("WrongKey"));
            assert!(visit(folder, &["visit-plain", STORE]).unwrap_err().contains("KeyNeeded"));
            assert_eq!(std::fs::read(folder.join(STORE)).unwrap(), before);
        }
    }
}

#[test]
fn it_seals_its_open_store_changes_the_key_and_makes_the_store_plain_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("key"), [7; 32]).unwrap();
    assert_eq!(native(folder, None), 1);
    assert_eq!(visit(folder, &["visit-plain", STORE]).unwrap(), 2);
    assert!(is_readable(folder));
    assert_eq!(visit(folder, &["enable", STORE]).unwrap(), 3);
    assert!(!is_readable(folder), "sealing leaves nothing of the plain records");
    assert_eq!(native(folder, Some([7; 32])), 4);
    std::fs::write(folder.join("next"), [8; 32]).unwrap();
    assert_eq!(visit(folder, &["rotate", STORE]).unwrap(), 5);
    let old = Db::builder().path(folder.join(STORE)).encryption_key([7; 32]).open();
    assert!(matches!(old, Err(Error::WrongKey)), "{old:?}");
    assert_eq!(native(folder, Some([8; 32])), 6);
    std::fs::rename(folder.join("next"), folder.join("key")).unwrap();
    assert_eq!(visit(folder, &["disable", STORE]).unwrap(), 7);
    assert_eq!(native(folder, None), 8);
    assert_eq!(visit(folder, &["visit-plain", STORE]).unwrap(), 9);
}

/// Where others may write, a change of keys is refused with words, and nothing has changed.
#[test]
fn it_does_not_change_keys_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["key", "next"] {
        std::fs::write(folder.join(name), [7; 32]).unwrap();
    }
    let refused = |verb: &str| visit(folder, &[verb, STORE, "shared"]).unwrap_err();
    assert_eq!(native(folder, None), 1);
    assert!(refused("enable").contains("this host cannot lock the file"));
    assert_eq!(native(folder, None), 2);
    assert_eq!(visit(folder, &["enable", STORE]).unwrap(), 3);
    for verb in ["rotate", "disable"] {
        assert!(refused(verb).contains("this host cannot lock the file"), "{verb}");
    }
    assert_eq!(native(folder, Some([7; 32])), 4);
}
