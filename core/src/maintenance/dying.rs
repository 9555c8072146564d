//! Segments whose records all expire before long. Automatic compaction leaves them alone until then, and frees them without a copy. Copies of
//! records that are about to expire would lie among new ones, and stay there, dead, as long as those live: with 10 M records that each live for an
//! hour (`bench/benches/expiry.rs`) an eighth of the file was such copies.

use super::sift::whole;
use crate::engine::Engine;
use crate::error::Result;
use crate::frame::Kind;
use crate::log::Segment;
use crate::scan::{Found, scan};
use crate::store::Store;

impl Store {
    /// True when automatic compaction leaves `segment` alone now. Reads it when it is first asked for; one with damage is not left alone.
    pub(super) fn is_dying(&self, segment: &Segment) -> bool {
        let now = self.engine.log.clock.now();
        let is_known = {
            let mut dying = self.dying.lock();
            dying.retain(|(_, until)| *until > now);
            dying.iter().any(|(base, _)| *base == segment.base)
        };
        is_known
            || dies_at(&self.engine, segment, now).is_some_and(|until| {
                self.dying.lock().push((segment.base, until));
                true
            })
    }
}

/// When the last record of a segment expires, if all do, and that is no further off than the first of them has expired in the past: nobody waits for
/// more than as long as it has been dying.
fn dies_at(engine: &Engine, segment: &Segment, now: u64) -> Option<u64> {
    if !engine.log.clock.in_use() {
        return None;
    }
    let (first, last) = lives(engine, segment).ok()??;
    (now < last && last - now <= now.saturating_sub(first)).then_some(last)
}

/// When the first and the last record of a segment expire; `None` if one of them never does, or there is damage.
fn lives(engine: &Engine, segment: &Segment) -> Result<Option<(u64, u64)>> {
    // Nothing reuses the segment while this pin lives.
    let _pin = engine.pins.pin();
    let (mut first, mut last, mut all) = (u64::MAX, 0, true);
    scan(&*engine.log.storage, whole(engine, segment), &mut |found| {
        match found {
            Found::Frame { offset, header } if all && header.kind == Kind::Put => {
                let frame = engine.log.frame(offset)?;
                frame.check()?;
                match frame.expiry() {
                    Some(expiry) => (first, last) = (first.min(expiry), last.max(expiry)),
                    None => all = false,
                }
            }
            Found::Frame { header, .. } => all &= !header.kind.is_carried(),
            Found::Damage(_) => all = false,
        }
        Ok(())
    })?;
    Ok(all.then_some((first, last)))
}
