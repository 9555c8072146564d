//! Which records of a segment may have to be copied. Reads only, and locks nothing.

use crate::engine::Engine;
use crate::error::Result;
use crate::frame::{Header, Kind};
use crate::index::KeyHash;
use crate::log::{Frame, Segment};
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::scan::Stretch;
use alloc::vec::Vec;

/// A group ends with the record that brings it to this many bytes.
const TOGETHER_BYTES: usize = 64 * 1024;

/// Collects the records of a segment that may have to be copied, in the order of the log.
pub(super) struct Sieve<'a> {
    engine: &'a Engine,
    pin: Pin<'a>,
    oldest: bool,
    together: usize,
    offsets: Vec<u64>,
    /// Length of all of them, dead ones included.
    bytes: usize,
}

/// Records that may have to be copied, with the hashes of their keys.
pub(super) type Sifted<'a> = Vec<(KeyHash, Frame<'a>)>;

impl<'a> Sieve<'a> {
    /// `oldest` as for [`Emptying::is_oldest`]; groups of at most `together` records.
    pub(super) fn new(engine: &'a Engine, oldest: bool, together: usize) -> Self {
        // Nothing reuses the segment while this pin lives.
        Self { engine, pin: engine.pins.pin(), oldest, together, offsets: Vec::with_capacity(together), bytes: 0 }
    }

    /// Adds a record that a scan has found; true when it is time to [sift](Self::sift).
    pub(super) fn add(&mut self, offset: u64, header: &Header) -> bool {
        let kind = header.kind;
        if kind == Kind::Put || kind.is_carried() || kind == Kind::Tombstone && !self.oldest {
            self.offsets.push(offset);
            self.bytes += header.frame_len();
        }
        self.offsets.len() >= self.together || self.bytes >= TOGETHER_BYTES
    }

    /// Takes the records out, without most of those that do not count any more: they are recognised without a lock.
    pub(super) fn sift(&mut self) -> Result<Sifted<'a>> {
        self.bytes = 0;
        let mut frames = Vec::with_capacity(self.offsets.len());
        for offset in self.offsets.drain(..) {
            let frame = self.engine.log.frame(offset)?;
            let hash = self.engine.full_key(frame.header.namespace, frame.key()).hash;
            // Prefetch all slots before the first look-up.
            self.engine.index.prefetch(&self.pin, hash);
            frames.push((hash, frame));
        }
        // Where the slots are in the file and in no cache, the medium reads those of a group together.
        let puts = frames.iter().filter(|(_, frame)| frame.header.kind == Kind::Put);
        self.engine.will_look_up(&self.pin, puts.map(|(hash, _)| *hash));
        frames.retain(|(hash, frame)| {
            let (kind, offset) = (frame.header.kind, frame.offset);
            // What has expired and is in the index no more may need a tombstone.
            let may_count = kind != Kind::Put || frame.header.expires();
            may_count
                || self.engine.index.may_point_at(self.engine.medium(), &self.pin, *hash, offset)
                || is(Bug::CompactOvertakes)
        });
        Ok(frames)
    }
}

/// All records of a segment.
pub(super) fn whole(engine: &Engine, segment: &Segment) -> Stretch {
    Stretch { salt: segment.salt, from: segment.first_frame(engine.log.geometry), to: segment.end, full: true }
}
