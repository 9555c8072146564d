//! Giving segments back: a retired one is free once its retirement is durable and nobody reads it any more.

use super::append::Placed;
use super::space::Purpose;
use super::{Log, Segment, Tail};
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
                freed += self.geometry.len_of(entry.extent, entry.extents);
                return false;
            }
            true
        });
        freed
    }

    /// Sets aside what an earlier session has used: it may have holes, or lie in part behind the end of the file, where closing cut it.
    /// False when there is no space for that now.
    pub(super) fn set_found_aside(&self, extent: u32, extents: u32) -> bool {
        let start = self.geometry.start(extent);
        let end = start + self.geometry.len_of(extent, extents);
        is(Bug::FoundSpaceTrusted) || self.reserve(start, end).is_ok()
    }

    /// A place whose retirement stands in the log, but may not be synced yet: a recovery found it.
    pub(super) fn retire_again(&self, tail: &mut Tail, pins: &Pins, extent: u32, durable_at: u64) {
        tail.retired.push(Retired { extent, extents: 1, backed: false, durable_at, unread_at: pins.ticket() });
    }
}
