//! A checkpoint: the list of live segments goes into the log, the index into a snapshot, and a superblock points at both. Reopening
//! then loads the snapshot and replays what came behind the list.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Next};
use crate::index::{Dump, SHARDS, ShardGuard};
use crate::log::{
    CheckpointPlace, Cut, DirectoryPlace, Figures, Geometry, LIST_ENTRY_LEN_MAX, Purpose, Roster, SEGMENT_HEADER_LEN, Segment,
    SegmentHeader, SegmentKind, SnapshotSegment, Superblock, Tail, salt,
};
use crate::names::Names;
use crate::planted::{Bug, is};
use crate::snapshot::{Directory, SegmentUse, SnapshotWriter, estimate};
use crate::sync::RwLock;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

/// About so many records are copied at a time: a fraction of a millisecond for those who wait.
const DUMPED_TOGETHER: usize = 32 * 1024;

/// A snapshot is written anew when all of it takes no more than one part in so many of the log behind the checkpoint before ...
const WHOLE_PARTS: u64 = 8;
/// ... or when changes stand behind changes in so many parts of a shard.
const PARTS_MAX: usize = 64;

/// How much of the index a checkpoint writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What has changed, and everything now and then: the parts never take much more than half as much again as all of it would.
    Changes,
    /// As [`Self::Changes`], with less to spare: the next to read it is an open.
    Closing,
    /// Everything: a compaction leaves nothing behind that need not be.
    Whole,
}

/// The namespaces at the moment of the cut.
struct Listed {
    next: u32,
    names: Vec<(String, u32, Box<[u8]>)>,
}

/// Writes a checkpoint while others read and write. The caller sees to it that there is one at a time.
///
/// Without the space for a snapshot the checkpoint goes without: reopening takes longer, but compaction can free the segments in
/// front of it. False then.
///
/// # Errors
///
/// [`Error::NoSpace`] before anything is written, when the last free segment is in use and compaction can get at nearly everything without
/// another list: lists would fill what is left for removals and copies.
pub(crate) fn write(engine: &Engine, names: &RwLock<Names>, extent: Extent) -> Result<bool> {
    let log = &engine.log;
    log.writable()?;
    let is_needed = || log.replay_debt() > log.geometry.segment_size() / 2;
    if !log.secure_free(1)? && !is_needed() {
        return Err(Error::NoSpace);
    }
    engine.build_all(&|| false)?;
    let mut directory = engine.checkpoints.lock();
    let plan = Plan::new(engine, &names.read(), &directory, extent)?;
    let (cut, listed) = cut_log(engine, names)?;
    let mut taken = Vec::new();
    // A snapshot would pass for certain what is in doubt: the next open asks the log again.
    let is_unsure = engine.doubt.get().is_some();
    let written = if is_unsure { Err(Error::NoSpace) } else { write_snapshot(engine, &plan, &directory, &listed, &mut taken) };
    engine.index.end_dump(written.is_ok());
    let (next, place) = match written {
        Ok((next, place)) => (next, Some(place)),
        Err(Error::NoSpace) => (Directory::default(), None),
        Err(error) => return Err(log.poison(error)),
    };
    if is(Bug::CheckpointSyncsBeside) {
        log.sync_beside()?;
    } else if !is(Bug::SuperblockBeforeData) {
        log.sync_now()?;
    }
    publish(engine, cut, &directory, (&next, place), &taken)?;
    *directory = next;
    Ok(place.is_some() || is_unsure)
}

/// What a snapshot will be made of.
struct Plan {
    /// All of it is written, which takes so many bytes.
    whole: Option<u64>,
    /// Of each extent of a segment in front of the checkpoint before, up to which offset its records came before that.
    known: Vec<u64>,
}

impl Plan {
    fn new(engine: &Engine, names: &Names, directory: &Directory, extent: Extent) -> Result<Self> {
        let log = &engine.log;
        let tail = log.tail.lock();
        let len = estimate(engine.index.len_all(), names, tail.segments.len(), log.storage.len()?);
        let most = if extent == Extent::Closing { len + len / 8 } else { len + len / 2 };
        let is_whole = extent == Extent::Whole
            || len * WHOLE_PARTS <= log.replay_debt()
            || directory.len(log.geometry) > most
            || directory.parts_max() >= PARTS_MAX;
        let place = log.superblocks.lock().current.checkpoint.filter(|place| place.directory.is_some());
        let (Some(place), false) = (place, is_whole || directory.shards.is_empty()) else {
            return Ok(Self { whole: Some(len), known: Vec::new() });
        };
        let mut known = alloc::vec![0; tail.space.total as usize];
        for segment in tail.segments.values().take_while(|segment| segment.base <= place.base) {
            let end = if segment.base == place.base { place.offset } else { u64::MAX };
            let extents = segment.extent as usize..segment.extent.saturating_add(segment.extents) as usize;
            known.get_mut(extents).unwrap_or_default().fill(end);
        }
        Ok(Self { whole: None, known })
    }

