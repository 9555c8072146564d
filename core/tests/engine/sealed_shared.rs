//! Sealed stores on hosts that cannot lock the file: one session sleeps in front of each of its writes and syncs while another one creates the store, takes it
//! over, or changes who opens it.
#![cfg(all(feature = "encrypt", feature = "testing"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::killed;
use pipkin::storage::fault::FaultStorage;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Builder, Db, Durability, Error, StorageError, Ttl};
use std::sync::{Arc, Mutex};

const KEY: [u8; 32] = [7; 32];
const ADDED: [u8; 32] = [8; 32];
const OTHER: [u8; 32] = [9; 32];

/// Where the copies of the page of keys stand.
const PAGES: [u64; 3] = [1024, 5120, 12_288];

type Meanwhile = Box<dyn FnOnce() + Send>;

/// A file that nobody can lock, as one session has it that sleeps in front of one of its calls.
#[derive(Clone)]
struct Asleep {
    file: MemoryStorage,
    /// Calls until then, and what happens meanwhile.
    at: Arc<Mutex<(usize, Option<Meanwhile>)>>,
}

impl Asleep {
    fn new(file: &MemoryStorage) -> Self {
        Self { file: file.clone(), at: Arc::default() }
    }

    fn sleep(&self, calls: usize, meanwhile: impl FnOnce() + Send + 'static) {
        *self.at.lock().unwrap() = (calls, Some(Box::new(meanwhile)));
    }

    fn has_slept(&self) -> bool {
        self.at.lock().unwrap().1.is_none()
    }

    fn call(&self) {
        let mut at = self.at.lock().unwrap();
        if at.0 > 0 {
            at.0 -= 1;
        } else if let Some(meanwhile) = at.1.take() {
            drop(at);
            meanwhile();
        }
    }
}

impl Storage for Asleep {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.call();
        self.file.set_len(len)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.call();
        self.file.write_at(offset, parts)
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.call();
        self.file.sync()
    }
    fn is_exclusive(&self) -> bool {
        false
    }
}

fn with(key: [u8; 32]) -> Builder {
    Db::builder().encryption_key(key).segment_size(4096).background(false)
}

fn open(file: &MemoryStorage, key: [u8; 32]) -> pipkin::Result<Db> {
    with(key).open_storage(Box::new(Asleep::new(file)))
}

/// Writes a record, flushes it and ends.
fn lives(file: &MemoryStorage, key: [u8; 32], name: &str) {
    let db = open(file, key).unwrap();
    db.insert(name, "value").unwrap();
    db.flush().unwrap();
    killed(db);
}

fn has(file: &MemoryStorage, key: [u8; 32], names: &[&str], what: &str) {
    for is_shared in [true, false] {
        let storage = FaultStorage::new(MemoryStorage::from_vec(file.to_vec()));
        storage.set_shared(is_shared);
        let db =
            with(key).open_storage(Box::new(storage)).unwrap_or_else(|error| panic!("{what}, shared: {is_shared}: {error:?}"));
        for name in names {
            assert!(db.contains_key(name).unwrap(), "{what}: {name}");
        }
        // A copy of the page of keys that came late, or is not there yet, is mended by the next session that writes, and where the file is locked by opening.
        let damage = db.verify().unwrap().damage;
        // So is a superblock of another store that was created at the same time.
        let within = |places: &[u64]| damage.iter().filter(|damage| places.contains(&damage.offset)).count();
        let (pages, slots) = (within(&PAGES), within(&[0, 4096]));
        assert!(pages < PAGES.len() && slots < 2 && pages + slots == damage.len(), "{what}: {damage:?}");
        assert!(is_shared || damage.is_empty(), "{what}: {damage:?}");
    }
}

