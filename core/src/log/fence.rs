//! Two sessions on one file, where the host has no locks.
//!
//! A session that begins to write puts its superblock into both slots and checks that both are still its own; of several sessions that
//! begin at once, at most one succeeds (the splitter of Lamport's fast mutual exclusion, with the slots as the two registers). Then it
//! reads what the earlier session has written meanwhile. It never writes to an extent that the earlier session may still write to: the
//! last segment of the log, and the extents that `next` frames and the superblock name, since each session names an extent before it
//! checks the slots, and checks them before it writes there. The earlier session finds the superblock of a higher generation
//! after its flush, and does not acknowledge the flush.

use super::space::{Barred, Purpose, Run};
#[cfg(feature = "encrypt")]
use super::superblock::GENERATIONS_OF_CREATION;
use super::superblock::{SECTOR, Slots, SuperblockSlot};
use super::{ActivePlace, Log, Superblock, SuperblockPair, Tail};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Next};
use crate::limits::{DATA_START, LOG_POSITION_MAX, LOG_POSITION_SPARE};
use crate::planted::{Bug, is};
use crate::sorted::sort_by_key;
use crate::storage::Storage;
use crate::sync::{AtomicU64, Mutex, Ordering};
use alloc::vec::Vec;

/// Sessions that contend pick a generation at random out of this many, so that no two of them are likely to pick the same one.
const CONTENDERS: u64 = 1 << 24;
/// Generation step from one superblock of a session to the next: more than any contender adds.
const STEP: u64 = CONTENDERS;
/// Generation step from the superblock that a session found to its first own: more than the session before may still add.
const BEGUN: u64 = 16 * STEP;
/// Generation step from a superblock whose neighbour is unreadable: that one may have been a session ahead.
pub(super) const LOST: u64 = 4 * BEGUN;
/// Limit of reads of a slot whose checksum does not match: another session may be writing it.
const READS_MAX: usize = 16;
/// Limit of times that a late superblock is overwritten; after that another session is taken to be alive.
const REPAIRS_MAX: usize = 32;

/// Number of later sessions that do not write to an extent which an earlier session may still write to ...
const REMEMBERED: u64 = 4;
/// ... and of those that do not while less than `ASLEEP` milliseconds have passed: a session sleeps for a time, and in a crowd many others
/// take the store over meanwhile. As long as the extents are not more than `ASLEEP_BYTES`.
pub(crate) const REMEMBERED_MOST: u64 = 64;
const ASLEEP: u64 = 10_000;
const ASLEEP_BYTES: u64 = 2 << 20;

/// State of the log at one reading: tells whether it has grown since, and where other sessions may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Log position of its end.
    pub(crate) end: u64,
    /// Number of records after the checkpoint, and the segments retired there.
    pub(crate) records: usize,
    pub(crate) retired: usize,
    /// The last session has closed the store.
    pub(crate) is_clean: bool,
    /// Runs that other sessions may write to without being part of the log yet, each with the log position of its end.
    pub(crate) claims: Vec<(Barred, u64)>,
    /// Extents of the last segment, to which the earlier session may still append, and of those that one which has begun to take the store
    /// over may still write again.
    pub(crate) unsettled: Vec<(u32, u32)>,
    /// The next unused base and header number.
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

/// Reads the state of the log.
pub(crate) type Follow = fn(&dyn Storage, &SuperblockPair) -> Result<Standing>;

/// Writes those copies of the page of keys again that are not as they should be, or all of them, each behind a look; false if none was written.
#[cfg(feature = "encrypt")]
pub(crate) type Mend = fn(&dyn Storage, bool, &dyn Fn() -> Result<()>) -> Result<bool>;

/// State of a session that shares its file.
pub(crate) struct Fence {
    pub(crate) follow: Follow,
    /// State of the log at opening.
    pub(crate) standing: Standing,
    /// Generation of the current superblock at opening.
    pub(crate) found: u64,
    /// Both slots as last read or written.
    pub(crate) slots: Mutex<Slots>,
    /// The host's time at the last look that found both slots as they were.
    pub(crate) looked: AtomicU64,
    /// Mends the page of keys of a sealed store.
    #[cfg(feature = "encrypt")]
    pub(crate) mend: Mend,
}

