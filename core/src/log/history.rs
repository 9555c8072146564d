//! History: retired segments that are kept for those who follow the log. None of their records counts.
//!
//! A named consumer holds the *floor*, a log position that the file records: a retired segment that ends after it is listed as history. A
//! follower in this process holds what it has not read, and nothing in the file says so: the next session frees that.

use super::retire::Retired;
use super::space::Purpose;
use super::{Log, Segment, Superblock, Tail};
use crate::error::Result;
use crate::frame::{FrameSpec, Kind};
use crate::pins::Pins;
use crate::planted::{Bug, is};
use crate::position::Position;
use crate::sorted::Map;
use alloc::vec::Vec;

/// A retired segment that is kept.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) segment: Segment,
    pub(super) retired: Retired,
    /// Recovery would keep it: only a floor frame lets it go.
    pub(super) is_recorded: bool,
}

/// What a follower has read of the log and found no change in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    /// Behind the last change.
    pub(super) from: Position,
    pub(super) to: Position,
}

/// Who follows the log, and what is kept for them.
#[derive(Debug, Default)]
pub(super) struct History {
    /// By base.
    pub(super) kept: Map<u64, Kept>,
    /// The floor as the file records it; 0: none.
    pub(super) floor: u64,
    /// Log position of the end of the newest floor frame.
    recorded_at: u64,
    /// By their numbers.
    followers: Map<u64, Follower>,
    next_follower: u64,
    /// Of the log of a follower.
    pub(super) quiet: Option<Quiet>,
    /// Bytes of history that were given up although a follower or a consumer had not read them.
    pub(super) given_up: u64,
}

/// A reader of changes in this process.
#[derive(Clone, Copy, Debug)]
struct Follower {
    /// It has read everything before this log position.
    position: u64,
    /// Bytes of log that it may hold.
    limit: u64,
}

/// Names a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FollowerId(u64);

/// What history costs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HistoryFigures {
    /// Bytes of segments that are kept for followers and consumers only.
    pub(crate) bytes: u64,
    pub(crate) given_up: u64,
    pub(crate) followers: u64,
}

impl History {
    /// True when the floor holds a segment that ends at `end`, its trailer included.
    const fn is_above_floor(&self, end: u64) -> bool {
        self.floor != 0 && end > self.floor
    }

    fn is_followed(&self, end: u64, now: u64) -> bool {
        self.followers.values().any(|follower| follower.position < end && now - follower.position.min(now) <= follower.limit)
    }

    /// Keeps a segment that has just been retired, if somebody holds it; else returns it.
    pub(super) fn keep(&mut self, segment: Segment, end: u64, now: u64, retired: Retired) -> Option<Retired> {
        let is_recorded = self.is_above_floor(end);
        if is(Bug::HistoryReused) || !is_recorded && !self.is_followed(end, now) {
            return Some(retired);
        }
        self.kept.insert(segment.base, Kept { segment, retired, is_recorded });
        None
    }

    /// Adds what recovery has found.
    pub(super) fn found(&mut self, floor: u64, kept: impl Iterator<Item = Kept>) {
        self.floor = floor;
        kept.for_each(|kept| self.kept.insert(kept.segment.base, kept));
    }
}

impl Tail {
    pub(super) const fn history_floor(&self) -> u64 {
        self.history.floor
    }

    pub(super) fn history_len(&self) -> usize {
        self.history.kept.len()
    }

    /// The segments of history, oldest first.
    #[cfg(feature = "encrypt")]
    pub(super) fn history_segments(&self) -> impl Iterator<Item = &Segment> {
        self.history.kept.values().map(|kept| &kept.segment)
    }

    /// The segments of history that the next list names, oldest first.
    pub(super) fn recorded_history(&self, geometry: super::Geometry) -> Vec<Segment> {
        let kept = self.history.kept.values().map(|kept| kept.segment);
        kept.filter(|segment| self.history.is_above_floor(segment.next_base(geometry))).collect()
    }
}

impl Log {
    /// Begins to follow the log from a position. What is retired from now on is kept for it, up to its limit in bytes of log.
    pub(crate) fn follow(&self, position: u64, limit: u64) -> FollowerId {
        let mut tail = self.tail.lock();
        let history = &mut tail.history;
        let id = history.next_follower;
        history.next_follower += 1;
        history.followers.insert(id, Follower { position, limit });
        FollowerId(id)
    }

