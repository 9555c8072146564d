//! Reading on where a follower's log ends: what another session has appended since, in whole commits.

use super::headers::find_headers;
use crate::error::{Error, Result};
#[cfg(feature = "encrypt")]
use crate::frame::TAG_LEN;
use crate::frame::{Header, Kind, Mark, NAMESPACE_OF_NAMES};
#[cfg(feature = "encrypt")]
use crate::log::keys_of;
use crate::log::{Segment, SegmentHeader, SegmentKind, SegmentList, Step, Superblock, Walk, read_next};
use crate::planted::{Bug, is};
use crate::storage::Storage;
use alloc::vec::Vec;
use core::ops::Range;

/// How often the end of a segment is read again that is known to be complete.
const TRIES_MAX: u32 = 2;

/// The end of a follower's log: the end of a whole commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: Segment,
    /// File offset of the next frame.
    pub(crate) offset: u64,
}

/// A frame of the log, in log order.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// A record. Key, and value of the record of a namespace, are ranges of [`Advance::bytes`].
    Record {
        offset: u64,
        header: Header,
        key: Range<usize>,
        value: Range<usize>,
        expiry: Option<u64>,
    },
    Mark(Mark),
    /// The segment with this base is retired.
    Retire(u64),
    Floor(u64),
    /// The log goes on in this segment; the one before it ends at this file offset.
    Enter(Segment, u64),
}

/// What has been read.
#[derive(Debug, Default)]
pub(crate) struct Advance {
    pub(crate) news: Vec<News>,
    pub(crate) bytes: Vec<u8>,
    /// Where the log ends now; `None` if it has no segment yet.
    pub(crate) place: Option<Place>,
    /// Behind the last commit in it that changes something: log position and salt.
    pub(crate) changed: Option<(u64, u64)>,
    /// There may be more.
    pub(crate) more: bool,
}

/// The result of reading on.
pub(crate) enum Advanced {
    Read(Advance),
    /// The segment in which the follower's log ends has been reused.
    Gone,
    /// The log ends before the follower's, or goes on from an earlier place.
    Shorter,
}

/// Reads on from `from`, about `most` bytes, and more where a commit is longer.
pub(crate) fn advance(storage: &dyn Storage, superblock: &Superblock, from: Option<Place>, most: u64) -> Result<Advanced> {
    let mut reading = Reading::new(storage, superblock, from);
    let first = match from {
        Some(place) => match reading.header_of(&place.segment)? {
            Some(header) => Some((place, header.session)),
            None => return Ok(Advanced::Gone),
        },
        // What had been the first segment may be gone by now.
        None if superblock.checkpoint.is_some() => return Ok(Advanced::Gone),
        None => reading.first()?,
    };
    let Some((place, session)) = first else { return Ok(Advanced::Read(reading.read)) };
    if from.is_none() {
        reading.enter(place.segment, 0);
    }
    reading.on_from(place, session, most)
}

/// True when the segment in which the follower's log ends has been reused.
pub(crate) fn is_gone(storage: &dyn Storage, superblock: &Superblock, place: Option<Place>) -> Result<bool> {
    let reading = Reading::new(storage, superblock, place);
    Ok(match place {
        Some(place) => reading.header_of(&place.segment)?.is_none(),
        None => superblock.checkpoint.is_some(),
    })
}

/// Frames of a commit whose last one has not been read.
#[derive(Default)]
struct Pending {
    news: Vec<News>,
    is_open: bool,
    /// One of them is no copy.
    changes: bool,
}

struct Reading<'a> {
    storage: &'a dyn Storage,
    superblock: &'a Superblock,
    read: Advance,
    pending: Pending,
}

impl<'a> Reading<'a> {
    fn new(storage: &'a dyn Storage, superblock: &'a Superblock, place: Option<Place>) -> Self {
        Self { storage, superblock, read: Advance { place, ..Advance::default() }, pending: Pending::default() }
    }

    /// The header of a segment, unless it was reused.
    fn header_of(&self, segment: &Segment) -> Result<Option<SegmentHeader>> {
        let start = self.superblock.geometry().start(segment.extent);
        let header = SegmentHeader::read(self.storage, self.superblock.store_id, start)?;
        Ok(header.filter(|header| {
            (header.kind, header.base, header.salt, header.extents)
                == (SegmentKind::Log, segment.base, segment.salt, segment.extents)
        }))
    }

