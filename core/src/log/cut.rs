//! The list of live segments, which a checkpoint or a backup appends to the log.

use super::{Figures, LIST_ENTRY_LEN_MAX, Log, Purpose, Segment, SegmentList, Tail};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind};
use alloc::vec::Vec;

/// Bytes that an entry of the list of segments takes in all but extraordinary stores.
pub(crate) const LIST_ENTRY_LEN: u64 = 32;

/// Bytes that the list of so many segments takes at most, when one more is opened for it.
pub(crate) const fn list_len(segments: usize) -> u64 {
    64 + (segments as u64 + 1) * LIST_ENTRY_LEN_MAX
}

/// The place in the log where a list of segments cuts it in two.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) segment: Segment,
    /// Where the list stands.
    pub(crate) offset: u64,
    /// Offset behind it.
    pub(crate) end: u64,
    /// The extent behind the last one that it names.
    pub(crate) listed: u32,
    /// The segments that it names, the last one up to the end of the list.
    pub(crate) segments: Vec<Segment>,
}

impl Log {
    /// Appends the list of live segments. The caller holds all writers back.
    pub(crate) fn cut(&self, next_namespace: u32) -> Result<Cut> {
        self.append_list(&mut self.tail.lock(), next_namespace)
    }

    /// The extent behind the last one that the newest checkpoint's list names.
    pub(crate) fn listed(&self) -> u32 {
        self.tail.lock().space.listed
    }

    fn append_list(&self, tail: &mut Tail, next_namespace: u32) -> Result<Cut> {
        // The list names the segment that it stands in, and its own place: it may not open a segment while it is appended.
        let room = self.make_room(tail, |tail| list_len(tail.segments.len()))?;
        let mut segments: Vec<_> = tail.segments.values().copied().collect();
        if let Some(last) = segments.last_mut() {
            last.end = room.position;
        }
        let listed = segments.iter().map(|segment| segment.extent + segment.extents).max().unwrap_or(0);
        // Whatever the book-keeping says, a reader refuses more than there is room for.
        let figures = segments.iter().map(|segment| {
            let live = self.segment_stats.live(segment.extent).min(segment.len(self.geometry));
            let tombstones = self.segment_stats.tombstones(segment.extent).min(segment.len(self.geometry) - live);
            Figures { live, tombstones, ..Figures::default() }
        });
        let figures = figures.collect();
        let list = SegmentList { segments, figures, next_namespace, next_event: tail.next_event, ..SegmentList::default() };
        let value = list.encode(self.geometry);
        let mut placed = Vec::new();
        self.append_locked(tail, &[FrameSpec::control(Kind::Checkpoint, &value)], Purpose::BookKeeping, &mut placed)?;
        match placed.first() {
            Some(placed) if placed.offset == room.position => {
                tail.unlisted.clear();
                self.claim_again(tail)?;
                let (end, mut segments) = (placed.offset + placed.len, list.segments);
                if let Some(last) = segments.last_mut() {
                    last.end = end;
                }
                Ok(Cut { segment: room.segment, offset: placed.offset, end, listed, segments })
            }
            _ => Err(self.poison(Error::corrupt(room.position, "a checkpoint that did not land where it was planned"))),
        }
    }
}
