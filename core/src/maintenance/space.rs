//! Making space for a write or a removal that finds none.

use super::checkpoint::Extent;
use super::{choose, stranded};
use crate::error::{Error, Result};
use crate::log::Segment;
use crate::planted::{Bug, is};
use crate::store::Store;
use crate::sync::Ordering;
use alloc::vec::Vec;

/// After a write found no room and could make none, later ones try again only when another 1/64 of a segment has become dead.
const DEAD_PARTS: u64 = 64;

impl Store {
    /// Like [`Self::with_reclaimed`], for new data: if that is not enough, compacts segments while that makes room, and repeats the write.
    pub(crate) fn with_room<T>(&self, write: impl Fn() -> Result<T>) -> Result<T> {
        match self.caught_up(&write) {
            Ok(written) => Ok(written),
            Err(error) => match self.healed_again(error, &mut || write()) {
                Err(Error::NoSpace) => self.write_into_new_room(&write),
                result => result,
            },
        }
    }

    /// Runs a write; if there is no space for it, frees retired segments that only wait for a sync or for readers, and runs it again.
    pub(crate) fn with_reclaimed<T>(&self, write: impl Fn() -> Result<T>) -> Result<T> {
        match self.caught_up(&write) {
            Ok(written) => Ok(written),
            Err(error) => match self.healed_again(error, &mut || write()) {
                Err(Error::NoSpace) => self.write_reclaimed(&write),
                result => result,
            },
        }
    }

    #[inline]
    fn caught_up<T>(&self, write: impl Fn() -> Result<T>) -> Result<T> {
        self.let_the_first_go();
        if self.overdue.load(Ordering::Relaxed) {
            self.catch_up_if_possible();
        }
        write()
    }

    #[cold]
    fn write_reclaimed<T>(&self, write: &dyn Fn() -> Result<T>) -> Result<T> {
        // A poisoned log takes no more writes, whatever the error was.
        if self.engine.log.is_poisoned() {
            return Err(Error::NoSpace);
        }
        self.reclaim()?;
        write()
    }

    #[cold]
    fn write_into_new_room<T>(&self, write: &dyn Fn() -> Result<T>) -> Result<T> {
        match self.write_reclaimed(write) {
            Err(Error::NoSpace) if !self.engine.log.is_poisoned() && !is(Bug::RemovalsMakeNoRoom) => self.write_again(write),
            result => result,
        }
    }

    fn write_again<T>(&self, write: &dyn Fn() -> Result<T>) -> Result<T> {
        if self.options.compact_dead_share > 1.0 || self.may_wait_for_the_turn().is_err() {
            return Err(Error::NoSpace);
        }
        let _turn = self.turn.lock();
        self.engine.build_all(&|| self.is_closed())?;
        self.let_acknowledged_go()?;
        // A caller that retries at once would otherwise have every segment checked again.
        let log = &self.engine.log;
        if self.engine.moments.take_ended() {
            self.dead_left.store(0, Ordering::Relaxed);
        }
        if self.dead_bytes() < self.dead_left.load(Ordering::Relaxed).saturating_add(log.geometry.segment_size() / DEAD_PARTS) {
            return Err(Error::NoSpace);
        }
        let until = log.end();
        // The last attempt is made with what was freed before.
        let mut more = true;
        while more {
            more = match self.make_room_once(until) {
                Err(Error::NoSpace) => false,
                result => result?,
            };
            // A list of many short segments takes several free ones side by side: no write may take these one by one.
            if more
                && log.replay_debt() >= log.between_lists(self.options.replay_debt_max)
                && self.list_pays(&self.unlisted_too())
            {
                match self.write_checkpoint(Extent::Changes) {
                    Err(Error::NoSpace) => continue,
                    result => result?,
                }
            }
            let written = write();
            if !matches!(written, Err(Error::NoSpace)) || log.is_poisoned() {
                return written;
            }
        }
        self.dead_left.store(self.dead_bytes(), Ordering::Relaxed);
        Err(Error::NoSpace)
    }

    /// Runs a removal; if there is no space even for that, frees some and runs it again.
    pub(crate) fn with_space<T>(&self, removal: impl Fn() -> Result<T>) -> Result<T> {
        self.or_what_is_kept(self.try_with_space(removal))
    }

