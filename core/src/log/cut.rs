//! The list of live segments, which a checkpoint or a backup appends to the log.

use super::{Figures, LIST_ENTRY_LEN_MAX, LIST_SEAL_LEN, Log, Purpose, Segment, SegmentList, Tail};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind};
use crate::planted::{Bug, is};
use crate::sorted::sort_by_key;
use alloc::vec::Vec;

/// Length in bytes of an entry of the segment list in all but extraordinary stores.
const LIST_ENTRY_LEN: u64 = 32;

/// Least log bytes between two checkpoints, per segment: 16 times the length of its usual list entry. The lists soon become dead bytes.
/// With checkpoints closer together, lists would make each other due, and compaction of them would make the store grow without end.
const APART_PER_SEGMENT: u64 = 16 * LIST_ENTRY_LEN;

/// The position of a segment list, which divides the log into the part that it lists and the part after it.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) segment: Segment,
    /// File offset of the list.
    pub(crate) offset: u64,
    /// File offset of its end.
    pub(crate) end: u64,
    /// The extent after the last one that it names.
    pub(crate) listed: u32,
    /// The segments that it names; the last one ends with the list.
    pub(crate) segments: Vec<Segment>,
    /// The floor of history; 0: none.
    pub(crate) floor: u64,
}

impl Log {
    /// Appends the list of live segments. The caller blocks all writers.
    pub(crate) fn cut(&self, next_namespace: u32) -> Result<Cut> {
        self.append_list(&mut self.tail.lock(), next_namespace)
    }

    /// The extent after the last one that the newest checkpoint's list names.
    pub(crate) fn listed(&self) -> u32 {
        self.tail.lock().space.listed
    }

    /// Log bytes between two checkpoints where the options ask for `wanted`.
    ///
    /// At most as many segments as one can list: on a full medium only those before the newest checkpoint can be freed without a
    /// new list, and there may be no room for a list of more.
    pub(crate) fn between_lists(&self, wanted: u64) -> u64 {
        let segment_size = self.geometry.segment_size();
        let listed_in_one = segment_size / self.list_entry_len_max();
        wanted.min(listed_in_one * segment_size).max(self.segment_count() as u64 * APART_PER_SEGMENT)
    }

    /// Upper bound in bytes of the list of `segments` segments, including one more that is opened for the list itself.
    pub(crate) fn list_len(&self, segments: usize) -> u64 {
        64 + (segments as u64 + 1) * self.list_entry_len_max()
    }

    fn list_entry_len_max(&self) -> u64 {
        LIST_ENTRY_LEN_MAX + if self.is_sealed() { LIST_SEAL_LEN } else { 0 }
    }

    pub(super) fn append_list(&self, tail: &mut Tail, next_namespace: u32) -> Result<Cut> {
        // The list names its own segment and offset, so appending it must not open a new segment.
        let room = self.make_room(tail, |tail| self.list_len(tail.segments.len() + tail.history_len()) + self.tag_len())?;
        let history = tail.recorded_history(self.geometry);
        let is_history = |segment: &Segment| history.binary_search_by_key(&segment.base, |kept| kept.base).is_ok();
        let mut segments: Vec<_> = tail.segments.values().chain(&history).copied().collect();
        sort_by_key(&mut segments, |segment| segment.base);
        if let Some(last) = segments.last_mut() {
            last.end = room.position;
        }
        let listed = segments.iter().map(|segment| segment.extent + segment.extents).max().unwrap_or(0);
        // Clamp the counts: a reader refuses figures larger than the segment.
        let figures = segments.iter().map(|segment| {
            if is_history(segment) {
                return Figures { history: true, ..Figures::default() };
            }
            let live = self.segment_stats.live(segment.extent).min(segment.len(self.geometry));
            let tombstones = self.segment_stats.tombstones(segment.extent).min(segment.len(self.geometry) - live);
            // A follower whose place was compacted learns from it whether it has read all of the segment.
            let is_own = segment.base >= tail.first_own_base;
            let records = if is_own { self.segment_stats.records(segment.extent) } else { 0 };
            Figures { live, tombstones, records, ..Figures::default() }
        });
        let figures = figures.collect();
        let floor = tail.history_floor();
        #[cfg(feature = "encrypt")]
        let seals = self.seals_of(&segments)?;
        let list = SegmentList {
            segments,
            figures,
            next_namespace,
            floor,
            next_event: if is(Bug::NextEventNotListed) { 0 } else { tail.next_event },
            #[cfg(feature = "encrypt")]
            seals,
        };
        let value = list.encode(self.geometry);
        let mut placed = Vec::new();
        self.append_locked(tail, &[FrameSpec::control(Kind::Checkpoint, &value)], Purpose::BookKeeping, &mut placed)?;
        match placed.first() {
            Some(placed) if placed.offset == room.position => {
                tail.unlisted.clear();
                self.listed_history(tail);
                self.claim_again(tail)?;
                let (end, mut segments) = (placed.offset + placed.len, list.segments);
                if let Some(last) = segments.last_mut() {
                    last.end = end;
                }
                Ok(Cut { segment: room.segment, offset: placed.offset, end, listed, segments, floor })
            }
            _ => Err(self.poison(Error::corrupt(room.position, "a checkpoint that did not land where it was planned"))),
        }
    }
}
