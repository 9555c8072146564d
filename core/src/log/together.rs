//! Fast path for compaction: several copies without an origin, each a commit of one frame, in one write.

use super::append::DIRECT;
use super::{Frame, Log, Placed, Purpose};
use crate::error::Result;
#[cfg(feature = "compress")]
use crate::frame::FrameSpec;
use crate::frame::{Copier, bind_front};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// Copies to append together. Their checksums are not bound to an offset yet.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    copier: Copier,
    /// The frames, one after the other.
    bytes: Vec<u8>,
    /// Length of each frame in bytes.
    lens: Vec<usize>,
    /// One of the frames must be appended by itself, for example because its value is long.
    one_by_one: bool,
}

impl Copies {
    /// Memory for copies that are encoded elsewhere; what was gathered is gone.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        self.clear();
        &mut self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.lens.clear();
        self.one_by_one = false;
    }

    /// True if they may be appended in one write.
    pub(crate) const fn go_together(&self) -> bool {
        !self.one_by_one && !self.lens.is_empty()
    }

    /// Takes out the first one, which was appended by itself.
    pub(crate) fn drop_first(&mut self) {
        if !self.lens.is_empty() {
            self.bytes.drain(..self.lens.remove(0));
        }
    }

    /// Adds a copy of `frame`. It carries the checksum of the original: bytes that have changed since they were verified fail their check
    /// in the copy, too.
    pub(crate) fn push(&mut self, frame: &Frame<'_>) {
        // The copy of a record with an origin has another one, or none.
        self.one_by_one |= frame.header.value_len() >= DIRECT || frame.header.has_origin() || frame.header.is_sealed();
        if !self.one_by_one {
            let copied = self.copier.copy_unbound(&frame.header, frame.bytes(), frame.salt, frame.offset, &mut self.bytes);
            self.one_by_one = copied.is_none();
            self.lens.push(frame.header.frame_len());
        }
    }
}

#[cfg(feature = "compress")]
impl Copies {
    /// Adds a copy that is not as its original is.
    pub(crate) fn push_new(&mut self, frame: &FrameSpec<'_>) {
        self.one_by_one |= frame.value.len() >= DIRECT;
        if !self.one_by_one {
            let before = self.bytes.len();
            // No salt and no offset: the mask of both is 0.
            frame.encode_into(&mut self.bytes, 0, 0);
            self.lens.push(self.bytes.len() - before);
        }
    }
}

impl Log {
    /// Appends the copies in one write, and returns their places. `None` if nothing was written because they do not fit into the
    /// active segment or something else must be written first: append them one by one then.
    ///
    /// # Errors
    ///
    /// Any error closes the store to writes.
    pub(crate) fn append_copies(&self, copies: &mut Copies, purpose: Purpose) -> Result<Option<Vec<Placed>>> {
        if copies.one_by_one || self.is_sealed() {
            return Ok(None);
        }
        let len = copies.bytes.len() as u64;
        let mut tail = self.tail.lock();
        let Some(first) = self.ready(&tail, len, 0, purpose)? else { return Ok(None) };
        let (mut offset, mut rest) = (first.offset, copies.bytes.as_mut_slice());
        let mut places = Vec::with_capacity(copies.lens.len());
        for &len in &copies.lens {
            let Some((frame, others)) = rest.split_at_mut_checked(len) else { break };
            bind_front(frame, first.salt, offset);
            places.push(Placed { offset, len: len as u64 });
            offset += len as u64;
            rest = others;
        }
        if let Err(error) = self.put_copies(first.offset, &copies.bytes) {
            return Err(if is(Bug::WriteErrorForgotten) { error } else { self.poison(error) });
        }
        if let Some(active) = &mut tail.active {
            active.goes_on(first.offset + len, copies.lens.len() as u64);
        }
        self.note_end(&tail);
        Ok(Some(places))
    }

    /// Writes copies at the end of the log. The tail must be locked. Not through the map: of a segment whose space was used before, and which is in no cache,
    /// that would read each page first.
    pub(super) fn put_copies(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.storage.write_at(offset, &[bytes])?)
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