    fn first(&mut self) -> Result<Option<(Place, u64)>> {
        let found = self.find((0, 0), 0)?;
        Ok(found.map(|(segment, header)| {
            let offset = segment.first_frame(self.superblock.geometry());
            (Place { segment: Segment { end: offset, ..segment }, offset }, header.session)
        }))
    }

    fn enter(&mut self, segment: Segment, previous_end: u64) {
        self.pending.news.push(News::Enter(segment, previous_end));
        self.whole_until(segment, segment.end);
    }

    /// Everything up to here is of whole commits, unless one is open.
    fn whole_until(&mut self, segment: Segment, offset: u64) {
        if !self.pending.is_open || is(Bug::FollowedByHalves) {
            self.read.news.append(&mut self.pending.news);
            if core::mem::take(&mut self.pending.changes) {
                self.read.changed = Some((segment.lsn(self.superblock.geometry(), offset), segment.salt));
            }
            self.read.place = Some(Place { segment: Segment { end: offset, ..segment }, offset });
        }
    }

    fn on_from(mut self, from: Place, session: u64, most: u64) -> Result<Advanced> {
        let geometry = self.superblock.geometry();
        let (mut segment, mut position, mut session) = (from.segment, from.offset, session);
        let (mut read, mut tries, mut known_end) = (0, 0, None);
        loop {
            let end = known_end.unwrap_or_else(|| segment.limit(geometry));
            let mut walk = Walk::new(self.storage, segment.salt, position, end.min(self.storage.len()?).max(position));
            let is_read = loop {
                match walk.step()? {
                    Step::Frame { offset, header } => {
                        self.frame(&mut walk, offset, &header)?;
                        self.whole_until(segment, walk.position());
                        read += header.frame_len() as u64;
                        if read >= most && !self.pending.is_open {
                            self.read.more = true;
                            return Ok(Advanced::Read(self.read));
                        }
                    }
                    Step::End => break known_end.is_some(),
                    Step::Bad { .. } => break false,
                }
            };
            position = walk.position();
            let Some((next, header)) = self.after(&segment, session)? else {
                let goes_on = self.goes_on_behind(&segment);
                return Ok(self.up_to(from, goes_on));
            };
            if position < header.previous_end && !is_read {
                // The writer was done here before it went on: what could not be read was being written when this looked.
                if tries == TRIES_MAX {
                    if self.superblock.session > header.session {
                        // The newest session has found the end of the log here, behind a crash, and has not begun a segment yet.
                        return Ok(Advanced::Read(self.read));
                    }
                    if self.goes_on_behind(&segment) {
                        // It was compacted, and the end of its space is used again, though its header still stands.
                        return Ok(self.up_to(from, true));
                    }
                    return Err(Error::corrupt(position, "a record in front of the end of its segment"));
                }
                (tries, known_end) = (tries + 1, Some(header.previous_end));
                continue;
            }
            if position > header.previous_end {
                // A recovery has cut the unfinished commit off.
                let is_shown = |place: Place| place.segment.base == segment.base && place.offset > header.previous_end;
                if self.read.place.is_some_and(is_shown) {
                    return Ok(Advanced::Shorter);
                }
                self.pending = Pending::default();
            }
            #[cfg(feature = "encrypt")]
            if !self.is_chained(&segment, position.min(header.previous_end), &header)? {
                if self.header_of(&segment)?.is_none() {
                    return Ok(self.up_to(from, true));
                }
                return Err(Error::Forged { offset: geometry.start(next.extent), what: "a segment behind records" });
            }
            segment = Segment { end: next.first_frame(geometry), ..next };
            (position, session, tries, known_end) = (segment.end, header.session, 0, None);
            self.enter(segment, header.previous_end);
        }
    }

    /// True if the header names the tag of the frame in front of `end`, where the records of `segment` end; always in a plain store.
    #[cfg(feature = "encrypt")]
    fn is_chained(&self, segment: &Segment, end: u64, header: &SegmentHeader) -> Result<bool> {
        let Some(seal) = header.seal.filter(|_| keys_of(self.storage).is_some()) else { return Ok(true) };
        let mut tag = [0; TAG_LEN];
        if end > segment.first_frame(self.superblock.geometry()) {
            self.storage.read_at(end - TAG_LEN as u64, &mut tag)?;
        }
        Ok(tag == seal.chain)
    }

