//! Emptying segments: the live records of one are appended again at the end of the log, and the segment is retired. Reads and writes
//! continue meanwhile; one free segment is enough.

#[cfg(not(feature = "compress"))]
use super::copy::Recoded;
#[cfg(feature = "compress")]
use super::copy::recoded;
use super::copy::{copy_sifted, resign};
use super::report::CompactReport;
use super::sift::{Prior, Record, Sieve, TOGETHER_BYTES, whole};
use super::{ahead, choose};
use crate::engine::Engine;
use crate::error::Result;
use crate::frame::ORIGIN_LEN_MAX;
#[cfg(feature = "std")]
use crate::index::Pointed;
use crate::log::{Copies, Segment};
#[cfg(feature = "std")]
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::scan::{Damage, Found, scan};
use alloc::vec::Vec;

/// Most segments that are emptied per sync. Each new one is compared with all of them, and if everything is dead, no copied bytes would end
/// the group.
const EMPTIED_MAX: usize = 64;

/// Most records of a group, dead ones included. Writers of their shards wait until the live ones are copied.
const TOGETHER: usize = 64;

/// Bytes of the next segments that are announced before a sync: the medium reads them while it writes.
#[cfg(feature = "std")]
const ANNOUNCED: u64 = 8 * 1024 * 1024;

/// A group of segments that are emptied together: their live records are copied, one sync covers all copies, then the segments are retired.
pub(crate) struct Emptying<'a> {
    engine: &'a Engine,
    emptied: Vec<Segment>,
    /// Bytes copied since the last sync, how many may be copied before the next one, and how many per sync at most.
    copied: u64,
    copied_next: u64,
    copied_max: u64,
    copies: Copies,
    /// Segments are read and verified in another thread.
    ahead: bool,
    /// The segments that are to be emptied, in this order, and what an index in the file has of the next ones.
    #[cfg(feature = "std")]
    planned: Vec<Segment>,
    #[cfg(feature = "std")]
    pointed: Option<Pointed>,
    #[cfg(feature = "compress")]
    compressor: super::compressed::Compressor,
}

impl<'a> Emptying<'a> {
    /// One sync covers `copied_max` bytes, or somewhat more.
    pub(crate) fn new(engine: &'a Engine, copied_max: u64) -> Self {
        Self {
            engine,
            emptied: Vec::new(),
            copied: 0,
            copied_next: copied_max,
            copied_max,
            copies: Copies::default(),
            ahead: false,
            #[cfg(feature = "std")]
            planned: Vec::new(),
            #[cfg(feature = "std")]
            pointed: None,
            #[cfg(feature = "compress")]
            compressor: super::compressed::Compressor::default(),
        }
    }

    /// The same, which compresses what it copies.
    #[cfg(feature = "compress")]
    pub(super) fn with_compressor(self, compressor: super::compressed::Compressor) -> Self {
        Self { compressor, ..self }
    }

    /// The same whose first sync covers `bytes` bytes, the next one twice as many, and so on up to the limit: while little is free, copies go to the
    /// end of the file, from where they must move again before it can be cut.
    pub(super) fn with_first_sync_after(self, bytes: u64) -> Self {
        Self { copied_next: bytes.min(self.copied_max), ..self }
    }

    /// The same with another thread that reads and verifies the segments, if the host has a processor for it.
    #[cfg(feature = "std")]
    pub(crate) fn with_reader(self) -> Self {
        Self { ahead: ahead::is_of_use(), ..self }
    }

    /// The same for these segments, in this order: an index in the file is read once for many of them.
    #[cfg(feature = "std")]
    pub(super) fn with_plan(self, planned: Vec<Segment>) -> Self {
        Self { planned, ..self }
    }

