//! The storage over the rings: a ring for each of the threads that read at the same time.

use super::cached::Cached;
use super::direct;
use super::epochs::Epochs;
use super::lane::{Lane, RECORD, STRETCH, What};
use super::lone::Source;
use super::range::{PAGE, pages};
use super::room;
use super::{IoUring, IoUringState};
use crate::storage::native::NativeStorage;
use crate::storage::native::map::Map;
use crate::storage::{Durability, Storage, StorageError};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering};
use std::fs::File;
use std::sync::OnceLock;

/// Most rings of a store. Threads beyond that share them.
const LANES: usize = 16;
/// Announced ranges from this length on are stretches of the file, shorter ones records.
const STRETCH_LEAST: usize = 16 * 1024;
/// Bytes that are read of a record at first, where its length is not known.
const AHEAD: u32 = 512;

struct Rings {
    /// Made by the first announcement of a thread. The first one is made at once, to see whether the system allows it.
    lanes: [OnceLock<Option<Mutex<Lane>>>; LANES],
    /// What the rings read by.
    opened: File,
    /// To ask what the system's cache has.
    map: Map,
    epochs: Epochs,
    /// Bytes to read of a record: as many as long ones have needed lately.
    ahead: AtomicU32,
    options: IoUring,
    /// Tells storages apart.
    number: u64,
}

/// A file that is read through rings.
pub(super) struct RingStorage {
    rings: Rings,
    file: NativeStorage,
}

impl Rings {
    fn new(file: &NativeStorage, options: IoUring) -> Result<(Self, IoUringState), IoUringState> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let len = file.known_len();
        if options.auto
            && let Some(memory) = room::memory().filter(|memory| len <= *memory)
        {
            return Err(IoUringState::FitsMemory { file: len, memory });
        }
        let opened = direct::open(&file.file, &file.path, options.direct).map_err(IoUringState::Refused)?;
        let lane = Lane::new(options, &opened, None)
            .map_err(|error| IoUringState::Refused(format!("the system refuses io_uring: {error}")))?;
        let state = IoUringState::Used { direct: options.direct, registered: lane.is_registered() };
        let mut lanes = [const { OnceLock::new() }; LANES];
        if let Some(first) = lanes.first_mut() {
            *first = OnceLock::from(Some(Mutex::new(lane)));
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let map = Map::new(&file.file, len);
        Ok((Self { lanes, opened, map, epochs: Epochs::new(), ahead: AtomicU32::new(AHEAD), options, number }, state))
    }

    /// The ring of this thread, if it has one.
    fn lane(&self) -> Option<&Mutex<Lane>> {
        self.lanes.get(turn())?.get()?.as_ref()
    }

    /// The ring of this thread, which is made if there is none.
    fn lane_for(&self) -> Option<&Mutex<Lane>> {
        let make = || {
            let first = self.lanes.first()?.get()?.as_ref().map(|first| first.lock().descriptor());
            Lane::new(self.options, &self.opened, first).ok().map(Mutex::new)
        };
        self.lanes.get(turn())?.get_or_init(make).as_ref()
    }

    /// Fills the front of `out`, and returns how much of it: all, unless the system refuses something.
    fn read(&self, file: &File, offset: u64, out: &mut [u8]) -> usize {
        let announced = self.lane().map_or(0, |lane| lane.lock().take(offset, out, &self.epochs));
        let (mut done, wanted) = (announced, out.len());
        let ahead = self.ahead.load(Ordering::Relaxed);
        let mut fill = |how: &mut dyn FnMut(u64, &mut [u8]) -> usize| {
            if let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
                done += how(offset + done as u64, rest);
            }
        };
        if self.options.direct {
            let source = Source { storage: self.number, direct: &self.opened, epochs: &self.epochs };
            fill(&mut |offset, rest| source.take_last(offset, rest));
            fill(&mut |offset, rest| Cached { file, map: &self.map }.read(u64::MAX, offset, rest));
            fill(&mut |offset, rest| {
                let is_rest = rest.len() < wanted;
                if is_rest && wanted < STRETCH_LEAST {
                    // A record was longer than what had been asked for of it: its first bytes were read before these.
                    self.ahead.fetch_max((AHEAD + wanted as u32).min(RECORD as u32), Ordering::Relaxed);
                }
                source.read(offset, rest, if is_rest { 0 } else { ahead.into() })
            });
        }
        done
    }

    fn announce(&self, file: &File, file_len: u64, offsets: &[u64], len: usize) -> bool {
        let Some(lane) = self.lane_for() else { return false };
        let inside = |offset: &u64| *offset < file_len;
        let cached = (Cached { file, map: &self.map }, file_len);
        let mut lane = lane.lock();
        if len >= STRETCH_LEAST {
            let len = len as u64;
            // At the same borders each time, so that what is announced again is recognised.
            let stretches = offsets.iter().filter(|offset| inside(offset)).flat_map(|&offset| {
                let end = file_len.min(offset.saturating_add(len)).div_ceil(STRETCH);
                (offset / STRETCH..end)
                    .map(|part| (part * STRETCH, STRETCH.min(file_len.next_multiple_of(PAGE) - part * STRETCH)))
            });
            return lane.announce(What::Stretches, stretches, cached, &self.epochs);
        }
        let ahead = self.ahead.load(Ordering::Relaxed);
        if ahead > AHEAD {
            self.ahead.fetch_sub((ahead - AHEAD).div_ceil(64), Ordering::Relaxed);
        }
        let record = |&offset: &u64| {
            let (from, len) = pages(offset, u64::from(ahead).max(len as u64));
            (from, len.min(RECORD))
        };
        lane.announce(What::Records, offsets.iter().filter(|offset| inside(offset)).map(record), cached, &self.epochs)
    }
}

