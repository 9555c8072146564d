//! Securing space: an append takes the segments that it will need before it writes a byte, so running out of space changes nothing.

use super::append::{MARK_LEN, RETIRE_ROOM};
use super::space::{Purpose, Run};
use super::{Log, SEGMENT_HEADER_LEN, TRAILER_LEN, Tail};
use crate::error::{Error, Result};
use crate::frame::FrameSpec;
use crate::limits::{FILE_LEN_MAX, LOG_POSITION_MAX, LOG_POSITION_SPARE};
use crate::storage::StorageErrorKind;
use crate::sync::Ordering;
use alloc::vec::Vec;

impl Log {
    /// Takes the segments that the frames will need beyond the active one, the last `kept` bytes of which they leave alone.
    pub(super) fn plan(&self, tail: &mut Tail, frames: &[FrameSpec<'_>], purpose: Purpose, kept: u64) -> Result<Vec<Run>> {
        if tail.next_base.max(tail.next_header) > LOG_POSITION_MAX - LOG_POSITION_SPARE {
            return Err(Error::LogExhausted);
        }
        if purpose == Purpose::Store && tail.active.is_some() {
            self.keep_reserve(tail)?;
        }
        let mut runs = Vec::new();
        let mut room = tail.active.map_or(0, |active| active.room());
        if self.mark_fits(tail, frames.first()) {
            room -= MARK_LEN as u64;
        }
        room = room.saturating_sub(kept);
        for frame in frames {
            let len = frame.len() as u64;
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

    /// Takes a run of free extents of at least so many bytes, growing the file where needed.
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

    /// Grows the file until so many bytes are free at its end, and takes them. What stood free there already may have lost its blocks.
    fn take_at_end(&self, tail: &mut Tail, bytes: u64) -> Result<Run> {
        while tail.space.free_bytes_at_end() < bytes {
            self.grow(tail)?;
        }
        self.take_front(tail, bytes)?.ok_or(Error::NoSpace)
    }

    /// Takes the first run of free extents of at least so many bytes that the host has space for: short extents stand in front, and what is
    /// written there leaves the end of the file to be cut.
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

    /// One free segment is for removals and compaction, without which a full store could never get out of being full: new data has
    /// to leave it alone, and, once it is in use, stays out of it.
    pub(super) fn keep_reserve(&self, tail: &mut Tail) -> Result<()> {
        while !tail.space.has_reserve() {
            self.back_one_more(tail)?;
        }
        Ok(())
    }

    /// Makes sure that records of `bytes` bytes in all can be appended without running out of space. Where the medium has no more,
    /// `longest`, the length of the longest of them, tells how much of the free extents they may leave empty.
    pub(crate) fn secure(&self, bytes: u64, longest: &dyn Fn() -> Result<u64>) -> Result<()> {
        let mut tail = self.tail.lock();
        self.announce(&mut tail)?;
        // What a whole segment held fits into a free one, whatever the records before it leave empty elsewhere.
        while self.room(&tail) < bytes || !tail.space.has_reserve() {
            match self.back_one_more(&mut tail) {
                Err(Error::NoSpace) => return self.secure_the_last(&mut tail, bytes, longest),
                result => result?,
            }
        }
        Ok(())
    }

    /// The same where the last free segment is in use: a copy that stops half way has freed nothing, and has filled what was left.
    fn secure_the_last(&self, tail: &mut Tail, bytes: u64, longest: &dyn Fn() -> Result<u64>) -> Result<()> {
        // The slack that is asked for beside the records is what they leave to the frames that retire, but for a mark in front of them.
        if tail.active.is_some_and(|active| active.room() >= bytes + MARK_LEN as u64) {
            return Ok(());
        }
        self.back_short_ones(tail)?;
        if self.room_up_to(tail, longest()?) >= bytes { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Bytes of records of `longest` bytes at most for which there is certainly room: of each segment they leave less than that.
    fn room_up_to(&self, tail: &Tail, longest: u64) -> u64 {
        let unused = longest + RETIRE_ROOM;
        let active = tail.active.map_or(0, |active| active.room());
        active.saturating_sub(unused) + tail.space.backed_beyond(SEGMENT_HEADER_LEN as u64 + TRAILER_LEN + unused)
    }

    /// The extents any of which is a reserve by itself.
    pub(crate) fn reserve_extents(&self) -> core::ops::RangeFrom<u32> {
        let total = self.tail.lock().space.total;
        if total > self.geometry.shorter() { self.geometry.shorter().. } else { total.saturating_sub(1).. }
    }

    /// Bytes that are left for frames in the active segment.
    pub(crate) fn room_of_active(&self) -> u64 {
        self.tail.lock().active.map_or(0, |active| active.room())
    }

    /// Bytes of records for which there may be room, and never more.
    pub(crate) fn room_at_most(&self) -> u64 {
        let tail = self.tail.lock();
        tail.active.map_or(0, |active| active.room()) + tail.space.free_bytes()
    }

    /// True when records of `bytes` bytes in all can be appended to what is there.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.room(&self.tail.lock()) >= bytes
    }

    /// Bytes of records for which there is certainly room.
    fn room(&self, tail: &Tail) -> u64 {
        let room = tail.active.map_or(0, |active| active.room());
        // Records do not fill segments to the last byte: half of each is counted on.
        room + tail.space.backed_bytes() / 2
    }

    /// Grows the file until so many extents as its longest are free; false when there is no space for them.
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

    /// One more free extent that can be written without running out of space.
    fn back_one_more(&self, tail: &mut Tail) -> Result<()> {
        while let Some(extent) = tail.space.first_unbacked() {
            let start = self.geometry.start(extent);
            match self.reserve(start, start + self.geometry.size_of(extent)) {
                Ok(()) => {
                    tail.space.set_backed(extent);
                    return Ok(());
                }
                // Another one may have kept its blocks.
                Err(Error::NoSpace) if tail.space.has_holes(extent) => {}
                Err(error) => return Err(error),
            }
        }
        self.grow(tail)
    }

    /// Backs the free extents at the front of the file, up to so many bytes: what is written next goes there, for it goes to the first place
    /// that is backed. A host without space for that only leaves the file longer.
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

    /// Backs what can be backed of the extents that are shorter than a whole one: they are no reserve, but copies go there, too.
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

    fn grow(&self, tail: &mut Tail) -> Result<()> {
        let start = self.geometry.start(tail.space.total);
        // A crash may have left the file cut in the middle of this extent, with leftovers in the part that exists.
        // Where nothing is set aside, the file may end in front of this extent for long: whatever has to be there must be written.
        let fresh = !self.is_fenced() && self.storage.len()? <= start;
        self.reserve(start, start + self.geometry.size_of(tail.space.total))?;
        tail.space.grown(fresh);
        Ok(())
    }

    /// Gives back what was taken for something that did not fit after all: others may need it.
    fn undo_growth(&self, tail: &mut Tail, total: u32) {
        tail.space.shrink(tail.space.total.saturating_sub(total));
        let end = self.geometry.start(tail.space.total);
        if !self.is_fenced() && self.storage.len().is_ok_and(|len| len > end) {
            // If the host refuses that, too, the file is longer than it need be.
            let _ = self.storage.set_len(end);
        }
    }

    /// Makes sure that `from..to` of the file can be written. No space is no reason to close the store: nothing was written.
    pub(super) fn reserve(&self, from: u64, to: u64) -> Result<()> {
        if to > FILE_LEN_MAX {
            return Err(Error::NoSpace);
        }
        if self.is_fenced() {
            // What is set aside is written, and somebody else may have written there meanwhile.
            return Ok(());
        }
        let reserved = self.storage.reserve(from, to - from).map_err(|error| match error.kind {
            StorageErrorKind::NoSpace => Error::NoSpace,
            _ => self.poison(error.into()),
        });
        self.medium_full.store(reserved.is_err(), Ordering::Relaxed);
        reserved
    }
}
