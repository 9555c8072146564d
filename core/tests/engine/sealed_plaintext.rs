//! No plaintext in the file of a sealed store, at no moment: random histories with unmistakable words in everything that a user can name or write, and
//! a search of all bytes, freed places included, after each step.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "events", feature = "ordered"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{killed, stride};
use crate::sealed_bytes::bytes;
use pipkin::storage::MemoryStorage;
use pipkin::storage::random::Rng;
use pipkin::testing::TestClock;
use pipkin::{Builder, Cipher, Db, Expected, NewEvent};
use std::time::Duration;

const KEY: [u8; 32] = *b"MARKER of a key of 32 bytes here";
/// In every key, value, name, stream, type, tag and payload.
const MARKER: &[u8] = b"MARKER";
const STEPS: usize = 40;

/// A word that nobody takes for another, with the marker in it.
fn word(what: &str, number: u64) -> String {
    format!("MARKER {what} {number}")
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = [0, 5, 90, 700, 5000, 70_000][rng.below(6) as usize];
    word("value", rng.below(1000)).into_bytes().into_iter().cycle().take(len + 20).collect()
}

/// Fails if the marker, or a part of a value or key that is as long, stands anywhere in the file.
fn search(file: &MemoryStorage, what: &str) {
    let bytes = bytes(file);
    for text in [MARKER, &MARKER[1..], b"value 1", b"of a key"] {
        let place = bytes.windows(text.len()).position(|window| window == text);
        assert_eq!(place, None, "{what}: {:?}", String::from_utf8_lossy(text));
    }
}

struct History {
    rng: Rng,
    file: MemoryStorage,
    clock: TestClock,
    cipher: Cipher,
}

impl History {
    fn builder(&self) -> Builder {
        Db::builder()
            .encryption_key(KEY)
            .cipher(self.cipher)
            .segment_size(4096)
            .ordered(true)
            .clock(self.clock.clone())
            .background(false)
    }

    fn open(&self) -> Db {
        self.builder().open_storage(Box::new(self.file.clone())).unwrap()
    }

    /// One step of a session; its name.
    fn step(&mut self, db: &Db) -> &'static str {
        let rng = &mut self.rng;
        let space = db.namespace(word("namespace", rng.below(3)).as_str()).unwrap();
        let key = word("key", rng.below(25));
        match rng.below(16) {
            0..=4 => {
                space.insert(&key, value(rng)).unwrap();
                "a put"
            }
            5 => {
                space.remove(&key).unwrap();
                "a removal"
            }
            6 => {
                space.insert_with_ttl(&key, value(rng), Duration::from_secs(rng.below(90))).unwrap();
                self.clock.advance(Duration::from_secs(30));
                "an expiring record"
            }
            7 => {
                let (one, two) = (value(rng), value(rng));
                db.transaction(|tx| {
                    tx.insert(&key, &one)?;
                    tx.insert(word("of a transaction", 1), &two)
                })
                .unwrap();
                "a transaction"
            }
            8 | 9 => {
                let log = db.events(&word("log", 1)).unwrap();
                let event = NewEvent::new(word("type", rng.below(3)), value(rng)).tag(word("tag", rng.below(3)));
                log.append(&word("stream", rng.below(4)), Expected::Any, [event]).unwrap();
                "an event"
            }
            10 => {
                let log = db.events(&word("log", 1)).unwrap();
                let mut cursor = log.all().cursor(word("cursor", rng.below(2))).unwrap();
                if let Some(event) = cursor.try_next().unwrap() {
                    cursor.ack(event.number()).unwrap();
                }
                "a cursor"
            }
            11 => {
                let mut consumer = db.consumer(word("consumer", 1)).start().unwrap();
                while consumer.try_next().unwrap().is_some() {}
                consumer.ack(consumer.position()).unwrap();
                "a consumer"
            }
            12 => {
                db.compact().unwrap();
                "a compaction"
            }
            13 => {
                db.checkpoint().unwrap();
                "a checkpoint"
            }
            14 => {
                db.sweep_expired().unwrap();
                db.drop_namespace(&word("namespace", 2)).unwrap();
                "a sweep and a dropped namespace"
            }
            _ => {
                let copy = MemoryStorage::new();
                db.backup_to_storage(&copy).unwrap();
                search(&copy, "a backup");
                "a backup"
            }
        }
    }
}

#[test]
fn no_word_of_a_random_history_stands_in_the_file_after_any_step() {
    for seed in (0..6).step_by(stride(3)) {
        let cipher = [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305][seed as usize % 2];
        let (rng, file, clock) = (Rng::new(seed), MemoryStorage::new(), TestClock::new(1_000_000));
        let mut history = History { rng, file, clock, cipher };
        let mut done = std::collections::BTreeSet::new();
        for session in 0..5 {
            let db = history.open();
            search(&history.file, "opening");
            for step in 0..STEPS {
                let what = history.step(&db);
                done.insert(what);
                search(&history.file, &format!("seed {seed}, session {session}, step {step}: {what}"));
            }
            match session % 3 {
                0 => db.close().unwrap(),
                1 => {
                    db.flush().unwrap();
                    killed(db);
                }
                _ => killed(db),
            }
            search(&history.file, &format!("seed {seed}, session {session}: its end"));
        }
        assert!(done.len() >= 9, "{done:?}");
        // All of it is there all the same.
        let db = history.open();
        assert!(db.list_namespaces().iter().any(|name| name.starts_with("MARKER")));
        assert!(db.events(&word("log", 1)).unwrap().all().iter().unwrap().count() > 0);
    }
}

/// The search would find them: a plain store with the same words is full of them.
#[test]
fn the_search_finds_what_a_plain_store_shows() {
    let file = MemoryStorage::new();
    let db = Db::builder().background(false).open_storage(Box::new(file.clone())).unwrap();
    db.insert(word("key", 1), word("value", 1)).unwrap();
    db.flush().unwrap();
    drop(db);
    assert!(std::panic::catch_unwind(|| search(&file, "a plain store")).is_err());
}
