//! The header of a segment: its position in the log, and the salt that its frames are bound to. It is stored twice, in separate
//! sectors, so that one damaged sector does not lose the salt of a whole segment. The segment ends with the trailer: the
//! frame that names the next segment.

#[cfg(feature = "encrypt")]
use super::opened::{is_sealed, keys};
use super::run::{SEGMENT_HEADER_LEN, TRAILER_LEN};
use super::{Geometry, Segment, Window};
#[cfg(feature = "encrypt")]
use crate::error::Error;
use crate::error::Result;
#[cfg(feature = "encrypt")]
use crate::frame::TAG_LEN;
use crate::frame::{Header, Kind, NEXT_LEN, Next, bind, check, crc32c};
use crate::limits::{FILE_LEN_MAX, LOG_POSITION_MAX};
#[cfg(feature = "encrypt")]
use crate::planted::{Bug, is};
#[cfg(feature = "encrypt")]
use crate::seal::{Authentic, HeaderSeal, Keys};
use crate::storage::Storage;
#[cfg(feature = "encrypt")]
use alloc::vec::Vec;

const MAGIC: [u8; 4] = *b"PSEG";
/// Length of one copy of the header in bytes.
const COPY_LEN: usize = 192;
/// Offset of the second copy: in a separate sector.
const SECOND_COPY: usize = 512;
/// Where the room for a seal begins.
const SEAL: usize = 80;
const _: () = assert!(SEGMENT_HEADER_LEN == SECOND_COPY + COPY_LEN);

/// Bit of the header's flags: the space had never been written.
const FLAG_FRESH: u8 = 1;
/// Bit of the header's flags: the trailer of the previous segment names this one.
const FLAG_LINKED: u8 = 2;

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// Frames of the log.
    Log,
    /// Parts of an index snapshot.
    Snapshot,
    /// Events, written beside the log.
    Events,
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) salt: u64,
    pub(crate) kind: SegmentKind,
    /// Log position of its first byte; in a snapshot segment: the base planned for the next log segment.
    pub(crate) base: u64,
    pub(crate) extents: u32,
    /// Bytes of frames at its front that belong to a commit that began in an earlier segment.
    pub(crate) carried_over: u32,
    /// Base of the previous segment in the log; 0 for the first.
    pub(crate) previous_base: u64,
    /// Salt of that segment.
    pub(crate) previous_salt: u64,
    /// File offset at which the previous segment's frames end: bytes after it were torn off by a crash.
    pub(crate) previous_end: u64,
    /// The log was synced up to this log position when the segment was begun.
    pub(crate) synced: u64,
    /// Generation of the superblock that announced the session.
    pub(crate) session: u64,
    /// Counts all headers ever written to the file: of two at one offset the higher number is the younger.
    pub(crate) number: u64,
    /// The space had never been written: bytes after the last frame are zero as long as the segment is active.
    pub(crate) fresh: bool,
    /// The trailer of the previous segment names this one.
    pub(crate) linked: bool,
    /// What seals the segment; `None` in a plain store.
    #[cfg(feature = "encrypt")]
    pub(crate) seal: Option<HeaderSeal>,
}

/// Both copies at an offset where a segment may begin; `None` for one without a valid checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    pub(crate) first: Option<SegmentHeader>,
    pub(crate) second: Option<SegmentHeader>,
    /// The bytes between them are zero.
    is_apart: bool,
}

impl Copies {
    /// The header. If the copies differ, because a crash interrupted the reuse of the extent, the younger one.
    pub(crate) fn header(&self) -> Option<SegmentHeader> {
        match (self.first, self.second) {
            (Some(first), Some(second)) if second.number > first.number => Some(second),
            (first, second) => first.or(second),
        }
    }

    /// Both copies are valid and equal, and nothing of what stood here before is left between them.
    pub(crate) fn is_whole(&self) -> bool {
        self.first.is_some() && self.first == self.second && self.is_apart
    }
}

