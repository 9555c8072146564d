//! Followers of sealed stores: who has the key reads on beside the writer, until that seals everything under another key.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "events", feature = "followers"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Builder, Cipher, Db, Error, Expected, NewEvent};

const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [8; 32];

fn with(key: [u8; 32]) -> Builder {
    Db::builder().encryption_key(key).segment_size(4096).background(false)
}

fn follow(file: &MemoryStorage, key: [u8; 32]) -> pipkin::Result<Db> {
    with(key).follow(true).open_storage(Box::new(file.clone()))
}

#[test]
fn a_follower_reads_on_through_sessions_compactions_and_changes_of_the_keys() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let file = MemoryStorage::new();
        let open = || with(OLD).cipher(cipher).open_storage(Box::new(file.clone())).unwrap();
        let mut db = open();
        let reader = follow(&file, OLD).unwrap();
        for round in 0..12_u8 {
            for key in 0..40_u8 {
                db.insert([key], vec![round; 90]).unwrap();
            }
            db.namespace("the name of a secret").unwrap().insert("round", [round]).unwrap();
            db.events("log").unwrap().append("stream", Expected::Any, [NewEvent::new("type", "x")]).unwrap();
            match round % 6 {
                0 => db.checkpoint().unwrap(),
                1 => drop(db.compact().unwrap()),
                2 => drop(db.add_encryption_key([round; 32]).unwrap()),
                3 => {
                    db.close().unwrap();
                    db = open();
                }
                4 => db.remove_key_slot(1).unwrap(),
                _ => {}
            }
            assert!(reader.refresh().unwrap(), "round {round}");
            assert_eq!(reader.len().unwrap(), 40);
            for key in 0..40_u8 {
                assert_eq!(reader.get([key]).unwrap().as_deref(), Some(&[round; 90][..]), "round {round}");
            }
            let space = reader.find_namespace("the name of a secret").unwrap();
            assert_eq!(space.get("round").unwrap().as_deref(), Some(&[round][..]));
            assert_eq!(reader.events("log").unwrap().version("stream").unwrap(), u64::from(round) + 1);
        }
    }
}

#[test]
fn a_follower_needs_the_key_and_is_told_when_it_is_rotated() {
    let file = MemoryStorage::new();
    assert!(matches!(follow(&file, OLD), Err(Error::NotAStore { .. })), "nothing is created by who follows");
    assert_eq!(file.len().unwrap(), 0);
    let db = with(OLD).open_storage(Box::new(file.clone())).unwrap();
    db.insert("color", "green").unwrap();
    assert!(matches!(follow(&file, NEW), Err(Error::WrongKey)));
    let plain = Db::builder().follow(true).open_storage(Box::new(file.clone()));
    assert!(matches!(plain, Err(Error::KeyNeeded)));
    let reader = follow(&file, OLD).unwrap();
    assert!(db.rotate_encryption_key(NEW).unwrap().is_finished);
    db.insert("color", "blue").unwrap();
    assert!(matches!(reader.refresh(), Err(Error::WrongKey)));
    assert!(matches!(follow(&file, OLD), Err(Error::WrongKey)));
    let reader = follow(&file, NEW).unwrap();
    assert_eq!(reader.get("color").unwrap().as_deref(), Some(&b"blue"[..]));
    db.insert("color", "red").unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.get("color").unwrap().as_deref(), Some(&b"red"[..]));
}

/// Who follows a plain store is told when it is sealed, and reads on with the key, also while it is being sealed.
#[test]
fn a_follower_of_a_plain_store_needs_the_key_once_that_is_sealed() {
    let file = MemoryStorage::new();
    let plain = || Db::builder().segment_size(4096).background(false);
    let db = plain().open_storage(Box::new(file.clone())).unwrap();
    (0..90_u8).try_for_each(|key| db.insert([key], vec![key; 90])).unwrap();
    let reader = plain().follow(true).open_storage(Box::new(file.clone())).unwrap();
    assert_eq!(reader.len().unwrap(), 90);
    let held = db.snapshot();
    (0..60_u8).try_for_each(|key| db.insert([key], vec![key; 80])).unwrap();
    assert!(!db.enable_encryption(NEW).unwrap().is_finished);
    assert!(matches!(reader.refresh(), Err(Error::KeyNeeded)));
    assert!(matches!(plain().follow(true).open_storage(Box::new(file.clone())).map(drop), Err(Error::KeyNeeded)));
    let reader = follow(&file, NEW).unwrap();
    assert!(reader.key_rotation_pending() && reader.len().unwrap() == 90);
    db.insert("color", "green").unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.get("color").unwrap().as_deref(), Some(&b"green"[..]));
    drop(held);
    assert!(db.finish_key_rotation(|_| {}).unwrap().is_finished);
    db.insert("color", "red").unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.get("color").unwrap().as_deref(), Some(&b"red"[..]));
    for key in 0..90_u8 {
        assert!(reader.get([key]).unwrap().is_some_and(|value| value.iter().all(|&byte| byte == key)), "key {key}");
    }
}

