//! The state of a file at one moment, synced and unsynced apart, and the images made from it.

use super::image::{CrashImage, flip_bit};
use super::pages::{Pages, SECTOR_LEN, SECTORS_PER_PAGE, Sector};
use crate::storage::StorageError;
use crate::storage::random::Rng;
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

/// What an image holds in one sector.
#[expect(clippy::large_enum_variant, reason = "at most the eight of a page exist at a time")]
pub(super) enum Pick {
    /// The oldest version possible.
    Lost,
    /// The latest one.
    Kept,
    /// Another one, or a mix.
    Bytes(Sector),
}

impl CrashPoint {
    pub(super) fn synced(pages: Pages) -> Self {
        Self { durable: pages.clone(), current: pages, ..Self::default() }
    }

    // ---- what the simulator does -------------------------------------------------------------------------------------

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

    // ---- what a test asks ----------------------------------------------------------------------------------------------

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

    /// The image in which nothing since the last sync reached the medium.
    pub fn synced_image(&self) -> CrashImage {
        CrashImage::new(self.durable.clone())
    }

    /// The image in which everything reached the medium: what the next process finds when this one ended between two calls and the machine
    /// runs on.
    pub fn latest_image(&self) -> CrashImage {
        CrashImage::new(self.current.clone())
    }

    /// What the next process finds when this one was killed: everything reached the medium, except that of an interrupted write only the
    /// first `bytes` bytes did.
    pub fn killed_image(&self, bytes: u64) -> CrashImage {
        let Some(PendingOp::Write { offset, len }) = self.ops.last().copied().filter(|_| self.in_flight) else {
            return self.latest_image();
        };
        let end = offset + bytes.min(len);
        let last_op = self.ops.len() - 1;
        let before = self.lens.iter().rev().find(|change| change.op != last_op).map_or(self.durable.len(), |change| change.len);
        self.assemble(self.lens.len(), self.len().min(before.max(end)), |point, sector, events| {
            let earlier = events.iter().take_while(|event| event.op != last_op).count();
            if earlier == events.len() {
                return Pick::Kept;
            }
            let landed = end.saturating_sub(sector * SECTOR_LEN as u64).min(SECTOR_LEN as u64) as usize;
            let mut content = point.version(sector, events, earlier, point.lens.len());
            copy_range(&mut content, &point.current.sector(sector), 0, landed);
            Pick::Bytes(content)
        })
    }

    /// Length of the write that the crash interrupted, for [`killed_image`](Self::killed_image).
    pub fn in_flight_len(&self) -> u64 {
        match self.ops.last() {
            Some(PendingOp::Write { len, .. }) if self.in_flight => *len,
            _ => 0,
        }
    }

    /// The image in which only the first `ops` of the [`pending`](Self::pending) calls reached the medium.
    pub fn prefix_image(&self, ops: usize) -> CrashImage {
        let kept = self.lens.iter().take_while(|change| change.op < ops).count();
        self.assemble(kept, self.len_after(kept), |point, sector, events| {
            let versions = events.iter().take_while(|event| event.op < ops).count();
            Pick::Bytes(point.version(sector, events, versions, kept))
        })
    }

    /// One of the images that a power cut could leave: see the [model](super). Images differ in character, from nearly everything
    /// kept to nearly everything lost, in write order or not, with and without torn sectors.
    pub fn random_image(&self, rng: &mut Rng) -> CrashImage {
        let kept = self.random_len_change(rng);
        let len = self.random_len(rng, kept);
        let temper = Temper::random(rng, self.ops.len());
        self.assemble(kept, len, |point, sector, events| {
            let low = low(events, kept);
            let new = temper.version(rng, low, events);
            if new > low && rng.chance(temper.torn_share, 16) {
                let old = rng.between(low as u64, new as u64 - 1) as usize;
                let mut content = point.version(sector, events, old, kept);
                tear(rng, &mut content, &point.version(sector, events, new, kept));
                return Pick::Bytes(content);
            }
            if new == events.len() {
                Pick::Kept
            } else if new == low {
                Pick::Lost
            } else {
                Pick::Bytes(point.version(sector, events, new, kept))
            }
        })
    }

    /// A [`random_image`](Self::random_image) with one bit flipped among the bytes that were safely synced, and where; `None` when
    /// there are none.
    pub fn rotten_image(&self, rng: &mut Rng) -> Option<(CrashImage, u64)> {
        let len = self.lens.iter().map(|change| change.len).fold(self.durable.len(), u64::min);
        let offset = (0..64).map(|_| rng.below(len)).find(|offset| self.is_synced(*offset))?;
        let image = self.random_image(rng);
        image.flip_bit(offset, rng.below(8) as u32).then_some((image, offset))
    }

    // ---- how images are made -------------------------------------------------------------------------------------------

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

    /// Number of sectors with two or more possible versions, in an image with this many changes of the length.
    pub(super) fn free_sectors(&self, kept: usize) -> usize {
        let len = self.len_after(kept);
        self.sectors
            .iter()
            .take_while(|(sector, _)| **sector * (SECTOR_LEN as u64) < len)
            .filter(|(_, events)| is_free(events, kept))
            .count()
    }