impl SegmentHeader {
    /// Both copies, for a segment at `offset` of the store with `store_id`.
    pub(crate) fn encode(&self, store_id: [u8; 16], offset: u64) -> [u8; SEGMENT_HEADER_LEN] {
        let mut out = [0; SEGMENT_HEADER_LEN];
        for at in [0, SECOND_COPY] {
            let Some(copy) = out.get_mut(at..at + COPY_LEN) else { continue };
            let (body, crc) = copy.split_at_mut(COPY_LEN - 4);
            let kind: u8 = match self.kind {
                SegmentKind::Log => 1,
                SegmentKind::Snapshot => 2,
                SegmentKind::Events => 3,
            };
            let flags = if self.fresh { FLAG_FRESH } else { 0 } | if self.linked { FLAG_LINKED } else { 0 };
            // The salt first: whatever part of a header reaches the medium invalidates the old one.
            let fields = [
                self.salt,
                self.base,
                u64::from(u32::from_le_bytes(MAGIC)) | u64::from(kind) << 32 | u64::from(flags) << 40,
                u64::from(self.extents) | u64::from(self.carried_over) << 32,
                self.previous_base,
                self.previous_salt,
                self.previous_end,
                self.synced,
                self.session,
                self.number,
            ];
            for (place, field) in body.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
                *place = field.to_le_bytes();
            }
            #[cfg(feature = "encrypt")]
            if let Some(seal) = &self.seal {
                seal.put_into(body.get_mut(SEAL..).unwrap_or_default());
            }
            let sum = crc32c(body) ^ Self::binding(store_id, offset + at as u64);
            crc.copy_from_slice(&sum.to_le_bytes());
        }
        out
    }

    fn binding(store_id: [u8; 16], at: u64) -> u32 {
        bind(xxhash_rust::xxh3::xxh3_64_with_seed(&store_id, 0), at)
    }

    fn decode_copy(bytes: &[u8], binding: u32) -> Option<Self> {
        let (body, crc) = bytes.first_chunk::<COPY_LEN>()?.split_last_chunk::<4>()?;
        if u32::from_le_bytes(*crc) == crc32c(body) ^ binding { Self::decode_body(bytes) } else { None }
    }

    /// Both copies, without verifying their checksums, which depend on the unknown id of the store.
    #[cfg(feature = "salvage")]
    pub(crate) fn decode_unbound(bytes: &[u8; SEGMENT_HEADER_LEN]) -> [Option<Self>; 2] {
        [0, SECOND_COPY].map(|at| Self::decode_body(bytes.get(at..)?))
    }

    fn decode_body(bytes: &[u8]) -> Option<Self> {
        let (body, _) = bytes.first_chunk::<COPY_LEN>()?.split_last_chunk::<4>()?;
        let words = body.as_chunks::<8>().0;
        let word = |index: usize| words.get(index).map(|bytes| u64::from_le_bytes(*bytes));
        let position = |index: usize| word(index).filter(|&position| position <= LOG_POSITION_MAX);
        let what = word(2)?;
        let kind = match (what >> 32) as u8 {
            1 => SegmentKind::Log,
            2 => SegmentKind::Snapshot,
            3 => SegmentKind::Events,
            _ => return None,
        };
        let flags = what >> 40;
        #[cfg(feature = "encrypt")]
        let seal = HeaderSeal::take_from(body.get(SEAL..)?);
        #[cfg(feature = "encrypt")]
        let unused = if seal.is_some() { SEAL + HeaderSeal::LEN } else { SEAL };
        #[cfg(not(feature = "encrypt"))]
        let unused = SEAL;
        let mut reserved = body.get(unused..)?.iter();
        if what as u32 != u32::from_le_bytes(MAGIC)
            || flags & !u64::from(FLAG_FRESH | FLAG_LINKED) != 0
            || reserved.any(|&byte| byte != 0)
        {
            return None;
        }
        Some(Self {
            salt: word(0)?,
            kind,
            base: position(1)?,
            extents: Some(word(3)? as u32).filter(|&extents| extents > 0)?,
            carried_over: (word(3)? >> 32) as u32,
            previous_base: position(4)?,
            previous_salt: word(5)?,
            previous_end: word(6).filter(|&end| end <= FILE_LEN_MAX)?,
            synced: position(7)?,
            session: position(8)?,
            number: position(9)?,
            fresh: flags & u64::from(FLAG_FRESH) != 0,
            linked: flags & u64::from(FLAG_LINKED) != 0,
            #[cfg(feature = "encrypt")]
            seal,
        })
    }

    pub(crate) fn decode_both(bytes: &[u8; SEGMENT_HEADER_LEN], store_id: [u8; 16], offset: u64) -> Copies {
        let copy = |at: usize| Self::decode_copy(bytes.get(at..)?, Self::binding(store_id, offset + at as u64));
        let between = bytes.get(COPY_LEN..SECOND_COPY).unwrap_or_default();
        Copies { first: copy(0), second: copy(SECOND_COPY), is_apart: between.iter().all(|&byte| byte == 0) }
    }

    /// Reads both copies at `offset`.
    pub(crate) fn read_both(storage: &dyn Storage, store_id: [u8; 16], offset: u64) -> Result<Copies> {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        // A file that ends inside a header, after a crash, has no frame after it.
        if offset + SEGMENT_HEADER_LEN as u64 > storage.len()? {
            return Ok(Copies::default());
        }
        storage.read_at(offset, &mut bytes)?;
        let copies = Self::decode_both(&bytes, store_id, offset);
        #[cfg(feature = "encrypt")]
        let copies = check_headers(storage, store_id, offset, copies)?;
        Ok(copies)
    }

    /// The header at `offset`; `None` where no segment begins.
    pub(crate) fn read(storage: &dyn Storage, store_id: [u8; 16], offset: u64) -> Result<Option<Self>> {
        Ok(Self::read_both(storage, store_id, offset)?.header())
    }

    /// The segment with this header at `extent`; its `end` is the limit of its frames.
    pub(crate) fn segment(&self, geometry: Geometry, extent: u32) -> Segment {
        let segment = Segment { base: self.base, extent, extents: self.extents, end: 0, salt: self.salt, linked: false };
        Segment { end: segment.limit(geometry), ..segment }
    }
}