/// Of two that create a store in one file, each with a key of its own or both with one, one has created it: whoever has the key of that one has what was
/// flushed there, and the other is told.
#[test]
fn of_two_sessions_that_create_a_store_at_once_one_does_and_the_other_is_told() {
    for sleepers_key in [KEY, OTHER] {
        for at in 0.. {
            let file = MemoryStorage::new();
            let seat = Asleep::new(&file);
            let lived: Arc<Mutex<bool>> = Arc::default();
            let (others, have_lived) = (file.clone(), lived.clone());
            seat.sleep(at, move || match open(&others, KEY).map(drop) {
                Ok(()) => {
                    lives(&others, KEY, "of the others");
                    *have_lived.lock().unwrap() = true;
                }
                // The page of the sleeper's keys is there: the store is that one's.
                Err(Error::WrongKey) => {}
                Err(error) => panic!("the others were told {error:?}"),
            });
            let opened = with(sleepers_key).open_storage(Box::new(seat.clone()));
            if !seat.has_slept() {
                break;
            }
            let what = format!("asleep in front of call {at}, the same key: {}", sleepers_key == KEY);
            let have_lived = *lived.lock().unwrap();
            match opened {
                Ok(db) if !have_lived => {
                    assert!(sleepers_key != KEY, "{what}");
                    db.insert("of the sleeper", "value").unwrap();
                    db.flush().unwrap();
                    killed(db);
                    has(&file, OTHER, &["of the sleeper"], &what);
                }
                Ok(db) if sleepers_key == KEY => {
                    assert!(db.contains_key("of the others").unwrap(), "{what}");
                    db.insert("of the sleeper", "value").unwrap();
                    db.flush().unwrap();
                    killed(db);
                    has(&file, KEY, &["of the others", "of the sleeper"], &what);
                }
                Err(Error::WrongKey) if sleepers_key != KEY && have_lived => has(&file, KEY, &["of the others"], &what),
                opened => panic!("{what}: {:?}", opened.map(drop)),
            }
        }
    }
}

/// A creation that has ended anywhere is taken up by the next session, however many have ended like it.
#[test]
fn creations_that_end_anywhere_leave_a_file_in_which_the_next_one_creates_its_store() {
    for at in 0.. {
        let file = MemoryStorage::new();
        let seat = Asleep::new(&file);
        let left: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (others, here) = (file.clone(), left.clone());
        seat.sleep(at, move || *here.lock().unwrap() = others.to_vec());
        drop(with(OTHER).open_storage(Box::new(seat.clone())));
        if !seat.has_slept() {
            break;
        }
        let file = MemoryStorage::from_vec(left.lock().unwrap().clone());
        let what = format!("ended in front of call {at}");
        match open(&file, KEY) {
            Ok(db) => {
                db.insert("color", "green").unwrap();
                db.flush().unwrap();
                killed(db);
                has(&file, KEY, &["color"], &what);
            }
            // There is a store already, and its page of keys is whole.
            Err(Error::WrongKey) => has(&file, OTHER, &[], &what),
            Err(error) => panic!("{what}: {error:?}"),
        }
    }
}

/// Who opens the store is changed by one session while another one takes it over, and changes it, too: what was acknowledged holds, and the store opens.
#[test]
fn a_change_of_the_keys_that_is_overtaken_leaves_those_of_who_has_overtaken_it() {
    let (mut done, mut fenced) = (0, 0);
    for at in 0.. {
        let file = MemoryStorage::new();
        lives(&file, KEY, "first");
        let seat = Asleep::new(&file);
        let db = with(KEY).open_storage(Box::new(seat.clone())).unwrap();
        db.insert("second", "value").unwrap();
        db.flush().unwrap();
        let others = file.clone();
        seat.sleep(at, move || {
            let db = open(&others, KEY).unwrap();
            db.add_encryption_key(OTHER).unwrap();
            db.insert("third", "value").unwrap();
            db.flush().unwrap();
            killed(db);
        });
        let added = db.add_encryption_key(ADDED);
        if !seat.has_slept() {
            break;
        }
        killed(db);
        let what = format!("asleep in front of call {at}: {added:?}");
        for key in [KEY, OTHER] {
            has(&file, key, &["first", "second", "third"], &what);
        }
        match added {
            // It had named its page in both superblocks.
            Ok(_) => {
                has(&file, ADDED, &["first", "second", "third"], &what);
                done += 1;
            }
            Err(Error::Fenced) => fenced += 1,
            Err(error) => panic!("{what}: {error:?}"),
        }
        // What a change has left of its page is no page of keys of this store.
        lives(&file, OTHER, "fourth");
        has(&file, KEY, &["first", "second", "third", "fourth"], &what);
    }
    assert!(fenced > 3 && done > 0, "{fenced} were told, {done} were done");
}

