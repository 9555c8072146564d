//! Appending commits. Space is secured first, so that a full medium is detected before the first byte is written.

use super::fence::LOST;
use super::frames::Frames;
use super::space::{Purpose, Run};
use super::{Active, Log, SEGMENT_HEADER_LEN, Superblock, SuperblockPair, SuperblockSlot, TRAILER_LEN, Tail};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind};
use crate::limits::{LOG_POSITION_MAX, LOG_POSITION_SPARE};
use crate::planted::{Bug, is};
use crate::sync::Ordering;
use alloc::vec::Vec;

/// Values from this length on, in bytes, are written directly; smaller ones are gathered into one write.
pub(super) const DIRECT: usize = 32 * 1024;
/// Gathered frames are written out at this length, in bytes.
pub(super) const GATHER: usize = 1024 * 1024;

/// Where a frame was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Log {
    /// Appends the frames of one commit in order, and adds where each one was put to `placed`.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`] leaves the log as it was. Any other error closes the store to writes.
    pub(crate) fn append(&self, frames: &[FrameSpec<'_>], purpose: Purpose, placed: &mut Vec<Placed>) -> Result<()> {
        let mut tail = self.tail.lock();
        self.append_locked(&mut tail, frames, purpose, placed)
    }

    /// As [`Self::append`], if `check` finds nothing that speaks against it. Nobody else appends between the check and the commit.
    ///
    /// # Errors
    ///
    /// Those of `check`, which leave the log as it was, too.
    pub(crate) fn append_if(
        &self,
        check: &dyn Fn() -> Result<()>,
        frames: &[FrameSpec<'_>],
        purpose: Purpose,
        placed: &mut Vec<Placed>,
    ) -> Result<()> {
        let mut tail = self.tail.lock();
        check()?;
        self.append_locked(&mut tail, frames, purpose, placed)
    }

    /// [`Self::append_if`] of a commit with events: the next event has the number `next` from the append on.
    ///
    /// # Errors
    ///
    /// As for [`Self::append_if`]; the next event's number is then as it was.
    #[cfg(feature = "events")]
    pub(crate) fn append_events(
        &self,
        check: &dyn Fn() -> Result<()>,
        frames: &[FrameSpec<'_>],
        next: u64,
        purpose: Purpose,
        placed: &mut Vec<Placed>,
    ) -> Result<()> {
        let mut tail = self.tail.lock();
        check()?;
        let before = core::mem::replace(&mut tail.next_event, next);
        let appended = self.append_locked(&mut tail, frames, purpose, placed);
        if appended.is_err() && !is(Bug::EventNumberLost) {
            tail.next_event = before;
        }
        appended
    }

    pub(super) fn append_locked(
        &self,
        tail: &mut Tail,
        frames: &[FrameSpec<'_>],
        purpose: Purpose,
        placed: &mut Vec<Placed>,
    ) -> Result<()> {
        self.append_any(tail, frames, purpose, placed)
    }

    fn append_any<F: Frames + ?Sized>(
        &self,
        tail: &mut Tail,
        frames: &F,
        purpose: Purpose,
        placed: &mut Vec<Placed>,
    ) -> Result<()> {
        #[cfg(feature = "encrypt")]
        if self.is_sealed() {
            return self.append_all(tail, &super::frames::Lengthened(frames), purpose, placed);
        }
        self.append_all(tail, frames, purpose, placed)
    }

    /// Like [`Self::append`], with frames that are made one at a time. An error of their source closes the store to writes, too.
    pub(crate) fn append_from(&self, frames: &impl Frames, purpose: Purpose, placed: &mut Vec<Placed>) -> Result<()> {
        self.append_any(&mut self.tail.lock(), frames, purpose, placed)
    }

    fn append_all<F: Frames + ?Sized>(
        &self,
        tail: &mut Tail,
        frames: &F,
        purpose: Purpose,
        placed: &mut Vec<Placed>,
    ) -> Result<()> {
        self.writable()?;
        self.announce(tail)?;
        self.say_clock(tail, frames.len_of(0))?;
        let kept = kept_room(tail, purpose);
        let mut runs = self.plan(tail, frames, purpose, kept)?.into_iter();
        let (active, next_base) = (tail.active, tail.next_base);
        let result = self.write_planned(tail, frames, &mut runs, kept, placed);
        tail.scratch.clear();
        if result.is_err() {
            // The end of the log is unchanged.
            tail.segments.retain(|base| base < next_base);
            tail.active = active;
        }
        match result {
            Err(error) if is(Bug::WriteErrorForgotten) => Err(error),
            // Part of the commit may be in the file: frames appended after it would be taken for its rest.
            Err(error) => Err(self.poison(error)),
            Ok(()) => Ok(()),
        }
    }

    /// Tells living transactions what is appended; the caller holds the tail. A copy changes nothing that they have read.
    #[inline]
    pub(super) fn remember(&self, frame: &FrameSpec<'_>) {
        if self.recent.any() && matches!(frame.kind, Kind::Put | Kind::Tombstone) && !frame.meta.copied {
            self.recent.note(frame.meta.namespace, frame.key);
        }
    }

    /// Prepares the first append of a session: from now on the superblock records that a session writes, and how far header numbers
    /// have come. A crash before this leaves the store as clean as it was.
    pub(super) fn announce(&self, tail: &mut Tail) -> Result<()> {
        if tail.announced {
            return Ok(());
        }
        if let Some(fence) = self.fence() {
            self.take_over(fence, tail)?;
            tail.announced = true;
            self.claim_again(tail)?;
            return self.keep_reserve(tail);
        }
        if let Some(active) = &tail.active {
            self.reserve(active.position, active.segment.behind(self.geometry))?;
        }
        self.back_trailer(tail)?;
        self.settle(tail)?;
        let synced = self.sync_state.synced();
        let active = tail.active_place();
        self.flip(&|superblock| Superblock {
            clean_end: None,
            torn_end: false,
            synced: superblock.synced.max(synced),
            session: superblock.generation + 1,
            active,
            ..superblock
        })?;
        if tail.active.is_none() && is(Bug::TornTailKept) {
            self.continue_torn_segment(tail);
        }
        self.resume_if_cramped(tail)?;
        tail.announced = true;
        // Only a reservation shows whether the medium is full or just nothing has been reserved yet.
        match self.keep_reserve(tail) {
            Err(Error::NoSpace) => self.space_low.store(true, Ordering::Relaxed),
            result => result?,
        }
        Ok(())
    }

    /// Only for planted bugs (`TornTailKept`, `TakeoverInPlace`): appends to the segment that a crash has torn.
    pub(super) fn continue_torn_segment(&self, tail: &mut Tail) {
        if let Some(segment) = tail.segments.get(tail.previous.base)
            && self.reserve(segment.end, segment.behind(self.geometry)).is_ok()
        {
            tail.active = Some(Active::new(*segment, segment.end, self.geometry, false));
        }
    }

    /// Writes a new superblock and syncs it: the commit point of every change of structure. It goes to the other slot, except right after a
    /// clean close.
    pub(super) fn flip(&self, change: &dyn Fn(Superblock) -> Superblock) -> Result<()> {
        let mut pair = self.superblocks.lock();
        let headers = self.headers_so_far();
        if let Some(fence) = self.fence() {
            let clock = self.clock_to_write(pair.current.clock);
            let superblock = Superblock { headers, clock, ..change(pair.current) };
            let slot = pair.slot.other();
            return self.flip_fenced(fence, &mut pair, superblock, slot);
        }
        // A slot that could not be read may have held a higher generation: exceed it by far.
        let step = if pair.other_damaged { LOST } else { 1 };
        if pair.current.generation > LOG_POSITION_MAX - LOG_POSITION_SPARE {
            return Err(Error::LogExhausted);
        }
        let (generation, clock) = (pair.current.generation + step, self.clock_to_write(pair.current.clock));
        let current = Superblock { generation, headers, clock, ..change(pair.current) };
        // The superblock that marks the store as closed may not be on the medium, if its sync failed. The other slot differs only in that,
        // so it must stay until the new superblock is synced.
        let in_place = pair.current.clean_end.is_some() && !pair.other_damaged;
        let slot = if in_place || is(Bug::SuperblockInPlace) { pair.slot } else { pair.slot.other() };
        let written = current.write(&*self.storage, slot).map_err(|error| self.poison(error));
        written.and_then(|()| self.sync_alone())?;
        self.became(&mut pair, current, slot);
        Ok(())
    }

    /// Makes a superblock that was written and synced the current one.
    pub(super) fn became(&self, pair: &mut SuperblockPair, current: Superblock, slot: SuperblockSlot) {
        self.generation.store(current.generation, Ordering::Relaxed);
        self.session.store(current.session, Ordering::Relaxed);
        *pair = SuperblockPair { current, slot, other_damaged: false };
    }

    /// Makes room for a control frame of `len(tail)` bytes in the active segment, with no sync mark due before it. Returns the active
    /// segment, at whose position the frame will begin.
    pub(super) fn make_room(&self, tail: &mut Tail, len: impl Fn(&Tail) -> u64) -> Result<Active> {
        self.writable()?;
        self.announce(tail)?;
        self.say_clock(tail, 0)?;
        let result = self.put_mark(tail, 0).and_then(|()| self.write_gathered(tail));
        result.map_err(|error| self.poison(error))?;
        tail.mark_due = None;
        self.mark_said(tail);
        let room = tail.active.map_or(0, |active| active.room());
        if room < len(tail) {
            let need = SEGMENT_HEADER_LEN as u64 + len(tail) + TRAILER_LEN;
            let run = self.take(tail, need, Purpose::BookKeeping)?;
            self.begin_segment(tail, run, 0).map_err(|error| self.poison(error))?;
            self.note_end(tail);
        }
        tail.active.ok_or(Error::Bug("room was made, and no segment has it"))
    }

    pub(super) fn note_end(&self, tail: &Tail) {
        if let Some(active) = tail.active {
            self.appended.store(active.segment.lsn(self.geometry, active.position), Ordering::Release);
        }
    }

    fn write_planned<F: Frames + ?Sized>(
        &self,
        tail: &mut Tail,
        frames: &F,
        runs: &mut dyn Iterator<Item = Run>,
        mut kept: u64,
        placed: &mut Vec<Placed>,
    ) -> Result<()> {
        self.put_mark(tail, frames.len_of(0))?;
        for index in 0..frames.count() {
            let len = frames.len_of(index);
            let active = match tail.active {
                Some(active) if len + kept <= active.room() => active,
                _ => {
                    kept = 0;
                    let run = runs.next().ok_or(Error::Bug("a commit needs more segments than were set aside for it"))?;
                    let carried_over = if index == 0 { 0 } else { self.front_of(frames, index, &run) };
                    self.begin_segment(tail, run, carried_over)?
                }
            };
            frames.with(index, |frame| {
                // A commit that fails from here on closes the store to writes: then it does not matter who was told.
                self.remember(frame);
                self.put(tail, active, frame)
            })?;
            placed.push(Placed { offset: active.position, len });
        }
        self.write_gathered(tail)?;
        self.note_end(tail);
        Ok(())
    }

    /// Appends one frame: to the gathered bytes, or straight to the storage if its value is long.
    #[inline]
    pub(super) fn put(&self, tail: &mut Tail, active: Active, frame: &FrameSpec<'_>) -> Result<()> {
        #[cfg(feature = "encrypt")]
        if self.is_sealed() {
            return self.put_sealed(tail, active, frame);
        }
        let (salt, offset) = (active.segment.salt, active.position);
        if frame.value.len() >= DIRECT {
            self.write_gathered(tail)?;
            self.look_again()?;
            let header = frame.header(salt, offset);
            self.storage.write_at(offset, &[header.as_slice(), frame.key, frame.value])?;
        } else {
            frame.encode_into(&mut tail.scratch, salt, offset);
        }
        if let Some(active) = &mut tail.active {
            active.goes_on(offset + frame.len() as u64, u64::from(!frame.kind.is_control()));
        }
        if tail.scratch.len() >= GATHER { self.write_gathered(tail) } else { Ok(()) }
    }

    pub(super) fn write_gathered(&self, tail: &mut Tail) -> Result<()> {
        if let Some(active) = tail.active
            && !tail.scratch.is_empty()
        {
            self.look_again()?;
            let from = active.position - tail.scratch.len() as u64;
            // One record of a sealed store is gathered, too.
            if self.is_sealed() && tail.scratch.len() < DIRECT {
                self.put_small(from, &[&tail.scratch])?;
            } else {
                self.storage.write_at(from, &[&tail.scratch])?;
            }
            tail.scratch.clear();
        }
        Ok(())
    }
}

/// Bytes at the end of the last segment that removals and compaction keep free for the frames that retire emptied segments: without
/// them a full medium could never get free space again.
pub(crate) const RETIRE_ROOM: u64 = 256;

/// Bytes of the active segment that must stay free after an append for this purpose.
pub(super) fn kept_room(tail: &Tail, purpose: Purpose) -> u64 {
    if purpose == Purpose::MakeSpace && !tail.space.has_reserve() { RETIRE_ROOM } else { 0 }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
