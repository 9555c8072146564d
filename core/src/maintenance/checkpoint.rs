//! A checkpoint: writes the list of live segments to the log and the index to a snapshot; a superblock points at both. Opening then loads
//! the snapshot and replays the log after the list.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::{Dump, SHARDS, ShardGuard};
use crate::log::{Cut, DirectoryPlace, Geometry, Segment, SnapshotSegment};
use crate::names::Names;
use crate::planted::{Bug, is};
use crate::snapshot::{Directory, SegmentUse, ShardPlace, SnapshotWriter, estimate};
#[cfg(feature = "ordered")]
use crate::sync::Ordering;
use crate::sync::RwLock;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

/// Records whose slots are copied with their shards locked, roughly: writers wait a fraction of a millisecond.
const DUMPED_TOGETHER: usize = 32 * 1024;

/// A snapshot is written whole when it takes no more than 1/8 of the log after the previous checkpoint ...
const WHOLE_PARTS: u64 = 8;
/// ... or when a shard has this many parts of changes.
const PARTS_MAX: usize = 64;

/// How much of the index a checkpoint writes to the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The changes, and now and then everything, so that the parts never take much more than one and a half times the length of a whole
    /// snapshot.
    Changes,
    /// Like [`Self::Changes`], with a lower limit (one and an eighth), because the next open reads all parts.
    Closing,
    /// Everything, as short as possible: for compactions.
    Whole,
    /// Like [`Self::Whole`], at the end of the file: another one follows soon, which finds the space before it free.
    Passing,
}

/// A snapshot that has been written.
struct Written {
    directory: Directory,
    place: DirectoryPlace,
    moved: Moved,
}

/// Parts that were copied to the new snapshot, while the open store still reads them in the one before.
#[derive(Default)]
struct Moved {
    #[cfg(feature = "ordered")]
    order: Vec<crate::order::Moved>,
}

impl Moved {
    fn take_place(&self, engine: &Engine) {
        #[cfg(feature = "ordered")]
        engine.order_has_moved(&self.order);
        #[cfg(not(feature = "ordered"))]
        let _ = engine;
    }
}

/// The namespaces when the log was cut.
struct Listed {
    next: u32,
    names: Vec<(String, u32, Box<[u8]>)>,
}

/// Writes a checkpoint while reads and writes continue. The caller ensures that only one runs at a time.
///
/// Without space for a snapshot it writes none and returns false: opening takes longer, but compaction can free the segments before the
/// checkpoint.
///
/// # Errors
///
/// [`Error::NoSpace`] before anything is written, when no segment is free and compaction can reach nearly everything without a new list:
/// lists would fill the space that is left for removals and copies.
pub(crate) fn write(engine: &Engine, names: &RwLock<Names>, extent: Extent) -> Result<bool> {
    let log = &engine.log;
    log.writable()?;
    let is_needed = || log.replay_debt() > log.geometry.segment_size() / 2;
    if !log.secure_free(1)? && !is_needed() {
        return Err(Error::NoSpace);
    }
    engine.build_all(&|| false)?;
    // The keys in order are written as they stand, and should not name segments that a compaction is about to retire.
    #[cfg(feature = "ordered")]
    engine.make_moves();
    #[cfg(feature = "events")]
    engine.load_events()?;
    let mut directory = engine.checkpoints.lock();
    // Asks the shards, whose locks come before that of the names.
    let is_over_newer_max = engine.is_over_newer_max();
    let plan = Plan::new(engine, &names.read(), &directory, extent, is_over_newer_max)?;
    let (cut, listed) = cut_log(engine, names)?;
    let mut taken = Vec::new();
    // Write no snapshot while the index is in doubt: it would make doubtful records look certain. The next open reads the log again.
    let is_unsure = engine.doubt.get().is_some();
    let written = if is_unsure { Err(Error::NoSpace) } else { write_snapshot(engine, &plan, &directory, &listed, &mut taken) };
    engine.index.end_dump(written.is_ok());
    #[cfg(feature = "events")]
    engine.events.end_dump(written.is_ok());
    let (next, place) = match written {
        Ok(Written { directory, place, moved }) => {
            moved.take_place(engine);
            (directory, Some(place))
        }
        Err(Error::NoSpace | Error::IndexDamaged { .. }) => {
            // The snapshot before goes, and with it the parts that nobody has read.
            #[cfg(feature = "ordered")]
            engine.read_order();
            (Directory::default(), None)
        }
        Err(error) => return Err(log.poison(error)),
    };
    if is(Bug::CheckpointSyncsBeside) {
        log.sync_beside()?;
    } else if !is(Bug::SuperblockBeforeData) {
        log.sync_now()?;
    }
    let before = core::mem::replace(&mut *directory, next);
    let kept = kept_segments(engine, &before, &directory);
    log.publish_checkpoint(&cut, place, &directory.segments, &kept, &taken)?;
    if engine.keeps_in_file() {
        engine.take_bases(&directory, &before.segments, place.is_some())?;
    }
    Ok(place.is_some() || is_unsure)
}

