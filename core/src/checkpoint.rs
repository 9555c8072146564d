//! A checkpoint: the list of live segments goes into the log, the index into a snapshot, and a superblock points at both. Reopening
//! then loads the snapshot and replays what came behind the list.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind};
use crate::index::{SHARDS, ShardGuard, ShardImage};
use crate::log::{
    CheckpointPlace, Cut, Figures, LIST_ENTRY_LEN_MAX, Purpose, Roster, SEGMENT_HEADER_LEN, Segment, SegmentHeader, SegmentKind,
    Superblock, Tail, salt,
};
use crate::names::Names;
use crate::planted::{Bug, is};
use crate::snapshot::{SegmentUse, SnapshotWriter, estimate};
use crate::sync::RwLock;
use alloc::string::String;
use alloc::vec::Vec;

/// About so many records are copied at a time: a fraction of a millisecond for those who wait.
const DUMPED_TOGETHER: usize = 32 * 1024;

/// Extents that a snapshot takes.
#[derive(Clone, Copy, Debug)]
struct SnapshotRun {
    extent: u32,
    extents: u32,
    fresh: bool,
    salt: u64,
    /// Number of its header.
    number: u64,
    /// Log position at which the next segment was going to begin.
    base: u64,
}

/// The namespaces at the moment of the cut.
struct Listed {
    next: u32,
    names: Vec<(String, u32)>,
}

/// Writes a checkpoint while others read and write. The caller sees to it that there is one at a time.
///
/// Without the space for a snapshot the checkpoint goes without: reopening takes longer, but compaction can free the segments in
/// front of it.
pub(crate) fn write(engine: &Engine, names: &RwLock<Names>) -> Result<()> {
    let log = &engine.log;
    log.writable()?;
    engine.build_all(&|| false)?;
    let _checkpoint = engine.checkpoints.lock();
    let run = match reserve_snapshot(engine, names) {
        Ok(run) => run,
        Err(Error::NoSpace) => return write_without_snapshot(engine, names),
        Err(error) => return Err(error),
    };
    match write_into(engine, names, run) {
        Ok(()) => Ok(()),
        Err(error) => {
            log.tail.lock().space.release(run.extent, run.extents, true);
            // The store grew faster than its snapshot was written; the checkpoint before still stands.
            if matches!(error, Error::NoSpace) { Ok(()) } else { Err(error) }
        }
    }
}

fn write_into(engine: &Engine, names: &RwLock<Names>, run: SnapshotRun) -> Result<()> {
    let log = &engine.log;
    let (cut, listed) = cut_log(engine, names)?;
    let written = write_snapshot(engine, run, &listed);
    engine.index.end_dump();
    let snapshot_len = written.map_err(|error| if matches!(error, Error::NoSpace) { error } else { log.poison(error) })?;
    if !is(Bug::SuperblockBeforeData) {
        log.sync_now()?;
    }
    publish(engine, cut, Some(run), snapshot_len)
}

fn write_without_snapshot(engine: &Engine, names: &RwLock<Names>) -> Result<()> {
    let (cut, _) = cut_log(engine, names)?;
    engine.log.sync_now()?;
    publish(engine, cut, None, 0)
}

/// Cuts the log in two, with no commit on both sides of the cut, and lists the namespaces as they are there.
fn cut_log(engine: &Engine, names: &RwLock<Names>) -> Result<(Cut, Listed)> {
    let _writers = engine.lock_all()?;
    let names = names.read();
    let mut tail = engine.log.tail.lock();
    let listed: Vec<(String, u32)> = names.pairs().map(|(name, number)| (name.into(), number)).collect();
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
    let value = Roster { segments, figures, next_namespace, ..Roster::default() }.encode(log.geometry);
    let mut placed = Vec::new();
    log.append_locked(tail, &[FrameSpec::control(Kind::Checkpoint, &value)], Purpose::BookKeeping, &mut placed)?;
    match placed.first() {
        Some(placed) if placed.offset == room.position => {
            Ok(Cut { segment: room.segment, offset: placed.offset, end: placed.offset + placed.len, listed })
        }
        _ => Err(log.poison(Error::corrupt(room.position, "a checkpoint that did not land where it was planned"))),
    }
}

