//! Explicit compaction, in three steps: choose segments, empty them, shorten the file.

use super::checkpoint::Extent;
use super::choose::{self, PARTS_ASKED};
use super::due::unless_full;
use super::emptying::Emptying;
use super::report::{CompactProgress, CompactReport};
use super::stranded;
use crate::error::{Error, Result};
use crate::log::Segment;
use crate::store::Store;
use alloc::vec::Vec;

/// Bytes that it copies per sync; a concurrent flush may wait for as many to be written.
const COPIED_ASKED: u64 = 16 * 1024 * 1024;

/// The plan of a compaction.
struct Plan {
    /// The segments that may be emptied, oldest first.
    segments: Vec<Segment>,
    /// Segments up to this base are emptied however little of them is dead, so that the tombstones after them can be dropped.
    front: Option<u64>,
    /// Base of the segment that took appends when the compaction began.
    active: Option<u64>,
    /// Much of the file is free but not at its end, so it cannot be cut off.
    has_gaps: bool,
}

impl Store {
    pub(crate) fn compact(&self, progress: &mut dyn FnMut(CompactProgress)) -> Result<CompactReport> {
        self.or_what_is_kept(self.compact_all(progress))
    }

    fn compact_all(&self, progress: &mut dyn FnMut(CompactProgress)) -> Result<CompactReport> {
        let _turn = self.turn.lock();
        let log = &self.engine.log;
        self.writable()?;
        self.heal_unasked()?;
        self.engine.build_all(&|| false)?;
        self.end_purges()?;
        self.settle_floor()?;
        let before = log.storage.len()?;
        log.sync_to(log.end())?;
        self.reclaim_noted();
        stranded::make_way(&self.engine)?;
        let mut report = CompactReport::default();
        if let Some(plan) = self.plan_compaction()? {
            self.empty_all(&plan, progress, &mut report)?;
            #[cfg(feature = "compress")]
            self.mend_dictionaries()?;
            if report.segments_retired > 0 || plan.has_gaps {
                self.settle(&mut report)?;
            }
        }
        log.reclaim(&self.engine.pins);
        #[cfg(feature = "compress")]
        self.drop_dictionaries()?;
        self.engine.reclaim_index();
        log.shrink()?;
        report.bytes_freed = report.bytes_freed.max(before.saturating_sub(log.storage.len()?));
        Ok(report)
    }

    /// Plans a compaction; `None` when there is nothing worth doing. Otherwise the log continues in a new segment, after a checkpoint, so
    /// that everything written so far may be compacted.
    fn plan_compaction(&self) -> Result<Option<Plan>> {
        let (engine, log) = (&self.engine, &self.engine.log);
        #[cfg(feature = "compress")]
        let pending = self.begin_training()?;
        #[cfg(feature = "compress")]
        self.find_homes()?;
        let (live, active) = log.segments_and_active();
        let is_dead =
            |segment: &Segment| choose::is_worth_it(engine, segment, active, false) && !engine.is_set_aside(segment, false);
        let is_worth_it = live.iter().any(is_dead)
            || choose::front_of_tombstones(engine, &live, PARTS_ASKED) > 0
            || !engine.waits_for_older().is_empty();
        #[cfg(feature = "compress")]
        let is_worth_it = {
            let compressor = self.compressor()?;
            is_worth_it || pending.is_some() || live.iter().any(|segment| self.is_worth_compressing(&compressor, segment))
        };
        let has_gaps = choose::has_gaps(engine);
        if !is_worth_it && !has_gaps {
            return Ok(None);
        }
        // Not when fewer than two segments are free.
        if log.secure_free(2)? {
            log.seal_active()?;
        }
        #[cfg(feature = "compress")]
        if let Some(pending) = pending {
            self.finish_training(pending, true)?;
        }
        // Without space for a checkpoint, segments before the previous one can still be compacted.
        unless_full(self.write_checkpoint(Extent::Changes))?;
        let segments = choose::candidates(engine);
        let front = choose::front_of_tombstones(engine, &segments, PARTS_ASKED);
        let front = segments.iter().take(front).map(|segment| segment.base).next_back();
        Ok(Some(Plan { segments, front, active, has_gaps }))
    }

