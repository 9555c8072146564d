//! Records as they are read from the host's memory, and as copies; and records at the end of the file.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use crate::storage::fault::{Effect, Fault, FaultStorage, Io};
use crate::storage::{MemoryStorage, Storage, StorageError, as_its_file};
use crate::sync::Mutex;
use alloc::boxed::Box;
use alloc::sync::Arc;

fn opened(storage: impl Storage + 'static, is_read_only: bool) -> Db {
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    builder.read_only(is_read_only).open_storage(Box::new(storage)).unwrap()
}

/// Where the record of a key stands, and how long it is.
fn place(db: &Db, key: &[u8]) -> (u64, usize) {
    let engine = &db.store().engine;
    let (pin, hash) = (engine.pin(), engine.full_key(0, key).hash);
    let mut offset = 0;
    let _ = engine.index.find(&pin, hash, |found| {
        offset = found;
        Ok(Some(()))
    });
    (offset, engine.log.header(offset).unwrap().frame_len())
}

/// A file that nobody writes to, and all of which is in memory.
struct Mapped {
    file: MemoryStorage,
    bytes: Vec<u8>,
}

impl Mapped {
    fn new(bytes: &[u8]) -> Self {
        Self { file: MemoryStorage::from_vec(bytes.to_vec()), bytes: bytes.to_vec() }
    }
}

impl Storage for Mapped {
    as_its_file!(len, set_len, read_at, write_at, sync);

    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        self.bytes.get(offset as usize..offset as usize + len)
    }
}

/// A file of a short and of a long record, each of whose values ends with a 9 if it is damaged, and where they stand.
fn file(is_damaged: bool) -> (Vec<u8>, [(u64, usize); 2]) {
    let file = MemoryStorage::new();
    let db = opened(file.clone(), false);
    db.insert("short", "value").unwrap();
    db.insert("long", [5; 500]).unwrap();
    let places = [place(&db, b"short"), place(&db, b"long")];
    for (offset, len) in places.into_iter().filter(|_| is_damaged) {
        file.write_at(offset + len as u64 - 1, &[&[9]]).unwrap();
    }
    core::mem::forget(db);
    (file.to_vec(), places)
}

#[test]
fn a_frame_says_whether_its_bytes_are_the_hosts() {
    let (bytes, [(short, _), (long, _)]) = file(false);
    for is_mapped in [true, false] {
        let db = match is_mapped {
            true => opened(Mapped::new(&bytes), true),
            false => opened(MemoryStorage::from_vec(bytes.clone()), true),
        };
        let log = &db.store().engine.log;
        for (offset, key, value) in [(short, "short", b"value".as_slice()), (long, "long", &[5; 500])] {
            let frame = log.frame(offset).unwrap();
            assert_eq!((frame.is_mapped(), frame.key(), frame.value()), (is_mapped, key.as_bytes(), value));
            assert!(frame.check().is_ok());
            assert_eq!(frame.into_value().into_vec(), value);
        }
    }
}

#[test]
fn a_record_that_nobody_wants_is_verified_before_it_is_passed_over() {
    for is_damaged in [false, true] {
        let (bytes, [(short, _), _]) = file(is_damaged);
        let file = MemoryStorage::from_vec(bytes);
        let db = opened(file, true);
        let log = &db.store().engine.log;
        let is_it = |namespace: u32, key: &[u8]| namespace == 0 && key == b"short";
        assert!(log.frame_if(short, is_it).unwrap().is_some());
        assert_eq!(log.frame_if(short, |_, _| false).is_err(), is_damaged);
    }
}

#[cfg(feature = "ordered")]
#[test]
fn a_plain_record_in_the_hosts_memory_is_read_without_a_frame() {
    for is_damaged in [false, true] {
        let (bytes, [(short, _), (long, _)]) = file(is_damaged);
        let (mut small, mut large) = (b"value".to_vec(), [5; 500].to_vec());
        if is_damaged {
            (small[4], large[499]) = (9, 9);
        }
        let db = opened(Mapped::new(&bytes), true);
        let log = &db.store().engine.log;
        for (offset, key, value) in [(short, b"short".as_slice(), &small), (long, b"long", &large)] {
            assert_eq!(log.plain(offset, false), Some((key, value.as_slice())));
            assert_eq!(log.plain(offset, true), (!is_damaged).then_some((key, value.as_slice())));
            assert_eq!(log.lookup(offset, 0, key, false), Some(value.as_slice()));
            assert_eq!(log.lookup(offset, 0, key, true), (!is_damaged).then_some(value.as_slice()));
            assert_eq!((log.lookup(offset, 1, key, false), log.lookup(offset, 0, b"other", false)), (None, None));
        }
        let db = opened(MemoryStorage::from_vec(bytes), true);
        let log = &db.store().engine.log;
        assert_eq!((log.plain(short, false), log.lookup(short, 0, b"short", false)), (None, None), "nothing is mapped");
    }
}