/// The segments of the snapshot before whose extents become free as far as the new one does not use them. Where slots stay in the file, the
/// others are read until their shards have other bases, and no reader is left.
fn kept_segments(engine: &Engine, before: &Directory, next: &Directory) -> Vec<SnapshotSegment> {
    let is_kept = |segment: &&SnapshotSegment| {
        !engine.keeps_in_file() || next.segments.iter().any(|other| other.salt == segment.salt) || is(Bug::IndexExtentsFreedEarly)
    };
    before.segments.iter().filter(is_kept).copied().collect()
}

/// What a snapshot consists of.
struct Plan {
    /// Estimated bytes, if the snapshot is written whole; `None` if only changes are.
    whole: Option<u64>,
    /// Its place is as near to the end of the file as possible.
    is_last: bool,
    /// By extent: records below this file offset are from before the previous checkpoint.
    known: Vec<u64>,
    /// The keys in order are written, too.
    #[cfg(feature = "ordered")]
    has_order: bool,
}

/// The keys in order are written by a background checkpoint when they take no more than 1/4 of the log after the previous one: checkpoints
/// must not write more than half of what the log does.
#[cfg(feature = "ordered")]
const ORDER_PARTS: u64 = 4;

impl Plan {
    fn new(engine: &Engine, names: &Names, directory: &Directory, extent: Extent, is_over_newer_max: bool) -> Result<Self> {
        let log = &engine.log;
        let segments = log.segments();
        let some_expire = log.clock.in_use();
        let len = estimate(engine.index.len_all(), some_expire, names, segments.len(), log.storage.len()?);
        #[cfg(feature = "ordered")]
        let (order_len, has_order) = {
            let (whole, unwritten) = engine.order_len();
            let has_order = match extent {
                Extent::Closing | Extent::Whole => whole > 0,
                Extent::Changes => whole > 0 && unwritten * ORDER_PARTS <= log.replay_debt(),
                Extent::Passing => false,
            };
            (whole, has_order)
        };
        #[cfg(not(feature = "ordered"))]
        let order_len = 0;
        let len = len + order_len;
        let most = if extent == Extent::Closing { len + len / 8 } else { len + len / 2 };
        let is_last = extent == Extent::Passing;
        let is_whole = is_over_newer_max
            || extent == Extent::Whole
            || is_last
            || len * WHOLE_PARTS <= log.replay_debt()
            || directory.len(log.geometry) > most
            || directory.parts_max() >= PARTS_MAX;
        let place = log.newest_checkpoint().filter(|place| place.directory.is_some());
        let (Some(place), false) = (place, is_whole || directory.shards.is_empty()) else {
            return Ok(Self {
                whole: Some(len),
                is_last,
                known: Vec::new(),
                #[cfg(feature = "ordered")]
                has_order,
            });
        };
        let mut known = alloc::vec![0; log.usage().extents as usize];
        for segment in segments.iter().take_while(|segment| segment.base <= place.base) {
            let end = if segment.base == place.base { place.offset } else { u64::MAX };
            let extents = segment.extent as usize..segment.extent.saturating_add(segment.extents) as usize;
            known.get_mut(extents).unwrap_or_default().fill(end);
        }
        Ok(Self {
            whole: None,
            is_last,
            known,
            #[cfg(feature = "ordered")]
            has_order,
        })
    }

    /// True when the live record at `offset` was written after the previous checkpoint. In an extent that was not in use then, or has been
    /// reused since, all are.
    fn is_new(&self, geometry: Geometry, offset: u64) -> bool {
        self.known.get(geometry.extent_of(offset) as usize).is_none_or(|&known| offset >= known)
    }
}

/// Cuts the log between two commits, and lists the namespaces at that point.
fn cut_log(engine: &Engine, names: &RwLock<Names>) -> Result<(Cut, Listed)> {
    let _writers = engine.lock_all()?;
    #[cfg(feature = "events")]
    let _appending = engine.events.lock();
    let names = names.read();
    let listed = names.pairs().map(|(name, number)| (name.into(), number, names.options(name).into())).collect();
    let cut = engine.log.cut(names.next)?;
    engine.log.segment_stats.clear_late();
    #[cfg(feature = "events")]
    engine.events.set_cut(true);
    Ok((cut, Listed { next: names.next, names: listed }))
}

