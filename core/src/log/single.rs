//! Fast path for commits of one frame. The checksum is computed before the lock is taken, so that writers wait for each other only as
//! long as a copy takes.

use super::append::{DIRECT, Placed, kept_room};
use super::space::Purpose;
use super::{Log, Tail};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, ONE_PIECE_MAX, bind_front};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// Unsynced bytes from which on a small frame goes through the map.
///
/// A flush after every record is faster with writes: a page that was changed through a map makes the next sync take
/// about twice as long. In a burst the map saves one system call per record.
const BURST: u64 = 16 * 1024;

/// Offset for a frame, and the salt of its segment.
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) salt: u64,
}

impl Log {
    /// Appends a commit of one frame.
    ///
    /// # Errors
    ///
    /// As [`Log::append`].
    pub(crate) fn append_one(&self, frame: &FrameSpec<'_>, purpose: Purpose) -> Result<Placed> {
        self.append_one_if(None, frame, purpose)
    }

    /// As [`Self::append_one`], if `check` finds nothing that speaks against it, as for [`Log::append_if`]. Not generic, so that puts and
    /// transactions share one copy of it, with all that it calls in place.
    ///
    /// # Errors
    ///
    /// As [`Log::append_if`].
    pub(crate) fn append_one_if(
        &self,
        check: Option<&dyn Fn() -> Result<()>>,
        frame: &FrameSpec<'_>,
        purpose: Purpose,
    ) -> Result<Placed> {
        if self.is_sealed() {
            let mut placed = Vec::with_capacity(1);
            self.append_if(check.unwrap_or(&|| Ok(())), core::slice::from_ref(frame), purpose, &mut placed)?;
            return placed.pop().ok_or(Error::Bug("an append has placed no frame"));
        }
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
        if let Some(check) = check {
            check()?;
        }
        // A store that was sealed meanwhile takes no plain frame. Compaction, which calls `ready`, too, does not run meanwhile.
        let place = if self.is_sealed() { None } else { self.ready(&tail, len, frame.value.len(), purpose)? };
        let Some(Place { offset, salt }) = place else {
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
            active.goes_on(offset + len, 1);
        }
        self.note_end(&tail);
        self.remember(frame);
        Ok(Placed { offset, len })
    }

    /// The place for `len` bytes of frames in the active segment, with values of at most `value_len` bytes; `None` if they do not fit or
    /// something else must be written first.
    // Three callers: left to the compiler it is a call of its own, which costs each put 20 instructions.
    #[cfg_attr(feature = "std", inline(always))]
    pub(super) fn ready(&self, tail: &Tail, len: u64, value_len: usize, purpose: Purpose) -> Result<Option<Place>> {
        self.writable()?;
        let has_reserve = purpose != Purpose::Store || tail.space.has_reserve();
        if !tail.announced || tail.mark_due.is_some() || !has_reserve || value_len >= DIRECT {
            return Ok(None);
        }
        let need = len + kept_room(tail, purpose);
        let active = tail.active.as_ref().filter(|active| active.room() >= need);
        if active.is_some() {
            self.look_again()?;
        }
        Ok(active.map(|active| Place { offset: active.position, salt: active.segment.salt }))
    }

    /// Writes at the end of the log, in the active segment. The tail must be locked.
    pub(super) fn put_small(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        if self.end().saturating_sub(self.sync_state.synced()) >= BURST {
            // SAFETY: the active segment was reserved when it was taken, or when this session's first append announced itself, and is
            // given back only once it has been retired. Nothing after the end of the log has been published, so nobody reads
            // there, and the lock of the tail excludes other writers.
            if unsafe { self.storage.store(offset, parts) } {
                return Ok(());
            }
        }
        Ok(self.storage.write_at(offset, parts)?)
    }
}

#[cfg(test)]
mod tests;
