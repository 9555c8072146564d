//! Retiring segments: a retired one becomes free once its retirement is durable, no reader is left, and no value holds it.

use super::append::Placed;
use super::space::Purpose;
use super::{Log, Segment, Tail};
use crate::error::Result;
use crate::frame::{FrameSpec, Kind};
use crate::pins::{Pins, Ticket};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// A retired segment that is not free yet.
#[derive(Debug)]
pub(super) struct Retired {
    pub(super) extent: u32,
    extents: u32,
    backed: bool,
    /// Log position of the end of the frame that retires it.
    pub(super) durable_at: u64,
    /// Has passed when no reader is left that could refer to it.
    unread_at: Ticket,
    /// Notes for snapshots pointed at records in it when it was last looked at: readers that came after the ticket may read them.
    noted: bool,
}

impl Retired {
    /// A segment whose retirement recovery found in the log, where it may not be synced yet.
    pub(super) fn found(extent: u32, extents: u32, durable_at: u64, pins: &Pins) -> Self {
        Self { extent, extents, backed: false, durable_at, unread_at: pins.ticket(), noted: false }
    }

    /// The same segment, once nobody holds it as history any more.
    pub(super) fn released(self, durable_at: u64, pins: &Pins) -> Self {
        Self { durable_at, unread_at: pins.ticket(), ..self }
    }
}

impl Log {
    /// Retires a segment whose live records have all been copied to later in the log and synced. Nothing may refer to it any more.
    pub(crate) fn retire(&self, pins: &Pins, segment: Segment) -> Result<()> {
        let mut tail = self.tail.lock();
        let base = segment.base.to_le_bytes();
        let mut placed: Vec<Placed> = Vec::new();
        self.append_locked(&mut tail, &[FrameSpec::control(Kind::Retire, &base)], Purpose::BookKeeping, &mut placed)?;
        tail.segments.remove(segment.base);
        let entry = Retired {
            extent: segment.extent,
            extents: segment.extents,
            backed: segment.base >= tail.first_own_base,
            durable_at: self.end(),
            unread_at: pins.ticket(),
            noted: self.segment_stats.noted(segment.extent) > 0,
        };
        let end = segment.next_base(self.geometry);
        if let Some(entry) = tail.history.keep(segment, end, self.end(), entry) {
            tail.retired.push(entry);
        }
        Ok(())
    }

    /// Frees the retired segments that are durable and unread; returns how many bytes.
    pub(crate) fn reclaim(&self, pins: &Pins) -> u64 {
        {
            let mut tail = self.tail.lock();
            self.let_history_go(&mut tail, pins);
            if tail.retired.is_empty() {
                return 0;
            }
        }
        pins.advance();
        let mut tail = self.tail.lock();
        let synced = self.sync_state.synced();
        let Tail { retired, space, .. } = &mut *tail;
        let mut freed = 0;
        retired.retain_mut(|entry| {
            if entry.noted && !is(Bug::NotedSegmentFreed) {
                entry.noted = self.segment_stats.noted(entry.extent) > 0;
                // Who has read a note before it was dropped may still read the record.
                entry.unread_at = pins.ticket();
                return true;
            }
            let durable = entry.durable_at <= synced || is(Bug::ReuseBeforeRetire);
            let unread = pins.passed(&entry.unread_at) || is(Bug::ReaderNotPinned);
            if durable && unread && !self.holds.is_held(entry.extent, entry.extents) {
                let backed = entry.backed || self.set_found_aside(entry.extent, entry.extents);
                space.release(entry.extent, entry.extents, backed);
                freed += self.geometry.len_of(entry.extent, entry.extents);
                return false;
            }
            true
        });
        freed
    }

    /// True while segments that do not count are kept: retired ones that are not free, history, and those with stranded records.
    #[cfg(feature = "compress")]
    pub(crate) fn keeps_segments(&self) -> bool {
        if self.torn_end().is_some() {
            return true;
        }
        let tail = self.tail.lock();
        !tail.retired.is_empty() || tail.history_len() > 0 || !tail.unlisted.is_empty()
    }

    /// Bytes of the retired segments that wait for values which their callers keep.
    pub(crate) fn held_bytes(&self) -> u64 {
        let tail = self.tail.lock();
        let held = tail.retired.iter().filter(|entry| self.holds.is_held(entry.extent, entry.extents));
        held.map(|entry| self.geometry.len_of(entry.extent, entry.extents)).sum()
    }

    /// Reserves space that an earlier session used: it may have holes, or lie in part past the end of the file, where closing cut it.
    /// False when that fails.
    pub(super) fn set_found_aside(&self, extent: u32, extents: u32) -> bool {
        let start = self.geometry.start(extent);
        let end = start + self.geometry.len_of(extent, extents);
        is(Bug::FoundSpaceTrusted) || self.reserve(start, end).is_ok()
    }

    /// Adds an extent whose retirement recovery found in the log, where it may not be synced yet.
    pub(super) fn retire_again(&self, tail: &mut Tail, pins: &Pins, extent: u32, durable_at: u64) {
        tail.retired.push(Retired::found(extent, 1, durable_at, pins));
    }

    /// Bytes of retired segments that only wait for snapshots.
    pub(crate) fn noted_bytes(&self) -> u64 {
        let tail = self.tail.lock();
        let held = tail.retired.iter().filter(|entry| entry.noted && self.segment_stats.noted(entry.extent) > 0);
        held.map(|entry| self.geometry.len_of(entry.extent, entry.extents)).sum()
    }
}

#[cfg(test)]
mod tests;