/// Writes the index as a snapshot: its names, the parts of all shards, and the directory of them.
fn write_snapshot(
    engine: &Engine,
    plan: &Plan,
    before: &Directory,
    listed: &Listed,
    taken: &mut Vec<SnapshotSegment>,
) -> Result<Written> {
    let log = &engine.log;
    let wanted = Cell::new(plan.whole.unwrap_or(0));
    let seal = log.new_snapshot_seal()?;
    let take = |bytes: u64| log.take_snapshot_segment(wanted.take(), bytes, plan.is_last, seal);
    let mut writer = SnapshotWriter::new(&*log.storage, log.geometry, &take, taken)?;
    let mut next = Directory::default();
    let known = if plan.whole.is_some() { (None, 0) } else { (before.names, before.names_hash) };
    let names = listed.names.iter().map(|(name, number, options)| (name.as_str(), *number, &**options));
    let (names, hash) = writer.names(listed.next, names, known)?;
    (next.names, next.names_hash) = (Some(names), hash);
    let is_new = |offset: u64| plan.is_new(log.geometry, offset);
    // Parts from before the first record that expires have no calendar, and need none.
    next.knows_expiring = plan.whole.is_some() || before.knows_expiring || !log.clock.was_in_use();
    // Several shards are locked together, so that a commit waits once for all of them, and this waits once for the commit.
    #[cfg(feature = "ordered")]
    let forgotten = engine.forgotten.load(Ordering::Relaxed);
    let together = shards_together(engine.index.len_all() as usize);
    for first in (0..SHARDS).step_by(together) {
        let mut held = engine.lock_shards(first..SHARDS.min(first + together))?;
        let dump = |(shard, guard): (usize, &mut ShardGuard<'_>)| {
            let has_parts = plan.whole.is_none() && !before.parts_of(shard).is_empty();
            next.knows_expiring &= engine.knows_expiring(guard);
            guard.dump(engine.medium(), if has_parts { Some(&is_new) } else { None }).map(|dump| (shard, dump))
        };
        let dumps = (first..).zip(held.iter_mut()).map(dump).collect::<Result<Vec<(usize, Dump)>>>()?;
        drop(held);
        log.look_again()?;
        for (shard, dump) in dumps {
            let parts = write_shard(&mut writer, shard, dump, before.parts_of(shard))?;
            if !parts.is_empty() {
                next.shards.push((shard, parts));
            }
        }
    }
    #[cfg(feature = "events")]
    if engine.events.last() > 0 {
        next.events = engine.events.dump(&mut writer, &before.events, plan.whole.is_some())?;
    }
    #[cfg_attr(not(feature = "ordered"), expect(unused_mut, reason = "nothing else moves"))]
    let mut moved = Moved::default();
    #[cfg(feature = "ordered")]
    {
        (next.order, moved.order) = engine.dump_order(&mut writer, plan.has_order, plan.whole.is_some())?;
        // What has expired was taken out of the index meanwhile, and the log does not say so: the order may have it.
        next.order.is_whole &= engine.forgotten.load(Ordering::Relaxed) == forgotten;
    }
    next.uses = segment_uses(engine)?;
    next.segments.extend_from_slice(if plan.whole.is_some() { &[] } else { &before.segments });
    let (directory, place) = writer.finish(next)?;
    Ok(Written { directory, place, moved })
}

/// How many shards are locked together, in an index of so many records.
pub(super) const fn shards_together(records: usize) -> usize {
    SHARDS * DUMPED_TOGETHER / (records + DUMPED_TOGETHER) + 1
}

/// The parts of a shard: those `before`, and one of what has changed since; or one of everything.
fn write_shard(writer: &mut SnapshotWriter<'_>, shard: usize, dump: Dump, before: &[ShardPlace]) -> Result<Vec<ShardPlace>> {
    let mut parts = Vec::new();
    match dump {
        Dump::Unchanged => parts.extend_from_slice(before),
        Dump::Changes(mut changes) => {
            changes.sort();
            parts.extend_from_slice(before);
            parts.push(writer.changes(shard, &changes)?);
        }
        Dump::Whole(image) if image.slots.is_empty() => {}
        Dump::Whole(mut image) => {
            image.sort();
            parts.push(writer.shard(shard, &image)?);
        }
    }
    Ok(parts)
}

/// Live bytes and tombstones of each segment, as the shards were dumped.
fn segment_uses(engine: &Engine) -> Result<Vec<SegmentUse>> {
    let _writers = engine.lock_all()?;
    let log = &engine.log;
    // Limited as in the list: a reader refuses figures that exceed the segment.
    let of = |segment: &Segment| {
        let live = log.segment_stats.live_at_dump(segment.extent).min(segment.len(log.geometry));
        let tombstones = log.segment_stats.tombstones(segment.extent).min(segment.len(log.geometry) - live);
        SegmentUse { base: segment.base, live, tombstones }
    };
    Ok(log.segments().iter().map(of).collect())
}
