//! Building the index: from the snapshot, or from the segments before the checkpoint, and then from the tail. With a snapshot
//! nothing is built yet: each shard is parked, and built when it is first needed.

use super::chain::Chain;
use super::{OpenReport, SnapshotState};
use crate::doubt::Doubt;
use crate::engine::{Engine, Origin};
use crate::error::{Error, Result};
use crate::frame::{Header, Kind, NAMESPACE_OF_NAMES};
use crate::index::SHARDS;
use crate::limits::NAMESPACE_NUMBER_MAX;
use crate::log::{Segment, Window};
use crate::names::Names;
use crate::planted::{Bug, is};
use crate::scan::{Damage, Found, Stretch, scan};
use crate::snapshot::{self, NamedNumber, SegmentUse};
use crate::sorted::{Hashes, Set};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Fills the index of `engine` from the log; returns the namespaces.
pub(crate) fn rebuild(engine: &Engine, chain: &Chain, report: &mut OpenReport) -> Result<Names> {
    let mut replay = Replay { engine, names: Names::default(), records: 0, damage: None, settled: Hashes::default() };
    replay.names.next = replay.names.next.max(chain.listed.next_namespace);
    let live = chain.counting_segments();
    for segment in live.iter().chain(&chain.tail) {
        engine.log.segment_stats.enter(engine.log.geometry, segment);
    }

    report.snapshot = replay.park_snapshot(chain)?;
    let parked = report.snapshot == SnapshotState::Loaded;
    if !parked {
        for segment in in_log_order(&live) {
            replay.segment(&segment)?;
            report.replayed_bytes += segment.end - segment.first_frame(engine.log.geometry);
        }
        report.unsure_at = replay.doubt(&live)?;
    }
    let late = is(Bug::SnapshotCutTooLate) && parked;
    let ops = chain.ops.get(usize::from(late)..).unwrap_or_default();
    let mut window = Window::new(&*engine.log.storage, engine.log.storage.len()?);
    for op in ops {
        if let Some(len) = op.carried {
            engine.log.segment_stats.change_live(engine.log.geometry.extent_of(op.offset), len as i64, false);
            #[cfg(feature = "events")]
            if parked && !is(Bug::EventsBehindSnapshotForgotten) {
                engine.events.found_behind_snapshot(op.offset);
            }
            continue;
        }
        if op.namespace == NAMESPACE_OF_NAMES {
            replay.name_at(op.offset, &mut window)?;
        }
        let mut shard = engine.index.lock_shard(op.hash.shard());
        if parked {
            shard.park().later.push(op.offset);
        } else {
            engine.apply_at(&mut shard, op.offset, &mut window)?;
        }
    }
    replay.records += ops.len() as u64;
    if parked {
        replay.remember_origin(chain);
    } else if report.unsure_at.is_none() {
        // Otherwise the damaged record may be the name of a namespace that seems deleted.
        let living = Set::collect(replay.names.pairs().map(|(_, number)| number).chain([NAMESPACE_OF_NAMES]).map(u64::from));
        let dead = |number: u32| !living.contains(number.into());
        for shard in 0..SHARDS {
            engine.purge(shard, &mut engine.lock_shard(shard)?, &dead)?;
        }
    }
    report.replayed_bytes += chain.tail_bytes;
    report.replayed_records = replay.records;
    Ok(replay.names)
}

fn in_log_order(segments: &[Segment]) -> Vec<Segment> {
    let mut segments = segments.to_vec();
    if is(Bug::ReplayByPlace) {
        segments.sort_unstable_by_key(|segment| core::cmp::Reverse(segment.extent));
    }
    segments
}

struct Replay<'a> {
    engine: &'a Engine,
    names: Names,
    records: u64,
    /// The newest damage, and its segment.
    damage: Option<(Damage, Segment)>,
    /// Hashes of the keys that were removed after it.
    settled: Hashes,
}

