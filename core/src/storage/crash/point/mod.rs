//! The state of a file at one moment, synced and unsynced apart: what the simulator does to it. `assemble` makes images of it, `random`
//! chooses among them.

mod assemble;
mod random;

pub(super) use assemble::Pick;
use assemble::low;

use super::image::flip_bit;
use super::pages::{Pages, SECTOR_LEN, SECTORS_PER_PAGE};
use crate::storage::StorageError;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

/// A call since the last sync that the medium may have kept, lost, or kept in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PendingOp {
    /// A `write_at` of `len` bytes.
    Write {
        /// Where it began.
        offset: u64,
        /// Bytes of all parts together.
        len: u64,
    },
    /// A `set_len`, or a `reserve` that made the file longer.
    SetLen {
        /// The new length.
        len: u64,
    },
    /// A `discard`.
    Discard {
        /// Where it began.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
}

/// A file at one moment: what is synced, what is not, and every file that a crash could leave of it.
#[derive(Clone, Default)]
pub struct CrashPoint {
    durable: Pages,
    /// What a reader sees: every event applied.
    current: Pages,
    /// What happened to each sector since the last sync, in order.
    sectors: BTreeMap<u64, Vec<Event>>,
    /// Changes of the length since the last sync, in order. Change number 0 is the synced length and not in the list.
    lens: Vec<LenChange>,
    ops: Vec<PendingOp>,
    /// Sectors that a failed sync has marked clean: they read as they were written, and no later sync stores them until they are written
    /// again.
    marked_clean: BTreeSet<u64>,
    /// The bytes of all unsynced writes.
    bytes: Vec<u8>,
    /// The crash interrupted the last operation.
    in_flight: bool,
}

/// One change of one sector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// Index into `ops`.
    op: usize,
    change: Change,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// `len` bytes at `start` of the sector, from `at` of `bytes`.
    Write { start: usize, len: usize, at: usize },
    /// Discarded.
    Discard,
    /// Cut off from byte `from` on by this change of the length; happens only in images with that change.
    Cut { from: usize, len_change: usize },
}

#[derive(Clone, Copy, Debug)]
struct LenChange {
    op: usize,
    len: u64,
}

impl CrashPoint {
    pub(super) fn synced(pages: Pages) -> Self {
        Self { durable: pages.clone(), current: pages, ..Self::default() }
    }