/// Who follows a sealed store with its key is told when it becomes plain, from the beginning on, and reads on without a key once it is.
#[test]
fn a_follower_of_a_sealed_store_is_told_when_that_becomes_plain() {
    let file = MemoryStorage::new();
    let plain = || Db::builder().segment_size(4096).background(false);
    let db = plain().encryption_key(OLD).open_storage(Box::new(file.clone())).unwrap();
    (0..90_u8).try_for_each(|key| db.insert([key], vec![key; 90])).unwrap();
    let readers = [(); 2].map(|()| follow(&file, OLD).unwrap());
    let held = db.snapshot();
    (0..60_u8).try_for_each(|key| db.insert([key], vec![key; 80])).unwrap();
    assert!(!db.disable_encryption().unwrap().is_finished);
    assert!(matches!(readers[0].refresh(), Err(Error::DisablingEncryption)));
    assert!(matches!(follow(&file, OLD).map(drop), Err(Error::DisablingEncryption)));
    assert!(matches!(plain().follow(true).open_storage(Box::new(file.clone())).map(drop), Err(Error::KeyNeeded)));
    db.insert("color", "green").unwrap();
    drop(held);
    assert!(db.finish_key_rotation(|_| {}).unwrap().is_finished);
    for reader in &readers {
        assert!(matches!(reader.refresh(), Err(Error::NotSealed)));
        for key in 0..90_u8 {
            match reader.get([key]) {
                Ok(value) => assert!(value.is_some_and(|value| value.iter().all(|&byte| byte == key)), "key {key}"),
                Err(Error::NotSealed | Error::Corrupt { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    assert!(matches!(follow(&file, OLD).map(drop), Err(Error::NotSealed)));
    let reader = plain().follow(true).open_storage(Box::new(file.clone())).unwrap();
    assert_eq!(reader.get("color").unwrap().as_deref(), Some(&b"green"[..]));
    db.insert("color", "red").unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.get("color").unwrap().as_deref(), Some(&b"red"[..]));
}

/// What a follower has not read yet cannot be changed unnoticed either: every bit of it is flipped, and the checksum of the file repaired by nobody.
#[test]
fn a_follower_shows_nothing_that_somebody_has_changed() {
    let file = MemoryStorage::new();
    let db = with(OLD).open_storage(Box::new(file.clone())).unwrap();
    db.insert("color", "green").unwrap();
    let from = file.len().unwrap();
    let reader = follow(&file, OLD).unwrap();
    let before = file.to_vec();
    db.insert("color", "black").unwrap();
    let after = file.to_vec();
    let changed: Vec<(usize, u8)> =
        after.iter().copied().enumerate().filter(|&(at, byte)| before.get(at) != Some(&byte)).collect();
    assert!(changed.len() > 20 && from > 0);
    for (at, byte) in changed {
        file.write_at(at as u64, &[&[byte ^ 1]]).unwrap();
        let shown = reader.refresh().and_then(|_| reader.get("color"));
        match shown {
            Ok(value) => assert_eq!(value.as_deref(), Some(&b"green"[..]), "byte {at}"),
            Err(Error::Corrupt { .. } | Error::Forged { .. } | Error::Diverged) => {}
            Err(error) => panic!("byte {at}: {error:?}"),
        }
        file.write_at(at as u64, &[&[byte]]).unwrap();
    }
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.get("color").unwrap().as_deref(), Some(&b"black"[..]));
}
