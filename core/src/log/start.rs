//! Start and end of a session: opening continues the log where recovery found its end, closing records where it ends.

use super::history::Kept;
#[cfg(feature = "encrypt")]
use super::opened::is_plain_from;
use super::retire::Retired;
use super::{Active, ActivePlace, Log, Previous, Segment, SegmentHeader, SnapshotSegment, Superblock, Tail};
use crate::error::Result;
use crate::limits::LOG_POSITION_FIRST;
use crate::pins::Pins;
#[cfg(feature = "encrypt")]
use crate::planted::{Bug, is};
use crate::sorted::Set;
use crate::sync::Ordering;
use alloc::vec::Vec;

/// What recovery found.
pub(crate) struct LogEnd {
    /// The live segments, oldest first.
    pub(crate) live: Vec<Segment>,
    /// Segments that are kept for the records in them that were given up.
    pub(crate) kept: Vec<Segment>,
    /// Listed segments that a frame in the log retires.
    pub(crate) retired: Vec<Segment>,
    /// Retired segments that are kept as history, and the floor that holds them.
    pub(crate) history: Vec<Segment>,
    pub(crate) floor: u64,
    /// Extents whose headers name the last segment as their predecessor, and that were given up.
    pub(crate) given_up: Vec<u32>,
    pub(crate) snapshot: Vec<SnapshotSegment>,
    /// The extent after the last one that the newest list names.
    pub(crate) listed: u32,
    pub(crate) next_base: u64,
    pub(crate) next_header: u64,
    /// Number of the newest header.
    pub(crate) headers: u64,
    pub(crate) next_event: u64,
    pub(crate) torn_headers: Vec<(u64, SegmentHeader)>,
    pub(crate) lost_trailers: Vec<(Segment, Segment)>,
    pub(crate) unproven: Vec<Segment>,
    /// Log position of the end of the last commit.
    pub(crate) end: u64,
    /// Log position up to which all is known to be synced.
    pub(crate) synced: u64,
    /// Log position of the newest checkpoint.
    pub(crate) checkpoint: Option<u64>,
    /// Some of the log may be in the system's memory only, not on the medium.
    pub(crate) is_unsettled: bool,
    /// The last segment takes appends again.
    pub(crate) goes_on: bool,
    /// The last tag of a sealed log.
    #[cfg(feature = "encrypt")]
    pub(crate) last_tag: [u8; crate::frame::TAG_LEN],
}

impl Log {
    /// True if plain frames may be appended to a segment that was found. In a store that is being made plain, one in front of the border is sealed.
    pub(super) fn takes_plain(&self, segment: &Segment) -> bool {
        #[cfg(feature = "encrypt")]
        let is_plain = !self.holds_sealed() || is_plain_from(&*self.storage, segment.base);
        #[cfg(not(feature = "encrypt"))]
        let (is_plain, _) = (true, segment);
        is_plain && !self.is_sealed()
    }

    /// A sealed segment has one session.
    fn may_go_on(&self, last: &Segment) -> bool {
        #[cfg(feature = "encrypt")]
        let is_bug = is(Bug::SealedSegmentGoesOn);
        #[cfg(not(feature = "encrypt"))]
        let is_bug = false;
        self.takes_plain(last) || is_bug
    }