/// Offset and length of each copy inside the header, for checks of both.
pub(crate) const HEADER_COPIES: [(u64, u64); 2] = [(0, COPY_LEN as u64), (SECOND_COPY as u64, COPY_LEN as u64)];

/// The frame in the trailer of `segment`; `None` without a valid one.
pub(crate) fn read_next(storage: &dyn Storage, geometry: Geometry, segment: &Segment) -> Result<Option<Next>> {
    let at = segment.limit(geometry);
    if at + TRAILER_LEN > storage.len()? {
        return Ok(None);
    }
    let mut window = Window::new(storage, at + TRAILER_LEN);
    let bytes = window.bytes(at, NEXT_LEN)?;
    let Ok(header) = Header::decode(bytes) else { return Ok(None) };
    if header.kind != Kind::Next || header.frame_len() != NEXT_LEN || check(&header, bytes, segment.salt, at).is_err() {
        return Ok(None);
    }
    Ok(header.value(bytes).and_then(Next::decode))
}

/// The segment that the trailer of `segment` names, if it has lost both copies of its header. Where a valid header is, even of another
/// segment, the trailer says nothing.
pub(crate) fn named_without_header(
    storage: &dyn Storage,
    geometry: Geometry,
    store_id: [u8; 16],
    segment: &Segment,
) -> Result<Option<Segment>> {
    // A file that was cut short has no trailer there.
    if segment.extents == 0 || segment.behind(geometry) > storage.len()? {
        return Ok(None);
    }
    let Some(Next { extent, extents, base, salt }) = read_next(storage, geometry, segment)? else { return Ok(None) };
    let in_file = geometry.whole_extents_in(storage.len()?);
    let is_inside = extents > 0 && extent.checked_add(extents).is_some_and(|behind| behind <= in_file);
    let is_apart = extent.saturating_add(extents) <= segment.extent || segment.extent.saturating_add(segment.extents) <= extent;
    if !is_inside || !is_apart || base < segment.next_base(geometry) || base > LOG_POSITION_MAX {
        return Ok(None);
    }
    let next = Segment { base, extent, extents, end: geometry.start(extent) + SEGMENT_HEADER_LEN as u64, salt, linked: false };
    let header = SegmentHeader::read(storage, store_id, geometry.start(extent))?;
    Ok(header.is_none().then_some(next))
}

