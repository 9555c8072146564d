//! Emptying segments: the live records of one are appended again at the end of the log, and the segment is retired. Reads and writes
//! continue meanwhile; one free segment is enough.

use super::report::CompactReport;
use super::{choose, expired};
use crate::engine::{Engine, FullKey, GROUP};
use crate::error::Result;
use crate::frame::{CopyMeta, FrameSpec, Kind, ORIGIN_LEN_MAX};
use crate::index::KeyHash;
use crate::log::{Frame, Placed, Purpose, Segment};
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::scan::{Found, Stretch, scan};
use alloc::vec::Vec;

/// Most segments that are emptied per sync. Each new one is compared with all of them, and if everything is dead, no copied bytes would end
/// the group.
const EMPTIED_MAX: usize = 64;

/// A group of segments that are emptied together: their live records are copied, one sync covers all copies, then the segments are retired.
pub(crate) struct Emptying<'a> {
    engine: &'a Engine,
    emptied: Vec<Segment>,
    /// Bytes copied since the last sync, and how many may be copied per sync.
    copied: u64,
    copied_max: u64,
}

impl<'a> Emptying<'a> {
    /// One sync covers `copied_max` bytes, or somewhat more.
    pub(crate) const fn new(engine: &'a Engine, copied_max: u64) -> Self {
        Self { engine, emptied: Vec::new(), copied: 0, copied_max }
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
        let is_much = self.copied >= self.copied_max || self.emptied.len() >= EMPTIED_MAX;
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
        let (engine, log) = (self.engine, &self.engine.log);
        log.writable()?;
        // Nothing reuses the segment while this pin lives.
        let pin = engine.pins.pin();
        let oldest = self.is_oldest(segment);
        let origins = origins_bytes(engine, segment)?;
        log.secure(choose::kept_bytes(engine, segment, oldest) + origins + choose::SLACK, &|| longest(engine, segment))?;
        let mut report = CompactReport::default();
        let mut group = Vec::with_capacity(GROUP);
        let mut damage = Vec::new();
        scan(&*log.storage, whole(engine, segment), &mut |found| {
            match found {
                Found::Frame { offset, header } => {
                    if header.kind == Kind::Put || header.kind.is_carried() || header.kind == Kind::Tombstone && !oldest {
                        group.push(offset);
                    }
                    if group.len() == GROUP {
                        copy_group(engine, &pin, &group, oldest, &mut report)?;
                        group.clear();
                        pace(report.bytes_copied);
                    }
                }
                Found::Damage(place) if is(Bug::CompactUnchecked) => resign(engine, place.offset, &mut report)?,
                Found::Damage(place) => damage.push(place),
            }
            Ok(())
        })?;
        copy_group(engine, &pin, &group, oldest, &mut report)?;
        pace(report.bytes_copied);
        log.write_behind();
        self.copied += report.bytes_copied;
        if engine.forget_damage(segment, oldest, &damage)? {
            self.emptied.push(*segment);
            report.segments_retired = 1;
        }
        Ok(report)
    }

