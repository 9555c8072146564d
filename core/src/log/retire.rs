//! Giving segments back: a retired one is free once its retirement is durable and nobody reads it any more.

use super::append::{Placed, Purpose};
use super::{Log, SEGMENT_HEADER_LEN, Segment, Tail};
use crate::error::Result;
use crate::frame::{FrameSpec, Kind};
use crate::pins::{Pins, Ticket};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// A segment on its way to the free ones.
#[derive(Debug)]
pub(crate) struct Retired {
    extent: u32,
    extents: u32,
    backed: bool,
    /// Log position behind the frame that retires it.
    durable_at: u64,
    /// When the last reader that could know it has gone.
    unread_at: Ticket,
}

impl Log {
    /// Retires a segment whose live records all stand further along the log, synced. Nothing may point into it any more.
    pub(crate) fn retire(&self, pins: &Pins, segment: Segment) -> Result<()> {
        let mut tail = self.tail.lock();
        let order = segment.order.to_le_bytes();
        let mut placed: Vec<Placed> = Vec::new();
        self.append_locked(&mut tail, &[FrameSpec::control(Kind::Retire, &order)], Purpose::MakeSpace, &mut placed)?;
        tail.segments.remove(segment.order);
        let entry = Retired {
            extent: segment.extent,
            extents: segment.extents,
            backed: segment.order >= tail.first_own_order,
            durable_at: self.end(),
            unread_at: pins.ticket(),
        };
        tail.retired.push(entry);
        Ok(())
    }

    /// Moves what can be moved from the retired segments to the free ones; says how many bytes.
    pub(crate) fn reclaim(&self, pins: &Pins) -> u64 {
        if self.tail.lock().retired.is_empty() {
            return 0;
        }
        pins.advance();
        let mut tail = self.tail.lock();
        let synced = self.sync_state.synced();
        let Tail { retired, space, .. } = &mut *tail;
        let mut freed = 0;
        retired.retain(|entry| {
            let durable = entry.durable_at <= synced || is(Bug::ReuseBeforeRetire);
            let unread = pins.passed(&entry.unread_at) || is(Bug::ReaderNotPinned);
            if durable && unread {
                let backed = entry.backed || self.set_found_aside(entry.extent, entry.extents);
                space.release(entry.extent, entry.extents, backed);
                freed += u64::from(entry.extents) * self.geometry.segment_size();
                return false;
            }
            true
        });
        freed
    }

    /// Sets aside what an earlier session has used: it may have holes, or lie in part behind the end of the file, where closing cut it.
    /// False when there is no space for that now.
    pub(crate) fn set_found_aside(&self, extent: u32, extents: u32) -> bool {
        let start = self.geometry.start(extent);
        let end = start + u64::from(extents) * self.geometry.segment_size();
        is(Bug::FoundSpaceTrusted) || self.reserve(start, end).is_ok()
    }

    /// A place whose retirement stands in the log, but may not be synced yet: a recovery found it.
    pub(crate) fn retire_again(&self, tail: &mut Tail, pins: &Pins, extent: u32, durable_at: u64) {
        tail.retired.push(Retired { extent, extents: 1, backed: false, durable_at, unread_at: pins.ticket() });
    }

    /// Gives free segments back to the host, all but one that is kept for removals: those at the end are cut off, the blocks of the
    /// others go back alone.
    pub(crate) fn shrink(&self) -> Result<()> {
        let mut tail = self.tail.lock();
        let at_end = tail.space.surplus();
        let surplus = if tail.space.free_count() > at_end { at_end } else { at_end.saturating_sub(1) };
        if surplus > 0 {
            self.storage.set_len(self.geometry.start(tail.space.total - surplus))?;
            tail.space.shrink(surplus);
        }
        self.give_blocks_back(&mut tail, 1);
        Ok(())
    }

    /// All free extents but the first few backed ones give their blocks back to the host.
    fn give_blocks_back(&self, tail: &mut Tail, kept: usize) {
        for extent in tail.space.unback_all_but(kept) {
            // A hint to the host; what it answers changes nothing.
            let _ = self.storage.discard(self.geometry.start(extent), self.geometry.segment_size());
        }
    }

    /// True when the snapshot stands at the end of the file and there is room for it further down.
    pub(crate) fn snapshot_could_move_down(&self) -> bool {
        let Some(place) = self.superblocks.lock().current.checkpoint.filter(|place| place.snapshot_offset != 0) else {
            return false;
        };
        let tail = self.tail.lock();
        let end = place.snapshot_offset + SEGMENT_HEADER_LEN as u64 + place.snapshot_len;
        let (first, last) = (self.geometry.extent_of(place.snapshot_offset), self.geometry.extent_of(end - 1));
        let is_last = last + 1 + tail.space.free_at_end() == tail.space.total;
        is_last && tail.space.has_run_below(last + 1 - first, first)
    }

    /// Cuts the file behind the last byte that counts, and gives the blocks of free segments in front of it back: the store is being
    /// closed.
    pub(crate) fn trim(&self) -> Result<()> {
        let mut tail = self.tail.lock();
        let surplus = tail.space.surplus();
        tail.space.shrink(surplus);
        self.give_blocks_back(&mut tail, 0);
        let end = self.geometry.start(tail.space.total);
        let place = self.superblocks.lock().current.checkpoint.filter(|place| place.snapshot_offset != 0);
        let snapshot_end = place.map(|place| place.snapshot_offset + SEGMENT_HEADER_LEN as u64 + place.snapshot_len);
        let in_last = |&offset: &u64| offset <= end && end - offset < self.geometry.segment_size();
        let len = match tail.active {
            // The list of segments names all of its extents: some of the last one stays, even if the log ends in front of it.
            Some(active) if active.segment.limit(self.geometry) == end => {
                active.position.max(self.geometry.start(tail.space.total.saturating_sub(1)) + 1)
            }
            _ => snapshot_end.filter(in_last).unwrap_or(end),
        };
        Ok(self.storage.set_len(len)?)
    }
}