    /// Where segments are planned, reads an index in the file for this one and the next ones.
    #[cfg(feature = "std")]
    fn read_bases(&mut self, pin: &Pin<'_>, segment: &Segment) {
        let (engine, is_it) = (self.engine, |planned: &Segment| planned.base == segment.base);
        let is_read = |pointed: &Pointed| pointed.covers(segment.base) && engine.has_bases_of(pin, pointed);
        if !engine.keeps_in_file() || self.pointed.as_ref().is_some_and(is_read) {
            return;
        }
        if let Some(next) = self.planned.iter().position(is_it).and_then(|at| self.planned.get(at..)) {
            // Look-ups say what cannot be read.
            self.pointed = engine.pointed_into(pin, next).ok().flatten();
        }
    }

    /// True when `segment` has been emptied and is not retired yet.
    pub(crate) fn holds(&self, segment: &Segment) -> bool {
        self.emptied.iter().any(|emptied| emptied.base == segment.base)
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.emptied.is_empty()
    }

    /// True when the group should be retired before `segment` is emptied: many bytes or segments wait for the sync, or there is no room for
    /// its live records now.
    pub(crate) fn is_full_for(&self, segment: &Segment) -> bool {
        let is_much = self.copied >= self.copied_next || self.emptied.len() >= EMPTIED_MAX;
        let needed = || choose::needed_bytes(self.engine, segment, self.is_oldest(segment));
        !self.is_none() && (is_much || !self.engine.log.has_room(needed()))
    }

    /// True when no older segment is left, except those that this group has emptied: they are retired before `segment` is.
    fn is_oldest(&self, segment: &Segment) -> bool {
        self.engine.log.oldest(&|first| self.holds(first)).is_none_or(|first| first.base == segment.base)
    }

    /// Copies the live records of `segment` to the end of the log. The caller ensures that only one compaction runs at a time; `pace` is
    /// called with the bytes copied so far, and may sleep. A segment with damage that still counts is set aside after everything else in it
    /// has been copied.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`](crate::Error::NoSpace) before anything is copied, when there is no room for the live records.
    pub(crate) fn empty(&mut self, segment: &Segment, pace: &mut dyn FnMut(u64)) -> Result<CompactReport> {
        let engine = self.engine;
        let oldest = self.is_oldest(segment);
        let (mut report, damage) = self.copy(segment, oldest, pace)?;
        self.copied += report.bytes_copied;
        if engine.forget_damage(segment, oldest, &damage)? {
            self.emptied.push(*segment);
            report.segments_retired = 1;
        }
        Ok(report)
    }

    /// Copies the live records, and returns the damage that it has met.
    fn copy(&mut self, segment: &Segment, oldest: bool, pace: &mut dyn FnMut(u64)) -> Result<(CompactReport, Vec<Damage>)> {
        let (engine, log) = (self.engine, &self.engine.log);
        log.writable()?;
        #[cfg(feature = "events")]
        engine.before_moving_events()?;
        let mut report = CompactReport::default();
        // Nothing reuses the segment while this pin lives.
        let pin = engine.pins.pin();
        let origins = origins_bytes(engine, segment)?;
        #[cfg(feature = "encrypt")]
        let growth = super::resealed::growth(engine, segment)?;
        #[cfg(not(feature = "encrypt"))]
        let growth = 0;
        let kept = choose::kept_bytes(engine, segment, oldest) + origins + growth;
        log.secure(kept + choose::SLACK, &|| longest(engine, segment))?;
        #[cfg(feature = "encrypt")]
        super::resealed::check(engine, segment)?;
        #[cfg(feature = "std")]
        self.read_bases(&pin, segment);
        #[cfg(feature = "std")]
        let pointed = self.pointed.as_ref().filter(|pointed| pointed.covers(segment.base));
        #[cfg(not(feature = "std"))]
        let pointed = None;
        let (prior, copies) = (Prior { oldest, pointed }, &mut self.copies);
        #[cfg(feature = "compress")]
        let compressor = &self.compressor;
        let mut copy = |frames: &[Record<'_>], report: &mut CompactReport| {
            #[cfg(feature = "compress")]
            let recoded = recoded(engine, compressor, frames);
            #[cfg(not(feature = "compress"))]
            let recoded: [Option<Recoded>; 0] = [];
            copy_sifted(engine, &pin, (frames, &recoded), prior, copies, report)?;
            #[cfg(feature = "ordered")]
            engine.make_many_moves();
            pace(report.bytes_copied);
            Ok(())
        };
        let damage = match ahead::sift(engine, segment, prior, self.ahead, &mut |frames| copy(frames, &mut report))? {
            Some(damage) => damage,
            None => {
                let mut sieve = Sieve::new(engine, prior, (TOGETHER, TOGETHER_BYTES));
                let mut damage = Vec::new();
                scan(&*log.storage, whole(engine, segment), &mut |found| {
                    match found {
                        Found::Frame { offset, header } => {
                            if sieve.add(offset, &header)? {
                                copy(&sieve.sift(), &mut report)?;
                            }
                        }
                        Found::Damage(place) if is(Bug::CompactUnchecked) => resign(engine, place.offset, &mut report)?,
                        Found::Damage(place) => damage.push(place),
                    }
                    Ok(())
                })?;
                copy(&sieve.sift(), &mut report)?;
                log.write_behind();
                damage
            }
        };
        Ok((report, damage))
    }