    /// A name for somebody who waits for commits and holds nothing.
    #[cfg(all(feature = "async", feature = "events"))]
    pub(crate) fn waiter(&self) -> FollowerId {
        let history = &mut self.tail.lock().history;
        history.next_follower += 1;
        FollowerId(history.next_follower - 1)
    }

    /// That one waits no longer.
    #[cfg(all(feature = "async", feature = "events"))]
    pub(crate) fn forget_waiter(&self, id: FollowerId) {
        self.feed.forget(id);
    }

    /// A follower has read everything before `position`.
    pub(crate) fn followed(&self, id: FollowerId, position: u64) {
        if let Some(follower) = self.tail.lock().history.followers.get_mut(id.0) {
            follower.position = position;
        }
    }

    pub(crate) fn unfollow(&self, id: FollowerId) {
        self.tail.lock().history.followers.remove(id.0);
        self.feed.forget(id);
    }

    /// The floor that the file records; 0: none.
    pub(crate) fn floor(&self) -> u64 {
        self.tail.lock().history.floor
    }

    /// Records another floor: a log position and the salt of its segment; 0 for none. What is no longer held is freed once that is synced;
    /// it counts as given up if somebody had not read it.
    pub(crate) fn set_floor(&self, (lsn, salt): (u64, u64), gives_up: bool) -> Result<()> {
        self.writable()?;
        self.announce(&mut self.tail.lock())?;
        // First, so that no build that keeps no history takes the store for one without it.
        if lsn != 0 && self.superblock().floor == 0 {
            self.flip(&|superblock| Superblock { floor: lsn, ..superblock })?;
        }
        let mut tail = self.tail.lock();
        let mut value = [0; 16];
        let (front, back) = value.split_at_mut(8);
        front.copy_from_slice(&lsn.to_le_bytes());
        back.copy_from_slice(&salt.to_le_bytes());
        let mut placed = Vec::new();
        self.append_locked(&mut tail, &[FrameSpec::control(Kind::Floor, &value)], Purpose::BookKeeping, &mut placed)?;
        let (geometry, end) = (self.geometry, self.end());
        let history = &mut tail.history;
        history.floor = lsn;
        history.recorded_at = end;
        for kept in history.kept.values_mut().filter(|kept| kept.is_recorded) {
            kept.is_recorded = lsn != 0 && kept.segment.next_base(geometry) > lsn;
            history.given_up += if gives_up && !kept.is_recorded { kept.segment.len(geometry) } else { 0 };
        }
        Ok(())
    }

    /// True when a floor frame with this floor would free a segment.
    pub(crate) fn floor_would_free(&self, floor: u64) -> bool {
        let tail = self.tail.lock();
        let is_free = |end: u64| floor == 0 || end <= floor;
        tail.history.kept.values().any(|kept| kept.is_recorded && is_free(kept.segment.next_base(self.geometry)))
    }

    /// True when with this floor, segments are free, or are not kept once they are retired, that are with the present one.
    pub(crate) fn floor_would_let_go(&self, floor: u64) -> bool {
        let tail = self.tail.lock();
        let active = tail.active.map(|active| active.segment.base);
        let sealed = tail.segments.values().filter(|segment| Some(segment.base) != active);
        let mut ends = sealed.chain(tail.history.kept.values().map(|kept| &kept.segment)).map(|one| one.next_base(self.geometry));
        ends.any(|end| tail.history.is_above_floor(end) && end <= floor)
    }

    /// True when somebody holds a segment: if it were retired, it would not be free.
    pub(crate) fn is_held_as_history(&self, segment: &Segment) -> bool {
        let (tail, now) = (self.tail.lock(), self.end());
        let end = segment.next_base(self.geometry);
        tail.history.is_above_floor(end) || tail.history.is_followed(end, now)
    }

    /// True when history is kept that no list and no earlier frame records, though the floor holds it.
    pub(crate) fn has_unrecorded_history(&self) -> bool {
        let tail = self.tail.lock();
        let is_above = |end: u64| tail.history.is_above_floor(end);
        tail.history.kept.values().any(|kept| !kept.is_recorded && is_above(kept.segment.next_base(self.geometry)))
    }

