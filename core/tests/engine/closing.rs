//! Closing beside writers, and at a full medium.
#![cfg(feature = "testing")]
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{killed, opened};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Durability, Error, Storage, StorageError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};

/// What a writer was told before it learned that the store is closed is there afterwards.
#[test]
fn a_close_beside_writers_keeps_whatever_they_were_told() {
    const WRITERS: u32 = 4;
    let mut told = 0;
    for round in 0..40_u64 {
        let storage = MemoryStorage::new();
        let db = opened(storage.clone(), 64 * 1024);
        let start = Barrier::new(WRITERS as usize + 1);
        let write = |writer: u32| {
            start.wait();
            for count in 0_u32.. {
                let key = [writer.to_le_bytes(), count.to_le_bytes()].concat();
                let flush = || if writer.is_multiple_of(2) { db.flush().map(drop) } else { Ok(()) };
                match db.insert(key, b"acknowledged").and_then(|()| flush()) {
                    Ok(()) => {}
                    Err(Error::Closed) => return count,
                    Err(error) => panic!("{error}"),
                }
            }
            u32::MAX
        };
        let counts: Vec<u32> = std::thread::scope(|scope| {
            let write = &write;
            let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
            start.wait();
            std::thread::sleep(std::time::Duration::from_micros(round * 50));
            db.clone().close().unwrap();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        drop(db);
        let db = opened(storage.clone(), 64 * 1024);
        assert!(db.open_report().clean);
        for (writer, &count) in (0..WRITERS).zip(&counts) {
            for count in 0..count {
                let key = [writer.to_le_bytes(), count.to_le_bytes()].concat();
                assert!(db.contains_key(key).unwrap(), "round {round}: record {count} of writer {writer} of {counts:?}");
            }
            told += count;
        }
    }
    assert!(told > 1000, "{told} records");
}

/// A power cut took the trailer of a segment and left the header of the next one, which is enough to find it. A session went on behind that
/// and closed the store; from then on `verify` called the missing trailer damage. Seen in the suite of power cuts, under XFS.
#[test]
fn a_trailer_that_a_power_cut_took_is_written_again_before_the_store_is_closed() {
    const SEGMENT: usize = 4096;
    const TRAILER: usize = 31;
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        Db::builder().path(folder.path().join(name)).segment_size(SEGMENT as u32).background(false).mmap(false).open()
    };
    let db = open("a.pipkin").unwrap();
    for number in 0..20_u8 {
        db.insert([number], [number; 900]).unwrap();
    }
    // As a killed process leaves it; nothing of it was synced.
    let bytes = std::fs::read(folder.path().join("a.pipkin")).unwrap();
    let trailers: Vec<usize> = (1..=4).map(|segment| 16 * 1024 + segment * SEGMENT - TRAILER).collect();
    for at in trailers {
        let mut bytes = bytes.clone();
        assert!(bytes[at..at + TRAILER].iter().any(|byte| *byte != 0), "there is no trailer at {at}");
        bytes[at..at + TRAILER].fill(0);
        let name = format!("{at}.pipkin");
        std::fs::write(folder.path().join(&name), &bytes).unwrap();
        let db = open(&name).unwrap();
        assert!(db.verify().unwrap().is_ok(), "a crash is no damage");
        assert_eq!(db.len().unwrap(), 20);
        db.insert("behind", "the cut").unwrap();
        db.flush().unwrap();
        assert!(db.verify().unwrap().is_ok(), "settled");
        db.close().unwrap();
        let db = open(&name).unwrap();
        let report = db.verify().unwrap();
        assert!(report.is_ok(), "{:?}", report.damage);
        assert_eq!(db.len().unwrap(), 21);
    }
}

/// Stores this many records, removes a third of them and compacts.
#[cfg(target_os = "linux")]
fn fill_and_compact(db: &Db, records: u32) {
    for number in 0..records {
        db.insert(number.to_le_bytes(), [1; 170]).unwrap();
    }
    for number in (0..records).step_by(3) {
        db.remove(number.to_le_bytes()).unwrap();
    }
    db.compact().unwrap();
}

/// A compacted store of 606,000 records took 121.1 MB of disk when closed, 3.6 MB more than its records and their index: the last segment of
/// the log stood in front of the snapshot, where nothing cuts its unused end off.
#[cfg(target_os = "linux")]
#[test]
fn a_closed_store_keeps_no_blocks_behind_the_ends_of_log_and_snapshot() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut most = 0;
    // Where log and snapshot end depends on how much there is.
    for records in [50_000_u32, 100_000, 150_000, 200_000] {
        let db = Db::open(&path).unwrap();
        fill_and_compact(&db, records);
        let stats = db.stats().unwrap();
        db.close().unwrap();
        let used = std::fs::metadata(&path).unwrap().blocks() * 512;
        // The snapshot takes less than 8 bytes a record.
        let rest = used.saturating_sub(stats.live_bytes + stats.dead_bytes + 8 * stats.records);
        println!("{records} records: {used} bytes of disk, {rest} of them for nothing");
        most = most.max(rest);
        std::fs::remove_file(&path).unwrap();
    }
    assert!(most < 1 << 20, "{most} bytes");
}