#[cfg(feature = "ordered")]
#[test]
fn a_record_that_expires_is_no_plain_one() {
    let file = MemoryStorage::new();
    let db = opened(file.clone(), false);
    db.insert_with_ttl("key", "value", core::time::Duration::from_secs(1_000_000)).unwrap();
    let (offset, _) = place(&db, b"key");
    core::mem::forget(db);
    let db = opened(Mapped::new(&file.to_vec()), true);
    let log = &db.store().engine.log;
    assert_eq!((log.plain(offset, false), log.lookup(offset, 0, b"key", false)), (None, None));
}

#[cfg(feature = "events")]
#[test]
fn published_bytes_hold_an_offset_from_the_first_to_the_last_one() {
    let published = Published { from: 10, bytes: &[0; 5] };
    assert_eq!([9, 10, 11, 14, 15, u64::MAX].map(|offset| published.holds(offset)), [false, true, true, true, false, false]);
    assert!(!Published::default().holds(0));
}

#[test]
fn a_record_may_end_with_the_file_and_one_that_the_file_cuts_is_damage() {
    for value_len in [5, 200, 1000] {
        let file = MemoryStorage::new();
        let db = opened(file.clone(), false);
        let log = &db.store().engine.log;
        db.insert("key", alloc::vec![7; value_len]).unwrap();
        let (offset, len) = place(&db, b"key");
        let end = offset + len as u64;
        file.set_len(end).unwrap();
        assert_eq!(log.frame(offset).unwrap().value(), alloc::vec![7; value_len]);
        // In its value, in its header, in front of it.
        for cut in [end - 1, offset + 2, offset, offset - 1, 0] {
            file.set_len(cut).unwrap();
            assert!(matches!(log.frame(offset), Err(Error::Corrupt { offset: at, .. }) if at == offset), "cut at {cut}");
        }
        core::mem::forget(db);
    }
}

/// A file that says once that it is longer than it is.
#[derive(Clone, Default)]
struct Cut {
    file: MemoryStorage,
    told: Arc<Mutex<Option<u64>>>,
}

impl Storage for Cut {
    as_its_file!(set_len, read_at, write_at, sync);
    fn len(&self) -> Result<u64, StorageError> {
        match self.told.lock().take() {
            Some(len) => Ok(len),
            None => self.file.len(),
        }
    }
}

#[test]
fn where_the_file_is_cut_behind_a_record_meanwhile_the_record_is_read_again() {
    let cut = Cut::default();
    let db = opened(cut.clone(), false);
    let log = &db.store().engine.log;
    db.insert("key", "value").unwrap();
    let (offset, len) = place(&db, b"key");
    let end = offset + len as u64;
    cut.file.set_len(end).unwrap();
    for told in [end + 1, end + 50, end + 5000] {
        *cut.told.lock() = Some(told);
        assert_eq!(log.frame(offset).unwrap().value(), b"value", "the file was {told} bytes long");
        assert_eq!(*cut.told.lock(), None);
    }
    core::mem::forget(db);
}

#[test]
fn a_read_that_fails_is_no_damage() {
    let storage = FaultStorage::new(MemoryStorage::new());
    let db = opened(storage.clone(), false);
    let log = &db.store().engine.log;
    db.insert("key", "value").unwrap();
    let (offset, _) = place(&db, b"key");
    for kind in [StorageErrorKind::Other, StorageErrorKind::OutOfRange] {
        storage.arm(Fault::nth(1, Io::Read, Effect::Error(kind)));
        assert!(matches!(log.frame(offset), Err(Error::Storage(error)) if error.kind == kind));
    }
    assert_eq!(log.frame(offset).unwrap().value(), b"value");
}