    /// Makes an image; calls `pick`, in rising order, for each sector with two or more possible versions.
    pub(super) fn assemble(&self, kept: usize, len: u64, mut pick: impl FnMut(&Self, u64, &[Event]) -> Pick) -> CrashImage {
        let mut image = self.durable.clone();
        let all_kept = kept == self.lens.len();
        let mut sectors = self.sectors.iter().take_while(|(sector, _)| **sector * (SECTOR_LEN as u64) < len).peekable();
        let mut picks = Vec::with_capacity(SECTORS_PER_PAGE as usize);
        while let Some((first, _)) = sectors.peek() {
            let page = *first / SECTORS_PER_PAGE;
            picks.clear();
            while let Some((sector, events)) = sectors.next_if(|(sector, _)| **sector / SECTORS_PER_PAGE == page) {
                let choice = if is_free(events, kept) { pick(self, *sector, events) } else { Pick::Kept };
                picks.push((*sector, events, choice));
            }
            if all_kept && picks.iter().all(|(_, _, pick)| matches!(pick, Pick::Kept)) {
                image.adopt_page(&self.current, page);
                continue;
            }
            for (sector, events, pick) in &picks {
                match pick {
                    Pick::Lost => {
                        let low = low(events, kept);
                        if low > 0 {
                            image.put_sector(*sector, &self.version(*sector, events, low, kept));
                        }
                    }
                    Pick::Kept if all_kept => image.put_sector(*sector, &self.current.sector(*sector)),
                    Pick::Kept => image.put_sector(*sector, &self.version(*sector, events, events.len(), kept)),
                    Pick::Bytes(content) => image.put_sector(*sector, content),
                }
            }
        }
        image.cut(len);
        CrashImage::new(image)
    }

    /// A sector after its first `versions` events, without those that belong to lost changes of the length.
    fn version(&self, sector: u64, events: &[Event], versions: usize, kept: usize) -> Sector {
        let mut content = self.durable.sector(sector);
        for event in events.iter().take(versions) {
            match event.change {
                Change::Write { start, len, at } => {
                    if let (Some(target), Some(source)) = (content.get_mut(start..start + len), self.bytes.get(at..at + len)) {
                        target.copy_from_slice(source);
                    }
                }
                Change::Discard => content.fill(0),
                Change::Cut { len_change, .. } if len_change > kept => {}
                Change::Cut { from, .. } => content.iter_mut().skip(from).for_each(|byte| *byte = 0),
            }
        }
        content
    }

    fn random_len_change(&self, rng: &mut Rng) -> usize {
        match rng.below(4) {
            0 => 0,
            1 => rng.below(self.lens.len() as u64 + 1) as usize,
            _ => self.lens.len(),
        }
    }

    /// The length after the kept changes, or a bit on the way to the next one.
    fn random_len(&self, rng: &mut Rng, kept: usize) -> u64 {
        let len = self.len_after(kept);
        match self.lens.get(kept) {
            Some(next) if next.len > len && rng.chance(1, 4) => {
                let sectors = (next.len - len).div_ceil(SECTOR_LEN as u64);
                let boundary = (len / SECTOR_LEN as u64 + rng.below(sectors + 1)) * SECTOR_LEN as u64;
                boundary.clamp(len, next.len)
            }
            _ => len,
        }
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

/// Number of events that are certain once this many changes of the length are: those up to the last cut among them.
fn low(events: &[Event], kept: usize) -> usize {
    let is_certain = |event: &Event| matches!(event.change, Change::Cut { len_change, .. } if len_change <= kept);
    events.iter().rposition(is_certain).map_or(0, |last| last + 1)
}

/// True when more than one version of the sector is possible.
fn is_free(events: &[Event], kept: usize) -> bool {
    events.iter().skip(low(events, kept)).any(|event| !matches!(event.change, Change::Cut { .. }))
}

/// The character of one random image.
struct Temper {
    /// Sixteenths of the sectors that are kept.
    kept_share: u64,
    /// Sixteenths of the sectors that hold a version in between.
    stale_share: u64,
    /// Sixteenths of the kept sectors that are torn.
    torn_share: u64,
    /// Sectors hold their content after this many operations; the shares above apply to the exceptions.
    prefix: Option<usize>,
}

impl Temper {
    fn random(rng: &mut Rng, ops: usize) -> Self {
        let choose = |rng: &mut Rng, choices: [u64; 4]| {
            let index = rng.below(4) as usize;
            choices.into_iter().nth(index).unwrap_or_default()
        };
        Self {
            kept_share: choose(rng, [2, 8, 8, 14]),
            stale_share: choose(rng, [0, 1, 4, 8]),
            torn_share: choose(rng, [0, 0, 2, 8]),
            prefix: rng.chance(1, 3).then(|| rng.below(ops as u64 + 1) as usize),
        }
    }

    /// How many of the sector's events reached the medium.
    fn version(&self, rng: &mut Rng, low: usize, events: &[Event]) -> usize {
        if let Some(ops) = self.prefix
            && rng.chance(15, 16)
        {
            return events.iter().take_while(|event| event.op < ops).count().max(low);
        }
        if rng.chance(self.stale_share, 16) {
            return rng.between(low as u64, events.len() as u64) as usize;
        }
        if rng.chance(self.kept_share, 16) { events.len() } else { low }
    }
}

/// Writes a part of `new` over `content`: a front, a back, or some of its 8-byte words.
fn tear(rng: &mut Rng, content: &mut Sector, new: &Sector) {
    match rng.below(3) {
        0 => copy_range(content, new, 0, rng.below(SECTOR_LEN as u64) as usize),
        1 => copy_range(content, new, rng.between(1, SECTOR_LEN as u64) as usize, SECTOR_LEN),
        _ => {
            let words = rng.next_u64();
            for word in (0..SECTOR_LEN / 8).filter(|word| words >> word & 1 == 1) {
                copy_range(content, new, word * 8, word * 8 + 8);
            }
        }
    }
}

fn copy_range(target: &mut Sector, source: &Sector, start: usize, end: usize) {
    if let (Some(target), Some(source)) = (target.get_mut(start..end), source.get(start..end)) {
        target.copy_from_slice(source);
    }
}