fn reserve_snapshot(engine: &Engine, names: &RwLock<Names>) -> Result<SnapshotRun> {
    let log = &engine.log;
    let records = engine.index.len_all();
    let names = names.read();
    let mut tail = log.tail.lock();
    let need = estimate(records, &names, tail.segments.len(), log.storage.len()?);
    let run = log.take(&mut tail, need, Purpose::Store)?;
    let generation = log.superblocks.lock().current.generation;
    // Whatever becomes of this attempt, the next one gets another number, and so another salt.
    let number = tail.next_header;
    log.took_header(&mut tail);
    let salt = salt(log.store_id, generation, number, log.entropy);
    Ok(SnapshotRun { extent: run.extent, extents: run.extents, fresh: run.fresh, salt, number, base: tail.next_base })
}

fn write_snapshot(engine: &Engine, run: SnapshotRun, listed: &Listed) -> Result<u64> {
    let log = &engine.log;
    let start = log.geometry.start(run.extent);
    let limit = log.geometry.start(run.extent + run.extents);
    let header = SegmentHeader {
        salt: run.salt,
        kind: SegmentKind::Snapshot,
        base: run.base,
        extents: run.extents,
        carried_over: 0,
        previous_base: 0,
        previous_salt: 0,
        previous_end: 0,
        synced: log.sync_state.synced(),
        session: log.session(),
        number: run.number,
        fresh: run.fresh,
        linked: false,
    };
    log.storage.write_at(start, &[&header.encode(log.store_id, start)])?;
    let mut writer = SnapshotWriter::new(&*log.storage, run.salt, start, limit, log.storage.len()?);
    writer.names(listed.next, listed.names.iter().map(|(name, number)| (name.as_str(), *number)))?;
    log.ledger.clear_late();
    // Held together, so that a commit that waits for one of them waits once for all, and so does this for the commit.
    let together = SHARDS * DUMPED_TOGETHER / (engine.index.len_all() as usize + DUMPED_TOGETHER) + 1;
    for first in (0..SHARDS).step_by(together) {
        let mut held = engine.lock_shards(first..SHARDS.min(first + together))?;
        let images: Vec<ShardImage> = held.iter_mut().map(ShardGuard::dump).collect();
        drop(held);
        for (shard, mut image) in (first..).zip(images) {
            image.sort();
            writer.shard(shard, &image)?;
        }
    }
    let uses: Vec<SegmentUse> = {
        let _writers = engine.lock_all()?;
        let tail = log.tail.lock();
        let of = |segment: &Segment| SegmentUse {
            base: segment.base,
            live: log.ledger.live_at_dump(segment.extent),
            tombstones: log.ledger.tombstones(segment.extent),
        };
        tail.segments.values().map(of).collect()
    };
    writer.finish(&uses)
}

/// The commit point: a superblock that points at the list and at the snapshot. It is written to both slots, one after the other, so
/// that a damaged one never leads back to a state whose space has been used again.
fn publish(engine: &Engine, cut: Cut, run: Option<SnapshotRun>, snapshot_len: u64) -> Result<()> {
    let log = &engine.log;
    let place = CheckpointPlace {
        base: cut.segment.base,
        salt: cut.segment.salt,
        offset: cut.offset,
        snapshot_offset: run.map_or(0, |run| log.geometry.start(run.extent)),
        snapshot_len,
        snapshot_salt: run.map_or(0, |run| run.salt),
    };
    let synced = log.sync_state.synced();
    let before = log.superblocks.lock().current.checkpoint;
    for _ in 0..2 {
        log.flip(&|superblock| Superblock { checkpoint: Some(place), synced: superblock.synced.max(synced), ..superblock })?;
    }
    log.set_checkpoint(cut.segment.lsn(log.geometry, cut.offset));
    let mut tail = log.tail.lock();
    let extents_of = |offset: u64, len: u64| {
        let end = offset + SEGMENT_HEADER_LEN as u64 + len;
        log.geometry.extent_of(end - 1) + 1 - log.geometry.extent_of(offset)
    };
    tail.space.listed = cut.listed;
    if let Some(run) = run {
        let used = extents_of(log.geometry.start(run.extent), snapshot_len);
        tail.space.release(run.extent + used, run.extents - used, true);
    }
    if let Some(before) = before.filter(|before| before.snapshot_offset != 0) {
        let extents = extents_of(before.snapshot_offset, before.snapshot_len);
        let extent = log.geometry.extent_of(before.snapshot_offset);
        let backed = tail.snapshot_is_own || log.set_found_aside(extent, extents);
        tail.space.release(extent, extents, backed);
    }
    tail.snapshot_is_own = run.is_some();
    Ok(())
}