impl RingStorage {
    /// The file, read through rings, or as it is, and which of the two.
    pub(super) fn over(file: NativeStorage, options: IoUring) -> (Box<dyn Storage>, IoUringState) {
        match Rings::new(&file, options) {
            Ok((rings, state)) => (Box::new(Self { rings, file }), state),
            Err(state) => (Box::new(file), state),
        }
    }
}

/// Which ring a thread uses.
fn turn() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static TURN: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    TURN.try_with(|turn| turn % LANES).unwrap_or(0)
}

impl Storage for RingStorage {
    #[cfg(feature = "encrypt")]
    fn key_cell(&self) -> Option<&crate::seal::KeyCell> {
        self.file.key_cell()
    }

    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        let result = self.file.set_len(len);
        self.rings.epochs.all_written();
        result
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let is_inside = offset.checked_add(out.len() as u64).is_some_and(|end| end <= self.file.known_len());
        // In a forked child the rings are the parent's.
        if !is_inside || self.file.is_forked() {
            return self.file.read_at(offset, out);
        }
        let done = self.rings.read(&self.file.file, offset, out);
        match out.get_mut(done..) {
            Some(rest) if !rest.is_empty() => self.file.read_at(offset + done as u64, rest),
            _ => Ok(()),
        }
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let result = self.file.write_at(offset, parts);
        self.rings.epochs.written(offset, parts.iter().map(|part| part.len() as u64).sum());
        result
    }

    /// Reads through the system's cache: after a failed sync, the medium may have older bytes.
    fn rewrite(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let result = self.file.rewrite(offset, len);
        self.rings.epochs.written(offset, len);
        result
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.file.sync()
    }

    unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
        // SAFETY: the caller's promise is handed on unchanged. Nothing of this storage writes to the range; what reads pages beside it through
        // the system's cache or past it is the kernel, which is coherent with the map.
        let stored = unsafe { self.file.store(offset, parts) };
        self.rings.epochs.written(offset, parts.iter().map(|part| part.len() as u64).sum());
        stored
    }

    fn will_read(&self, offsets: &[u64], len: usize) -> bool {
        len > 0 && !self.file.is_forked() && self.rings.announce(&self.file.file, self.file.known_len(), offsets, len)
    }

    #[cfg(feature = "async")]
    fn is_at_hand(&self, offset: u64, len: usize) -> bool {
        let (cached, len) = (Cached { file: &self.file.file, map: &self.rings.map }, len as u64);
        offset.checked_add(len).is_some_and(|end| end <= self.file.known_len()) && cached.has(offset, len)
    }

    fn will_sync(&self, offset: u64, len: u64) {
        self.file.will_sync(offset, len);
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let result = self.file.reserve(offset, len);
        self.rings.epochs.written(offset, len);
        result
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.file.discard(offset, len)
    }

    fn refresh(&self) -> Result<(), StorageError> {
        self.rings.epochs.all_written();
        self.file.refresh()
    }

    fn claim(&self) -> Result<(), StorageError> {
        let result = self.file.claim();
        self.rings.epochs.all_written();
        result
    }

    fn release(&self) -> Result<(), StorageError> {
        let result = self.file.release();
        self.rings.epochs.all_written();
        result
    }
}