    pub(super) fn len(&self) -> u64 {
        self.current.len()
    }

    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.current.read(offset, out)
    }

    pub(super) fn write(&mut self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let op = self.ops.len();
        let mut end = offset;
        for part in parts {
            self.write_part(op, end, part)?;
            end += part.len() as u64;
        }
        self.ops.push(PendingOp::Write { offset, len: end - offset });
        // `current` has grown with each part; the medium learns of one change per call.
        if end > self.last_len() {
            self.lens.push(LenChange { op, len: end });
        }
        Ok(())
    }

    fn write_part(&mut self, op: usize, offset: u64, part: &[u8]) -> Result<(), StorageError> {
        self.current.write(offset, part)?;
        let at = self.bytes.len();
        self.bytes.extend_from_slice(part);
        let mut done = 0;
        while done < part.len() {
            let place = offset + done as u64;
            let start = (place % SECTOR_LEN as u64) as usize;
            let len = (part.len() - done).min(SECTOR_LEN - start);
            let change = Change::Write { start, len, at: at + done };
            self.sectors.entry(place / SECTOR_LEN as u64).or_default().push(Event { op, change });
            self.marked_clean.remove(&(place / SECTOR_LEN as u64));
            done += len;
        }
        Ok(())
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let op = self.ops.len();
        self.ops.push(PendingOp::SetLen { len });
        self.lens.push(LenChange { op, len });
        if len < self.current.len() {
            let len_change = self.lens.len();
            let first = len / SECTOR_LEN as u64;
            for sector in self.current.stored_sectors(first) {
                let from = if sector == first { (len % SECTOR_LEN as u64) as usize } else { 0 };
                let change = Change::Cut { from, len_change };
                self.sectors.entry(sector).or_default().push(Event { op, change });
            }
        }
        self.current.set_len(len);
    }

    pub(super) fn discard(&mut self, offset: u64, len: u64) {
        let op = self.ops.len();
        self.ops.push(PendingOp::Discard { offset, len });
        for sector in super::whole_sectors(&self.current, offset, len) {
            self.current.zero_sector(sector);
            self.sectors.entry(sector).or_default().push(Event { op, change: Change::Discard });
            // A discard is journalled, as lengths are, so a failed sync does not affect it.
            self.marked_clean.remove(&sector);
        }
    }

    pub(super) fn sync(&mut self) {
        if !self.marked_clean.is_empty() {
            return self.sync_dirty();
        }
        let mut last_page = None;
        for sector in self.sectors.keys() {
            let page = sector / SECTORS_PER_PAGE;
            if last_page != Some(page) {
                self.durable.adopt_page(&self.current, page);
                last_page = Some(page);
            }
        }
        self.durable.set_len(self.current.len());
        self.sectors.clear();
        self.lens.clear();
        self.ops.clear();
        self.bytes.clear();
        self.in_flight = false;
    }

    /// A sync that stores dirty sectors only, none that an earlier failed sync has marked clean.
    fn sync_dirty(&mut self) {
        let (sectors, lens) = (core::mem::take(&mut self.sectors), self.lens.len());
        self.durable.set_len(self.current.len());
        for (sector, mut events) in sectors {
            if sector * SECTOR_LEN as u64 >= self.current.len() {
                continue;
            }
            if !self.marked_clean.contains(&sector) {
                self.durable.put_sector(sector, &self.current.sector(sector));
                continue;
            }
            // The changes of the length are certain now, and so are the cuts that they made.
            let certain = low(&events, lens);
            if certain > 0 {
                self.durable.put_sector(sector, &self.version(sector, &events, certain, lens));
                events.drain(..certain);
            }
            if !events.is_empty() {
                self.sectors.insert(sector, events);
            }
        }
        self.marked_clean = self.sectors.keys().copied().collect();
        self.lens.clear();
        if self.sectors.is_empty() {
            self.ops.clear();
            self.bytes.clear();
        }
        self.in_flight = false;
    }

    /// A failed sync as on Linux: any part of what was written since the last successful one may have reached the medium, and all of it
    /// counts as clean from now on.
    pub(super) fn fail_sync(&mut self) {
        let is_written = |events: &&Vec<Event>| matches!(events.last(), Some(Event { change: Change::Write { .. }, .. }));
        let written = self.sectors.iter().filter(|(_, events)| is_written(events));
        self.marked_clean = written.map(|(sector, _)| *sector).collect();
    }

    pub(super) fn mark_in_flight(&mut self) {
        self.in_flight = true;
    }

    pub(super) fn flip_synced_bit(&mut self, offset: u64, bit: u32) -> bool {
        if !flip_bit(&mut self.durable, offset, bit) {
            return false;
        }
        if !self.sectors.contains_key(&(offset / SECTOR_LEN as u64)) {
            flip_bit(&mut self.current, offset, bit);
        }
        true
    }

    /// The calls since the last sync, in order: what to print when an image breaks the store.
    pub fn pending(&self) -> &[PendingOp] {
        &self.ops
    }

    /// Number of sectors written, discarded or cut off since the last sync.
    pub fn unsynced_sectors(&self) -> usize {
        self.sectors.len()
    }

    /// Number of sectors that a failed sync has marked clean and that have not been written since.
    pub fn marked_clean_sectors(&self) -> usize {
        self.marked_clean.len()
    }

    /// True when no call since the last sync touched the byte at `offset` of the synced file.
    pub fn is_synced(&self, offset: u64) -> bool {
        offset < self.durable.len()
            && self.lens.iter().all(|change| offset < change.len)
            && !self.sectors.contains_key(&(offset / SECTOR_LEN as u64))
    }

    pub(super) fn len_changes(&self) -> usize {
        self.lens.len()
    }

    pub(super) fn len_after(&self, kept: usize) -> u64 {
        match kept.checked_sub(1).and_then(|last| self.lens.get(last)) {
            Some(change) => change.len,
            None => self.durable.len(),
        }
    }

    fn last_len(&self) -> u64 {
        self.len_after(self.lens.len())
    }
}

impl fmt::Debug for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashPoint")
            .field("synced_len", &self.durable.len())
            .field("len", &self.current.len())
            .field("unsynced_sectors", &self.sectors.len())
            .field("pending", &self.ops)
            .field("in_flight", &self.in_flight)
            .finish()
    }
}
