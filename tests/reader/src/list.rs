//! The list of segments at a checkpoint.

use crate::bytes::Bytes;
use crate::segment::{Extents, FIRST_FRAME, TRAILER_LEN};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) salt: u64,
    pub(crate) base: u64,
    pub(crate) extent: u32,
    pub(crate) extents: u32,
    /// Log position behind its last byte.
    pub(crate) behind: u64,
    /// Offset of the end of its frames.
    pub(crate) end: u64,
    /// Kept for those who read history: its records do not count.
    pub(crate) is_history: bool,
}

#[derive(Debug, Default)]
pub(crate) struct List {
    /// In log order.
    pub(crate) entries: Vec<Entry>,
    /// The number that the next event gets.
    pub(crate) next_event: u64,
    /// The log position from which on history is kept; 0: none is.
    pub(crate) floor: u64,
}

/// `None` when the bytes are no list.
pub(crate) fn decode(value: &[u8], extents: Extents) -> Option<List> {
    let mut rest = Bytes(value);
    let (version, count) = (rest.long()?, rest.count()?);
    let (_next_namespace, floor, next_event) = (rest.long()?, rest.long()?, rest.long()?);
    if version != 1 {
        return None;
    }
    let mut entries: Vec<Entry> = Vec::new();
    let mut behind = 0;
    for _ in 0..count {
        let salt = rest.u64()?;
        let base = entries.last().map_or(0, |before| before.base).checked_add(rest.long()?)?;
        let (extent, count) = (u32::try_from(rest.long()?).ok()?, u32::try_from(rest.long()?).ok()?);
        let (unused, flags) = (rest.long()?, rest.long()?);
        let (_records, _live, _tombstones) = (rest.long()?, rest.long()?, rest.long()?);
        let (_earliest, _spread) = (rest.long()?, rest.long()?);
        let (start, after) = (extents.start(extent), extents.start(extent.checked_add(count)?));
        let end = after.checked_sub(TRAILER_LEN)?.checked_sub(unused)?;
        if base < behind || end < start + FIRST_FRAME || flags > 3 {
            return None;
        }
        behind = base.checked_add(after - start)?;
        entries.push(Entry { salt, base, extent, extents: count, behind, end, is_history: flags & 1 != 0 });
    }
    rest.is_empty().then_some(List { entries, next_event, floor })
}
