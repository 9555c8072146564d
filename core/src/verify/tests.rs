//! Stores that are damaged although every checksum is right.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use crate::frame::{Header, bind, crc32c};
use crate::log::{Front, read_superblocks};
use crate::snapshot::read_directory;
use crate::storage::MemoryStorage;
use crate::{Db, verify_storage};
use alloc::boxed::Box;
use alloc::vec::Vec;

fn open(storage: &MemoryStorage) -> Db {
    // In the first part of the index is one record, of the default namespace.
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    builder.open_storage(Box::new(storage.clone())).unwrap()
}

/// Recomputes the checksum of the frame at `at`.
fn sign(bytes: &mut [u8], at: usize, salt: u64) {
    let len = Header::decode(&bytes[at..]).unwrap().frame_len();
    let sum = crc32c(&bytes[at + 4..at + len]) ^ bind(salt, at as u64);
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// The bug: `scan` returned a key, `get` did not, and `verify` found no damage.
#[test]
fn a_slot_under_a_wrong_tag_is_damage() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    for key in 0..200_u8 {
        db.insert([key], b"value").unwrap();
    }
    db.remove([7]).unwrap();
    db.drop_namespace("none").unwrap();
    let gone = db.namespace("gone").unwrap();
    gone.insert("a", "b").unwrap();
    db.checkpoint().unwrap();
    db.insert("behind", "it").unwrap();
    db.drop_namespace("gone").unwrap();
    db.close().unwrap();
    let mut bytes = storage.to_vec();
    assert!(verify_storage(&MemoryStorage::from_vec(bytes.clone())).unwrap().is_ok());
    let Front::Store(pair) = read_superblocks(&storage).unwrap() else { return };
    let (current, place) = (pair.current, pair.current.checkpoint.unwrap().directory.unwrap());
    let directory = read_directory(&storage, current.geometry(), current.store_id, place).unwrap();
    let (_, parts) = directory.shards.first().unwrap();
    // Number, kind, one namespace and its count, width and count of the slots, then the first tag.
    let (at, salt) = (parts[0].slots.offset as usize, parts[0].slots.salt);
    let len = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    bytes[at + 8 + 10] ^= 1;
    let sum = crc32c(&bytes[at + 8..at + 8 + len]) ^ bind(salt, at as u64);
    bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
    let storage = MemoryStorage::from_vec(bytes);
    let db = Db::builder().read_only(true).open_storage(Box::new(storage.clone())).unwrap();
    let walked: Vec<_> = db.iter().map(|record| record.unwrap().0).collect();
    let missing = walked.iter().filter(|key| db.get(key).unwrap().is_none()).count();
    // All tags of the part after the first are stored as differences.
    assert!(walked.len() == 200 && (1..10).contains(&missing), "{missing} of {}", walked.len());
    assert!(!verify_storage(&storage).unwrap().is_ok());
    #[cfg(feature = "salvage")]
    {
        let target = Db::open_in_memory().unwrap();
        let report = crate::salvage(&storage, &target, &mut |_, _| {}).unwrap();
        assert_eq!((target.len().unwrap(), report.damage.len()), (200, 1));
    }
}

/// The bug: `open` refused a name record, but `verify` found no damage, so `verify || salvage` never salvaged.
#[test]
fn what_open_refuses_is_damage() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    db.insert("a", "1").unwrap();
    db.namespace("users").unwrap().insert("7", "Ada").unwrap();
    db.close().unwrap();
    let mut bytes = storage.to_vec();
    let name = bytes.windows(5).position(|window| window == b"users").unwrap();
    let salt = u64::from_le_bytes(bytes[16_384..16_392].try_into().unwrap());
    // The number after the name, and the name itself.
    for (at, byte) in [(name + 8, 0xff), (name, 0xff)] {
        let mut bytes = bytes.clone();
        bytes[at..at + 1].fill(byte);
        bytes[name + 5..name + 8].fill(0xff);
        sign(&mut bytes, name - 13, salt);
        let storage = MemoryStorage::from_vec(bytes);
        assert!(Db::builder().open_storage(Box::new(storage.clone())).is_err());
        assert!(!verify_storage(&storage).unwrap().is_ok());
    }
    sign(&mut bytes, name - 13, salt);
    assert_eq!(bytes, storage.to_vec());
}
