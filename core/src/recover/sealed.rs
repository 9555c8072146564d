//! A sealed log: each segment header has the last tag of the segment before it, so that nothing in between can be cut out or mixed in.

use super::chain::Chain;
use super::follow::Follower;
use crate::error::{Error, Result};
use crate::frame::TAG_LEN;
use crate::log::{Geometry, Segment, SegmentHeader, SegmentList, is_as_listed, is_plain_from, is_sealed, keys_of, seals};
use crate::sorted::Set;
use crate::storage::Storage;

/// Makes the listed segments readable by what the list says of their seals, whatever stands in the place of their headers.
pub(crate) fn enter_listed(storage: &dyn Storage, geometry: Geometry, listed: &SegmentList) -> Result<()> {
    let Some(keys) = keys_of(storage) else { return Ok(()) };
    for (segment, seal) in listed.segments.iter().zip(&listed.seals) {
        let start = geometry.start(segment.extent);
        if !keys.enter_listed(segment.salt, segment.base, start, seal)? && !storage.forgives() {
            return Err(Error::Forged { offset: start, what: "a listed segment of another key" });
        }
        // What is forged, or stands in the place of a segment that was retired since, is no part of the store.
        if storage.forgives() && !is_as_listed(storage, geometry, segment)? {
            keys.forget_plain(segment.salt);
        }
    }
    Ok(())
}

/// Compares the plain segments of a store that is being sealed with their digests. The places of those that the tail retires may have been used again:
/// they do not count, and are not read any more. In a store that is being made plain, all segments in front of the border have to be sealed: those
/// of which the header is lost would pass for plain ones.
pub(crate) fn check_plain(storage: &dyn Storage, geometry: Geometry, chain: &Chain) -> Result<()> {
    let Some(keys) = keys_of(storage).filter(|keys| keys.is_mixed()) else { return Ok(()) };
    let gone = Set::collect(chain.gone().iter().map(|segment| segment.base));
    for segment in &chain.listed.segments {
        if gone.contains(segment.base) {
            keys.forget_plain(segment.salt);
        } else if keys.is_disabling() {
            if keys.is_plain(segment.salt) && !keys.is_plain_from(segment.base) {
                return Err(Error::corrupt(geometry.start(segment.extent), "a segment header, of which no copy is left"));
            }
        } else if !is_as_listed(storage, geometry, segment)? {
            return Err(Error::Forged { offset: geometry.start(segment.extent), what: "a segment that is not sealed" });
        }
    }
    Ok(())
}

/// False for a plain header of a store that is being made plain: anybody may have made it.
fn has_tag(storage: &dyn Storage, header: &SegmentHeader) -> bool {
    header.seal.is_some() || seals(storage)
}

impl Follower<'_> {
    /// Notes how far numbers and positions have come by all headers of the file, before any is dropped: a tag says of each that a session of this
    /// store has written it, also of one inside of a segment that was begun in the same space before, and that a crash has brought back.
    pub(super) fn note_headers(&mut self) {
        if keys_of(self.storage).is_none() {
            return;
        }
        for (extent, header) in self.headers.iter().filter(|(_, header)| has_tag(self.storage, header)) {
            self.noted.number = self.noted.number.max(header.number);
            self.noted.base = self.noted.base.max(header.segment(self.geometry, extent).next_base(self.geometry));
        }
    }

    /// Fails if the file has segments that are younger than the end of the log that the superblock of a closed store names. What an earlier session has
    /// begun that was overtaken is not.
    pub(super) fn check_age(&self) -> Result<()> {
        let is_younger = |header: &SegmentHeader| {
            header.number > self.superblock.headers && !self.came_late(header) && has_tag(self.storage, header)
        };
        let is_closed = self.superblock.clean_end.is_some() && !self.pair.other_damaged && keys_of(self.storage).is_some();
        if is_closed && self.headers.values().any(is_younger) { Err(Error::RolledBack) } else { Ok(()) }
    }

    /// The tag that ends at `position`.
    pub(super) fn tag_before(&self, position: u64) -> Result<[u8; TAG_LEN]> {
        let mut tag = [0; TAG_LEN];
        let is_first = self.chain.tail.last().is_none_or(|segment| position <= segment.first_frame(self.geometry));
        let is_plain = |segment: &Segment| keys_of(self.storage).is_some_and(|keys| keys.is_plain(segment.salt));
        if is_sealed(self.storage) && !is_first && !self.chain.tail.last().is_some_and(is_plain) {
            self.storage.read_at(position - TAG_LEN as u64, &mut tag)?;
        }
        Ok(tag)
    }

    /// A walk over `segment` begins at `position`.
    pub(super) fn begin_tags(&mut self, segment: &Segment, position: u64) -> Result<()> {
        self.chain.last_tag =
            if position <= segment.first_frame(self.geometry) { [0; TAG_LEN] } else { self.tag_before(position)? };
        Ok(())
    }

    /// Fails unless `next` was begun behind the frame that was walked last.
    pub(super) fn check_chain(&self, next: &Segment) -> Result<()> {
        // A plain one has no chain.
        if keys_of(self.storage).is_none() || is_plain_from(self.storage, next.base) {
            return Ok(());
        }
        let chain = self.header_of(next).and_then(|header| header.seal).map(|seal| seal.chain);
        if chain == Some(self.chain.last_tag) {
            return Ok(());
        }
        Err(Error::Forged { offset: self.geometry.start(next.extent), what: "a segment behind records" })
    }
}