/// The log continues where closing gave the blocks back, and the process is killed there.
#[cfg(target_os = "linux")]
#[test]
fn a_session_that_is_killed_in_blocks_that_closing_gave_back_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("store"), directory.path().join("copy"));
    for records in [50_000_u32, 100_000] {
        let db = Db::open(&path).unwrap();
        fill_and_compact(&db, records);
        let mut expected = db.len().unwrap();
        db.close().unwrap();
        for session in 0..3_u32 {
            let db = Db::open(&path).unwrap();
            for number in 0..10 {
                db.insert([session, number, 7].map(u32::to_le_bytes).concat(), [2; 5000]).unwrap();
            }
            expected += 10;
            db.flush().unwrap();
            // What a killed process leaves.
            std::fs::copy(&path, &copy).unwrap();
            let killed = Db::open(&copy).unwrap();
            assert_eq!(killed.len().unwrap(), expected);
            assert!(killed.verify().unwrap().is_ok());
            killed.close().unwrap();
            std::fs::remove_file(&copy).unwrap();
            db.close().unwrap();
        }
        std::fs::remove_file(&path).unwrap();
    }
}

/// Knows where was written, in the order of the writes.
#[derive(Clone, Default)]
struct Written {
    inner: MemoryStorage,
    offsets: Arc<Mutex<Vec<u64>>>,
}

impl Written {
    /// The superblocks that were written since the last call, by their slots.
    fn slots(&self) -> Vec<u64> {
        std::mem::take(&mut *self.offsets.lock().unwrap()).into_iter().filter(|&offset| offset < 16_384).collect()
    }
}

impl Storage for Written {
    fn len(&self) -> Result<u64, StorageError> {
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.inner.set_len(len)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.inner.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.offsets.lock().unwrap().push(offset);
        self.inner.write_at(offset, parts)
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.inner.sync()
    }
    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.inner.reserve(offset, len)
    }
}

/// A sync of the session that died may have failed: its superblock, which the medium may not have, is written again before another one
/// counts on it. One that a closed store has left is on the medium or says less than the other.
#[test]
fn after_an_unclean_end_the_superblock_is_written_again_before_the_next_one() {
    let storage = Written::default();
    let db = opened(storage.clone(), 4096);
    db.insert("a", "1").unwrap();
    let first = storage.slots();
    killed(db);
    let db = opened(storage.clone(), 4096);
    assert!(storage.slots().is_empty(), "opening writes nothing");
    db.insert("b", "2").unwrap();
    let last = *first.last().unwrap();
    assert_eq!(storage.slots(), [last, 4096 - last]);
    db.close().unwrap();
    let closed = *storage.slots().last().unwrap();
    let db = opened(storage.clone(), 4096);
    db.insert("c", "3").unwrap();
    assert_eq!(storage.slots(), [closed], "in the place of the one that says that the store is closed");
    db.insert("d", "4").unwrap();
    assert!(storage.slots().is_empty());
}

/// A thread that compacted until the store was closed took the maintenance lock again each time before the close got it: closing took minutes,
/// and writers made the file a gigabyte long meanwhile.
#[test]
fn a_thread_that_compacts_again_and_again_does_not_keep_a_store_from_closing() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::builder().path(directory.path().join("store")).segment_size(16 * 1024).background(false).open().unwrap();
    let (begun, closing) = (Barrier::new(2), AtomicBool::new(false));
    let pause = || std::thread::sleep(std::time::Duration::from_micros(100));
    let write = || (0_u32..).inspect(|_| pause()).take_while(|n| db.insert((n % 50).to_le_bytes(), [7; 900]).is_ok()).count();
    // Until the store is closed, or, so that this ends without that, until closing has begun 300 compactions ago.
    let compact = || {
        let mut since = 0_u32;
        for number in 0_u32.. {
            if db.compact().is_err() || since == 300 {
                break;
            }
            if number == 10 {
                begun.wait();
            }
            since += u32::from(closing.load(Ordering::SeqCst));
        }
        since
    };
    let since = std::thread::scope(|scope| {
        let compacting = scope.spawn(compact);
        scope.spawn(write);
        begun.wait();
        closing.store(true, Ordering::SeqCst);
        db.clone().close().unwrap();
        compacting.join().unwrap()
    });
    println!("{since} compactions since closing began");
    assert!(since < 100, "{since} compactions before the store was closed");
}