/// Result of checking the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Both hold what this session wrote.
    Own,
    /// A late write of an earlier session has reached this slot.
    Late(SuperblockSlot),
    /// A later session has begun.
    Fenced,
}

impl Log {
    /// `None` where nobody else can write to the file; known at compile time without the feature `shared-files`.
    #[inline]
    pub(super) fn fence(&self) -> Option<&Fence> {
        if cfg!(feature = "shared-files") { self.fence.as_deref() } else { None }
    }

    /// True if another session may write to the file, too.
    #[inline]
    pub(crate) fn is_fenced(&self) -> bool {
        self.fence().is_some()
    }

    /// Checks both slots; poisons the store with [`Error::Fenced`] if another session has taken it over.
    pub(crate) fn look(&self) -> Result<()> {
        let Some(fence) = self.fence() else { return Ok(()) };
        self.look_at(fence, &mut self.superblocks.lock())
    }

    /// As [`Self::look`], but only for a session that has begun to write: one that has not has nothing to lose.
    pub(super) fn look_if(&self, announced: bool) -> Result<()> {
        if announced { self.look() } else { Ok(()) }
    }

    /// Called in front of each write to the log: looks, unless it has done so within the same millisecond. Between two calls of the user a
    /// session may have slept for any time.
    #[inline]
    pub(crate) fn look_again(&self) -> Result<()> {
        let Some(fence) = self.fence() else { return Ok(()) };
        let now = self.clock.host_time();
        let is_fresh = now != 0 && now == fence.looked.load(Ordering::Relaxed);
        if is_fresh || is(Bug::AppendNotLookedFor) { Ok(()) } else { self.look() }
    }

    /// Makes what was written readable for others, while this session still owns the store: then it finds out if one that has taken the
    /// store over may not have read it.
    pub(super) fn show(&self) -> Result<()> {
        if !self.is_fenced() {
            return Ok(());
        }
        self.look_again()?;
        self.storage.hand_over().map_err(|error| self.poison(error.into()))?;
        self.look()
    }

    fn look_at(&self, fence: &Fence, pair: &mut SuperblockPair) -> Result<()> {
        let now = self.clock.host_time();
        for _ in 0..REPAIRS_MAX {
            match self.see(fence, &pair.current)? {
                Seen::Own => {
                    fence.looked.store(now, Ordering::Relaxed);
                    return Ok(());
                }
                Seen::Fenced => break,
                Seen::Late(slot) => self.put_superblock(fence, pair, pair.current, STEP, slot)?,
            }
        }
        Err(self.poison(Error::Fenced))
    }