    /// True when a record that lives at `offset` came behind the checkpoint before. An extent that was not in use then, or has been used
    /// again since, holds nothing else.
    fn is_new(&self, geometry: Geometry, offset: u64) -> bool {
        self.known.get(geometry.extent_of(offset) as usize).is_none_or(|&known| offset >= known)
    }
}

/// Cuts the log in two, with no commit on both sides of the cut, and lists the namespaces as they are there.
fn cut_log(engine: &Engine, names: &RwLock<Names>) -> Result<(Cut, Listed)> {
    let _writers = engine.lock_all()?;
    let names = names.read();
    let mut tail = engine.log.tail.lock();
    let listed = names.pairs().map(|(name, number)| (name.into(), number, names.options(name).into())).collect();
    Ok((append_list(engine, &mut tail, names.next)?, Listed { next: names.next, names: listed }))
}

/// Bytes that an entry of the list of segments takes in all but extraordinary stores.
pub(crate) const LIST_ENTRY_LEN: u64 = 32;

/// Bytes that the list of so many segments takes at most, when one more is opened for it.
pub(crate) const fn list_len(segments: usize) -> u64 {
    64 + (segments as u64 + 1) * LIST_ENTRY_LEN_MAX
}

/// Appends the list of live segments. All writers wait meanwhile.
pub(crate) fn append_list(engine: &Engine, tail: &mut Tail, next_namespace: u32) -> Result<Cut> {
    let log = &engine.log;
    // The list names the segment that it stands in, and its own place: it may not open a segment while it is appended.
    let room = log.make_room(tail, |tail| list_len(tail.segments.len()))?;
    let mut segments: Vec<_> = tail.segments.values().copied().collect();
    if let Some(last) = segments.last_mut() {
        last.end = room.position;
    }
    let listed = segments.iter().map(|segment| segment.extent + segment.extents).max().unwrap_or(0);
    // Whatever the book-keeping says, a reader refuses more than there is room for.
    let figures = segments.iter().map(|segment| {
        let live = log.ledger.live(segment.extent).min(segment.len(log.geometry));
        let tombstones = log.ledger.tombstones(segment.extent).min(segment.len(log.geometry) - live);
        Figures { live, tombstones, ..Figures::default() }
    });
    let figures = figures.collect();
    let value =
        Roster { segments, figures, next_namespace, next_event: tail.next_event, ..Roster::default() }.encode(log.geometry);
    let mut placed = Vec::new();
    log.append_locked(tail, &[FrameSpec::control(Kind::Checkpoint, &value)], Purpose::BookKeeping, &mut placed)?;
    match placed.first() {
        Some(placed) if placed.offset == room.position => {
            let cut = Cut { segment: room.segment, offset: placed.offset, end: placed.offset + placed.len, listed };
            log.claim_again(tail)?;
            Ok(cut)
        }
        _ => Err(log.poison(Error::corrupt(room.position, "a checkpoint that did not land where it was planned"))),
    }
}

/// Takes a segment for parts of the snapshot, with room for `wanted` bytes if there is space, or else for `needed`, and writes its header.
fn take_segment(engine: &Engine, wanted: u64, needed: u64) -> Result<SnapshotSegment> {
    let log = &engine.log;
    let (run, segment, header) = {
        let mut tail = log.tail.lock();
        let take = |tail: &mut Tail, bytes: u64| log.take(tail, SEGMENT_HEADER_LEN as u64 + bytes, Purpose::Store);
        let run = match take(&mut tail, wanted.max(needed)) {
            Err(Error::NoSpace) if needed < wanted => take(&mut tail, needed)?,
            run => run?,
        };
        let generation = log.superblocks.lock().current.generation;
        // Whatever becomes of this attempt, the next one gets another number, and so another salt.
        let number = tail.next_header;
        log.took_header(&mut tail);
        let drawn = if is(Bug::SaltOfAttemptAgain) { u64::from(run.extent) } else { number };
        let salt = salt(log.store_id, generation, drawn, log.entropy);
        let named = Next { extent: run.extent, extents: run.extents, base: tail.next_base, salt };
        log.claim(&mut tail, named)?;
        let header = SegmentHeader {
            salt,
            kind: SegmentKind::Snapshot,
            base: tail.next_base,
            extents: run.extents,
            carried_over: 0,
            previous_base: 0,
            previous_salt: 0,
            previous_end: 0,
            synced: log.sync_state.synced(),
            session: log.session(),
            number,
            fresh: run.fresh,
            linked: false,
        };
        let end = log.geometry.start(run.extent) + SEGMENT_HEADER_LEN as u64;
        (run, SnapshotSegment { extent: run.extent, extents: run.extents, salt, end, own: true }, header)
    };
    let start = log.geometry.start(run.extent);
    match log.storage.write_at(start, &[&header.encode(log.store_id, start)]) {
        Ok(()) => Ok(segment),
        Err(error) => {
            log.tail.lock().space.release(run.extent, run.extents, true);
            Err(error.into())
        }
    }
}

