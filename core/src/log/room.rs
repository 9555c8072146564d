//! Securing space: an append takes the segments that it needs before it writes a byte, so a full medium changes nothing.

use super::append::RETIRE_ROOM;
use super::frames::Frames;
use super::space::{Purpose, Run};
use super::{Log, SEGMENT_HEADER_LEN, TRAILER_LEN, Tail};
use crate::error::{Error, Result};
use crate::limits::{FILE_LEN_MAX, LOG_POSITION_MAX, LOG_POSITION_SPARE};
use crate::storage::StorageErrorKind;
use crate::sync::Ordering;
use alloc::vec::Vec;

impl Log {
    /// Takes the segments that the frames need beyond the active one, of which the last `kept` bytes stay free.
    pub(super) fn plan<F: Frames + ?Sized>(&self, tail: &mut Tail, frames: &F, purpose: Purpose, kept: u64) -> Result<Vec<Run>> {
        if tail.next_base.max(tail.next_header) > LOG_POSITION_MAX - LOG_POSITION_SPARE {
            return Err(Error::LogExhausted);
        }
        if purpose == Purpose::Store && tail.active.is_some() {
            self.keep_reserve(tail)?;
        }
        let mut runs = Vec::new();
        let mut room = tail.active.map_or(0, |active| active.room());
        if self.mark_fits(tail, frames.len_of(0)) {
            room -= self.mark_len();
        }
        room = room.saturating_sub(kept);
        for len in (0..frames.count()).map(|index| frames.len_of(index)) {
            if len > room {
                match self.take(tail, SEGMENT_HEADER_LEN as u64 + len + TRAILER_LEN, purpose) {
                    Ok(run) => {
                        room = self.geometry.len_of(run.extent, run.extents) - SEGMENT_HEADER_LEN as u64 - TRAILER_LEN;
                        runs.push(run);
                    }
                    Err(error) => {
                        for run in runs {
                            tail.space.release(run.extent, run.extents, run.backed);
                        }
                        return Err(error);
                    }
                }
            }
            room -= len;
        }
        Ok(runs)
    }

    /// Takes a run of free extents of at least `bytes` bytes, growing the file where needed.
    pub(super) fn take(&self, tail: &mut Tail, bytes: u64, purpose: Purpose) -> Result<Run> {
        let run = match self.take_front(tail, bytes)? {
            Some(run) => run,
            None => {
                let before = tail.space.total;
                match self.take_at_end(tail, bytes) {
                    Ok(run) => run,
                    Err(error) => {
                        self.undo_growth(tail, before);
                        return Err(error);
                    }
                }
            }
        };
        if purpose == Purpose::Store
            && let Err(error) = self.keep_reserve(tail)
        {
            tail.space.release(run.extent, run.extents, run.backed);
            return Err(error);
        }
        if !tail.space.has_reserve() {
            self.space_low.store(true, Ordering::Relaxed);
        }
        Ok(run)
    }

    /// As [`Self::take`] for [`Purpose::Store`], but prefers the last run that is backed.
    pub(super) fn take_last(&self, tail: &mut Tail, bytes: u64) -> Result<Run> {
        let Some(run) = tail.space.take_last_run(bytes) else { return self.take(tail, bytes, Purpose::Store) };
        if !tail.space.has_reserve() {
            tail.space.release(run.extent, run.extents, run.backed);
            return self.take(tail, bytes, Purpose::Store);
        }
        Ok(run)
    }

    /// Grows the file until `bytes` bytes are free at its end, and takes them. Extents that were free there before may have lost their
    /// blocks, so they are reserved again.
    fn take_at_end(&self, tail: &mut Tail, bytes: u64) -> Result<Run> {
        while tail.space.free_bytes_at_end() < bytes {
            self.grow(tail)?;
        }
        self.take_front(tail, bytes)?.ok_or(Error::NoSpace)
    }

