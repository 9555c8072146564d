//! Going through a segment that may be damaged: every record that checks, and every stretch that does not.

use crate::error::Result;
use crate::frame::{HEADER_LEN_MAX, Header, check};
use crate::log::{Step, Walk, Window};
use crate::storage::Storage;
use alloc::vec::Vec;

/// A stretch of the file that does not check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Where in the file, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// The key of the damaged record as it stands there, if one can be made out. It may be what is damaged.
    pub key: Option<Vec<u8>>,
    /// What is damaged.
    pub what: &'static str,
}

/// What a scan met.
#[derive(Debug)]
pub(crate) enum Found {
    Frame {
        #[cfg_attr(not(feature = "salvage"), allow(dead_code, reason = "only salvage asks where a record stands"))]
        offset: u64,
        header: Header,
    },
    Damage(Damage),
}

/// The stretch of a segment to scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) salt: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Records fill it to the end. Otherwise whatever stands behind the last record is no damage.
    pub(crate) full: bool,
}

/// Bytes that may be checked in search of the next record, for each byte of the stretch: a bound for hostile files.
const SEARCH_FACTOR: u64 = 256;

/// Visits every record of the stretch and all damage between them.
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

/// Where the next record behind `offset` begins that checks.
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

/// The key of whatever looks like a record at `offset`.
fn readable_key(storage: &dyn Storage, offset: u64, limit: u64) -> Result<Option<Vec<u8>>> {
    let mut window = Window::new(storage, limit);
    let room = limit - offset;
    let Ok(header) = Header::decode(window.bytes(offset, room.min(HEADER_LEN_MAX as u64) as usize)?) else {
        return Ok(None);
    };
    if header.kind.is_control() || header.frame_len() as u64 > room {
        return Ok(None);
    }
    Ok(Some(window.bytes(offset + header.header_len() as u64, header.key_len())?.to_vec()))
}

/// The key of a record that was found.
#[cfg(feature = "salvage")]
pub(crate) fn key_of(storage: &dyn Storage, offset: u64, header: &Header) -> Result<Vec<u8>> {
    let from = offset + header.header_len() as u64;
    Ok(Window::new(storage, from + header.key_len() as u64).bytes(from, header.key_len())?.to_vec())
}

/// Its value.
#[cfg(feature = "salvage")]
pub(crate) fn value_of(storage: &dyn Storage, offset: u64, header: &Header) -> Result<Vec<u8>> {
    let from = offset + (header.header_len() + header.key_len()) as u64;
    Ok(Window::new(storage, from + header.value_len() as u64).bytes(from, header.value_len())?.to_vec())
}
