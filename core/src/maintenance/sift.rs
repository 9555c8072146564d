//! Which records of a segment may have to be copied. Reads only, and locks nothing.

use crate::engine::Engine;
use crate::error::Result;
use crate::frame::{Header, Kind};
use crate::index::{KeyHash, Pointed};
use crate::log::{Frame, Segment};
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::scan::Stretch;
use alloc::vec::Vec;

/// A group ends with the record that brings it to this many bytes.
pub(super) const TOGETHER_BYTES: usize = 64 * 1024;

/// What is known of a segment before its records are read.
#[derive(Clone, Copy)]
pub(super) struct Prior<'a> {
    /// No older segment is left in which a key could have an earlier version: its tombstones hide nothing.
    pub(super) oldest: bool,
    /// What has been read of an index in the file, if that has this segment.
    pub(super) pointed: Option<&'a Pointed>,
}

/// Collects the records of a segment that may have to be copied, in the order of the log.
pub(super) struct Sieve<'a> {
    engine: &'a Engine,
    pin: Pin<'a>,
    prior: Prior<'a>,
    /// Most records of a group, and the bytes that end one.
    most: (usize, usize),
    records: Sifted<'a>,
    /// Length of all of them, dead ones included.
    bytes: usize,
}

/// A record that may have to be copied, with the hash of its key.
pub(super) type Record<'a> = (KeyHash, Frame<'a>);
/// A group of them.
pub(super) type Sifted<'a> = Vec<Record<'a>>;

impl<'a> Sieve<'a> {
    /// A group has at most so many records, and ends with the one that brings it to so many bytes.
    pub(super) fn new(engine: &'a Engine, prior: Prior<'a>, most: (usize, usize)) -> Self {
        // Nothing reuses the segment while this pin lives.
        Self { engine, pin: engine.pins.pin(), prior, most, records: Vec::with_capacity(most.0), bytes: 0 }
    }

    /// Adds a record that a scan has found; true when it is time to [sift](Self::sift).
    pub(super) fn add(&mut self, offset: u64, header: &Header) -> Result<bool> {
        let kind = header.kind;
        if kind == Kind::Put || kind.is_carried() || kind == Kind::Tombstone && !self.prior.oldest {
            let frame = self.engine.log.frame(offset)?;
            let hash = self.engine.full_key(frame.header.namespace, frame.key()).hash;
            // Long before the look-up: a line of the index is rarely in a cache, nor is the way to its page.
            self.engine.index.prefetch(&self.pin, hash);
            self.records.push((hash, frame));
            self.bytes += header.frame_len();
        }
        Ok(self.records.len() >= self.most.0 || self.bytes >= self.most.1)
    }

    /// Takes the records out, without most of those that do not count any more: they are recognised without a lock.
    pub(super) fn sift(&mut self) -> Sifted<'a> {
        self.bytes = 0;
        let mut records = core::mem::replace(&mut self.records, Vec::with_capacity(self.most.0));
        // Where the slots are in the file and in no cache, the medium reads those of a group together.
        if self.prior.pointed.is_none() {
            let puts = records.iter().filter(|(_, frame)| frame.header.kind == Kind::Put);
            self.engine.will_look_up(&self.pin, puts.map(|(hash, _)| *hash));
        }
        records.retain(|(hash, frame)| {
            let (kind, offset) = (frame.header.kind, frame.offset);
            // What has expired and is in the index no more may need a tombstone.
            let may_count = kind != Kind::Put || frame.header.expires();
            may_count
                || self.engine.index.may_point_at(self.engine.medium(), &self.pin, (*hash, offset), self.prior.pointed)
                || is(Bug::CompactOvertakes)
        });
        records
    }
}

/// All records of a segment.
pub(super) fn whole(engine: &Engine, segment: &Segment) -> Stretch {
    Stretch { salt: segment.salt, from: segment.first_frame(engine.log.geometry), to: segment.end, full: true }
}