    /// The log goes on behind a segment if a later one has the checkpoint: then what comes next may have been compacted.
    fn goes_on_behind(&self, segment: &Segment) -> bool {
        self.superblock.checkpoint.is_some_and(|place| place.base > segment.base)
    }

    fn up_to(mut self, from: Place, goes_on: bool) -> Advanced {
        if goes_on && self.read.place == Some(from) {
            return Advanced::Gone;
        }
        self.read.more = goes_on;
        Advanced::Read(self.read)
    }

    fn frame(&mut self, walk: &mut Walk<'_>, offset: u64, header: &Header) -> Result<()> {
        let news = match header.kind {
            Kind::Mark => Mark::decode(walk.value(offset, header)?).map(News::Mark),
            Kind::Retire => walk.value_u64(offset, header)?.map(News::Retire),
            Kind::Floor => {
                let floor = walk.value(offset, header)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
                floor.map(News::Floor)
            }
            Kind::Adopt => {
                return Err(Error::Unsupported { offset, what: "a segment that was written beside the log" });
            }
            Kind::Next | Kind::Checkpoint | Kind::Pad => None,
            Kind::Put | Kind::Tombstone | Kind::Event | Kind::Stub => {
                let expiry = walk.expiry(offset, header)?;
                let key = Self::keep(&mut self.read.bytes, walk.key(offset, header)?);
                let is_name = header.namespace == NAMESPACE_OF_NAMES;
                let value = if is_name { walk.value(offset, header)? } else { &[] };
                let value = Self::keep(&mut self.read.bytes, value);
                self.pending.is_open = header.continues;
                self.pending.changes |= !header.copied;
                Some(News::Record { offset, header: *header, key, value, expiry })
            }
        };
        self.pending.news.extend(news);
        Ok(())
    }

    fn keep(bytes: &mut Vec<u8>, more: &[u8]) -> Range<usize> {
        let from = bytes.len();
        bytes.extend_from_slice(more);
        from..bytes.len()
    }

    /// The segment after `segment`, which `session` began: the one that its trailer names; or, where a newer session has begun, the youngest
    /// that names it as its predecessor, since the others were given up by a recovery. No trailer names what a session begins behind a crash;
    /// behind a close it appends to the last segment, which its superblock names, and goes on by trailers.
    fn after(&self, segment: &Segment, session: u64) -> Result<Option<(Segment, SegmentHeader)>> {
        let geometry = self.superblock.geometry();
        let Superblock { active, session: newest, .. } = *self.superblock;
        let is_resumed = (active.base, active.salt) == (segment.base, segment.salt);
        if newest > session && !is_resumed && !is(Bug::FollowedByTrailersAlone) {
            return self.find((segment.base, segment.salt), segment.next_base(geometry));
        }
        let Some(next) = read_next(self.storage, geometry, segment)? else { return Ok(None) };
        let next =
            Segment { base: next.base, extent: next.extent, extents: next.extents, end: 0, salt: next.salt, linked: false };
        let in_file = geometry.extents_in(self.storage.len()?);
        if next.extents == 0 || next.extent.checked_add(next.extents).is_none_or(|behind| behind > in_file) {
            return Ok(None);
        }
        let header = self.header_of(&next)?;
        // Positions only grow: a forged file cannot lead in a circle.
        let follows = |header: &SegmentHeader| {
            (header.previous_base, header.previous_salt) == (segment.base, segment.salt)
                && header.base >= segment.next_base(geometry)
        };
        Ok(header.filter(follows).map(|header| (next, header)))
    }

    fn find(&self, previous: (u64, u64), from: u64) -> Result<Option<(Segment, SegmentHeader)>> {
        let geometry = self.superblock.geometry();
        let in_file = geometry.extents_in(self.storage.len()?);
        let headers = find_headers(self.storage, geometry, self.superblock.store_id, &SegmentList::default())?;
        let follows = |extent: u32, header: &SegmentHeader| {
            header.kind == SegmentKind::Log
                && (header.previous_base, header.previous_salt) == previous
                && header.base >= from
                && extent.checked_add(header.extents).is_some_and(|behind| behind <= in_file)
        };
        let found = headers.iter().filter(|(extent, header)| follows(*extent, header)).max_by_key(|(_, header)| header.base);
        Ok(found.map(|(extent, header)| (header.segment(geometry, extent), *header)))
    }
}