    fn try_with_space<T>(&self, removal: impl Fn() -> Result<T>) -> Result<T> {
        self.make_space()?;
        match self.with_reclaimed(&removal) {
            Err(Error::NoSpace) if !self.engine.log.is_poisoned() => {
                self.make_space_now()?;
                removal()
            }
            result => result,
        }
    }

    /// Called before every operation that may remove something: when space is low, compacts first. After the removal, the live records of
    /// the best victim might not fit any more.
    pub(crate) fn make_space(&self) -> Result<()> {
        if self.engine.log.space_low.load(Ordering::Relaxed) { self.make_space_now() } else { Ok(()) }
    }

    #[cold]
    fn make_space_now(&self) -> Result<()> {
        self.may_wait_for_the_turn()?;
        let _turn = self.turn.lock();
        self.free_a_segment()
    }

    fn reclaim(&self) -> Result<()> {
        let log = &self.engine.log;
        self.engine.forget_ended_moments();
        log.sync_to(log.end())?;
        if self.reclaim_noted() + self.engine.reclaim_index() == 0 { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Compacts until a segment is free again, or no segment fits: removals must keep working on a full medium, and with each of them the
    /// live records of some segment come closer to fitting into the rest of the active one.
    ///
    /// Where that frees none, the oldest snapshot is ended, and so on: removals come before snapshots, and before history, which goes last.
    pub(super) fn free_a_segment(&self) -> Result<()> {
        self.end_purges()?;
        self.let_acknowledged_go()?;
        self.try_to_free_a_segment()?;
        while !self.engine.log.has_reserve() && self.engine.end_oldest_moment() {
            self.end_purges()?;
            self.reclaim_noted();
            self.try_to_free_a_segment()?;
        }
        if !self.engine.log.has_reserve() && self.give_up_history()? {
            self.reclaim_noted();
            self.try_to_free_a_segment()?;
        }
        Ok(())
    }

    /// Frees the retired segments to which notes for snapshots have just been dropped: the first attempt takes new tickets, which pass in the
    /// second.
    pub(super) fn reclaim_noted(&self) -> u64 {
        let log = &self.engine.log;
        log.reclaim(&self.engine.pins) + log.reclaim(&self.engine.pins)
    }

    /// Ends the oldest snapshots while they hold more than the builder's limit.
    pub(super) fn limit_snapshots(&self) {
        let Some(limit) = self.options.snapshot_limit else { return };
        self.engine.forget_ended_moments();
        while self.engine.moments.any() && self.engine.log.noted_bytes() + self.engine.moments.figures().bytes > limit {
            if !self.engine.end_oldest_moment() {
                return;
            }
            self.reclaim_noted();
        }
    }

    fn try_to_free_a_segment(&self) -> Result<()> {
        let log = &self.engine.log;
        let is_low = || !log.has_reserve();
        log.reclaim(&self.engine.pins);
        // If the medium still has room, nothing has to be compacted.
        if !log.secure_free(1)? {
            self.engine.build_all(&|| false)?;
            stranded::make_way(&self.engine)?;
        }
        let until = log.end();
        let mut may_checkpoint = log.replay_debt() > log.geometry.segment_size() / 2;
        let mut tried = Vec::new();
        while is_low() {
            let Some(victim) = choose::worst_that_fits(&self.engine, until, &tried) else {
                if !may_checkpoint {
                    return Ok(());
                }
                may_checkpoint = false;
                match self.write_checkpoint(Extent::Changes) {
                    Ok(()) => tried.clear(),
                    Err(Error::NoSpace) => return Ok(()),
                    Err(error) => return Err(error),
                }
                continue;
            };
            tried.push(victim.base);
            match self.compact_one(&victim, &mut |_| {}) {
                Ok(_) | Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
        }
        log.space_low.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Compacts the segment that gains most, for a write that has found no room; false when none is worth it.
    ///
    /// Each segment keeps as much dead space as removals need to free some. A new segment list may take the reserve, if what is compacted then
    /// brings it back: segments that the list names can be retired without another one.
    pub(crate) fn make_room_once(&self, until: u64) -> Result<bool> {
        let log = &self.engine.log;
        let is_all_dead = |segment: &Segment| choose::needed_bytes(&self.engine, segment, false) <= choose::SLACK;
        let candidates = self.unlisted_too();
        if log.secure_free(1)? {
            let Some(victim) = self.victim_for_a_write(&candidates, until, &[]) else { return Ok(false) };
            if log.newest_checkpoint().is_none_or(|place| victim.base >= place.base) {
                let is_listed = self.list_pays(&candidates)
                    && match self.write_checkpoint(Extent::Changes) {
                        Err(Error::NoSpace) => false,
                        result => result.map(|()| true)?,
                    };
                if !is_listed {
                    return self.compact_listed(until, false);
                }
            }
        } else if log.replay_debt() > log.geometry.segment_size() / 2
            && !choose::candidates(&self.engine).iter().any(is_all_dead)
            && candidates.iter().any(|segment| is_all_dead(segment) && self.is_reserve(segment))
        {
            // A list may fit where no record does.
            self.write_checkpoint(Extent::Changes)?;
        }
        self.compact_listed(until, true)
    }

    /// The segments that could be compacted if a new list named them: all but the active one.
    fn unlisted_too(&self) -> Vec<Segment> {
        let (_, active) = self.engine.log.segments_and_active();
        choose::candidates_below(&self.engine, active.unwrap_or(u64::MAX))
    }

    /// Compacts the segment that gains most of those that the newest list names; false when none is worth it, or fits. Unless it `may_copy`, only
    /// one of which nothing has to be copied. While the reserve is in use, also one that becomes the reserve and fits into the active segment.
    fn compact_listed(&self, until: u64, may_copy: bool) -> Result<bool> {
        let (engine, log) = (&self.engine, &self.engine.log);
        let candidates = choose::candidates(engine);
        let mut passed = Vec::new();
        if !may_copy || !log.has_reserve() {
            let room = if may_copy { log.room_of_active() } else { 0 };
            let costs_room = |segment: &&Segment| {
                let needed = choose::needed_bytes(engine, segment, false);
                needed > choose::SLACK && !(self.is_reserve(segment) && needed <= room)
            };
            passed.extend(candidates.iter().filter(costs_room).map(|segment| segment.base));
        }
        let Some(victim) = self.victim_for_a_write(&candidates, until, &passed) else { return Ok(false) };
        self.compact_one(&victim, &mut |_| {}).map(|report| report.segments_retired > 0)
    }

    /// The segment of `candidates`, which begin with the oldest, that gains most, but for those in `passed`.
    fn victim_for_a_write(&self, candidates: &[Segment], until: u64, passed: &[u64]) -> Option<Segment> {
        let engine = &self.engine;
        let begins_with_oldest = choose::begins_with_oldest(engine, candidates, &|_| false);
        let is_first =
            |segment: &Segment| begins_with_oldest && candidates.first().is_some_and(|first| first.base == segment.base);
        // What becomes history makes no room.
        let is_set_aside =
            |segment: &Segment| engine.is_set_aside(segment, is_first(segment)) || engine.log.is_held_as_history(segment);
        let set_aside = candidates.iter().filter(|segment| is_set_aside(segment)).map(|segment| segment.base);
        let passed: Vec<u64> = set_aside.chain(passed.iter().copied()).collect();
        choose::worst_for_a_write(engine, candidates, until, &passed)
    }

    /// True when a segment list fits into the active segment, or may begin a new one, which takes the reserve: then the live records of one of
    /// `candidates` fit behind it, and its place can be the reserve.
    fn list_pays(&self, candidates: &[Segment]) -> bool {
        let (engine, log) = (&self.engine, &self.engine.log);
        let list = log.list_len(log.segment_count());
        let brings_back = |segment: &Segment| {
            let both = list + choose::needed_bytes(engine, segment, false);
            self.is_reserve(segment) && both <= choose::taken_bytes(engine, segment)
        };
        log.room_of_active() >= list || candidates.iter().any(brings_back)
    }

    /// True when the place of a segment can be the reserve.
    fn is_reserve(&self, segment: &Segment) -> bool {
        self.engine.log.reserve_extents().contains(&(segment.extent + segment.extents - 1))
    }

    /// Turns `NoSpace` into [`Error::StrandedInTheWay`] when only [giving up](crate::Db::drop_stranded) stranded records would free space.
    /// The caller holds no lock.
    pub(crate) fn or_what_is_kept<T>(&self, result: Result<T>) -> Result<T> {
        match result {
            Err(Error::NoSpace) if !self.engine.log.is_poisoned() => match choose::kept_for_stranded(&self.engine) {
                0 => Err(Error::NoSpace),
                bytes => Err(Error::StrandedInTheWay { bytes }),
            },
            result => result,
        }
    }
}