    /// Begins to empty these segments, in this order, with another thread that reads them if the store has threads.
    #[cfg_attr(not(feature = "std"), expect(unused_variables, reason = "a build with the standard library plans"))]
    pub(super) fn emptying_asked(&self, planned: Vec<Segment>) -> Result<Emptying<'_>> {
        let emptying = self.emptying(COPIED_ASKED)?;
        #[cfg(feature = "std")]
        let emptying = if self.options.has_thread() { emptying.with_reader() } else { emptying }.with_plan(planned);
        Ok(emptying)
    }

    /// Empties the planned segments, oldest first. A segment for whose records there is no room is tried again after the others, which may
    /// make room.
    fn empty_all(&self, plan: &Plan, progress: &mut dyn FnMut(CompactProgress), report: &mut CompactReport) -> Result<()> {
        let engine = &self.engine;
        let total = plan.segments.len() as u64;
        let mut segments = plan.segments.clone();
        #[cfg(feature = "compress")]
        let compressor = self.compressor()?;
        #[cfg(feature = "compress")]
        {
            // Last, so that the log need not go on in another segment while this one is hardly used.
            let homes = engine.homes.read();
            segments.sort_by_key(|segment| plan.front.is_none() && homes.contains(&segment.base));
        }
        let is_in_front = |segment: &Segment| plan.front.is_some_and(|last| segment.base <= last);
        let is_planned = |segment: &&Segment| is_in_front(segment) || choose::is_worth_it(engine, segment, plan.active, false);
        let emptying = self.emptying_asked(segments.iter().filter(is_planned).copied().collect())?;
        let mut emptying = emptying.with_first_sync_after(engine.log.geometry.segment_size());
        let mut oldest = choose::begins_with_oldest(engine, &segments, &|_| false);
        let mut done = 0;
        while !segments.is_empty() {
            let mut put_off = Vec::new();
            let before = report.segments_retired;
            for segment in segments {
                progress(CompactProgress { segments_done: done, segments_total: total });
                let is_wanted = is_in_front(&segment) || choose::is_worth_it(engine, &segment, plan.active, oldest);
                #[cfg(feature = "compress")]
                let (is_needed, is_wanted) = (is_wanted, is_wanted || self.is_worth_compressing(&compressor, &segment));
                #[cfg(not(feature = "compress"))]
                let is_needed = true;
                if engine.is_set_aside(&segment, oldest) || !is_wanted {
                    oldest = false;
                    done += 1;
                    continue;
                }
                match self.empty_next(&mut emptying, &segment) {
                    Ok(one) => {
                        report.add(one);
                        done += 1;
                    }
                    Err(Error::NoSpace) => {
                        oldest = false;
                        done += u64::from(!is_needed);
                        // Compressing it may wait until there is space.
                        put_off.extend(is_needed.then_some(segment));
                    }
                    Err(error) => return Err(error),
                }
            }
            report.bytes_freed += self.free(&mut emptying)?;
            if report.segments_retired == before && !put_off.is_empty() {
                if report.segments_retired == 0 {
                    return Err(Error::NoSpace);
                }
                break;
            }
            segments = put_off;
        }
        self.empty_in_front_of_damage(&mut emptying, report)?;
        progress(CompactProgress { segments_done: total, segments_total: total });
        Ok(())
    }

    /// Empties one more segment, behind a checkpoint if one is due: replay stays bounded, and so does what is newer than an index in the file.
    fn empty_next(&self, emptying: &mut Emptying<'_>, segment: &Segment) -> Result<CompactReport> {
        // Ignore a full medium: this compaction may make room for the next checkpoint.
        unless_full(self.checkpoint_if_due())?;
        self.empty(emptying, segment, &mut |_| {})
    }

    /// Empties the segments before those with damage that may have been a tombstone: such damage can be dropped once nothing older is left.
    fn empty_in_front_of_damage(&self, emptying: &mut Emptying<'_>, report: &mut CompactReport) -> Result<()> {
        let Some(last) = self.engine.waits_for_older().into_iter().max() else { return Ok(()) };
        let segments = choose::candidates(&self.engine);
        let mut oldest = choose::begins_with_oldest(&self.engine, &segments, &|segment| emptying.holds(segment));
        for segment in segments.into_iter().take_while(|segment| segment.base <= last) {
            if self.engine.is_set_aside(&segment, oldest) {
                oldest = false;
                continue;
            }
            match self.empty_next(emptying, &segment) {
                Ok(one) => report.add(one),
                Err(Error::NoSpace) => break,
                Err(error) => return Err(error),
            }
        }
        report.bytes_freed += self.free(emptying)?;
        Ok(())
    }

    /// The end of a compaction: makes the file as short as possible.
    fn settle(&self, report: &mut CompactReport) -> Result<()> {
        self.move_down(report)?;
        // The previous snapshot had to stay until this one was safe. Its space is free now, so writing another one there may shorten the
        // file.
        if self.engine.log.snapshot_could_move_down() {
            unless_full(self.write_checkpoint(Extent::Whole))?;
        }
        Ok(())
    }

    /// Writes a checkpoint, with a segment list without the retired ones and a snapshot that points at the copies. The first copies went to
    /// the end of the file, because nothing was free yet: moves segments at the end into free space, so that the file can be cut.
    fn move_down(&self, report: &mut CompactReport) -> Result<()> {
        let log = &self.engine.log;
        log.reclaim(&self.engine.pins);
        let usage = log.usage();
        // Not exact: the copies need a segment to go to, and the snapshot moves with every checkpoint.
        let used = usage.extents - usage.free_extents;
        let is_misplaced = usage.last_extent > used;
        // With less than two free segments, keep them for other writes.
        let moves = is_misplaced && log.secure_free(2)?;
        if moves {
            log.seal_active()?;
        }
        match self.write_checkpoint(if moves { Extent::Passing } else { Extent::Whole }) {
            Ok(()) if moves => {}
            Ok(()) | Err(Error::NoSpace) => return Ok(()),
            Err(error) => return Err(error),
        }
        let misplaced: Vec<Segment> =
            choose::candidates(&self.engine).into_iter().filter(|segment| segment.extent > used).collect();
        let moved: u64 = misplaced.iter().map(|segment| log.segment_stats.live(segment.extent)).sum();
        log.back_front(moved + moved / 2 + log.geometry.segment_size());
        let mut emptying = self.emptying_asked(misplaced.clone())?;
        for segment in misplaced {
            report.add(self.empty_next(&mut emptying, &segment)?);
        }
        report.bytes_freed += self.free(&mut emptying)?;
        self.write_checkpoint(Extent::Whole)
    }
}