    /// Announces the segments that are planned behind the last one that was emptied.
    #[cfg(feature = "std")]
    fn announce_next(&self) {
        let Some(last) = self.emptied.last() else { return };
        let mut left = ANNOUNCED;
        for next in self.planned.iter().skip_while(|planned| planned.base != last.base).skip(1) {
            let from = next.first_frame(self.engine.log.geometry);
            let len = next.end.saturating_sub(from).min(left);
            if len == 0 {
                return;
            }
            self.engine.medium().will_read(&[from], len as usize);
            left -= len;
        }
    }

    /// Retires the emptied segments. Their space is free after another sync, once no reader from before is left.
    pub(crate) fn retire(&mut self) -> Result<()> {
        let log = &self.engine.log;
        #[cfg(feature = "std")]
        self.announce_next();
        // Sync the copies before the retirement frames: after a crash in between, originals and copies are both there, and the later ones
        // win.
        let sync = || log.sync_to(log.end()).map(drop);
        #[cfg(feature = "ordered")]
        ahead::moves_beside(self.engine, self.ahead, sync)?;
        #[cfg(not(feature = "ordered"))]
        sync()?;
        self.copied = 0;
        self.copied_next = self.copied_next.saturating_mul(2).min(self.copied_max);
        // In the order in which they were emptied: a tombstone may be dropped only once everything older is.
        self.emptied.drain(..).try_for_each(|segment| log.retire(&self.engine.pins, segment))
    }
}

/// Bytes that the copies of a segment's records may take beyond the records: a copy of a record that is younger than a snapshot carries the
/// distance to its first version.
fn origins_bytes(engine: &Engine, segment: &Segment) -> Result<u64> {
    if !choose::may_need_origins(engine, segment) {
        return Ok(0);
    }
    let mut count = 0;
    scan(&*engine.log.storage, whole(engine, segment), &mut |found| {
        count += u64::from(matches!(found, Found::Frame { header, .. } if !header.kind.is_control()));
        Ok(())
    })?;
    Ok(count * ORIGIN_LEN_MAX as u64)
}

/// The length of the longest record of a segment, dead ones included; of its copy, where that is sealed and it is not.
fn longest(engine: &Engine, segment: &Segment) -> Result<u64> {
    #[cfg(feature = "encrypt")]
    if super::resealed::is_plain(engine, segment) {
        return super::resealed::longest(engine, segment);
    }
    let log = &engine.log;
    let mut longest = 0;
    scan(&*log.storage, whole(engine, segment), &mut |found| {
        if let Found::Frame { header, .. } = found
            && !header.kind.is_control()
        {
            longest = longest.max(header.frame_len() as u64);
        }
        Ok(())
    })?;
    Ok(longest)
}
