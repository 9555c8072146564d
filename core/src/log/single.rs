//! Appending a commit of one frame: what happens most often, without what it does not need. The checksum is taken before the lock, so
//! that writers hold each other up for the time of a copy.

use super::append::{DIRECT, Placed, kept_room};
use super::space::Purpose;
use super::{Log, Tail};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, ONE_PIECE_MAX, bind_front};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// Unsynced bytes from which on a small frame goes through the map.
///
/// Whoever flushes record by record is better served by writes: a page that was changed through a map makes the sync behind it take
/// about twice as long. In a burst the map saves a call of the system for each record.
const BURST: u64 = 16 * 1024;

/// Where a frame can go, and the salt there.
struct Place {
    offset: u64,
    salt: u64,
}

impl Log {
    /// Appends a commit of one frame.
    ///
    /// # Errors
    ///
    /// As [`Log::append`].
    pub(crate) fn append_one(&self, frame: &FrameSpec<'_>, purpose: Purpose) -> Result<Placed> {
        let mut room = [0; ONE_PIECE_MAX];
        let mut header;
        let (front, pieces) = match frame.encode_unbound(&mut room) {
            Some(whole) => (whole, 1),
            None => {
                header = frame.unbound_header();
                (header.as_mut_slice(), 3)
            }
        };
        let len = frame.len() as u64;
        let mut tail = self.tail.lock();
        let Some(Place { offset, salt }) = self.ready(&tail, len, frame, purpose)? else {
            let mut placed = Vec::with_capacity(1);
            self.append_locked(&mut tail, core::slice::from_ref(frame), purpose, &mut placed)?;
            return placed.pop().ok_or(Error::Bug("an append has placed no frame"));
        };
        bind_front(front, salt, offset);
        let parts = [&*front, frame.key, frame.value];
        if let Err(error) = self.put_small(offset, parts.get(..pieces).unwrap_or(&parts)) {
            return Err(if is(Bug::WriteErrorForgotten) { error } else { self.poison(error) });
        }
        if let Some(active) = &mut tail.active {
            active.position = offset + len;
        }
        self.note_end(&tail);
        Ok(Placed { offset, len })
    }

    /// Where the frame of `len` bytes can go in the active segment, if nothing else is due.
    #[inline]
    fn ready(&self, tail: &Tail, len: u64, frame: &FrameSpec<'_>, purpose: Purpose) -> Result<Option<Place>> {
        self.writable()?;
        let has_reserve = purpose != Purpose::Store || tail.space.has_reserve();
        if !tail.announced || tail.mark_due.is_some() || !has_reserve || frame.value.len() >= DIRECT {
            return Ok(None);
        }
        let need = len + kept_room(tail, purpose);
        let active = tail.active.as_ref().filter(|active| active.room() >= need);
        Ok(active.map(|active| Place { offset: active.position, salt: active.segment.salt }))
    }

    /// Writes behind the end of the log, in the active segment. The tail is locked.
    fn put_small(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        if self.end().saturating_sub(self.sync_state.synced()) >= BURST {
            // SAFETY: the active segment was reserved when it was taken, or when this session's first append announced itself, and is
            // given back only once it has been retired. Nothing behind the end of the log has been published, so nobody looks
            // there, and the lock of the tail keeps other writers away.
            if unsafe { self.storage.store(offset, parts) } {
                return Ok(());
            }
        }
        Ok(self.storage.write_at(offset, parts)?)
    }
}