fn write_snapshot(
    engine: &Engine,
    plan: &Plan,
    before: &Directory,
    listed: &Listed,
    taken: &mut Vec<SnapshotSegment>,
) -> Result<(Directory, DirectoryPlace)> {
    let log = &engine.log;
    let wanted = Cell::new(plan.whole.unwrap_or(0));
    let take = |bytes: u64| take_segment(engine, wanted.take(), bytes);
    let mut writer = SnapshotWriter::new(&*log.storage, log.geometry, &take, taken)?;
    let mut next = Directory::default();
    let known = if plan.whole.is_some() { (None, 0) } else { (before.names, before.names_hash) };
    let names = listed.names.iter().map(|(name, number, options)| (name.as_str(), *number, &**options));
    let (names, hash) = writer.names(listed.next, names, known)?;
    (next.names, next.names_hash) = (Some(names), hash);
    log.ledger.clear_late();
    let is_new = |offset: u64| plan.is_new(log.geometry, offset);
    // Held together, so that a commit that waits for one of them waits once for all, and so does this for the commit.
    let together = SHARDS * DUMPED_TOGETHER / (engine.index.len_all() as usize + DUMPED_TOGETHER) + 1;
    for first in (0..SHARDS).step_by(together) {
        let mut held = engine.lock_shards(first..SHARDS.min(first + together))?;
        let dump = |(shard, guard): (usize, &mut ShardGuard<'_>)| {
            let has_parts = plan.whole.is_none() && !before.parts_of(shard).is_empty();
            (shard, guard.dump(if has_parts { Some(&is_new) } else { None }))
        };
        let dumps: Vec<(usize, Dump)> = (first..).zip(held.iter_mut()).map(dump).collect();
        drop(held);
        for (shard, dump) in dumps {
            let mut parts = Vec::new();
            match dump {
                Dump::Unchanged => parts.extend_from_slice(before.parts_of(shard)),
                Dump::Changes(mut changes) => {
                    changes.sort();
                    parts.extend_from_slice(before.parts_of(shard));
                    parts.push(writer.changes(shard, &changes)?);
                }
                Dump::Whole(image) if image.slots.is_empty() => {}
                Dump::Whole(mut image) => {
                    image.sort();
                    parts.push(writer.shard(shard, &image)?);
                }
            }
            if !parts.is_empty() {
                next.shards.push((shard, parts));
            }
        }
    }
    next.uses = {
        let _writers = engine.lock_all()?;
        let tail = log.tail.lock();
        // As in the list: a reader refuses more than there is room for.
        let of = |segment: &Segment| {
            let live = log.ledger.live_at_dump(segment.extent).min(segment.len(log.geometry));
            let tombstones = log.ledger.tombstones(segment.extent).min(segment.len(log.geometry) - live);
            SegmentUse { base: segment.base, live, tombstones }
        };
        tail.segments.values().map(of).collect()
    };
    next.segments.extend_from_slice(if plan.whole.is_some() { &[] } else { &before.segments });
    writer.finish(next)
}

/// The commit point: a superblock that points at the list and at the snapshot. It is written to both slots, one after the other, so
/// that a damaged one never leads back to a state whose space has been used again.
fn publish(
    engine: &Engine,
    cut: Cut,
    before: &Directory,
    (next, directory): (&Directory, Option<DirectoryPlace>),
    taken: &[SnapshotSegment],
) -> Result<()> {
    let log = &engine.log;
    let place = CheckpointPlace { base: cut.segment.base, salt: cut.segment.salt, offset: cut.offset, directory };
    let synced = log.sync_state.synced();
    for _ in 0..2 {
        log.flip(&|superblock| Superblock { checkpoint: Some(place), synced: superblock.synced.max(synced), ..superblock })?;
    }
    log.set_checkpoint(cut.segment.lsn(log.geometry, cut.offset));
    let mut tail = log.tail.lock();
    tail.space.listed = cut.listed;
    tail.snapshot.clone_from(&next.segments);
    // Places that nothing of the snapshot stands in any more, or not yet.
    for segment in before.segments.iter().chain(taken) {
        let used = next.segments.iter().find(|other| other.salt == segment.salt).map_or(0, |other| other.extents);
        let (first, count) = (segment.extent + used, segment.extents - used);
        if count > 0 {
            let backed = segment.own || log.set_found_aside(first, count);
            tail.space.release(first, count, backed);
        }
    }
    Ok(())
}