/// Checks the tags of the copies of a segment header, and enters the segment. A plain store has no sealed ones.
#[cfg(feature = "encrypt")]
fn check_headers(storage: &dyn Storage, store_id: [u8; 16], start: u64, copies: Copies) -> Result<Copies> {
    if !is_sealed(storage) {
        let plain = |copy: Option<SegmentHeader>| copy.filter(|header| header.seal.is_none());
        return Ok(Copies { first: plain(copies.first), second: plain(copies.second), ..copies });
    }
    let Some(keys) = keys(storage) else { return Ok(copies) };
    let forged = || Error::Forged { offset: start, what: "a segment header" };
    let mut copies = copies;
    for copy in [&mut copies.first, &mut copies.second] {
        let Some(header) = copy else { continue };
        match header.authentic(keys, store_id, start)? {
            // While a store has plain segments, such a header may be left of an attempt that was cut short, or be a part of a plain value.
            Authentic::No if storage.forgives() || keys.is_mixed() => *copy = None,
            Authentic::No if !is(Bug::SealedHeaderUnchecked) => return Err(forged()),
            Authentic::Gone => *copy = None,
            Authentic::Yes | Authentic::No => {}
        }
    }
    copies.header().map_or(Ok(()), |header| header.enter(keys, start))?;
    Ok(copies)
}

#[cfg(feature = "encrypt")]
impl SegmentHeader {
    fn authentic(&self, keys: &Keys, store_id: [u8; 16], start: u64) -> Result<Authentic> {
        let Some(seal) = self.seal else {
            let is_plain = if keys.is_disabling() { keys.is_plain_from(self.base) } else { keys.is_plain(self.salt) };
            return Ok(if is_plain { Authentic::Yes } else { Authentic::No });
        };
        keys.is_header(&seal, &self.fields(store_id, start), start, self.base)
    }

    /// True if a copy of a header at `start` has a checksum that fits, and a tag that does not.
    #[cfg(feature = "salvage")]
    pub(crate) fn is_forged_at(storage: &dyn Storage, keys: &Keys, store_id: [u8; 16], start: u64) -> Result<bool> {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        // Those of plain segments have no tag, and others may be parts of plain values.
        if keys.is_mixed() || start + SEGMENT_HEADER_LEN as u64 > storage.len()? {
            return Ok(false);
        }
        storage.read_at(start, &mut bytes)?;
        let Copies { first, second, .. } = Self::decode_both(&bytes, store_id, start);
        for header in [first, second].into_iter().flatten() {
            if header.authentic(keys, store_id, start)? == Authentic::No {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes a segment whose header is lost readable, if it is of the session of this one, whose trailer names it.
    #[cfg(feature = "salvage")]
    pub(crate) fn enter_next(&self, keys: &Keys, next: &Segment, start: u64) -> Result<()> {
        let Some(HeaderSeal { key_id, session, .. }) = self.seal else { return Ok(()) };
        keys.enter(next.salt, (next.base, start), key_id, (session, self.session))
    }

    /// The bytes in front of the tag.
    fn fields(&self, store_id: [u8; 16], start: u64) -> Vec<u8> {
        let len = SEAL + HeaderSeal::UNTAGGED;
        self.encode(store_id, start).get(..len).unwrap_or_default().to_vec()
    }

    fn enter(&self, keys: &Keys, start: u64) -> Result<()> {
        let Some(HeaderSeal { key_id, session, .. }) = self.seal else { return Ok(()) };
        keys.enter(self.salt, (self.base, start), key_id, (session, self.session))
    }

    /// The same header with the seal of this session, where the segment is sealed.
    pub(super) fn sealed(self, storage: &dyn Storage, store_id: [u8; 16], start: u64, chain: [u8; TAG_LEN]) -> Result<Self> {
        let seal = keys(storage).filter(|keys| !keys.is_plain_from(self.base)).map(|keys| keys.new_seal(chain));
        self.sealed_with(seal, storage, store_id, start)
    }

    /// The same header with a seal, in a sealed store.
    pub(super) fn sealed_with(
        self,
        seal: Option<HeaderSeal>,
        storage: &dyn Storage,
        store_id: [u8; 16],
        start: u64,
    ) -> Result<Self> {
        let (Some(keys), Some(seal)) = (keys(storage), seal) else { return Ok(self) };
        let untagged = Self { seal: Some(seal), ..self };
        let tag = keys.tag_header(&untagged.fields(store_id, start), start)?;
        let header = Self { seal: Some(HeaderSeal { tag, ..seal }), ..self };
        header.enter(keys, start)?;
        Ok(header)
    }
}

#[cfg(test)]
mod tests;