    /// Retires the emptied segments. Their space is free after another sync, once no reader from before is left.
    pub(crate) fn retire(&mut self) -> Result<()> {
        let log = &self.engine.log;
        // Sync the copies before the retirement frames: after a crash in between, originals and copies are both there, and the later ones
        // win.
        log.sync_to(log.end())?;
        self.copied = 0;
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

/// Appends a copy of a record or a tombstone. It says when the record was first written, unless that was before every living snapshot: then
/// it counts in all of them.
fn append_copy(engine: &Engine, frame: &Frame<'_>) -> Result<Placed> {
    let (log, oldest) = (&engine.log, engine.moments.oldest());
    let meta = CopyMeta::new(&frame.meta(), None);
    let spec = FrameSpec { kind: frame.header.kind, continues: false, meta: meta.meta(), key: frame.key(), value: frame.value() };
    let begin = frame.meta().begin(log.lsn(frame.offset));
    let placed = if oldest == 0 || begin < oldest || is(Bug::CopyWithoutOrigin) {
        log.append_one(&spec, Purpose::MakeSpace)?
    } else {
        log.append_with_origin(&spec, begin, Purpose::MakeSpace)?
    };
    engine.moments.made_copy(log.lsn(placed.offset));
    Ok(placed)
}

/// The length of the longest record of a segment, dead ones included.
fn longest(engine: &Engine, segment: &Segment) -> Result<u64> {
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

/// All records of a segment.
fn whole(engine: &Engine, segment: &Segment) -> Stretch {
    Stretch { salt: segment.salt, from: segment.first_frame(engine.log.geometry), to: segment.end, full: true }
}

/// Copies those records and tombstones of a group that still count.
fn copy_group(engine: &Engine, pin: &Pin<'_>, group: &[u64], oldest: bool, report: &mut CompactReport) -> Result<()> {
    let mut frames = Vec::with_capacity(group.len());
    for &offset in group {
        let frame = engine.log.frame(offset)?;
        let hash = engine.full_key(frame.header.namespace, frame.key()).hash;
        // Prefetch all slots before the first look-up.
        engine.index.prefetch(pin, hash);
        frames.push((hash, frame));
    }
    for (hash, frame) in &frames {
        match frame.header.kind {
            Kind::Put if frame.header.expires() && expired::shrink(engine, frame, *hash, oldest, report)? => {}
            Kind::Put => copy_put(engine, frame, *hash, report)?,
            kind if kind.is_carried() => carry(engine, frame, report)?,
            _ => copy_tombstone(engine, frame, *hash, report)?,
        }
    }
    Ok(())
}

/// Appends a record again if the index points at it, with its shard locked: a copy can never overtake a newer write.
fn copy_put(engine: &Engine, frame: &Frame<'_>, hash: KeyHash, report: &mut CompactReport) -> Result<()> {
    let (namespace, key) = (frame.header.namespace, frame.key());
    let full_key = FullKey { namespace, key, hash };
    let mut shard = engine.lock(hash)?;
    let is_it = |found: u64| Ok((found == frame.offset).then_some(()));
    let lives = shard.find(full_key.hash, is_it)?.is_some();
    if !lives && !is(Bug::CompactOvertakes) {
        return Ok(());
    }
    let current = if lives { None } else { engine.find_locked(&shard, full_key)? };
    let new = append_copy(engine, frame)?;
    let old = Placed { offset: frame.offset, len: frame.header.frame_len() as u64 };
    engine.publish_copy(&mut shard, full_key, if lives { Some(old) } else { current }, new);
    if let Some(expiry) = frame.expiry() {
        shard.expires(hash.slot(new.offset), expiry);
    }
    report.records_copied += 1;
    report.bytes_copied += new.len;
    Ok(())
}

/// Appends a carried record again. The index of this version does not point at such records, so all of them are preserved.
fn carry(engine: &Engine, frame: &Frame<'_>, report: &mut CompactReport) -> Result<()> {
    let log = &engine.log;
    let placed = append_copy(engine, frame)?;
    log.segment_stats.change_live(log.geometry.extent_of(placed.offset), placed.len as i64, false);
    log.segment_stats.change_live(log.geometry.extent_of(frame.offset), -(frame.header.frame_len() as i64), false);
    report.records_copied += 1;
    report.bytes_copied += placed.len;
    Ok(())
}

/// Appends a tombstone again: an older segment may still hold a record of its key. Not if the key lives: its record is later in the log
/// than the tombstone, and hides older ones just as well.
fn copy_tombstone(engine: &Engine, frame: &Frame<'_>, hash: KeyHash, report: &mut CompactReport) -> Result<()> {
    if is(Bug::TombstoneDroppedEarly) || is(Bug::ExpiredTombstoneDropped) && frame.header.is_expired_tombstone() {
        return Ok(());
    }
    let (namespace, key) = (frame.header.namespace, frame.key());
    let shard = engine.lock(hash)?;
    if engine.find_locked(&shard, FullKey { namespace, key, hash })?.is_some() {
        return Ok(());
    }
    let placed = append_copy(engine, frame)?;
    engine.log.segment_stats.add_tombstone(engine.log.geometry.extent_of(placed.offset), placed.len);
    report.records_copied += 1;
    report.bytes_copied += placed.len;
    Ok(())
}

/// The planted bug: copies a record without verifying its checksum.
fn resign(engine: &Engine, offset: u64, report: &mut CompactReport) -> Result<()> {
    match engine.log.header(offset) {
        Ok(header) if header.kind == Kind::Put => {
            let frame = engine.log.frame(offset)?;
            let hash = engine.full_key(header.namespace, frame.key()).hash;
            copy_put(engine, &frame, hash, report)
        }
        _ => Ok(()),
    }
}