    /// The floor with which all history is free; `None` without history.
    pub(crate) fn end_of_history(&self) -> Option<(u64, u64)> {
        let tail = self.tail.lock();
        tail.history.kept.values().next_back().map(|kept| (kept.segment.next_base(self.geometry), kept.segment.salt))
    }

    /// To make space: no follower of this process holds anything any more.
    pub(crate) fn give_up_followed(&self) {
        self.tail.lock().history.followers.values_mut().for_each(|follower| follower.limit = 0);
    }

    /// Moves the history that nobody holds any more to the retired segments.
    pub(super) fn let_history_go(&self, tail: &mut Tail, pins: &Pins) {
        let (now, geometry) = (self.end(), self.geometry);
        let history = &mut tail.history;
        let end_of = |kept: &Kept| kept.segment.next_base(geometry);
        let is_held =
            |kept: &Kept| kept.is_recorded || history.is_above_floor(end_of(kept)) || history.is_followed(end_of(kept), now);
        let gone: Vec<u64> = history.kept.values().filter(|kept| !is_held(kept)).map(|kept| kept.segment.base).collect();
        for base in gone {
            let Some(kept) = history.kept.remove(base) else { continue };
            let is_unread = history.followers.values().any(|follower| follower.position < end_of(&kept));
            history.given_up += if is_unread { kept.segment.len(geometry) } else { 0 };
            let durable_at = kept.retired.durable_at.max(history.recorded_at);
            tail.retired.push(kept.retired.released(durable_at, pins));
        }
    }

    /// Notes that a list names these segments of history, and no other ones.
    pub(super) fn listed_history(&self, tail: &mut Tail) {
        let geometry = self.geometry;
        let history = &mut tail.history;
        let floor = history.floor;
        for kept in history.kept.values_mut() {
            kept.is_recorded = floor != 0 && kept.segment.next_base(geometry) > floor;
        }
    }

    /// The segment in which the frames go on behind a log position in a segment of this salt, live or history, up to its end.
    pub(crate) fn segment_of(&self, lsn: u64, salt: u64) -> Option<Segment> {
        self.tail.lock().covering(lsn).filter(|segment| segment.salt == salt && lsn <= segment.next_base(self.geometry))
    }

    /// The segment with the lowest base above `base`, live or history; true if it takes appends.
    pub(crate) fn segment_behind(&self, base: u64) -> Option<(Segment, bool)> {
        let tail = self.tail.lock();
        let is_unlisted = |segment: &Segment| tail.unlisted.iter().any(|other| other.base == segment.base);
        let live = tail.segments.values().find(|segment| segment.base > base && !is_unlisted(segment)).copied();
        let kept = tail.history.kept.values().map(|kept| kept.segment).find(|segment| segment.base > base);
        let next = match (live, kept) {
            (Some(live), Some(kept)) => {
                if live.base < kept.base {
                    live
                } else {
                    kept
                }
            }
            (live, kept) => live.or(kept)?,
        };
        let active = tail.active.filter(|active| active.segment.base == next.base);
        Some((active.map_or(next, |active| Segment { end: active.position, ..next }), active.is_some()))
    }

    pub(crate) fn history_figures(&self) -> HistoryFigures {
        let tail = self.tail.lock();
        let history = &tail.history;
        // A follower knows retired segments, too, that nobody keeps.
        let is_kept = |kept: &&Kept| !self.follows() || kept.is_recorded;
        HistoryFigures {
            bytes: history.kept.values().filter(is_kept).map(|kept| kept.segment.len(self.geometry)).sum(),
            given_up: history.given_up,
            followers: history.followers.len() as u64,
        }
    }

    /// Log positions that a copy of this file could have, too, with other commits: those that this session has written before it began a
    /// segment. Returns the position in front of them.
    pub(crate) fn unique_before(&self, lsn: u64, salt: u64) -> (u64, u64) {
        let tail = self.tail.lock();
        if lsn <= tail.found_end || tail.covering(lsn).is_some_and(|segment| segment.base >= tail.first_own_base) {
            (lsn, salt)
        } else {
            (tail.found_end, salt)
        }
    }
}

#[cfg(test)]
mod tests;