impl Replay<'_> {
    /// Notes which keys are in doubt, if the index was built across damage. Returns the file offset of the damage.
    fn doubt(&mut self, live: &[Segment]) -> Result<Option<u64>> {
        let Some((damage, segment)) = self.damage.take() else { return Ok(None) };
        self.engine.is_damage(damage.offset)?;
        let before: Vec<Segment> = live.iter().filter(|other| other.base < segment.base).copied().collect();
        let doubt = Doubt::new(self.engine.log.geometry, &damage, &segment, &before, core::mem::take(&mut self.settled));
        // Opening is the only one to set it, and does so once.
        let _ = self.engine.doubt.set(Box::new(doubt));
        self.engine.index.doubt_all();
        Ok(Some(damage.offset))
    }

    /// Parks the shards of the snapshot, if there is a valid one.
    fn park_snapshot(&mut self, chain: &Chain) -> Result<SnapshotState> {
        let Engine { log, index, .. } = self.engine;
        let mut directory = self.engine.checkpoints.lock();
        if directory.segments.is_empty() {
            return Ok(SnapshotState::None);
        }
        let (next_namespace, names) = match snapshot::load(&*log.storage, &mut directory) {
            Ok(loaded) => loaded,
            Err(Error::Corrupt { .. }) => {
                // Its segments stay occupied until the next snapshot is durable.
                directory.forget_parts();
                return Ok(SnapshotState::Damaged);
            }
            Err(error) => return Err(error),
        };
        let len_of = |base: u64| {
            let find = |segments: &[Segment]| {
                segments.binary_search_by_key(&base, |segment| segment.base).ok().and_then(|place| segments.get(place)).copied()
            };
            find(&chain.listed.segments).or_else(|| find(&chain.tail)).map_or(u64::MAX, |segment| segment.len(log.geometry))
        };
        // Compaction would reserve as much space as these figures claim.
        let fits = |part: &SegmentUse| part.live.checked_add(part.tombstones).is_some_and(|bytes| bytes <= len_of(part.base));
        if !directory.uses.iter().all(fits) {
            directory.forget_parts();
            return Ok(SnapshotState::Damaged);
        }
        for &(shard, _) in &directory.shards {
            index.lock_shard(shard).park();
        }
        for NamedNumber { name, number, options } in &names {
            self.names.set(name, *number, options);
        }
        self.names.next = self.names.next.max(next_namespace);
        let extent_in = |segments: &[Segment], base: u64| {
            let place = segments.binary_search_by_key(&base, |segment| segment.base).ok()?;
            segments.get(place).map(|segment| segment.extent)
        };
        for part in directory.uses.iter().filter(|part| !chain.retired.contains(part.base)) {
            if let Some(extent) = extent_in(&chain.listed.segments, part.base) {
                log.segment_stats.set(extent, part.live, part.tombstones);
            } else if let Some(extent) = extent_in(&chain.tail, part.base) {
                // Begun while the snapshot was written. Replaying a live record that the snapshot has replaces it by itself and does not
                // count it again; replaying a tombstone does.
                log.segment_stats.set(extent, part.live, 0);
            }
        }
        Ok(SnapshotState::Loaded)
    }

    /// Keeps the state at opening that building a parked shard needs.
    fn remember_origin(&self, chain: &Chain) {
        let retired = chain.listed.segments.iter().filter(|segment| chain.retired.contains(segment.base));
        let retired = retired.flat_map(|segment| segment.extent..segment.extent + segment.extents);
        let origin = Origin {
            snapshot: self.engine.checkpoints.lock().clone(),
            retired: Set::collect(retired.chain(chain.stale.iter().copied()).map(u64::from)),
            namespaces: Set::collect(self.names.pairs().map(|(_, number)| number).chain([NAMESPACE_OF_NAMES]).map(u64::from)),
        };
        if origin.snapshot.knows_expiring {
            // The others learn it when they are built.
            let unparked = (0..SHARDS).filter(|&number| !self.engine.index.is_parked_at(number));
            unparked.for_each(|number| self.engine.index.lock_shard(number).set_knows_expiring());
        }
        // Opening is the only one to set it, and does so once.
        let _ = self.engine.origin.set(Box::new(origin));
    }

    /// Applies every record of a segment before the checkpoint: all its commits are complete.
    fn segment(&mut self, segment: &Segment) -> Result<()> {
        let log = &self.engine.log;
        let (salt, from, to) = (segment.salt, segment.first_frame(log.geometry), segment.end);
        let mut window = Window::new(&*log.storage, to);
        scan(&*log.storage, Stretch { salt, from, to, full: true }, &mut |found| match found {
            Found::Damage(damage) => {
                self.damage = Some((damage, *segment));
                self.settled.clear();
                Ok(())
            }
            Found::Frame { offset, header } => self.frame(segment, offset, &header, &mut window),
        })
    }

    fn frame(&mut self, segment: &Segment, offset: u64, header: &Header, window: &mut Window<'_>) -> Result<()> {
        if header.kind.is_carried() {
            self.engine.log.segment_stats.change_live(segment.extent, header.frame_len() as i64, false);
        }
        if !matches!(header.kind, Kind::Put | Kind::Tombstone) {
            return Ok(());
        }
        self.records += 1;
        if header.namespace == NAMESPACE_OF_NAMES {
            self.name_at(offset, window)?;
        }
        let frame;
        let key = if header.is_sealed() {
            frame = self.engine.log.frame(offset)?;
            frame.key()
        } else {
            window.bytes(offset + header.header_len() as u64, header.key_len())?
        };
        let key = self.engine.full_key(header.namespace, key);
        if header.kind == Kind::Tombstone && self.damage.is_some() {
            self.settled.insert(key.hash.bits());
        }
        let mut shard = self.engine.index.lock_shard(key.hash.shard());
        self.engine.apply(&mut shard, key, header, offset)
    }

    /// Applies the namespace record at `offset`, which has been verified.
    fn name_at(&mut self, offset: u64, window: &mut Window<'_>) -> Result<()> {
        let header = window.header(offset)?;
        if header.is_sealed() {
            let frame = self.engine.log.frame(offset)?;
            return self.apply_name(header.kind, offset, frame.key(), frame.value());
        }
        let bytes = window.bytes(offset, header.frame_len())?;
        let (name, value) = (header.key(bytes).unwrap_or_default(), header.value(bytes).unwrap_or_default());
        self.apply_name(header.kind, offset, name, value)
    }

    fn apply_name(&mut self, kind: Kind, offset: u64, name: &[u8], value: &[u8]) -> Result<()> {
        let malformed = || Error::corrupt(offset, "a namespace record");
        let name = core::str::from_utf8(name).map(String::from).map_err(|_| malformed())?;
        let number = u32::from_le_bytes(*value.first_chunk().ok_or_else(malformed)?);
        if number > NAMESPACE_NUMBER_MAX {
            return Err(malformed());
        }
        self.names.next = self.names.next.max(number + 1);
        match kind {
            Kind::Put => drop(self.names.set(&name, number, value.get(4..).unwrap_or_default())),
            _ if name.is_empty() => return Err(malformed()),
            _ => self.names.drop_name(&name),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
