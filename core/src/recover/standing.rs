//! State of the log, for a session that shares its file with others.

use super::chain::Chain;
use crate::error::Result;
use crate::frame::Next;
use crate::limits::{LOG_POSITION_FIRST, LOG_POSITION_MAX, SEGMENT_SIZE_MAX, VALUE_LEN_MAX};
use crate::log::{ActivePlace, Barred, REMEMBERED_MOST, Segment, Standing, Superblock, SuperblockPair, read_next};
use crate::sorted::sort_by_key;
use crate::storage::Storage;
use alloc::vec::Vec;

/// Limit of claimed runs that count, the last ones of the tail: a session claims few between two checkpoints.
const CLAIMS_MAX: usize = 256;
/// Only runs count that begin at most this many extents after the end of the file, or after another run ...
const CLAIMS_BEYOND: u32 = 4;
/// ... and are no longer than the longest record with the shortest extents.
const EXTENTS_MAX: u32 = 1 << 19;

/// The state of the log after a superblock.
pub(crate) fn standing(storage: &dyn Storage, pair: &SuperblockPair) -> Result<Standing> {
    Chain::follow(storage, pair)?.standing(storage, &pair.current)
}

impl Chain {
    /// The state of the log that this chain shows, for a session that shares its file with others.
    pub(crate) fn standing(&self, storage: &dyn Storage, superblock: &Superblock) -> Result<Standing> {
        let geometry = superblock.geometry();
        let live = self.live_segments();
        let mut named: Vec<Next> = Vec::new();
        // Each session claims them again, with a higher number: the last claim of a run counts, plus the successions since.
        for &(claim, successions) in self.claims.iter().rev().take(CLAIMS_MAX) {
            if named.iter().all(|later| (later.extent, later.extents) != (claim.extent, claim.extents)) {
                let sessions = if claim.base < LOG_POSITION_FIRST { self.successions - successions } else { 0 };
                named.push(Next { base: claim.base + sessions, ..claim });
            }
        }
        for (index, segment) in live.iter().enumerate().filter(|(_, segment)| !segment.linked) {
            // A trailer may name a segment that was never written, or written too late.
            let next = read_next(storage, geometry, segment)?;
            named.extend(next.filter(|next| live.get(index + 1).is_none_or(|real| real.salt != next.salt)));
        }
        let ActivePlace { base, salt, extent, extents } = superblock.active;
        if base > 0 && extents > 0 {
            named.push(Next { extent, extents, base, salt });
        }
        named.retain(|next| next.base >= LOG_POSITION_FIRST || next.base < REMEMBERED_MOST);
        let is_free = |next: &Next| live.iter().all(|segment| segment.extent != next.extent || segment.base != next.base);
        named.retain(is_free);
        // A session that has published a snapshot has written and synced its last segment, and writes there again only after another claim.
        let published = superblock.checkpoint.and_then(|place| place.directory).map(|directory| directory.salt);
        named.retain(|next| next.base < LOG_POSITION_FIRST || Some(next.salt) != published);
        sort_by_key(&mut named, |next| next.extent.into());
        // No session takes more at once than the longest record needs, or skips much of the file.
        let longest = VALUE_LEN_MAX as u64 + 2 * u64::from(SEGMENT_SIZE_MAX);
        let mut behind = geometry.extents_in(storage.len()?);
        let mut claims = Vec::new();
        for Next { extent, extents, base, salt } in named {
            let len = geometry.len_of(extent, extents.min(EXTENTS_MAX));
            if extent <= behind + CLAIMS_BEYOND && len <= longest && extents <= EXTENTS_MAX {
                behind = behind.max(extent + extents);
                // No segment has so low a base: here it is a number of sessions.
                let is_old = base < LOG_POSITION_FIRST;
                let (sessions, since) = if is_old { (base, salt) } else { (0, 0) };
                let run = Barred { extent, extents, sessions, since };
                claims.push((run, if is_old { 0 } else { base.saturating_add(len).min(LOG_POSITION_MAX) }));
            }
        }
        self.add_earlier_ends(&mut claims);
        Ok(Standing {
            end: self.end,
            records: self.ops.len(),
            retired: self.retired.len(),
            is_clean: self.clean,
            claims,
            unsettled: live
                .last()
                .into_iter()
                .chain(self.unproven.iter())
                .map(|segment| (segment.extent, segment.extents))
                .collect(),
            next_base: self.next_base,
            next_header: self.next_header,
            headers: self.headers,
        })
    }

    /// Adds the segments in which earlier sessions have ended: whoever took the store over may have died before it could claim them.
    fn add_earlier_ends(&self, claims: &mut Vec<(Barred, u64)>) {
        let ends = self.tail.iter().rev().skip(1).filter(|segment| !segment.linked);
        for (sessions, &Segment { extent, extents, .. }) in (1..REMEMBERED_MOST).zip(ends) {
            if claims.iter().all(|(run, _)| (run.extent, run.extents) != (extent, extents)) {
                claims.push((Barred { extent, extents, sessions, since: 0 }, 0));
            }
        }
    }
}
