//! Extents, and the headers of the segments that are made of them.

use crate::bytes::{bind, crc, part, xxh3};
use crate::superblock::{FRONT_LEN, POSITION_MAX, Superblock};

const HEADER_LEN: usize = 192;
const SECOND_COPY: u64 = 512;
pub(crate) const FIRST_FRAME: u64 = SECOND_COPY + HEADER_LEN as u64;
pub(crate) const TRAILER_LEN: u64 = 31;

/// Where the extents of a file stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents {
    first: u64,
    full: u64,
}

impl Extents {
    pub(crate) fn new(superblock: &Superblock) -> Self {
        Self { first: superblock.first.into(), full: superblock.full.into() }
    }

    /// The offset of extent `index`: in front of it stand the short ones, each twice as long as the one before, and then full ones.
    pub(crate) fn start(self, index: u32) -> u64 {
        let doublings = self.full.ilog2() - self.first.ilog2();
        let short = index.min(doublings);
        FRONT_LEN + self.first * ((1 << short) - 1) + u64::from(index - short) * self.full
    }

    /// How many extents a file of this length has, the last of which it may cut.
    pub(crate) fn count(self, file_len: u64) -> u32 {
        (0..).find(|&index| self.start(index) >= file_len).unwrap_or(u32::MAX)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Log,
    Snapshot,
    Events,
}

/// A segment: what its header says, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) kind: Kind,
    pub(crate) salt: u64,
    pub(crate) base: u64,
    pub(crate) extent: u32,
    pub(crate) extents: u32,
    /// Offsets of its first byte and of the one behind its last.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Base and salt of the one before, and where its frames end; zeros: none.
    pub(crate) before: (u64, u64),
    pub(crate) end_before: u64,
    pub(crate) synced: u64,
    number: u64,
    session: u64,
}

impl Segment {
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }

    pub(crate) fn trailer(&self) -> u64 {
        self.end - TRAILER_LEN
    }

    /// The log position of a byte of the file.
    pub(crate) fn position(&self, offset: u64) -> u64 {
        self.base + (offset - self.start)
    }

    /// True when the extent stands in it, but not at its front.
    pub(crate) fn holds(&self, extent: u32) -> bool {
        (self.extent + 1..self.extent + self.extents).contains(&extent)
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// The header at an extent: the younger one of its copies that check.
pub(crate) fn read(file: &[u8], superblock: &Superblock, extent: u32) -> Option<Segment> {
    let start = Extents::new(superblock).start(extent);
    let copies = [start, start + SECOND_COPY].map(|offset| decode(file, superblock, extent, offset));
    copies.into_iter().flatten().max_by_key(|header| header.number)
}

/// No session writes so many bytes of log or headers between two superblocks.
const FAR: u64 = 1 << 44;

/// All headers of the file that check, those of free space among them, but for those that an earlier session has written behind the beginning of
/// the last one, and those that are further ahead than any session comes.
pub(crate) fn all(file: &[u8], superblock: &Superblock) -> Vec<Segment> {
    let count = Extents::new(superblock).count(file.len() as u64);
    let is_late = |header: &Segment| header.number > superblock.headers && header.session < superblock.session;
    let known =
        superblock.synced.max(superblock.closed.unwrap_or(0)).max(superblock.checkpoint.as_ref().map_or(0, |place| place.base));
    let is_far = |header: &Segment| header.number >= superblock.headers + FAR || header.base >= known + FAR;
    (0..count).filter_map(|extent| read(file, superblock, extent)).filter(|header| !is_late(header) && !is_far(header)).collect()
}

fn decode(file: &[u8], superblock: &Superblock, extent: u32, offset: u64) -> Option<Segment> {
    let mut sum = part(file, offset + HEADER_LEN as u64 - 4, 4)?;
    let mut bytes = part(file, offset, HEADER_LEN - 4)?;
    if sum.u32()? != crc(&[bytes.0]) ^ bind(xxh3(&superblock.id), offset) {
        return None;
    }
    let (salt, base) = (bytes.u64()?, bytes.u64()?);
    let magic = bytes.take(4)?;
    let kind = match bytes.number(1)? {
        1 => Kind::Log,
        2 => Kind::Snapshot,
        3 => Kind::Events,
        _ => return None,
    };
    let (_flags, _zero) = (bytes.number(1)?, bytes.number(2)?);
    let (extents, _carried_over) = (bytes.u32()?, bytes.u32()?);
    let before = (bytes.u64()?, bytes.u64()?);
    let (end_before, synced) = (bytes.u64()?, bytes.u64()?);
    let (session, number) = (bytes.u64()?, bytes.u64()?);
    let places = Extents::new(superblock);
    let behind = extent.checked_add(extents)?;
    let positions = [base, before.0, synced, session, number];
    if magic != b"PSEG"
        || extents == 0
        || kind == Kind::Log && behind > places.count(file.len() as u64)
        || positions.iter().any(|&position| position > POSITION_MAX)
    {
        return None;
    }
    let (start, end) = (places.start(extent), places.start(behind));
    Some(Segment { kind, salt, base, extent, extents, start, end, before, end_before, synced, number, session })
}
