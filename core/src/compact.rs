//! Compaction: what lives in a segment is appended again at the end of the log, and the segment is retired. Readers and writers go
//! on beside it; one free segment is enough.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Header, Kind};
use crate::log::{Placed, Purpose, Segment, Step, Walk};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Segments that were emptied and retired.
    pub segments_retired: u64,
    /// Records that were copied forward, tombstones included.
    pub records_copied: u64,
    /// Their bytes.
    pub bytes_copied: u64,
    /// Bytes of the file that are free for new records, or were given back to the host.
    pub bytes_freed: u64,
}

impl CompactReport {
    pub(crate) fn add(&mut self, other: Self) {
        self.segments_retired += other.segments_retired;
        self.records_copied += other.records_copied;
        self.bytes_copied += other.bytes_copied;
        self.bytes_freed += other.bytes_freed;
    }
}

/// How far a compaction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactProgress {
    /// Segments done.
    pub segments_done: u64,
    /// Segments to do in all.
    pub segments_total: u64,
}

/// Segments that compaction may take: those in front of the newest checkpoint, for a reopen needs what comes behind it.
pub(crate) fn candidates(engine: &Engine) -> Vec<Segment> {
    let replay_from = engine.log.superblocks.lock().current.checkpoint.map_or(0, |place| place.order);
    let tail = engine.log.tail.lock();
    tail.segments.values().filter(|segment| segment.order < replay_from).copied().collect()
}

/// The bytes of a segment that compacting it would free.
pub(crate) fn dead_bytes(engine: &Engine, segment: &Segment, oldest: bool) -> u64 {
    (segment.end - segment.first_frame(engine.log.geometry)).saturating_sub(kept_bytes(engine, segment, oldest))
}

/// The bytes of a segment that compacting it would copy. Only in the oldest segment a tombstone has nothing older to hide.
fn kept_bytes(engine: &Engine, segment: &Segment, oldest: bool) -> u64 {
    let ledger = &engine.log.ledger;
    ledger.live(segment.extent) + if oldest { 0 } else { ledger.tombstones(segment.extent) }
}

/// Copies what lives in `segment` forward and retires it. The caller sees to it that there is one compaction at a time; `pace` hears how
/// many bytes have been copied so far, and may take its time.
///
/// # Errors
///
/// [`Error::NoSpace`] before anything is copied, when there is no room for what lives. [`Error::Corrupt`] when a record of the
/// segment does not check: the segment stays as it is.
pub(crate) fn segment(engine: &Engine, segment: &Segment, pace: &mut dyn FnMut(u64)) -> Result<CompactReport> {
    let log = &engine.log;
    log.writable()?;
    // Nothing reuses the segment while this pin lives.
    let pin = engine.pins.pin();
    let oldest = log.tail.lock().segments.keys().next().is_none_or(|&first| first == segment.order);
    log.secure(kept_bytes(engine, segment, oldest) + 256)?;
    let mut report = CompactReport::default();
    let mut walk = Walk::new(&*log.storage, segment.salt, segment.first_frame(log.geometry), segment.end);
    loop {
        match walk.step()? {
            Step::End => break,
            Step::Bad { offset, .. } if is(Bug::CompactUnchecked) => {
                let Some(skipped) = resign(engine, offset, &mut report)? else {
                    break;
                };
                walk = Walk::new(&*log.storage, segment.salt, offset + skipped, segment.end);
            }
            Step::Bad { offset, error } => return Err(Error::corrupt(offset, error.what())),
            Step::Frame { offset, header } => match header.kind {
                Kind::Put => copy_put(engine, offset, &header, &mut report)?,
                Kind::Tombstone if !oldest => copy_tombstone(engine, offset, &header, &mut report)?,
                _ => {}
            },
        }
        pace(report.bytes_copied);
    }
    drop(pin);
    // The copies first, then the frame that says so: a crash in between finds both places, and the later one wins.
    log.sync_to(log.end())?;
    log.retire(&engine.pins, *segment)?;
    report.segments_retired = 1;
    Ok(report)
}

/// Appends a record again if it is the one that the index knows, under the lock that its writers hold: a copy can never overtake
/// a newer write.
fn copy_put(engine: &Engine, offset: u64, header: &Header, report: &mut CompactReport) -> Result<()> {
    let frame = engine.log.frame(offset)?;
    let (namespace, key) = (header.namespace, frame.key());
    let full_key = engine.full_key(namespace, key);
    let mut shard = engine.lock(full_key.hash)?;
    let is_it = |found: u64| Ok((found == offset).then_some(()));
    let lives = shard.find(full_key.hash, is_it)?.is_some();
    if !lives && !is(Bug::CompactOvertakes) {
        return Ok(());
    }
    let current = if lives { None } else { engine.find_locked(&shard, full_key)? };
    let spec = FrameSpec { kind: Kind::Put, continues: false, namespace, key, value: frame.value() };
    let new = engine.log.append_one(&spec, Purpose::MakeSpace)?;
    let old = Placed { offset, len: header.frame_len() as u64 };
    engine.publish_put(&mut shard, full_key, if lives { Some(old) } else { current }, new);
    report.records_copied += 1;
    report.bytes_copied += new.len;
    Ok(())
}

/// Appends a tombstone again: an older segment may still hold a record of its key. Not if the key lives: its record is further along
/// the log than the tombstone, and hides whatever is older just as well.
fn copy_tombstone(engine: &Engine, offset: u64, header: &Header, report: &mut CompactReport) -> Result<()> {
    if is(Bug::TombstoneDroppedEarly) {
        return Ok(());
    }
    let frame = engine.log.frame(offset)?;
    let (namespace, key) = (header.namespace, frame.key());
    let full_key = engine.full_key(namespace, key);
    let shard = engine.lock(full_key.hash)?;
    if engine.find_locked(&shard, full_key)?.is_some() {
        return Ok(());
    }
    let spec = FrameSpec { kind: Kind::Tombstone, continues: false, namespace, key, value: frame.value() };
    let placed = engine.log.append_one(&spec, Purpose::MakeSpace)?;
    engine.log.ledger.add_tombstone(engine.log.geometry.extent_of(placed.offset), placed.len);
    report.records_copied += 1;
    report.bytes_copied += placed.len;
    Ok(())
}

/// The planted bug of copying without a look at the checksum. Says how long the record is, if it looks like one.
fn resign(engine: &Engine, offset: u64, report: &mut CompactReport) -> Result<Option<u64>> {
    let Ok(header) = engine.log.header(offset) else {
        return Ok(None);
    };
    if header.kind == Kind::Put {
        copy_put(engine, offset, &header, report)?;
    }
    Ok(Some(header.frame_len() as u64))
}