/// A data key comes and goes only where the file is locked: the superblock of an overtaken session, which arrives late, would be under a key that nobody has.
#[test]
fn a_rotation_and_the_sealing_of_a_plain_store_are_refused_and_change_nothing() {
    let file = MemoryStorage::new();
    lives(&file, KEY, "color");
    let db = open(&file, KEY).unwrap();
    let before = file.to_vec();
    assert!(matches!(db.rotate_encryption_key(OTHER), Err(Error::InvalidArgument(words)) if words.contains("lock")));
    assert!(db.finish_key_rotation(|_| {}).unwrap().is_finished);
    assert_eq!(file.to_vec(), before);
    let plain = MemoryStorage::new();
    let db = Db::builder().background(false).open_storage(Box::new(Asleep::new(&plain))).unwrap();
    assert!(matches!(db.enable_encryption(KEY), Err(Error::InvalidArgument(words)) if words.contains("lock")));
    // One that has begun elsewhere stays as it is, and is finished where it began.
    let file = MemoryStorage::new();
    let db = with(KEY).open_storage(Box::new(file.clone())).unwrap();
    db.insert("color", "green").unwrap();
    db.checkpoint().unwrap();
    let held = db.snapshot();
    db.insert("color", "red").unwrap();
    assert!(!db.rotate_encryption_key(OTHER).unwrap().is_finished);
    drop(held);
    killed(db);
    let db = open(&file, OTHER).unwrap();
    assert!(db.key_rotation_pending());
    assert!(matches!(db.finish_key_rotation(|_| {}), Err(Error::InvalidArgument(_))));
    db.insert("size", "large").unwrap();
    db.flush().unwrap();
    killed(db);
    let db = with(OTHER).open_storage(Box::new(file)).unwrap();
    assert!(db.finish_key_rotation(|_| {}).unwrap().is_finished);
    assert_eq!((db.get("color").unwrap(), db.get("size").unwrap()), (Some(b"red".to_vec()), Some(b"large".to_vec())));
}

/// An anchor that one session has given out is kept by the next one, and noticed to be missing in a file that was set back between the two.
#[test]
fn an_anchor_holds_across_sessions_that_take_the_store_over_from_each_other() {
    let file = MemoryStorage::new();
    lives(&file, KEY, "first");
    let earlier = MemoryStorage::from_vec(file.to_vec());
    let one = open(&file, KEY).unwrap();
    one.insert("second", "value").unwrap();
    let anchor = one.anchor().unwrap();
    lives(&file, KEY, "third");
    assert!(matches!(one.insert("fourth", "value").and_then(|_| one.flush()), Err(Error::Fenced)));
    let since = |file: &MemoryStorage| with(KEY).not_before(anchor).open_storage(Box::new(Asleep::new(file))).map(drop);
    since(&file).unwrap();
    assert!(matches!(since(&earlier), Err(Error::OlderThanAnchor)));
}

/// What a session writes late is behind what counts: nobody who opens the closed store takes it for one that was set back, and whoever sets it back is found
/// out.
#[test]
fn a_header_that_comes_late_is_not_taken_for_a_store_that_was_set_back() {
    // Who changes the keys and closes has begun no segment: the late header has the higher number.
    for others_write in [true, false] {
        let mut late = Vec::new();
        while let Some(came_late) = comes_late(late.len(), others_write) {
            late.push(came_late);
        }
        let count = late.iter().filter(|&&came_late| came_late).count();
        assert!(count > 3, "{count} writes came late");
    }
}

/// Sleeps in front of call `at`: whether a write came late. `None` beyond the last call.
fn comes_late(at: usize, others_write: bool) -> Option<bool> {
    let what = format!("asleep in front of call {at}, the others write: {others_write}");
    let file = MemoryStorage::new();
    lives(&file, KEY, "first");
    let seat = Asleep::new(&file);
    let db = with(KEY).open_storage(Box::new(seat.clone())).unwrap();
    db.insert_with_ttl("second", "value", Ttl::Never).unwrap();
    db.flush().unwrap();
    let closed: Arc<Mutex<Vec<u8>>> = Arc::default();
    let (others, here) = (file.clone(), closed.clone());
    seat.sleep(at, move || {
        let db = open(&others, KEY).unwrap();
        match others_write {
            true => db.insert("third", "value").map(drop).unwrap(),
            false => db.add_encryption_key(ADDED).map(drop).unwrap(),
        }
        db.close().unwrap();
        *here.lock().unwrap() = others.to_vec();
    });
    // Headers of the log and of an index snapshot.
    let wrote = (0..3_u8).try_for_each(|number| db.insert([number], [number; 3000])).and_then(|()| db.checkpoint());
    if !seat.has_slept() {
        return None;
    }
    killed(db);
    assert!(matches!(wrote, Err(Error::Fenced)), "{what}: {wrote:?}");
    let closed = closed.lock().unwrap().clone();
    let came_late = file.to_vec() != closed;
    let names = if others_write { &["first", "second", "third"][..] } else { &["first", "second"] };
    has(&file, KEY, names, &what);
    lives(&file, KEY, "fourth");
    // The superblocks of the closed store again, before the segments of the session behind it.
    let mut back = file.to_vec();
    back[..16_384].copy_from_slice(&closed[..16_384]);
    let opened = open(&MemoryStorage::from_vec(back), KEY).map(drop);
    assert!(matches!(opened, Err(Error::RolledBack)), "{what}: {opened:?}");
    Some(came_late)
}
