//! Two sessions at one file, where the host has no locks.
//!
//! A session that begins to write puts its superblock into both slots and looks whether it is there alone; only one of several that begin at once
//! finds that (the splitter of Lamport's fast mutual exclusion, with the slots as the two registers). Then it reads once more what the one
//! before it has written meanwhile. It writes into no extent that the other one may still write to: the last segment of the log, and
//! whatever `next` frames and the superblock name, for each session names a place before it looks, and looks before it writes there.
//! The earlier session finds the superblock of a higher generation behind its flush, and acknowledges it no more.

use super::space::{Barred, Purpose, Run};
use super::superblock::{SECTOR, Slots, SuperblockSlot};
use super::{ActivePlace, Log, Superblock, SuperblockPair, Tail};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Next};
use crate::limits::{DATA_START, LOG_POSITION_MAX, LOG_POSITION_SPARE};
use crate::planted::{Bug, is};
use crate::storage::Storage;
use crate::sync::Mutex;
use alloc::vec::Vec;

/// Those who want to begin take a generation by chance out of so many: no two take the same.
const CONTENDERS: u64 = 1 << 24;
/// From one superblock of a session to the next: above all who contended for the place of that one.
const STEP: u64 = CONTENDERS;
/// From the superblock that a session found to its first one: above those that the session before may still write.
const BEGUN: u64 = 16 * STEP;
/// And from a superblock whose neighbour is lost: that one may have been a session ahead.
pub(super) const LOST: u64 = 4 * BEGUN;
/// A slot is read again when it does not check: somebody may be writing it.
const READS_MAX: usize = 16;
/// How often a superblock that came late is written over before that is somebody else's work.
const REPAIRS_MAX: usize = 32;

/// For so many sessions nobody writes to where an earlier one may still be on its way.
pub(crate) const REMEMBERED: u64 = 4;
const CLAIMED_AGAIN_MAX: usize = 64;

/// The log as somebody found it: whether it has gone on since, and where others may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Log position of its end.
    pub(crate) end: u64,
    /// Records behind the checkpoint, and segments retired there.
    pub(crate) records: usize,
    pub(crate) retired: usize,
    /// The last session has closed the store.
    pub(crate) is_clean: bool,
    /// Runs that may be written to without being part of the log yet, and the log position behind.
    pub(crate) claims: Vec<(Barred, u64)>,
    /// The last segment: whoever was at work may still append to it.
    pub(crate) last: Option<(u32, u32)>,
    /// Numbers that have not been given out yet.
    pub(crate) next_base: u64,
    pub(crate) next_header: u64,
    /// Number of the newest header that counts.
    pub(crate) headers: u64,
}

impl Standing {
    fn is_as_before(&self, before: &Self) -> bool {
        (self.end, self.records, self.retired) == (before.end, before.records, before.retired)
    }
}

/// Finds out how the log stands.
pub(crate) type Follow = fn(&dyn Storage, &SuperblockPair) -> Result<Standing>;

/// What a session needs that shares its file.
pub(crate) struct Fence {
    pub(crate) follow: Follow,
    /// At the opening.
    pub(crate) standing: Standing,
    /// Generation of the superblock that counted then.
    pub(crate) found: u64,
    /// Both slots as they were read, or written, last.
    pub(crate) slots: Mutex<Slots>,
}

/// What a look at the slots has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// What this session has put there.
    Own,
    /// A superblock of an earlier session came late into this slot.
    Late(SuperblockSlot),
    /// A later session has begun.
    Fenced,
}

impl Log {
    /// `None` where nobody else can write to the file; known when it is compiled where no host is shared.
    #[inline]
    pub(super) fn fence(&self) -> Option<&Fence> {
        if cfg!(feature = "shared-files") { self.fence.as_ref() } else { None }
    }

    /// Somebody else may write to the file, too.
    #[inline]
    pub(crate) fn is_fenced(&self) -> bool {
        self.fence().is_some()
    }

    /// Ends the session if somebody else has taken the store over.
    pub(crate) fn look(&self) -> Result<()> {
        let Some(fence) = self.fence() else { return Ok(()) };
        self.look_at(fence, &mut self.superblocks.lock())
    }

    /// As [`Self::look`], for a session that has begun to write: one that has not loses nothing.
    pub(super) fn look_if(&self, announced: bool) -> Result<()> {
        if announced { self.look() } else { Ok(()) }
    }

    fn look_at(&self, fence: &Fence, pair: &mut SuperblockPair) -> Result<()> {
        for _ in 0..REPAIRS_MAX {
            match self.see(fence, pair.current.generation)? {
                Seen::Own => return Ok(()),
                Seen::Fenced => break,
                Seen::Late(slot) => self.put_superblock(fence, pair, pair.current, STEP, slot)?,
            }
        }
        Err(self.poison(Error::Fenced))
    }

