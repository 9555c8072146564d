//! Which segments are compacted when: the worst of them unasked, all that are worth it when asked.

use super::handle::Db;
use super::maintenance::Steps;
use super::store::Store;
use crate::checkpoint::Extent;
use crate::compact::{self, CompactProgress, CompactReport, Emptying};
use crate::error::{Error, Result};
use crate::log::{Segment, list_len};
use crate::nested::Held;
use crate::planted::{Bug, is};
use crate::stranded;
use crate::sync::Ordering;
use alloc::vec::Vec;

/// A compaction that was asked for leaves segments alone of which less than one part in so many is dead.
const PARTS_ASKED: f64 = 64.0;
/// A write that finds no room has segments compacted of which so much is dead: what is left is for removals, each of which has to find some.
const SHARE_FOR_WRITES: f64 = 1.0 / 8.0;
/// It moves segments only to make the file shorter if one part in so many of it is free.
const GAPS_LEAST: u64 = 8;
/// Bytes that a compaction copies for one sync: whoever flushes meanwhile waits for as many. Less when nobody asked for it.
const COPIED_ASKED: u64 = 16 * 1024 * 1024;
const COPIED_UNASKED: u64 = 4 * 1024 * 1024;
/// Compaction that is held to a rate waits for so long at a time.
#[cfg(feature = "std")]
const PACE: core::time::Duration = core::time::Duration::from_millis(2);

/// Steps go through the segments that there are before the first of them, and so often through what has been written since.
const STEP_ROUNDS: u8 = 3;

impl Db {
    /// Compacts every segment that holds anything dead worth the copying, and gives the space at the end of the file back. Others read and
    /// write meanwhile.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::builder().segment_size(64 * 1024).in_memory()?;
    /// for round in 0..8 {
    ///     db.insert_many((0..1000_u32).map(|n| (n.to_le_bytes(), [round; 100])))?;
    /// }
    /// let before = db.stats()?.file_bytes;
    /// assert!(db.compact()?.bytes_freed > 0);
    /// assert!(db.stats()?.file_bytes < before);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::checkpoint`]; also [`Error::NoSpace`](crate::Error::NoSpace) when what lives in the segments fits nowhere else, and
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a record in them does not fit its checksum: its segment stays as it is.
    pub fn compact(&self) -> Result<CompactReport> {
        self.compact_with(|_| {})
    }

    /// [`Db::compact`], with word of how far it has come.
    ///
    /// `progress` is called while this call has the turn to maintain the store. In there, what needs the turn answers
    /// [`Error::Nested`](crate::Error::Nested): [`Db::verify`], [`Db::checkpoint`], [`Db::compact`] and its like, [`Db::close`] of another
    /// handle, and, when the medium is full, whatever frees space first: removals, [`Db::update`](crate::Namespace::update), [`Db::compare_and_swap`](crate::Namespace::compare_and_swap),
    /// [`Db::clear`](crate::Namespace::clear), [`Db::drop_namespace`].
    pub fn compact_with(&self, mut progress: impl FnMut(CompactProgress)) -> Result<CompactReport> {
        self.store.may_wait_for_the_turn()?;
        let report = self.store.compact(&mut |so_far| {
            let _inside = self.store.engine.inside(Held::Turn);
            progress(so_far);
        });
        self.store.seen(report)
    }

    /// Gives up the records that stand [behind an unclean end](crate::OpenReport::stranded_records) of the log, of this one and of all earlier
    /// ones, and compacts: their segments are free for others. Run [`salvage`](crate::salvage) on the file first if they are wanted.
    /// On a full medium this frees space where nothing else does: see [`Error::StrandedInTheWay`](crate::Error::StrandedInTheWay).
    ///
    /// # Errors
    ///
    /// Those of [`Db::compact`]. What it did not get to is kept again after the next open.
    pub fn drop_stranded(&self) -> Result<CompactReport> {
        self.store.may_wait_for_the_turn()?;
        self.store.engine.log.give_up_stranded();
        self.compact()
    }

    /// Compacts the one segment where it pays most; `None` when there is none of which a part worth the work is dead: a sixty-fourth, as
    /// for [`Db::compact`]. What was written last is left for later, and what is free stays in the file until [`Db::compact`], or closing,
    /// cuts it.
    pub fn compact_step(&self) -> Result<Option<CompactReport>> {
        self.store.may_wait_for_the_turn()?;
        self.store.seen(self.store.compact_step())
    }
}

