//! The log of a store that another session writes, as a follower has it: which segments it knows, and where it ends for the follower.

use super::history::{Kept, Quiet};
use super::retire::Retired;
use super::{Log, Segment, SegmentHeader};
use crate::error::Error;
use crate::pins::Pins;
use crate::planted::{Bug, is};
use crate::position::Position;
use crate::storage::StorageErrorKind;
use crate::sync::Ordering;
use alloc::vec::Vec;

/// What changes in the list of segments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SegmentChange {
    /// The log goes on in it; the segment before it ends at this file offset.
    Entered(Segment, u64),
    /// The segment with this base counts no more.
    Retired(u64),
    /// History is kept from this log position on; 0: none is.
    Floor(u64),
}

/// What becomes of events.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "events"), allow(dead_code, reason = "without events nobody asks"))]
pub(crate) enum EventChange {
    /// An event, a stub, or a copy of one stands at this file offset.
    At(u64),
    /// A segment between these file offsets counts no more.
    Gone(u64, u64),
}

const fn share_space(one: &Segment, other: &Segment) -> bool {
    other.extent < one.extent + one.extents && one.extent < other.extent + other.extents
}

/// Takes those out of `present` in whose space `segment` begins: what is left of them has to go. Once each: what is begun in another part of
/// their space from now on is not theirs.
pub(crate) fn take_over(present: &mut Vec<Segment>, segment: &Segment) -> Vec<Segment> {
    present.extract_if(.., |other| share_space(other, segment)).collect()
}

impl Log {
    /// Another session writes to the file, and this one follows it. Constant false without the feature `followers`.
    #[inline]
    pub(crate) const fn follows(&self) -> bool {
        cfg!(feature = "followers") && self.is_follower
    }

    /// Moves the end of a follower's log to the end of `last`: a snapshot that begins from now on shows what is before it. `changed` is behind
    /// the last change on the way. The caller holds all shards.
    pub(crate) fn follow_to(
        &self,
        changes: &[SegmentChange],
        last: Segment,
        changed: Option<(u64, u64)>,
        synced: u64,
        pins: &Pins,
    ) {
        let to = Position::new(last.lsn(self.geometry, last.end), last.salt);
        self.follow_quiet(changed.map(|(lsn, salt)| Position::new(lsn, salt)), to);
        let mut tail = self.tail.lock();
        let tail = &mut *tail;
        for change in changes {
            match *change {
                SegmentChange::Entered(segment, previous_end) => {
                    let before = tail.segments.values().next_back().map(|before| before.base);
                    if let Some(before) = before.and_then(|base| tail.segments.get_mut(base)) {
                        before.end = previous_end;
                    }
                    // What was in its extents has been retired, or given up by a recovery.
                    let lies_there = |other: &Segment| share_space(other, &segment);
                    let old: Vec<u64> =
                        tail.segments.values().filter(|other| lies_there(other)).map(|other| other.base).collect();
                    old.into_iter().for_each(|base| {
                        tail.segments.remove(base);
                    });
                    let kept = tail.history.kept.values().map(|kept| kept.segment).filter(lies_there).map(|other| other.base);
                    let kept: Vec<u64> = kept.collect();
                    for base in kept {
                        tail.history.kept.remove(base);
                    }
                    tail.segments.insert(segment.base, segment);
                    tail.next_base = tail.next_base.max(segment.next_base(self.geometry));
                }
                SegmentChange::Retired(base) => {
                    let Some(segment) = tail.segments.remove(base) else { continue };
                    let retired = Retired::found(segment.extent, segment.extents, 0, pins);
                    // Until its space is used again it can be read: the writer keeps it only where a floor holds it.
                    let is_recorded = tail.history.floor != 0 && segment.next_base(self.geometry) > tail.history.floor;
                    tail.history.kept.insert(base, Kept { segment, retired, is_recorded });
                }
                SegmentChange::Floor(floor) => {
                    tail.history.floor = floor;
                    let geometry = self.geometry;
                    for kept in tail.history.kept.values_mut() {
                        kept.is_recorded &= floor != 0 && kept.segment.next_base(geometry) > floor;
                    }
                }
            }
        }
        if let Some(known) = tail.segments.get_mut(last.base) {
            known.end = last.end;
        }
        let end = last.lsn(self.geometry, last.end);
        tail.found_end = end;
        self.sync_state.start_at(synced.min(end).max(self.sync_state.synced()));
        self.appended.store(end, Ordering::Release);
    }