    /// Takes the first run of free extents of at least `bytes` bytes that the host has space for: the short extents are at the front of the
    /// file, and writing there leaves the end of the file free to be cut.
    fn take_front(&self, tail: &mut Tail, bytes: u64) -> Result<Option<Run>> {
        let Some(run) = tail.space.take(bytes) else { return Ok(None) };
        if run.backed {
            return Ok(Some(run));
        }
        let start = self.geometry.start(run.extent);
        match self.reserve(start, start + self.geometry.len_of(run.extent, run.extents)) {
            Ok(()) => Ok(Some(Run { backed: true, ..run })),
            Err(error) => {
                tail.space.release(run.extent, run.extents, false);
                if matches!(error, Error::NoSpace) { Ok(tail.space.take_backed(bytes)) } else { Err(error) }
            }
        }
    }

    /// Backs a reserve of one free segment for removals and compaction, without which a full store could never free space. New data never
    /// uses it; fails with [`Error::NoSpace`] if there is none.
    pub(super) fn keep_reserve(&self, tail: &mut Tail) -> Result<()> {
        while !tail.space.has_reserve() {
            self.back_one_more(tail)?;
        }
        Ok(())
    }

    /// Makes sure that records of `bytes` bytes in all can be appended without running out of space. On a full medium,
    /// `longest`, the length of the longest of them, bounds how much of each free extent they may leave empty.
    pub(crate) fn secure(&self, bytes: u64, longest: &dyn Fn() -> Result<u64>) -> Result<()> {
        let mut tail = self.tail.lock();
        self.announce(&mut tail)?;
        // The content of a whole segment fits into a free one, however much the records before it leave empty elsewhere.
        while self.room(&tail) < bytes || !tail.space.has_reserve() {
            match self.back_one_more(&mut tail) {
                Err(Error::NoSpace) => return self.secure_the_last(&mut tail, bytes, longest),
                result => result?,
            }
        }
        Ok(())
    }

