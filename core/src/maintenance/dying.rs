//! Segments whose records all expire before long. Automatic compaction leaves them alone until then, and frees them without a copy. Copies of
//! records that are about to expire would lie among new ones, and stay there, dead, as long as those live: with 10 M records that each live for an
//! hour (`bench/benches/expiry.rs`) an eighth of the file was such copies.

use crate::engine::Engine;
use crate::frame::{FRAME_LEN_MIN, Kind};
use crate::log::Segment;
use crate::store::Store;
use alloc::vec::Vec;

/// The records of a segment that have expired first, up to one in so many, do not count: somebody may have written them with a time long past.
const EARLY_PARTS: usize = 8;
/// A segment is left alone no longer than so many times as long as it has been dying.
const PATIENCE: u64 = 2;

impl Store {
    /// True when automatic compaction leaves `segment` alone now. Reads it when it is first asked for; one with damage is not left alone.
    pub(super) fn is_dying(&self, segment: &Segment) -> bool {
        let now = self.engine.log.clock.now();
        let is_known = {
            let mut dying = self.dying.lock();
            // Not either when the clock was reset to a time before.
            dying.retain(|(_, time)| time.contains(&now));
            dying.iter().any(|(base, _)| *base == segment.base)
        };
        is_known
            || dies_at(&self.engine, segment, now).is_some_and(|until| {
                self.dying.lock().push((segment.base, now..until));
                true
            })
    }
}

/// When the last record of a segment expires, if all do, and that is soon against the time since when they have been expiring.
fn dies_at(engine: &Engine, segment: &Segment, now: u64) -> Option<u64> {
    if !engine.log.clock.in_use() {
        return None;
    }
    let mut expiries = expiries(engine, segment)?;
    expiries.sort_unstable();
    let (&begun, &last) = (expiries.get(expiries.len() / EARLY_PARTS)?, expiries.last()?);
    let is_soon = last > now && last - now <= now.saturating_sub(begun).saturating_mul(PATIENCE);
    is_soon.then_some(last)
}

/// When the records of a segment expire, dead ones included; `None` if one never does, there is an event, or there is damage.
fn expiries(engine: &Engine, segment: &Segment) -> Option<Vec<u64>> {
    let log = &engine.log;
    // Nothing reuses the segment while this pin lives.
    let _pin = engine.pins.pin();
    let (mut position, mut expiries) = (segment.first_frame(log.geometry), Vec::new());
    while position + FRAME_LEN_MIN as u64 <= segment.end {
        let header = log.header(position).ok()?;
        if header.kind == Kind::Put {
            let frame = log.frame(position).ok()?;
            frame.check().ok()?;
            expiries.push(frame.expiry()?);
        } else if header.kind.is_carried() {
            return None;
        }
        position += header.frame_len() as u64;
    }
    Some(expiries)
}