    fn see(&self, fence: &Fence, generation: u64) -> Result<Seen> {
        let expected = *fence.slots.lock();
        for slot in [SuperblockSlot::A, SuperblockSlot::B] {
            for left in (0..READS_MAX).rev() {
                let found = read_slot(&*self.storage, slot)?;
                if found == *expected.of(slot) {
                    break;
                }
                match Superblock::generation_of(&found, slot) {
                    // One that contends for the place of this session's last but one has not come late: it may have won already.
                    Some(theirs) if theirs + STEP >= generation => return Ok(Seen::Fenced),
                    None if left > 0 => {}
                    _ => return Ok(Seen::Late(slot)),
                }
            }
        }
        Ok(Seen::Own)
    }

    /// Writes a superblock of a generation `step` above the current one to `slot`, and syncs it.
    fn put_superblock(
        &self,
        fence: &Fence,
        pair: &mut SuperblockPair,
        superblock: Superblock,
        step: u64,
        slot: SuperblockSlot,
    ) -> Result<()> {
        if pair.current.generation > LOG_POSITION_MAX - LOG_POSITION_SPARE {
            return Err(Error::LogExhausted);
        }
        let current = Superblock { generation: pair.current.generation + step, ..superblock };
        *fence.slots.lock().of_mut(slot) = current.encode(slot);
        current.write(&*self.storage, slot).map_err(|error| self.poison(error)).and_then(|()| self.sync_alone())?;
        self.became(pair, current, slot);
        Ok(())
    }

    /// A new superblock, for [`Log::flip`].
    pub(super) fn flip_fenced(
        &self,
        fence: &Fence,
        pair: &mut SuperblockPair,
        superblock: Superblock,
        slot: SuperblockSlot,
    ) -> Result<()> {
        self.look_at(fence, pair)?;
        self.put_superblock(fence, pair, superblock, STEP, slot)?;
        self.look_at(fence, pair)
    }

    /// The first append of a session that shares its file.
    pub(super) fn take_over(&self, fence: &Fence, tail: &mut Tail) -> Result<()> {
        // Whatever comes of it: what stands in the slots then is not what this session knows.
        self.take_over_once(fence, tail).map_err(|error| self.poison(error))
    }

    fn take_over_once(&self, fence: &Fence, tail: &mut Tail) -> Result<()> {
        let pair = {
            let mut pair = self.superblocks.lock();
            self.contend(fence, &mut pair)?;
            *pair
        };
        let standing = self.what_changed(fence, &pair)?;
        self.settle(tail)?;
        for &(run, behind) in &standing.claims {
            tail.space.bar(Barred { sessions: run.sessions + 1, ..run });
            tail.next_base = tail.next_base.max(behind);
        }
        let others = standing.last.filter(|_| tail.active.is_none());
        if let Some((extent, extents)) = others {
            tail.space.bar(Barred { extent, extents, sessions: 1 });
        }
        tail.next_base = tail.next_base.max(standing.next_base);
        tail.next_header = tail.next_header.max(standing.next_header);
        self.found_headers(standing.headers);
        if tail.active.is_none() && is(Bug::TakeoverInPlace) {
            self.continue_torn_segment(tail);
        }
        let run = if tail.active.is_none() { Some(self.take(tail, 1, Purpose::BookKeeping)?) } else { None };
        let begun = |run: &Run| ActivePlace { base: tail.next_base, salt: 0, extent: run.extent, extents: run.extents };
        let active = run.as_ref().map_or_else(|| tail.active_place(), begun);
        self.begin(fence, active)?;
        if let Some(run) = run {
            self.begin_segment(tail, run, 0)?;
            self.note_end(tail);
        }
        Ok(())
    }

    /// Says in both slots that this session has begun, and where it is going to write.
    fn begin(&self, fence: &Fence, active: ActivePlace) -> Result<()> {
        let mut pair = self.superblocks.lock();
        let pair = &mut *pair;
        let synced = pair.current.synced.max(self.sync_state.synced());
        let session = pair.current.generation + BEGUN;
        let superblock = Superblock { active, synced, session, headers: self.headers_so_far(), ..pair.current };
        if is(Bug::TakeoverOneSlot) {
            return self.put_superblock(fence, pair, superblock, BEGUN, pair.slot.other());
        }
        // Twice: one that comes late from an earlier session must not hide what place this one is going to write to. With a look in
        // between: two superblocks that come late would take the place of both of a later session.
        self.look_at(fence, pair)?;
        self.put_superblock(fence, pair, superblock, BEGUN, pair.slot.other())?;
        self.look_at(fence, pair)?;
        self.put_superblock(fence, pair, superblock, STEP, pair.slot.other())?;
        self.look_at(fence, pair)
    }