impl Store {
    /// The segment with the largest share of dead bytes, if that is `share` or more, of those that began in front of the log position
    /// `until` and are not being emptied; or else the oldest one, when it is in the way of many tombstones.
    ///
    /// Whoever asks again and again keeps to one `until`: then each segment comes once at most, and the asking ends, whatever the
    /// compaction itself leaves dead.
    pub(super) fn worst(&self, share: f64, until: u64, emptying: Option<&Emptying<'_>>) -> Option<Segment> {
        let until = if is(Bug::CompactionWithoutEnd) { u64::MAX } else { until };
        let mut candidates = compact::candidates(&self.engine);
        candidates.retain(|segment| segment.base < until && emptying.is_none_or(|emptying| !emptying.holds(segment)));
        let begins_with_oldest = compact::begins_with_oldest(&self.engine, &candidates, emptying);
        let mut oldest = begins_with_oldest;
        let mut worst: Option<(f64, Segment)> = None;
        for segment in &candidates {
            let taken = compact::taken_bytes(&self.engine, segment).max(1);
            let may_go = !self.engine.is_set_aside(segment, oldest);
            let gain = compact::gain(&self.engine, segment, taken, oldest, 1.0 / share).filter(|_| may_go);
            let dead = gain.unwrap_or(0) as f64 / taken as f64;
            oldest = false;
            if gain.is_some() && worst.is_none_or(|(most, _)| dead > most) {
                worst = Some((dead, *segment));
            }
        }
        let is_in_the_way = || share <= 1.0 && compact::front_of_tombstones(&self.engine, &candidates, 1.0) > 0;
        let first = || {
            candidates.first().filter(|first| is_in_the_way() && !self.engine.is_set_aside(first, begins_with_oldest)).copied()
        };
        worst.map(|(_, segment)| segment).or_else(first)
    }

    /// The segment with the largest share of dead bytes, of those that began in front of `until` and whose live records there may be room for,
    /// but for `tried`: where space is short, what does not fit must not stand in the way of what does.
    pub(super) fn worst_that_fits(&self, until: u64, tried: &[u64]) -> Option<Segment> {
        self.worst_of(&compact::candidates(&self.engine), 0.0, until, tried)
    }

    /// The same of `candidates`, from the oldest on, if `share` or more of it is dead.
    fn worst_of(&self, candidates: &[Segment], share: f64, until: u64, tried: &[u64]) -> Option<Segment> {
        let room = self.engine.log.room_at_most();
        // An extent that is no reserve is not worth the room that copies take, while there are others; what is all dead takes none.
        let reserves = self.engine.log.reserve_extents();
        let mut worst: Option<((bool, f64), Segment)> = None;
        for (number, segment) in candidates.iter().enumerate() {
            let is_oldest = number == 0;
            let needed = compact::needed_bytes(&self.engine, segment, is_oldest);
            if segment.base >= until || tried.contains(&segment.base) || needed > room {
                continue;
            }
            let is_reserve = reserves.contains(&(segment.extent + segment.extents - 1)) || needed <= compact::SLACK;
            let taken = compact::taken_bytes(&self.engine, segment).max(1);
            let Some(gain) = compact::gain(&self.engine, segment, taken, is_oldest, 1.0 / share) else { continue };
            let rank = (is_reserve, gain as f64 / taken as f64);
            if worst.is_none_or(|(most, _)| rank > most) {
                worst = Some((rank, *segment));
            }
        }
        worst.map(|(_, segment)| segment)
    }

    /// Compacts the segment where that gains most for a write that has found no room; false when none is worth it.
    ///
    /// What this begins with is whole again when it ends: the reserve, and in each segment as much dead space as removals need to make some.
    pub(super) fn make_room_once(&self, until: u64) -> Result<bool> {
        let (engine, log) = (&self.engine, &self.engine.log);
        if !log.secure_free(1)? {
            return Ok(false);
        }
        let (segments, active) = log.segments_and_active();
        let candidates = compact::candidates_below(engine, active.unwrap_or(u64::MAX));
        let begins_with_oldest = compact::begins_with_oldest(engine, &candidates, None);
        let is_first =
            |segment: &Segment| begins_with_oldest && candidates.first().is_some_and(|first| first.base == segment.base);
        let set_aside = candidates.iter().filter(|segment| engine.is_set_aside(segment, is_first(segment)));
        let set_aside: Vec<u64> = set_aside.map(|segment| segment.base).collect();
        let Some(victim) = self.worst_of(&candidates, SHARE_FOR_WRITES, until, &set_aside) else { return Ok(false) };
        if log.newest_checkpoint().is_none_or(|place| victim.base >= place.base) {
            // A list that opened a segment would take the reserve: what lives in the victim has to fit behind it.
            let list = list_len(segments.len());
            let both = list + compact::needed_bytes(engine, &victim, is_first(&victim));
            if log.room_of_active() < list && both > compact::taken_bytes(engine, &victim) {
                return Ok(false);
            }
            self.write_checkpoint(Extent::Changes)?;
        }
        self.compact_one(&victim, &mut |_| {}).map(|report| report.segments_retired > 0)
    }