    /// As [`Self::secure`] where the last free segment is in use: a compaction that stops half way would free nothing and use up the rest.
    fn secure_the_last(&self, tail: &mut Tail, bytes: u64, longest: &dyn Fn() -> Result<u64>) -> Result<()> {
        // `bytes` includes the slack that the records leave to the frames that retire segments, but not the sync mark before them.
        if tail.active.is_some_and(|active| active.room() >= bytes + self.mark_len()) {
            return Ok(());
        }
        self.back_short_ones(tail)?;
        if self.room_up_to(tail, longest()?) >= bytes { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Bytes of records, each of at most `longest` bytes, for which there is certainly room: they leave less than `longest` of each
    /// segment empty.
    fn room_up_to(&self, tail: &Tail, longest: u64) -> u64 {
        let unused = longest + RETIRE_ROOM;
        let active = tail.active.map_or(0, |active| active.room());
        active.saturating_sub(unused) + tail.space.backed_beyond(SEGMENT_HEADER_LEN as u64 + TRAILER_LEN + unused)
    }

    /// The extents each of which is long enough to be the reserve.
    pub(crate) fn reserve_extents(&self) -> core::ops::RangeFrom<u32> {
        let total = self.tail.lock().space.total;
        if total > self.geometry.shorter() { self.geometry.shorter().. } else { total.saturating_sub(1).. }
    }

    /// Bytes left for frames in the active segment.
    pub(crate) fn room_of_active(&self) -> u64 {
        self.tail.lock().active.map_or(0, |active| active.room())
    }

    /// Upper bound of the bytes of records for which there is room.
    pub(crate) fn room_at_most(&self) -> u64 {
        let tail = self.tail.lock();
        tail.active.map_or(0, |active| active.room()) + tail.space.free_bytes()
    }

    /// True when records of `bytes` bytes in all can be appended without more space from the host.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.room(&self.tail.lock()) >= bytes
    }

    /// Bytes of records for which there is certainly room.
    fn room(&self, tail: &Tail) -> u64 {
        let room = tail.active.map_or(0, |active| active.room());
        // Records do not fill segments to the last byte: count on half of each.
        room + tail.space.backed_bytes() / 2
    }

    /// Backs or grows until as many bytes are free as `extents` of the file's longest extents have; false when there is no space for them.
    pub(crate) fn secure_free(&self, extents: u32) -> Result<bool> {
        let mut tail = self.tail.lock();
        self.announce(&mut tail)?;
        let wanted = u64::from(extents) * tail.space.longest();
        while tail.space.backed_bytes() < wanted || !tail.space.has_reserve() {
            match self.back_one_more(&mut tail) {
                Ok(()) => {}
                Err(Error::NoSpace) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Backs one more free extent, or grows the file by one. Fails with [`Error::NoSpace`] on a full medium.
    fn back_one_more(&self, tail: &mut Tail) -> Result<()> {
        while let Some(extent) = tail.space.first_unbacked() {
            let start = self.geometry.start(extent);
            match self.reserve(start, start + self.geometry.size_of(extent)) {
                Ok(()) => {
                    tail.space.set_backed(extent);
                    return Ok(());
                }
                // Another extent may have kept its blocks.
                Err(Error::NoSpace) if tail.space.has_holes(extent) => {}
                Err(error) => return Err(error),
            }
        }
        self.grow(tail)
    }

    /// Backs the free extents at the front of the file, up to `bytes` bytes: the next segment goes to the first run that is
    /// backed. If the host has no space for that, the file only stays longer.
    pub(crate) fn back_front(&self, bytes: u64) {
        let mut tail = self.tail.lock();
        let mut left = bytes;
        for (extent, is_backed) in tail.space.all_free() {
            if left == 0 {
                return;
            }
            let (start, size) = (self.geometry.start(extent), self.geometry.size_of(extent));
            if !is_backed {
                if self.reserve(start, start + size).is_err() {
                    return;
                }
                tail.space.set_backed(extent);
            }
            left = left.saturating_sub(size);
        }
    }

    /// Backs the extents shorter than the full size where the host has space: they cannot be the reserve, but compaction can copy to them.
    fn back_short_ones(&self, tail: &mut Tail) -> Result<()> {
        for extent in tail.space.unbacked_short_ones() {
            let start = self.geometry.start(extent);
            match self.reserve(start, start + self.geometry.size_of(extent)) {
                Ok(()) => tail.space.set_backed(extent),
                Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn grow(&self, tail: &mut Tail) -> Result<()> {
        let start = self.geometry.start(tail.space.total);
        // A crash may have left the file cut in the middle of this extent, with leftovers in the part that exists.
        // Without reservations the file may end before this extent for a long time, so bytes that must be there have to be written.
        let fresh = !self.is_fenced() && self.storage.len()? <= start;
        self.reserve(start, start + self.geometry.size_of(tail.space.total))?;
        tail.space.grown(fresh);
        Ok(())
    }

    /// Cuts the file back to `total` extents after taking space for something that did not fit after all.
    fn undo_growth(&self, tail: &mut Tail, total: u32) {
        tail.space.shrink(tail.space.total.saturating_sub(total));
        let end = self.geometry.start(tail.space.total);
        if !self.is_fenced() && self.storage.len().is_ok_and(|len| len > end) {
            // If this fails, too, the file is only longer than necessary.
            let _ = self.storage.set_len(end);
        }
    }

    /// Makes sure that `from..to` of the file can be written. [`Error::NoSpace`] does not close the store, since nothing was written; any
    /// other failure does.
    pub(super) fn reserve(&self, from: u64, to: u64) -> Result<()> {
        if to > FILE_LEN_MAX {
            return Err(Error::NoSpace);
        }
        if self.is_fenced() {
            // Reserving may write, and another session may have written there meanwhile.
            return Ok(());
        }
        let reserved = self.storage.reserve(from, to - from).map_err(|error| match error.kind {
            StorageErrorKind::NoSpace => Error::NoSpace,
            _ => self.poison(error.into()),
        });
        self.medium_full.store(reserved.is_err(), Ordering::Relaxed);
        if reserved.is_err() {
            self.medium_was_full.store(true, Ordering::Relaxed);
        }
        reserved
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