    /// Sets the tail to the end that recovery found.
    pub(crate) fn start_at(&self, found: LogEnd, pins: &Pins) -> Result<()> {
        let mut tail = self.tail.lock();
        let tail: &mut Tail = &mut tail;
        for segment in &found.live {
            tail.segments.insert(segment.base, *segment);
        }
        tail.next_base = found.next_base;
        tail.next_header = found.next_header;
        self.found_headers(found.headers);
        tail.next_event = found.next_event;
        #[cfg(feature = "encrypt")]
        {
            tail.last_tag = found.last_tag;
        }
        tail.first_own_base = found.next_base;
        tail.found_end = found.end;
        tail.torn_headers.clone_from(&found.torn_headers);
        tail.lost_trailers.clone_from(&found.lost_trailers);
        tail.unproven.clone_from(&found.unproven);
        tail.snapshot.clone_from(&found.snapshot);
        tail.given_up.clone_from(&found.given_up);
        let kept = |segment: &Segment| Kept {
            segment: *segment,
            retired: Retired::found(segment.extent, segment.extents, found.end, pins),
            is_recorded: true,
        };
        tail.history.found(found.floor, found.history.iter().map(kept));
        if found.is_unsettled {
            self.set_unsettled();
        }
        if let Some(last) = found.live.last() {
            tail.previous = Previous { base: last.base, end: last.end, salt: last.salt, trailer: None };
            // A follower appends nothing: its last segment ends where the follower has read to.
            let goes_on = found.goes_on && !self.follows();
            if goes_on && self.may_go_on(last) {
                tail.active = Some(Active::new(*last, last.end, self.geometry, false));
            } else if goes_on {
                // Nothing has been written there: the session before would have gone on in this segment.
                tail.previous.trailer = Some(last.limit(self.geometry));
            }
        }
        self.occupy(tail, &found, pins)?;
        self.appended.store(found.end, Ordering::Release);
        self.sync_state.start_at(found.synced);
        self.set_checkpoint(found.checkpoint.unwrap_or(LOG_POSITION_FIRST.min(found.end)));
        Ok(())
    }

    /// Which extents are in use, and which are free.
    fn occupy(&self, tail: &mut Tail, found: &LogEnd, pins: &Pins) -> Result<()> {
        let places = |segment: &Segment| segment.extent..segment.extent + segment.extents;
        let snapshot = tail.snapshot.iter().flat_map(|segment| segment.extent..segment.extent + segment.extents);
        let mut used = Set::collect(found.live.iter().chain(&found.history).flat_map(places).chain(snapshot).map(u64::from));
        // Segments that recovery has given up are kept for the records in them, none of which counts.
        for segment in found.kept.iter().filter(|_| !self.read_only) {
            if !places(segment).any(|extent| used.contains(extent.into())) {
                used = Set::collect(used.iter().chain(places(segment).map(u64::from)));
                tail.segments.insert(segment.base, *segment);
                tail.unlisted.push(*segment);
                self.segment_stats.enter(self.geometry, segment);
            }
        }
        // Extents that the log has reused already stay in use.
        let retired = found.retired.iter().flat_map(places).filter(|&extent| !used.contains(extent.into()));
        let retired: Vec<u32> = retired.collect();
        for &extent in &retired {
            self.retire_again(tail, pins, extent, found.end);
        }
        let used = Set::collect(used.iter().chain(retired.into_iter().map(u64::from)));
        // A last extent that the end of the file cuts counts only if something lies in it; otherwise growing makes it whole.
        let whole = self.geometry.whole_extents_in(self.storage.len()?);
        tail.space.listed = found.listed;
        tail.space.total = used.last().map_or(whole, |last| whole.max(last as u32 + 1));
        for extent in (0..tail.space.total).filter(|&extent| !used.contains(extent.into())) {
            tail.space.release(extent, 1, false);
        }
        Ok(())
    }

    /// Replaces the superblock that could not be read. Its content is unknown, so the log does not count as closed.
    pub(crate) fn replace_lost_superblock(&self) -> Result<()> {
        self.flip(&|superblock| Superblock {
            synced: superblock.synced.max(superblock.clean_end.unwrap_or(0)),
            clean_end: None,
            torn_end: false,
            ..superblock
        })
    }

    /// Syncs everything, records the end of the log in the superblock, and gives unneeded space back. The caller blocks all
    /// writers; appends after it fail.
    pub(crate) fn finish(&self, pins: &Pins) -> Result<()> {
        self.settle(&mut self.tail.lock())?;
        self.sync_the_end()?;
        self.reclaim(pins);
        let end = self.position();
        let (active, is_named) = {
            let tail = self.tail.lock();
            (tail.active_place(), self.is_sealed() && tail.previous.trailer.is_some())
        };
        let torn_end = active == ActivePlace::default() && !is_named;
        self.flip(&|superblock| Superblock { clean_end: Some(end), synced: end, torn_end, active, ..superblock })?;
        // While the writers are blocked: one that waits must not write after the end that was just recorded.
        self.close_to_writes();
        // The file is complete without this, so a failure does not matter.
        let _ = self.trim();
        Ok(())
    }
}
