//! Index snapshots of sealed stores.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "ordered", feature = "events", feature = "salvage"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::killed;
use crate::sealed_bytes::bytes;
use pipkin::storage::MemoryStorage;
use pipkin::{Cipher, Db, Expected, Namespace, NewEvent, SnapshotState, Ttl, verify_storage};
use std::collections::BTreeMap;
use std::time::Duration;

fn all(space: &Namespace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    space.iter().map(|record| record.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

/// What a store shows: names, records, keys in order, events.
type Everything = (Vec<String>, BTreeMap<Vec<u8>, Vec<u8>>, Vec<Vec<u8>>, u64);

fn everything(db: &Db) -> Everything {
    let mut names = db.list_namespaces();
    names.sort();
    let records = all(db).into_iter().chain(names.iter().flat_map(|name| all(&db.namespace(name).unwrap()))).collect();
    let keys = db.range(..).unwrap().map(|record| record.unwrap().0.to_vec()).collect();
    (names, records, keys, db.events("log").unwrap().version("stream").unwrap())
}

#[test]
fn a_sealed_store_opens_by_its_index_snapshot_on_both_suites_and_keeps_it_through_a_rotation() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let file = MemoryStorage::new();
        let with = |key| Db::builder().encryption_key(key).cipher(cipher).ordered(true).segment_size(64 * 1024).background(false);
        let open = |key| with(key).open_storage(Box::new(file.clone())).unwrap();
        let db = open([7; 32]);
        let text = |number: u32| format!("a secret of some length {number}");
        for number in 0..6000_u32 {
            db.insert(text(number * 7919 % 6000), text(number)).unwrap();
        }
        db.namespace("the name of a secret").unwrap().insert("key", "value").unwrap();
        db.insert_with_ttl("brief", "value", Ttl::After(Duration::from_secs(3600))).unwrap();
        for _ in 0..5 {
            db.events("log").unwrap().append("stream", Expected::Any, [NewEvent::new("type", "x")]).unwrap();
        }
        db.checkpoint().unwrap();
        let now = everything(&db);
        assert_eq!(now.1.len(), 6002);
        db.close().unwrap();
        // In order, unread, through a second checkpoint, a whole one, a crash and a rotation.
        for round in 0..4 {
            let db = open([7; 32]);
            assert_eq!(db.open_report().snapshot, SnapshotState::Loaded, "round {round}");
            assert!(db.open_report().replayed_records < 100, "{:?}", db.open_report());
            match round {
                0 => assert_eq!(everything(&db), now),
                1 => {
                    db.insert("zz", "1").unwrap();
                    db.remove("zz").unwrap();
                    db.checkpoint().unwrap();
                }
                2 => drop(db.compact().unwrap()),
                _ => assert_eq!(everything(&db), now),
            }
            assert!(db.verify().unwrap().is_ok());
            if round == 1 {
                killed(db);
            } else {
                db.close().unwrap();
            }
            assert!(verify_storage(&file).unwrap().is_ok(), "without the key");
        }
        let db = open([7; 32]);
        assert!(db.rotate_encryption_key([8; 32]).unwrap().is_finished);
        assert_eq!(everything(&db), now);
        db.close().unwrap();
        let db = open([8; 32]);
        assert_eq!(db.open_report().snapshot, SnapshotState::Loaded, "behind a rotation");
        assert_eq!(everything(&db), now);
        assert!(db.verify().unwrap().is_ok());
        drop(db);
        let bytes = bytes(&file);
        for text in [&b"secret"[..], b"brief", b"some length"] {
            assert!(!bytes.windows(text.len()).any(|window| window == text), "{text:?}");
        }
    }
}
