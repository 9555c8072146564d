//! Reading a range of the file front to back, without a copy where the host can.

use crate::error::{Error, Result};
use crate::frame::{HEADER_LEN_MAX, Header};
use crate::storage::{Storage, StorageErrorKind};
use alloc::vec::Vec;

/// Bytes read ahead where nothing can be mapped.
const READ_AHEAD: u64 = 64 * 1024;

/// With fewer bytes than this left in a view, the next one is requested.
const AT_HAND: usize = 4 * 1024;

/// Bytes announced by `will_read` ahead of the view: enough to keep the medium busy, few enough to be still in memory when they are
/// read.
const HINT: u64 = 1024 * 1024;

/// A view of the file that moves forward.
pub(crate) struct Window<'a> {
    storage: &'a dyn Storage,
    buffer: Vec<u8>,
    start: u64,
    /// Reading ahead stops here.
    limit: u64,
    /// What was viewed last without a copy, and where it begins.
    viewed: (u64, &'a [u8]),
    /// File offset up to which `will_read` has been called.
    hinted: u64,
}

impl<'a> Window<'a> {
    /// A window over the bytes before `limit`.
    ///
    /// The caller guarantees that nobody writes to the bytes it requests: they are published frames, in segments
    /// that are pinned or cannot be retired meanwhile.
    pub(crate) fn new(storage: &'a dyn Storage, limit: u64) -> Self {
        Self { storage, buffer: Vec::new(), start: 0, limit, viewed: (0, &[]), hinted: 0 }
    }

    /// Announces the next reads to the host, a piece ahead of the view.
    fn hint(&mut self, offset: u64) {
        if offset.saturating_add(HINT) <= self.hinted || self.hinted >= self.limit {
            return;
        }
        let from = self.hinted.max(offset);
        let to = offset.saturating_add(2 * HINT).min(self.limit);
        self.hinted = to;
        if from < to {
            self.storage.will_read(&[from], (to - from) as usize);
        }
    }

    /// The part of the last view from `offset` on; `None` if that is too short.
    fn viewed(&self, offset: u64) -> Option<&'a [u8]> {
        self.viewed.1.get(usize::try_from(offset.checked_sub(self.viewed.0)?).ok()?..)
    }

    /// The header of the frame at `offset`.
    pub(crate) fn header(&mut self, offset: u64) -> Result<Header> {
        let room = self.storage.len()?.saturating_sub(offset).min(HEADER_LEN_MAX as u64) as usize;
        Header::decode(self.bytes(offset, room)?).map_err(|error| Error::corrupt(offset, error.what()))
    }

    /// The bytes `offset..offset + least`, or more of what follows, up to `most`, if they are at hand.
    pub(crate) fn bytes_ahead(&mut self, offset: u64, most: usize, least: usize) -> Result<&[u8]> {
        if let Some(bytes) = self.viewed(offset)
            && bytes.len() >= most.min(AT_HAND)
        {
            return Ok(bytes);
        }
        self.hint(offset);
        // SAFETY: see `new`: nobody writes to these bytes, and the storage is borrowed for `'a`.
        if let Some(bytes) = unsafe { self.storage.view(offset, most) } {
            self.viewed = (offset, bytes);
            return Ok(bytes);
        }
        self.bytes(offset, least)
    }

    /// The bytes `offset..offset + len`.
    pub(crate) fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        if let Some(bytes) = self.viewed(offset).and_then(|bytes| bytes.get(..len)) {
            return Ok(bytes);
        }
        self.hint(offset);
        // SAFETY: see `new`: nobody writes to these bytes, and the slice does not outlive the borrow of the window.
        if let Some(bytes) = unsafe { self.storage.view(offset, len) } {
            return Ok(bytes);
        }
        let have = self.start..self.start + self.buffer.len() as u64;
        if !(have.start <= offset && offset + len as u64 <= have.end) {
            let ahead = self.limit.saturating_sub(offset).min(READ_AHEAD).max(len as u64) as usize;
            self.buffer.clear();
            self.start = offset;
            self.buffer.resize(ahead, 0);
            if let Err(error) = self.storage.read_at(offset, &mut self.buffer) {
                self.buffer.clear();
                return Err(match error.kind {
                    StorageErrorKind::OutOfRange => Error::corrupt(offset, "the file ends in front of what should stand here"),
                    _ => error.into(),
                });
            }
        }
        let from = (offset - self.start) as usize;
        Ok(self.buffer.get(from..from + len).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
