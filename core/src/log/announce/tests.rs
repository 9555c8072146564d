//! What is announced to the host, in which pieces, and which segments it is told to write.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use crate::storage::{MemoryStorage, Storage, as_its_file};
use crate::sync::{AtomicBool, Mutex};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The offsets of an announcement, and the length of each range.
type Announced = (Vec<u64>, usize);

/// A file in memory that notes what it is told of reads and of syncs to come.
#[derive(Clone, Default)]
struct Told {
    file: MemoryStorage,
    fetches: Arc<AtomicBool>,
    reads: Arc<Mutex<Vec<Announced>>>,
    syncs: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Storage for Told {
    as_its_file!(len, set_len, read_at, write_at, sync);
    fn will_read(&self, offsets: &[u64], len: usize) -> bool {
        self.reads.lock().push((offsets.to_vec(), len));
        self.fetches.load(Ordering::SeqCst)
    }
    fn will_sync(&self, offset: u64, len: u64) {
        self.syncs.lock().push((offset, len));
    }
}

fn opened(storage: &Told) -> Db {
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    builder.open_storage(Box::new(storage.clone())).unwrap()
}

#[test]
fn a_long_record_is_announced_in_equal_pieces_from_its_front_to_its_end() {
    let storage = Told::default();
    storage.fetches.store(true, Ordering::SeqCst);
    let db = opened(&storage);
    let log = &db.store().engine.log;
    let told = |len: usize| {
        storage.reads.lock().clear();
        log.will_read_long(1000, len);
        let told = core::mem::take(&mut *storage.reads.lock());
        let piece = told[0].1;
        let starts: Vec<u64> = told.iter().flat_map(|(offsets, _)| offsets).copied().collect();
        assert!(starts.iter().zip((1000..).step_by(piece)).all(|(&start, expected)| start == expected));
        assert!(told.iter().all(|&(_, len)| len == piece));
        (piece, told.iter().map(|(offsets, _)| offsets.len()).collect::<Vec<_>>())
    };
    assert_eq!((told(LONG), told(PIECE)), ((LONG, [1].into()), (PIECE, [1].into())));
    assert_eq!((told(PIECE + 1), told(2 * PIECE)), ((8192, [2].into()), (PIECE, [2].into())));
    assert_eq!((told(64 * PIECE), told(65 * PIECE)), ((PIECE, [64].into()), (PIECE, [64, 1].into())));
    let most = told(LONG_MAX);
    assert_eq!((most.0, most.1.iter().sum::<usize>()), (LONG_MAX.div_ceil(1025), 1025));
    assert_eq!(told(LONG_MAX + PIECE), most, "no more than a cache holds");
    // What is in memory at its front is taken to be there as a whole.
    storage.fetches.store(false, Ordering::SeqCst);
    assert_eq!(told(65 * PIECE), (PIECE, [64].into()));
}

#[test]
fn of_records_as_many_bytes_are_announced_as_the_last_one_had() {
    let storage = Told::default();
    let db = opened(&storage);
    let log = &db.store().engine.log;
    let told = || {
        storage.reads.lock().clear();
        log.will_read(&[5, 9]);
        let told = core::mem::take(&mut *storage.reads.lock());
        assert_eq!((told.len(), told[0].0.as_slice()), (1, [5, 9].as_slice()));
        told[0].1
    };
    let after = |len: usize| {
        log.has_read(len);
        told()
    };
    assert_eq!(told(), PREFETCH);
    // Nearly as long is as long.
    assert_eq!([10, 199, 200, 399, 400, 5000, 5199, 5200].map(after), [200, 200, 200, 200, 400, 5000, 5000, 5200]);
    assert_eq!([100_000, PIECE + 1000, 3].map(after), [PIECE, PIECE, PREFETCH]);
}

#[test]
fn segments_that_are_full_and_that_no_sync_has_covered_are_told_once_the_oldest_first() {
    let storage = Told::default();
    let db = opened(&storage);
    let log = &db.store().engine.log;
    let fill = |keys: core::ops::Range<u8>| keys.for_each(|key| db.insert([key], [key; 3000]).unwrap());
    let told = || {
        log.write_behind();
        core::mem::take(&mut *storage.syncs.lock())
    };
    fill(0..3);
    told();
    fill(3..6);
    let segments = log.segments();
    let place = |at: usize| (log.geometry.start(segments[at].extent), 4096);
    assert_eq!((segments.len(), told()), (6, if cfg!(feature = "std") { [2, 3, 4].map(place).into() } else { [].into() }));
    assert_eq!(told(), []);
    // The last one before it is full.
    log.sync_state.start_at(segments[5].next_base(log.geometry));
    fill(6..8);
    let next = log.segments()[6];
    assert_eq!(told(), [(log.geometry.start(next.extent), 4096)], "a sync has covered the one before it");
    assert_eq!(told(), []);
}