    fn see(&self, fence: &Fence, current: &Superblock) -> Result<Seen> {
        let expected = *fence.slots.lock();
        let is_later = |session: u64| session > current.session && !is(Bug::LaterSessionRepaired);
        for slot in [SuperblockSlot::A, SuperblockSlot::B] {
            for left in (0..READS_MAX).rev() {
                let found = read_slot(&*self.storage, slot)?;
                if found == *expected.of(slot) {
                    break;
                }
                match Superblock::generation_and_session_of(&found, slot) {
                    // Not a late write: this one contends from the superblock before the current one, and may have won already.
                    Some((theirs, _)) if theirs + STEP >= current.generation => return Ok(Seen::Fenced),
                    // Nor is this: a session that was begun behind this one. A late write had hidden from it that this one has begun, too.
                    Some((_, session)) if is_later(session) => return Ok(Seen::Fenced),
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
        let bytes = current.stored(&*self.storage, slot)?;
        *fence.slots.lock().of_mut(slot) = bytes;
        self.storage.write_at(slot.offset(), &[&bytes]).map_err(|error| self.poison(error.into()))?;
        self.sync_alone()?;
        self.became(pair, current, slot);
        Ok(())
    }

    /// [`Log::flip`] for a shared file: checks the slots before and after the write.
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

    /// Takes the store over before the first append of a session that shares its file.
    pub(super) fn take_over(&self, fence: &Fence, tail: &mut Tail) -> Result<()> {
        // After any failure the slots no longer hold what this session knows.
        self.take_over_once(fence, tail).map_err(|error| self.poison(error))
    }

    fn take_over_once(&self, fence: &Fence, tail: &mut Tail) -> Result<()> {
        let pair = {
            let mut pair = self.superblocks.lock();
            self.contend(fence, &mut pair)?;
            *pair
        };
        let standing = self.what_changed(fence, &pair)?;
        #[cfg(feature = "encrypt")]
        self.mend_keys(fence)?;
        self.settle(tail)?;
        let now = self.clock.host_time();
        tail.next_base = standing.claims.iter().map(|&(_, behind)| behind).fold(tail.next_base, u64::max);
        self.remembered(&standing, now).into_iter().for_each(|run| tail.space.bar(run));
        let others = if is(Bug::WrittenAgainLate) { standing.unsettled.get(..1) } else { Some(&*standing.unsettled) };
        // A sealed session begins a segment behind a closed one, too; nobody writes to that any more.
        let is_left = tail.active.is_none() && !(self.is_sealed() && standing.is_clean);
        for &(extent, extents) in others.filter(|_| is_left).unwrap_or_default() {
            tail.space.bar(Barred { extent, extents, sessions: 1, since: now });
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

    /// Both superblocks name the page of keys with which this session has opened the store: a change of it that was cut short is undone. Behind a
    /// creation that was cut short, nobody knows whether the page was synced.
    #[cfg(feature = "encrypt")]
    fn mend_keys(&self, fence: &Fence) -> Result<()> {
        let has_written = (fence.mend)(&*self.storage, fence.found <= GENERATIONS_OF_CREATION, &|| self.look())?;
        if has_written { self.sync_alone().and_then(|()| self.look()) } else { Ok(()) }
    }

    /// The runs that this session leaves alone, those first that were left last.
    fn remembered(&self, standing: &Standing, now: u64) -> Vec<Barred> {
        let since = |run: &Barred| if run.sessions == 0 { now } else { run.since };
        let barred = |(run, _): &(Barred, u64)| Barred { sessions: run.sessions + 1, since: since(run), ..*run };
        let mut runs: Vec<Barred> = standing.claims.iter().map(barred).collect();
        sort_by_key(&mut runs, |run| run.sessions);
        let mut bytes = 0;
        runs.retain(|run| {
            bytes += self.geometry.len_of(run.extent, run.extents);
            let may_sleep = run.since != 0 && now.saturating_sub(run.since) < ASLEEP && !is(Bug::SleepersForgotten);
            run.sessions <= REMEMBERED || may_sleep && run.sessions < REMEMBERED_MOST && bytes <= ASLEEP_BYTES
        });
        runs
    }

    /// Records in both slots that this session has begun, and which extents it is going to write to.
    fn begin(&self, fence: &Fence, active: ActivePlace) -> Result<()> {
        let mut pair = self.superblocks.lock();
        let pair = &mut *pair;
        let synced = pair.current.synced.max(self.sync_state.synced());
        let session = pair.current.generation + BEGUN;
        let clock = self.clock_to_write(pair.current.clock);
        let superblock = Superblock { active, synced, session, clock, headers: self.headers_so_far(), ..pair.current };
        if is(Bug::TakeoverOneSlot) {
            return self.put_superblock(fence, pair, superblock, BEGUN, pair.slot.other());
        }
        // Both slots: a late write of an earlier session must not hide which extents this one is going to write to. With a check in
        // between: two late superblocks of this session would replace both of a later one.
        self.look_at(fence, pair)?;
        self.put_superblock(fence, pair, superblock, BEGUN, pair.slot.other())?;
        self.look_at(fence, pair)?;
        self.put_superblock(fence, pair, superblock, STEP, pair.slot.other())?;
        self.look_at(fence, pair)
    }

    /// Puts this session's superblock into both slots. Fails with [`Error::Fenced`] if another session contends.
    fn contend(&self, fence: &Fence, pair: &mut SuperblockPair) -> Result<()> {
        // The superblock that marks the store as closed may not be on the medium: the other slot stays until the new one is synced.
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
        // A lost slot may have held a higher generation; but a late write of this superblock must not outrank those of a later session.
        let step = 1 + chance;
        // Keeps the earlier session's fields, since everything that it has written until now counts. If this write comes late, the other
        // slot has a higher generation.
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

    /// Reads the log again, now that the earlier session can acknowledge nothing any more. Fails with [`Error::Fenced`] if the log has
    /// grown: the index does not have those records.
    fn what_changed(&self, fence: &Fence, pair: &SuperblockPair) -> Result<Standing> {
        if fence.standing.is_clean || is(Bug::TakeoverUnlooked) {
            return Ok(fence.standing.clone());
        }
        self.storage.refresh()?;
        match (fence.follow)(&*self.storage, pair) {
            Ok(standing) if standing.is_as_before(&fence.standing) => Ok(standing),
            // Others may write during this read, so apparent damage need not be real; the next opening of the store finds out.
            Ok(_) => Err(Error::Fenced),
            Err(error) if error.may_be_torn_apart() => Err(Error::Fenced),
            Err(error) => Err(error),
        }
    }

    /// Records in the log which runs earlier sessions may still write to: later sessions learn it only from there.
    pub(super) fn claim_again(&self, tail: &mut Tail) -> Result<()> {
        if !self.is_fenced() {
            return Ok(());
        }
        let known = tail.space.barred.iter().take(REMEMBERED_MOST as usize);
        let claim =
            |run: &Barred| Next { extent: run.extent, extents: run.extents, base: run.sessions, salt: run.since }.encode();
        let values: Vec<_> = known.map(claim).collect();
        for value in values {
            self.append_locked(tail, &[FrameSpec::control(Kind::Next, &value)], Purpose::BookKeeping, &mut Vec::new())?;
        }
        Ok(())
    }

    /// Records in the log that this session is going to write to a run, before it does.
    pub(super) fn claim(&self, tail: &mut Tail, run: Next) -> Result<()> {
        if !self.is_fenced() {
            return Ok(());
        }
        let run = run.encode();
        self.append_locked(tail, &[FrameSpec::control(Kind::Next, &run)], Purpose::BookKeeping, &mut Vec::new())?;
        self.show()
    }

    /// Makes the file reach into the last extent of a run that this session has claimed, as it does where space is reserved: readers refuse
    /// a segment whose last extent begins behind the end of the file, and a short list of segments does not write that far.
    pub(super) fn reach(&self, run: Run) -> Result<()> {
        if !self.is_fenced() || run.extents < 2 {
            return Ok(());
        }
        let last = self.geometry.start(run.extent + run.extents - 1);
        if self.storage.len()? <= last {
            self.storage.write_at(last, &[&[0]])?;
        }
        Ok(())
    }

    /// Turns what seems damaged or forged into [`Error::Fenced`] if another session has taken the store over: the reader may have met
    /// overwritten bytes. Returns any other error unchanged. For a follower, see [`Self::or_overtaken`].
    #[cold]
    pub(crate) fn or_fenced(&self, error: Error) -> Error {
        if self.follows() {
            return self.or_overtaken(error);
        }
        let Some(fence) = self.fence().filter(|_| error.may_be_torn_apart()) else { return error };
        let Some(pair) = self.superblocks.try_lock().map(|pair| *pair) else { return error };
        let is_begun = pair.current.generation != fence.found;
        let is_own = self.see(fence, &pair.current).is_ok_and(|seen| seen != Seen::Fenced);
        // Others do not know of a session that has not begun to write: they reuse compacted segments without a new superblock.
        let is_as_before = || {
            self.storage.refresh().is_ok()
                && (fence.follow)(&*self.storage, &pair).is_ok_and(|standing| standing.is_as_before(&fence.standing))
        };
        if is_own && (is_begun || is_as_before()) { error } else { Error::Fenced }
    }
}

/// Reads a slot from the file, past any cache.
pub(crate) fn read_slot(storage: &dyn Storage, slot: SuperblockSlot) -> Result<[u8; SECTOR]> {
    let mut bytes = [0; SECTOR];
    storage.read_now(slot.offset(), &mut bytes)?;
    Ok(bytes)
}

/// Reads both slots from the file, past any cache.
pub(crate) fn read_slots(storage: &dyn Storage) -> Result<Slots> {
    Ok(Slots([read_slot(storage, SuperblockSlot::A)?, read_slot(storage, SuperblockSlot::B)?]))
}

#[cfg(test)]
mod tests;
