//! What the log announces to the host before it reads it. Where a file is mapped and not in memory, each of its pages is waited for by itself, unless
//! the host was told: for records of several pages that is most of the time of a read (`bench/benches/cold_reads.rs`).

use super::Log;
use crate::sync::Ordering;

/// Bytes of a record to prefetch: all of a small one.
pub(super) const PREFETCH: usize = 200;

/// Records of so many bytes are announced by themselves.
pub(super) const LONG: usize = 8 * 1024;

/// Most bytes of an announcement, so that hosts take it for a look-up: these do not ask each time whether the bytes are in memory.
const PIECE: usize = 16 * 1024 - 1;

/// Pieces of a long record that are announced at a time.
const PIECES: usize = 64;

/// Most bytes that are announced of a long record: in a small cache more would be pushed out again before it is read.
const LONG_MAX: usize = 16 * 1024 * 1024;

impl Log {
    /// Announces the records at `offsets`, with so many bytes of each as [`Self::has_read`] was told.
    pub(crate) fn will_read(&self, offsets: &[u64]) {
        self.storage.will_read(offsets, self.usual_len.load(Ordering::Relaxed).clamp(PREFETCH, PIECE));
    }

    /// Notes the length of a record out of a group that was announced: the next ones may be as long.
    pub(crate) fn has_read(&self, len: usize) {
        // Seldom more than once: threads would fetch the line from each other.
        if self.usual_len.load(Ordering::Relaxed) / PREFETCH != len / PREFETCH {
            self.usual_len.store(len, Ordering::Relaxed);
        }
    }

    /// Announces a record whose header was read, in pieces of one length.
    pub(super) fn will_read_long(&self, offset: u64, len: usize) {
        let len = len.min(LONG_MAX);
        let piece = len.div_ceil(len.div_ceil(PIECE));
        let mut from = 0;
        while from < len {
            let mut offsets = [0; PIECES];
            let count = (len - from).div_ceil(piece).min(PIECES);
            for place in offsets.iter_mut().take(count) {
                *place = offset + from as u64;
                from += piece;
            }
            // What is in memory at its front is taken to be there as a whole.
            if !self.storage.will_read(offsets.get(..count).unwrap_or_default(), piece) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
