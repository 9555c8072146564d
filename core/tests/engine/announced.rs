//! What the engine announces to a medium before it reads it, and that answers are the same where the medium fetches what it was told.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::random::Rng;
use pipkin::storage::{NativeOptions, NativeStorage, Storage};
use pipkin::{Db, Durability, IndexMemory, StorageError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A mapped file that says of every announcement that it fetches something, and keeps what it was told.
#[derive(Clone)]
struct Fetching {
    file: Arc<NativeStorage>,
    told: Arc<Mutex<Vec<(u64, usize)>>>,
}

impl Fetching {
    fn new(folder: &tempfile::TempDir) -> Self {
        let file = NativeStorage::open(&folder.path().join("fetching.pipkin"), NativeOptions::default()).unwrap();
        Self { file: Arc::new(file), told: Arc::default() }
    }

    fn told(&self) -> Vec<(u64, usize)> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

impl Storage for Fetching {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.file.set_len(len)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.file.write_at(offset, parts)
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.file.sync()
    }
    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { self.file.view(offset, len) }
    }
    fn will_read(&self, offsets: &[u64], len: usize) -> bool {
        self.told.lock().unwrap().extend(offsets.iter().map(|&offset| (offset, len)));
        true
    }
}

fn in_file(storage: Fetching) -> Db {
    let builder = Db::builder().segment_size(64 * 1024).replay_debt_max(200_000).background(false);
    builder.index_memory(IndexMemory::InFile { newer_max: 50_000 }).open_storage(Box::new(storage)).unwrap()
}

#[test]
fn many_keys_have_the_same_answers_from_an_index_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (db, mut rng) = (in_file(Fetching::new(&folder)), Rng::new(7));
    let mut model = BTreeMap::new();
    for round in 0..200_u64 {
        let batch: Vec<(u64, u64)> = (0..300).map(|_| (rng.below(20_000), round)).collect();
        db.insert_many(batch.iter().map(|(key, value)| (key.to_be_bytes(), value.to_be_bytes()))).unwrap();
        model.extend(batch);
        let gone: Vec<u64> = (0..50).map(|_| rng.below(20_000)).collect();
        db.remove_many(gone.iter().map(|key| key.to_be_bytes())).unwrap();
        for key in &gone {
            model.remove(key);
        }
        if round % 40 == 39 {
            db.compact().unwrap();
        }
        let asked: Vec<u64> = (0..500).map(|_| rng.below(21_000)).collect();
        let found = db.get_many(asked.iter().map(|key| key.to_be_bytes())).unwrap();
        for (key, value) in asked.iter().zip(found) {
            let expected = model.get(key).map(|value| value.to_be_bytes().to_vec());
            assert_eq!(value, expected, "key {key} in round {round}");
        }
        assert_eq!(db.len().unwrap(), model.len() as u64, "in round {round}");
    }
}

#[test]
fn many_keys_are_of_one_moment_while_they_are_overwritten_and_their_slots_move_into_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let db = in_file(Fetching::new(&folder));
    let keys: Vec<[u8; 4]> = (0..100_u32).map(u32::to_be_bytes).collect();
    let set = |value: u64| db.insert_many(keys.iter().map(|key| (key, value.to_be_bytes()))).unwrap();
    set(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut before = 0;
            while !done.load(Ordering::Relaxed) {
                let found = db.get_many(&keys).unwrap();
                let values: Vec<u64> =
                    found.into_iter().map(|value| u64::from_be_bytes(value.unwrap().try_into().unwrap())).collect();
                assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
                assert!(values[0] >= before, "{} after {before}", values[0]);
                before = values[0];
            }
        });
        for value in 1..400 {
            set(value);
            match value % 20 {
                0 => db.checkpoint().unwrap(),
                10 => drop(db.compact().unwrap()),
                _ => {}
            }
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn records_are_announced_by_groups_in_their_whole_length() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Fetching::new(&folder);
    let db = in_file(storage.clone());
    let keys: Vec<[u8; 4]> = (0..500_u32).map(u32::to_be_bytes).collect();
    for key in &keys {
        db.insert(key, [1; 3_000]).unwrap();
    }
    db.close().unwrap();
    let db = in_file(storage.clone());
    let get_all = || db.get_many_with(&keys, |_, value| assert_eq!(value.map(<[u8]>::len), Some(3_000))).unwrap();
    // Builds the parts of the index, and tells how long records are.
    get_all();
    storage.told();
    get_all();
    let told = storage.told();
    let of_length = |lens: std::ops::Range<usize>| told.iter().filter(|(_, len)| lens.contains(len)).count();
    assert_eq!(of_length(3_000..4_000), 500, "records");
    // Of a few shards all slots are in memory.
    assert!(of_length(640..641) > 450, "{} groups of slots", of_length(640..641));
}

#[test]
fn a_long_record_is_announced_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Fetching::new(&folder);
    let db = Db::builder().segment_size(1024 * 1024).open_storage(Box::new(storage.clone())).unwrap();
    db.insert("long", vec![1; 100_000]).unwrap();
    db.insert("short", [1; 1_000]).unwrap();
    storage.told();
    assert_eq!(db.get("short").unwrap().map(|value| value.len()), Some(1_000));
    assert_eq!(storage.told(), []);
    assert_eq!(db.get("long").unwrap().map(|value| value.len()), Some(100_000));
    // In pieces, so that a record of any length is announced like the others.
    let told = storage.told();
    let (first, last) = (told[0].0, told[told.len() - 1]);
    assert!(told.len() < 10 && (100_000..100_100 + 16_384).contains(&(last.0 + last.1 as u64 - first)), "{told:?}");
}

/// Each segment is announced when it is read; those that come next also before a sync of copies, which the medium can spend on reading them.
#[test]
fn the_next_segments_of_a_compaction_are_announced_before_a_sync() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Fetching::new(&folder);
    let builder = Db::builder().segment_size(64 * 1024).background(false).auto_compact_dead_share(2.0);
    let db = builder.open_storage(Box::new(storage.clone())).unwrap();
    for key in (0..20_000_u32).chain((0..20_000).step_by(2)) {
        db.insert(key.to_le_bytes(), [7; 100]).unwrap();
    }
    db.checkpoint().unwrap();
    storage.told();
    let retired = db.compact().unwrap().segments_retired;
    let mut announced = BTreeMap::new();
    for (offset, _) in storage.told().into_iter().filter(|(_, len)| *len > 16 * 1024) {
        *announced.entry(offset).or_insert(0) += 1;
    }
    let twice = announced.values().filter(|count| **count > 1).count();
    assert!(retired > 30 && twice > 10, "{twice} of {} segments, {retired} retired", announced.len());
}