    /// Puts this session's superblock into both slots; an error unless it is the only one to have done so.
    fn contend(&self, fence: &Fence, pair: &mut SuperblockPair) -> Result<()> {
        // What says that the store is closed may not be on the medium: the other one stays until this one is safe.
        let in_place = pair.current.clean_end.is_some() && !pair.other_damaged;
        let (first, second) = if in_place { (pair.slot, pair.slot.other()) } else { (pair.slot.other(), pair.slot) };
        let found = *fence.slots.lock();
        let is_as_found = |slot: SuperblockSlot| Ok::<_, Error>(read_slot(&*self.storage, slot)? == *found.of(slot));
        if !is_as_found(first)? || !is_as_found(second)? {
            return Err(Error::Fenced);
        }
        if self.storage.len()? < DATA_START {
            self.storage.write_at(DATA_START - 1, &[&[0]])?;
        }
        let chance =
            xxhash_rust::xxh3::xxh3_64_with_seed(&self.entropy.to_le_bytes(), pair.current.generation) % (CONTENDERS - 4);
        // A slot that was lost may have held a higher one; but one that comes late must not count for more than those of a later session.
        let step = 1 + chance;
        // Not this session's yet: what the one before it has written until now counts. Should it come late, the other slot has a higher one.
        let superblock = Superblock { clean_end: None, torn_end: false, ..pair.current };
        self.put_superblock(fence, pair, superblock, step, first)?;
        if is(Bug::TakeoverOneSlot) {
            pair.slot = second;
            return Ok(());
        }
        if !is_as_found(second)? {
            return Err(Error::Fenced);
        }
        self.put_superblock(fence, pair, superblock, 1, second)?;
        let own = *fence.slots.lock();
        if read_slot(&*self.storage, first)? == *own.of(first) { Ok(()) } else { Err(Error::Fenced) }
    }

    /// The log once more, now that the one before can acknowledge nothing any more. An error if it has gone on: the index knows nothing of
    /// that.
    fn what_changed(&self, fence: &Fence, pair: &SuperblockPair) -> Result<Standing> {
        if fence.standing.is_clean || is(Bug::TakeoverUnlooked) {
            return Ok(fence.standing.clone());
        }
        self.storage.refresh()?;
        match (fence.follow)(&*self.storage, pair) {
            Ok(standing) if standing.is_as_before(&fence.standing) => Ok(standing),
            // Others write while this reads: what looks like damage need not be any, and whoever opens the store finds out.
            Ok(_) | Err(Error::Corrupt { .. }) => Err(Error::Fenced),
            Err(error) => Err(error),
        }
    }

    /// Says in the log what earlier sessions may still write to, for those that come: only so can they know.
    pub(super) fn claim_again(&self, tail: &mut Tail) -> Result<()> {
        if !self.is_fenced() {
            return Ok(());
        }
        let known = tail.space.barred.iter().filter(|run| run.sessions < REMEMBERED).take(CLAIMED_AGAIN_MAX);
        let claim = |run: &Barred| Next { extent: run.extent, extents: run.extents, base: run.sessions, salt: 0 }.encode();
        let values: Vec<_> = known.map(claim).collect();
        for value in values {
            self.append_locked(tail, &[FrameSpec::control(Kind::Next, &value)], Purpose::BookKeeping, &mut Vec::new())?;
        }
        Ok(())
    }

    /// Says in the log that this session is going to write to a run, before it does.
    pub(super) fn claim(&self, tail: &mut Tail, run: Next) -> Result<()> {
        if !self.is_fenced() {
            return Ok(());
        }
        let run = run.encode();
        self.append_locked(tail, &[FrameSpec::control(Kind::Next, &run)], Purpose::BookKeeping, &mut Vec::new())?;
        self.look()
    }

    /// Damage that a reader has met, when somebody else writes to the file: it may have read what was written over.
    #[cold]
    pub(crate) fn or_fenced(&self, error: Error) -> Error {
        let Some(fence) = self.fence().filter(|_| matches!(error, Error::Corrupt { .. })) else { return error };
        let Some(pair) = self.superblocks.try_lock().map(|pair| *pair) else { return error };
        let is_begun = pair.current.generation != fence.found;
        let is_own = self.see(fence, pair.current.generation).is_ok_and(|seen| seen != Seen::Fenced);
        // A session that has not begun to write tells others nothing: they use what they have compacted without a new superblock.
        let is_as_before = || {
            self.storage.refresh().is_ok()
                && (fence.follow)(&*self.storage, &pair).is_ok_and(|standing| standing.is_as_before(&fence.standing))
        };
        if is_own && (is_begun || is_as_before()) { error } else { Error::Fenced }
    }
}

/// A slot as it stands in the file now.
pub(crate) fn read_slot(storage: &dyn Storage, slot: SuperblockSlot) -> Result<[u8; SECTOR]> {
    let mut bytes = [0; SECTOR];
    storage.read_now(slot.offset(), &mut bytes)?;
    Ok(bytes)
}

/// Both of them.
pub(crate) fn read_slots(storage: &dyn Storage) -> Result<Slots> {
    Ok(Slots([read_slot(storage, SuperblockSlot::A)?, read_slot(storage, SuperblockSlot::B)?]))
}