    /// Holds compaction that nobody asked for to its rate; closing the store ends the wait, and so do a full medium, a checkpoint that has
    /// become due, and whoever waits for the turn.
    #[cfg(feature = "std")]
    pub(super) fn pace(&self) -> impl FnMut(u64) {
        use std::time::{Duration, Instant};
        let (rate, started) = (self.options.compact_rate, Instant::now());
        move |copied| {
            let Some(due) = rate.map(|rate| Duration::from_secs_f64(copied as f64 / rate.max(1) as f64)) else { return };
            let is_full = || self.engine.log.medium_full.load(Ordering::Relaxed);
            let is_due = || self.engine.log.end() >= self.checkpoint_due.load(Ordering::Relaxed);
            let hurry = || self.is_closed() || self.maintenance.is_wanted() || is_full() || is_due();
            while started.elapsed() + PACE < due && !hurry() {
                std::thread::sleep(PACE);
            }
        }
    }

    /// Without threads somebody waits for it.
    #[cfg(not(feature = "std"))]
    pub(super) fn pace(&self) -> impl FnMut(u64) {
        |_| {}
    }

    /// Nothing is dropped before it is known what belongs to no namespace.
    fn emptying(&self, copied_max: u64) -> Result<Emptying<'_>> {
        self.check_names()?;
        Ok(Emptying::new(&self.engine, copied_max))
    }

    /// Compacts one segment and frees what can be freed by now.
    pub(super) fn compact_one(&self, segment: &Segment, pace: &mut dyn FnMut(u64)) -> Result<CompactReport> {
        let mut emptying = self.emptying(COPIED_UNASKED)?;
        let mut report = emptying.empty(segment, pace)?;
        report.bytes_freed += self.free(&mut emptying)?;
        Ok(report)
    }

    /// Compacts what is mostly dead, until somebody waits for the turn. The caller has it.
    pub(super) fn compact_unasked<P: FnMut(u64)>(&self, pace: impl Fn() -> P) -> Result<()> {
        let until = self.engine.log.end();
        let mut emptying = self.emptying(COPIED_UNASKED)?;
        let mut result = Ok(());
        while result.is_ok()
            && !self.is_closed()
            && !self.maintenance.is_wanted()
            && let Some(victim) = self.worst(self.options.compact_dead_share, until, Some(&emptying))
        {
            // It may take long, and what a reopen has to replay stays bounded.
            match self.checkpoint_if_due() {
                Ok(()) | Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
            result = self.empty(&mut emptying, &victim, &mut pace()).map(drop);
        }
        self.put_compaction_off();
        self.free(&mut emptying)?;
        result
    }

    /// Dead space is looked at again when another segment has been written.
    pub(super) fn put_compaction_off(&self) {
        let log = &self.engine.log;
        self.compaction_due.store(log.end() + log.geometry.segment_size(), Ordering::Relaxed);
    }

    /// Retires what has been emptied and frees what can be freed by now; says how many bytes.
    fn free(&self, emptying: &mut Emptying<'_>) -> Result<u64> {
        if emptying.is_none() {
            return Ok(0);
        }
        emptying.retire()?;
        let log = &self.engine.log;
        if !is(Bug::ReuseBeforeRetire) {
            log.sync_to(log.end())?;
        }
        Ok(log.reclaim(&self.engine.pins))
    }

    /// Empties one more segment; before that frees the others, when there is no room otherwise.
    fn empty(&self, emptying: &mut Emptying<'_>, segment: &Segment, pace: &mut dyn FnMut(u64)) -> Result<CompactReport> {
        let mut freed = if emptying.is_full_for(segment) { self.free(emptying)? } else { 0 };
        let mut report = match emptying.empty(segment, pace) {
            Err(Error::NoSpace) if !emptying.is_none() => {
                freed += self.free(emptying)?;
                emptying.empty(segment, pace)?
            }
            result => result?,
        };
        report.bytes_freed += freed;
        Ok(report)
    }

    pub(super) fn compact_step(&self) -> Result<Option<CompactReport>> {
        let _maintenance = self.maintenance.lock();
        self.writable()?;
        self.engine.build_all(&|| false)?;
        let log = &self.engine.log;
        let mut steps = *self.steps.lock();
        let victim = loop {
            if let Some(victim) = self.victim_of_step(steps.until)? {
                break Some(victim);
            }
            if steps.rounds == STEP_ROUNDS {
                break None;
            }
            steps = Steps { rounds: steps.rounds + 1, until: log.end() };
        };
        // The next series begins anew.
        *self.steps.lock() = if victim.is_some() { steps } else { Steps::default() };
        victim.map(|victim| self.compact_one(&victim, &mut |_| {})).transpose()
    }

    fn victim_of_step(&self, until: u64) -> Result<Option<Segment>> {
        let log = &self.engine.log;
        let worst = || self.worst(1.0 / PARTS_ASKED, until, None);
        // Each checkpoint leaves a dead list of the segments for the steps behind it: as far apart as this they make less work than they do.
        let apart = 2 * log.geometry.segment_size() + 4 * list_len(log.segment_count());
        let victim = worst();
        if victim.is_some() || until == 0 || (log.replay_debt() <= apart && !is(Bug::CompactionWithoutEnd)) {
            return Ok(victim);
        }
        // What could be compacted may all lie behind the newest checkpoint.
        self.write_checkpoint(Extent::Changes)?;
        Ok(worst())
    }

    /// True when much of the file is free and cannot be cut off, for what counts stands behind it.
    fn has_gaps(&self) -> bool {
        let usage = self.engine.log.usage();
        let (free, total) = (usage.free_extents, usage.extents);
        free > 2 && u64::from(free) * GAPS_LEAST > u64::from(total) && usage.last_extent > total - free
    }

    /// The end of a compaction: a list of segments without the retired ones, and a snapshot that points at the copies. The first
    /// copies went to the end of the file, for nothing was free yet: what stands behind free space moves into it, so that the file
    /// can be cut.
    fn settle(&self, report: &mut CompactReport) -> Result<()> {
        self.move_down(report)?;
        // The snapshot before had to stay until this one was safe. Now that its place is free, a second move may shorten the file.
        if self.engine.log.snapshot_could_move_down() {
            without_no_space(self.write_checkpoint(Extent::Whole))?;
        }
        Ok(())
    }

    fn move_down(&self, report: &mut CompactReport) -> Result<()> {
        let log = &self.engine.log;
        log.reclaim(&self.engine.pins);
        let usage = log.usage();
        // The copies need a segment to go to, and the snapshot changes its place with every checkpoint.
        let used = usage.extents - usage.free_extents;
        let is_misplaced = usage.last_extent > used;
        // Where space is that short, it is better spent on what stays.
        let moves = is_misplaced && log.secure_free(2)?;
        if moves {
            log.seal_active()?;
        }
        match self.write_checkpoint(Extent::Whole) {
            Ok(()) if moves => {}
            Ok(()) | Err(Error::NoSpace) => return Ok(()),
            Err(error) => return Err(error),
        }
        let misplaced: Vec<Segment> =
            compact::candidates(&self.engine).into_iter().filter(|segment| segment.extent > used).collect();
        let moved: u64 = misplaced.iter().map(|segment| log.ledger.live(segment.extent)).sum();
        log.back_front(moved + moved / 2 + log.geometry.segment_size());
        let mut emptying = self.emptying(COPIED_ASKED)?;
        for segment in misplaced {
            report.add(self.empty(&mut emptying, &segment, &mut |_| {})?);
        }
        report.bytes_freed += self.free(&mut emptying)?;
        self.write_checkpoint(Extent::Whole)
    }

    /// What is damaged and may have been a tombstone goes when nothing older is left.
    fn empty_in_front_of_damage(&self, emptying: &mut Emptying<'_>, report: &mut CompactReport) -> Result<()> {
        let Some(last) = self.engine.waits_for_older().into_iter().max() else { return Ok(()) };
        let segments = compact::candidates(&self.engine);
        let mut oldest = compact::begins_with_oldest(&self.engine, &segments, Some(emptying));
        for segment in segments.into_iter().take_while(|segment| segment.base <= last) {
            if self.engine.is_set_aside(&segment, oldest) {
                oldest = false;
                continue;
            }
            match self.empty(emptying, &segment, &mut |_| {}) {
                Ok(one) => report.add(one),
                Err(Error::NoSpace) => break,
                Err(error) => return Err(error),
            }
        }
        report.bytes_freed += self.free(emptying)?;
        Ok(())
    }

    pub(super) fn compact(&self, progress: &mut dyn FnMut(CompactProgress)) -> Result<CompactReport> {
        self.or_what_is_kept(self.compact_all(progress))
    }

    /// Three steps: a fresh segment, so that what was written so far may go; what lives moves out of the segments that are worth it; lists, snapshot
    /// and file are made to fit what is left.
    fn compact_all(&self, progress: &mut dyn FnMut(CompactProgress)) -> Result<CompactReport> {
        let _maintenance = self.maintenance.lock();
        let log = &self.engine.log;
        self.writable()?;
        self.engine.build_all(&|| false)?;
        let before = log.storage.len()?;
        log.sync_to(log.end())?;
        log.reclaim(&self.engine.pins);
        stranded::make_way(&self.engine)?;
        let (live, active) = log.segments_and_active();
        let has_gaps = self.has_gaps();
        let mut report = CompactReport::default();
        if has_gaps || self.has_dead(&live, active) {
            self.begin_afresh()?;
            self.empty_all(active, &mut report, progress)?;
            if report.segments_retired > 0 || has_gaps {
                self.settle(&mut report)?;
            }
        }
        // What was free already goes back all the same.
        log.reclaim(&self.engine.pins);
        log.shrink()?;
        self.engine.index.reclaim(&self.engine.pins);
        report.bytes_freed = report.bytes_freed.max(before.saturating_sub(log.storage.len()?));
        Ok(report)
    }

    /// True when emptying some segment would pay.
    fn has_dead(&self, live: &[Segment], active: Option<u64>) -> bool {
        let pays = |segment: &Segment| self.is_worth_it(segment, active, false) && !self.engine.is_set_aside(segment, false);
        live.iter().any(pays)
            || compact::front_of_tombstones(&self.engine, live, PARTS_ASKED) > 0
            || !self.engine.waits_for_older().is_empty()
    }

    /// True when so much of the segment is dead that copying the rest pays. `active` was the active one when the compaction began.
    fn is_worth_it(&self, segment: &Segment, active: Option<u64>, oldest: bool) -> bool {
        let geometry = self.engine.log.geometry;
        // The rest of the active segment is still for others; when it has been sealed, it ends at its limit.
        let taken = if active == Some(segment.base) {
            segment.end - segment.first_frame(geometry)
        } else {
            compact::taken_bytes(&self.engine, segment)
        };
        let gain = compact::gain(&self.engine, segment, taken.max(1), oldest, PARTS_ASKED);
        gain.is_some_and(|gain| gain * 1024 > geometry.segment_size())
    }

    /// A fresh segment and a checkpoint, so that everything written so far may be compacted.
    fn begin_afresh(&self) -> Result<()> {
        let log = &self.engine.log;
        // Not when there is hardly one left.
        if log.secure_free(2)? {
            log.seal_active()?;
        }
        // Without room for a checkpoint, what lies in front of the one before can be compacted all the same.
        without_no_space(self.write_checkpoint(Extent::Changes))
    }

    /// Empties every segment that is worth it or stands in front of many tombstones. What does not fit anywhere is tried again as long as others
    /// make room.
    fn empty_all(
        &self,
        active: Option<u64>,
        report: &mut CompactReport,
        progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<()> {
        let mut segments = compact::candidates(&self.engine);
        let front = compact::front_of_tombstones(&self.engine, &segments, PARTS_ASKED);
        let front = segments.iter().take(front).map(|segment| segment.base).next_back();
        let total = segments.len() as u64;
        let mut emptying = self.emptying(COPIED_ASKED)?;
        let mut oldest = compact::begins_with_oldest(&self.engine, &segments, None);
        let mut done = 0;
        while !segments.is_empty() {
            let mut put_off = Vec::new();
            let before = report.segments_retired;
            for segment in segments {
                progress(CompactProgress { segments_done: done, segments_total: total });
                let is_in_front = front.is_some_and(|last| segment.base <= last);
                if self.engine.is_set_aside(&segment, oldest) || !is_in_front && !self.is_worth_it(&segment, active, oldest) {
                    oldest = false;
                    done += 1;
                    continue;
                }
                // There is room for the next one when this has made some.
                without_no_space(self.checkpoint_if_due())?;
                match self.empty(&mut emptying, &segment, &mut |_| {}) {
                    Ok(one) => {
                        report.add(one);
                        done += 1;
                    }
                    // What lives in it does not fit anywhere now: another one may make room.
                    Err(Error::NoSpace) => {
                        oldest = false;
                        put_off.push(segment);
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
}

/// A checkpoint that finds no room is no reason to stop: there is an earlier one.
fn without_no_space(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::NoSpace) => Ok(()),
        result => result,
    }
}