    fn follow_quiet(&self, changed: Option<Position>, to: Position) {
        let end = self.at_the_end(|end| Position::new(end.lsn, end.salt));
        let quiet = &mut self.tail.lock().history.quiet;
        // What was read as a whole, from another place on, was not looked through.
        let before = quiet.filter(|quiet| quiet.to == end).map_or(end, |quiet| quiet.from);
        let changed = if is(Bug::ChangesAreQuiet) { None } else { changed };
        *quiet = Some(Quiet { from: changed.unwrap_or(before), to });
    }

    /// Where to go on behind a position of a follower's log behind which there is no change up to there. Whoever has read up to the position
    /// misses nothing where what is in between is gone.
    pub(crate) fn quiet_behind(&self, position: Position) -> Option<Position> {
        if !self.follows() {
            return None;
        }
        let quiet = self.tail.lock().history.quiet?;
        (quiet.from.lsn..quiet.to.lsn).contains(&position.lsn).then_some(quiet.to)
    }

    /// The writer uses the space of a retired segment again. False if the follower does not have it, or the writer keeps it.
    pub(crate) fn forget_retired(&self, base: u64) -> bool {
        if !self.follows() {
            return false;
        }
        let kept = &mut self.tail.lock().history.kept;
        let is_loose = kept.get(base).is_some_and(|kept| !kept.is_recorded);
        is_loose && kept.remove(base).is_some()
    }

    /// The file says that the log is synced up to here.
    pub(crate) fn is_synced_to(&self, lsn: u64) {
        let synced = self.sync_state.synced();
        if lsn.min(self.end()) > synced {
            self.sync_state.start_at(lsn.min(self.end()));
            self.feed.wake();
        }
    }

    /// Takes over the segments and the end of another log of the same file, which was opened later.
    pub(crate) fn adopt(&self, newer: &Self) {
        let mut tail = self.tail.lock();
        let mut other = newer.tail.lock();
        core::mem::swap(&mut tail.segments, &mut other.segments);
        core::mem::swap(&mut tail.history.kept, &mut other.history.kept);
        core::mem::swap(&mut tail.unlisted, &mut other.unlisted);
        core::mem::swap(&mut tail.space, &mut other.space);
        (tail.history.floor, tail.next_base) = (other.history.floor, other.next_base);
        (tail.found_end, tail.next_event) = (newer.end(), other.next_event);
        *self.superblocks.lock() = *newer.superblocks.lock();
        self.sync_state.start_at(newer.sync_state.synced());
        self.set_checkpoint(newer.checkpoint.load(Ordering::Acquire));
        self.appended.store(newer.end(), Ordering::Release);
    }

    /// Turns apparent damage into [`Error::Overtaken`] if the writer has reused the segment meanwhile: its header then has another salt, or
    /// the file was cut. Returns any other error unchanged.
    #[cold]
    pub(super) fn or_overtaken(&self, error: Error) -> Error {
        let offset = match &error {
            Error::Corrupt { offset, .. } => *offset,
            Error::Storage(cause) if cause.kind == StorageErrorKind::OutOfRange => return Error::Overtaken,
            _ => return error,
        };
        if offset < self.geometry.start(0) || self.storage.refresh().is_err() {
            return error;
        }
        let extent = self.segment_stats.head(self.geometry.extent_of(offset));
        let known = self.segment_stats.salt(extent);
        match SegmentHeader::read(&*self.storage, self.store_id, self.geometry.start(extent)) {
            Ok(Some(header)) if header.salt == known => error,
            Ok(_) => Error::Overtaken,
            Err(failed) => failed,
        }
    }
}

#[cfg(test)]
mod tests;
