//! Scanning a segment that may be damaged: finds every valid record, and every damaged range.

use crate::error::Result;
use crate::frame::{HEADER_LEN_MAX, Header, check};
use crate::log::{Step, Walk, Window};
use crate::storage::Storage;
use alloc::vec::Vec;

/// A damaged range of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// File offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The key of the damaged record as stored there, if it can be read. The key itself may be damaged.
    pub key: Option<Vec<u8>>,
    /// What is damaged.
    pub what: &'static str,
}

/// A record or damage that a scan has found.
#[derive(Debug)]
pub(crate) enum Found {
    Frame {
        #[cfg_attr(not(feature = "salvage"), allow(dead_code, reason = "only salvage asks where a record stands"))]
        offset: u64,
        header: Header,
    },
    Damage(Damage),
}

/// The range of a segment to scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) salt: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Records fill it to the end. Otherwise bytes after the last record are not damage.
    pub(crate) full: bool,
}

/// Bytes that may be verified in search of the next record, for each byte of the range: a bound for hostile files.
const SEARCH_FACTOR: u64 = 256;

/// Visits every valid record of the range and all damage between them.
pub(crate) fn scan(storage: &dyn Storage, stretch: Stretch, visit: &mut dyn FnMut(Found) -> Result<()>) -> Result<()> {
    let mut budget = (stretch.to - stretch.from).saturating_mul(SEARCH_FACTOR);
    let mut walk = Walk::new(storage, stretch.salt, stretch.from, stretch.to);
    loop {
        match walk.step()? {
            Step::End => return Ok(()),
            Step::Frame { offset, header } => visit(Found::Frame { offset, header })?,
            Step::Bad { offset, error } => {
                let next = next_frame(storage, stretch, offset, &mut budget)?;
                if let Some(end) = next.or(stretch.full.then_some(stretch.to)) {
                    let key = readable_key(storage, offset, stretch.to)?;
                    visit(Found::Damage(Damage { offset, len: end - offset, key, what: error.what() }))?;
                }
                let Some(next) = next else { return Ok(()) };
                walk = Walk::new(storage, stretch.salt, next, stretch.to);
            }
        }
    }
}

/// File offset of the next valid record after `offset`.
fn next_frame(storage: &dyn Storage, stretch: Stretch, offset: u64, budget: &mut u64) -> Result<Option<u64>> {
    let mut window = Window::new(storage, stretch.to);
    for candidate in offset + 1..stretch.to {
        let room = stretch.to - candidate;
        let front = window.bytes(candidate, room.min(HEADER_LEN_MAX as u64) as usize)?;
        let Ok(header) = Header::decode(front) else {
            continue;
        };
        let len = header.frame_len() as u64;
        if len > room || len > *budget {
            continue;
        }
        *budget -= len;
        if check(&header, window.bytes(candidate, len as usize)?, stretch.salt, candidate).is_ok() {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// The key of what looks like a record at `offset`.
fn readable_key(storage: &dyn Storage, offset: u64, limit: u64) -> Result<Option<Vec<u8>>> {
    let mut window = Window::new(storage, limit);
    let room = limit - offset;
    let Ok(header) = Header::decode(window.bytes(offset, room.min(HEADER_LEN_MAX as u64) as usize)?) else {
        return Ok(None);
    };
    if header.kind.is_control() || header.is_sealed() || header.frame_len() as u64 > room {
        return Ok(None);
    }
    Ok(Some(window.bytes(offset + header.header_len() as u64, header.key_len())?.to_vec()))
}

/// The key of a record that was found in a segment with `salt`.
#[cfg(any(feature = "salvage", feature = "compress"))]
pub(crate) fn key_of(storage: &dyn Storage, salt: u64, offset: u64, header: &Header) -> Result<Vec<u8>> {
    part_of(storage, salt, (offset, header), (header.header_len(), header.key_len()))
}

/// Its value.
#[cfg(any(feature = "salvage", feature = "compress"))]
pub(crate) fn value_of(storage: &dyn Storage, salt: u64, offset: u64, header: &Header) -> Result<Vec<u8>> {
    part_of(storage, salt, (offset, header), (header.header_len() + header.key_len(), header.value_len()))
}

/// So many bytes of a record from one on.
#[cfg(any(feature = "salvage", feature = "compress"))]
fn part_of(storage: &dyn Storage, salt: u64, (at, header): (u64, &Header), (from, len): (usize, usize)) -> Result<Vec<u8>> {
    #[cfg(feature = "encrypt")]
    if header.is_sealed() {
        let frame_len = header.frame_len();
        let mut window = Window::new(storage, at + frame_len as u64);
        if let Some(opened) = crate::log::open_frame(storage, header, window.bytes(at, frame_len)?, salt, at)? {
            return Ok(opened.get(from..from + len).unwrap_or_default().to_vec());
        }
    }
    #[cfg(not(feature = "encrypt"))]
    let _ = (salt, header);
    let start = at + from as u64;
    Ok(Window::new(storage, start + len as u64).bytes(start, len)?.to_vec())
}
