//! Compaction: what lives in a segment is appended again at the end of the log, and the segment is retired. Readers and writers go
//! on beside it; one free segment is enough.

use crate::engine::{Engine, FullKey, GROUP};
use crate::error::Result;
use crate::frame::{FrameSpec, HEADER_LEN_MAX, Kind};
use crate::index::KeyHash;
use crate::log::{Frame, Placed, Purpose, Segment};
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::scan::{Found, Stretch, scan};
use crate::stranded;
use alloc::vec::Vec;

/// Room for the frames that say what was done: less than this is no gain.
pub(crate) const SLACK: u64 = 256;
/// Segments that are emptied for one sync at most: each is held against all of them, and where everything is dead there are no copies that
/// would end the group.
const EMPTIED_MAX: usize = 64;
/// Records of a segment that are looked at for the padding behind them.
const PADDED_FRAMES_MAX: usize = 64;

/// What a compaction did.
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// for n in 0..1000_u32 {
///     db.insert("counter", n.to_le_bytes())?; // 999 of these are dead
/// }
/// let report = db.compact()?;
/// println!("{} records copied, {} bytes freed", report.records_copied, report.bytes_freed);
/// assert_eq!(db.len()?, 1);
/// # Ok::<(), pipkin::Error>(())
/// ```
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
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.compact_with(|progress| println!("{} of {} segments", progress.segments_done, progress.segments_total))?;
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactProgress {
    /// Segments done.
    pub segments_done: u64,
    /// Segments to do in all.
    pub segments_total: u64,
}

/// Segments that compaction may take: those in front of the newest checkpoint, for a reopen needs what comes behind it, but for those behind whose
/// end records stand that nobody has given up.
pub(crate) fn candidates(engine: &Engine) -> Vec<Segment> {
    candidates_below(engine, replayed_from(engine))
}

/// Base of the segment with the newest checkpoint.
fn replayed_from(engine: &Engine) -> u64 {
    engine.log.newest_checkpoint().map_or(0, |place| place.base)
}

/// Those that would be candidates with a checkpoint in the segment of this base.
pub(crate) fn candidates_below(engine: &Engine, replay_from: u64) -> Vec<Segment> {
    // What nobody could look at stays, and what a copy would make look certain.
    let is_in_doubt = |segment: &Segment| engine.doubt.get().is_some_and(|doubt| doubt.holds(segment.extent));
    let stays = |segment: &Segment| is_in_doubt(segment) || stranded::is_kept(engine, segment);
    engine.log.segments().into_iter().filter(|segment| segment.base < replay_from && !stays(segment)).collect()
}

/// Bytes of what is kept that [`drop_stranded`](crate::Db::drop_stranded) would free: of segments whose records there is room for elsewhere,
/// and behind the end of a torn one in which the log could go on. None while the reserve is there: space is short for another reason then.
pub(crate) fn kept_for_stranded(engine: &Engine) -> u64 {
    let log = &engine.log;
    if log.has_reserve() {
        return 0;
    }
    let (torn, unlisted) = (log.torn_end(), log.unlisted());
    let (listed_below, room) = (replayed_from(engine), log.room_of_active());
    let kept = log.segments().into_iter().filter(|segment| stranded::is_kept(engine, segment));
    let freed = kept.map(|segment| {
        let is = |other: &Segment| other.base == segment.base;
        let fits = segment.base < listed_below && needed_bytes(engine, &segment, false) <= room.max(SLACK);
        if fits || unlisted.iter().any(is) {
            segment.len(log.geometry)
        } else if torn.as_ref().is_some_and(is) {
            segment.limit(log.geometry) - segment.end
        } else {
            0
        }
    });
    freed.sum()
}

/// True when nothing older than the first of these segments is left, but for what is being emptied.
pub(crate) fn begins_with_oldest(engine: &Engine, segments: &[Segment], emptying: Option<&Emptying<'_>>) -> bool {
    let oldest = engine.log.oldest(&|segment| emptying.is_some_and(|emptying| emptying.holds(segment)));
    oldest.map(|oldest| oldest.base) == segments.first().map(|first| first.base)
}

/// The bytes that a segment keeps from others, unless it is the active one: what a crash has left behind its last record serves nobody.
pub(crate) fn taken_bytes(engine: &Engine, segment: &Segment) -> u64 {
    let geometry = engine.log.geometry;
    segment.limit(geometry) - segment.first_frame(geometry)
}

/// The bytes that compacting a segment would free, if that is at least one part in `parts` of the `taken` ones; otherwise `None`.
///
/// Records that are long for their segments leave padding behind them, and would at any other place: it is not counted, nor is what the
/// compaction itself would write, unless it is most of
/// the segment. Then shorter records stand there, behind which others will fit.
pub(crate) fn gain(engine: &Engine, segment: &Segment, taken: u64, oldest: bool, parts: f64) -> Option<u64> {
    let is_enough = |bytes: &u64| *bytes as f64 * parts >= taken as f64 && *bytes >= SLACK;
    let dead = Some(taken.saturating_sub(kept_bytes(engine, segment, oldest))).filter(is_enough)?;
    if dead * 8 > taken * 5 {
        return Some(dead);
    }
    Some(dead.saturating_sub(overhead(engine, segment))).filter(is_enough)
}

/// Bytes of padding, marks and retirements of a segment of few records, which copies of these would need again. Where there are more records,
/// it is less than the least that anybody asks for.
fn overhead(engine: &Engine, segment: &Segment) -> u64 {
    let (mut position, mut bytes) = (segment.first_frame(engine.log.geometry), 0);
    for _ in 0..PADDED_FRAMES_MAX {
        // What stands behind the segment is not for us to read: others may write there, and where it is a hole on a full tmpfs, a look
        // through the map ends the process.
        if position + HEADER_LEN_MAX as u64 > segment.end {
            break;
        }
        match engine.log.header(position) {
            Ok(header) => {
                let len = header.frame_len() as u64;
                bytes += if matches!(header.kind, Kind::Pad | Kind::Mark | Kind::Retire) { len } else { 0 };
                position += len;
            }
            Err(_) => break,
        }
    }
    bytes
}

/// How many of these segments, from the oldest on, are worth emptying together for the sake of their tombstones, which can go only once
/// nothing older is left: in all they take at least one part in `parts` of what lives there. Cold records in front of many
/// tombstones would keep them for ever otherwise.
pub(crate) fn front_of_tombstones(engine: &Engine, segments: &[Segment], parts: f64) -> usize {
    let ledger = &engine.log.ledger;
    let (mut tombstones, mut live, mut count) = (0, 0, 0);
    for (number, segment) in (1..).zip(segments) {
        let own = ledger.tombstones(segment.extent);
        tombstones += own;
        live += ledger.live(segment.extent);
        if own > 0 && tombstones as f64 * parts >= live as f64 {
            count = number;
        }
    }
    count
}

/// The bytes of a segment that compacting it would copy. Only in the oldest segment a tombstone has nothing older to hide.
fn kept_bytes(engine: &Engine, segment: &Segment, oldest: bool) -> u64 {
    let ledger = &engine.log.ledger;
    ledger.live(segment.extent) + if oldest { 0 } else { ledger.tombstones(segment.extent) }
}

/// The bytes that emptying a segment takes elsewhere.
pub(crate) fn needed_bytes(engine: &Engine, segment: &Segment, oldest: bool) -> u64 {
    kept_bytes(engine, segment, oldest) + SLACK
}

/// Segments that are emptied together: what lives in them is copied forward, then one sync is for all of them, then they are retired.
pub(crate) struct Emptying<'a> {
    engine: &'a Engine,
    emptied: Vec<Segment>,
    /// Bytes copied since the last sync, and how many may be.
    copied: u64,
    copied_max: u64,
}

impl<'a> Emptying<'a> {
    /// One sync is for `copied_max` bytes, or somewhat more.
    pub(crate) const fn new(engine: &'a Engine, copied_max: u64) -> Self {
        Self { engine, emptied: Vec::new(), copied: 0, copied_max }
    }

    /// True when `segment` has been emptied and waits to be retired.
    pub(crate) fn holds(&self, segment: &Segment) -> bool {
        self.emptied.iter().any(|emptied| emptied.base == segment.base)
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.emptied.is_empty()
    }

    /// True when `segment` should wait until what was emptied has been retired: much waits for the sync, or many segments do, or there is no
    /// room for what lives in it now.
    pub(crate) fn is_full_for(&self, segment: &Segment) -> bool {
        let is_much = self.copied >= self.copied_max || self.emptied.len() >= EMPTIED_MAX;
        let needed = || kept_bytes(self.engine, segment, self.is_oldest(segment)) + SLACK;
        !self.is_none() && (is_much || !self.engine.log.has_room(needed()))
    }

    /// Nothing older is left that this has not emptied. What it has emptied is retired before `segment` is.
    fn is_oldest(&self, segment: &Segment) -> bool {
        self.engine.log.oldest(&|first| self.holds(first)).is_none_or(|first| first.base == segment.base)
    }

    /// Copies what lives in `segment` forward. The caller sees to it that there is one compaction at a time; `pace` hears how many bytes
    /// have been copied so far, and may take its time. A segment with damage that still counts is set aside when all the rest has been copied.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`](crate::Error::NoSpace) before anything is copied, when there is no room for what lives.
    pub(crate) fn empty(&mut self, segment: &Segment, pace: &mut dyn FnMut(u64)) -> Result<CompactReport> {
        let (engine, log) = (self.engine, &self.engine.log);
        log.writable()?;
        // Nothing reuses the segment while this pin lives.
        let pin = engine.pins.pin();
        let oldest = self.is_oldest(segment);
        log.secure(kept_bytes(engine, segment, oldest) + SLACK, &|| longest(engine, segment))?;
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
                        copy_group(engine, &pin, &group, &mut report)?;
                        group.clear();
                        pace(report.bytes_copied);
                    }
                }
                Found::Damage(place) if is(Bug::CompactUnchecked) => resign(engine, place.offset, &mut report)?,
                Found::Damage(place) => damage.push(place),
            }
            Ok(())
        })?;
        copy_group(engine, &pin, &group, &mut report)?;
        pace(report.bytes_copied);
        log.write_behind();
        self.copied += report.bytes_copied;
        if engine.forget_damage(segment, oldest, &damage)? {
            self.emptied.push(*segment);
            report.segments_retired = 1;
        }
        Ok(report)
    }

    /// Retires what has been emptied. Its place is free after another sync, when nobody reads it any more.
    pub(crate) fn retire(&mut self) -> Result<()> {
        let log = &self.engine.log;
        // The copies first, then the frames that say so: a crash in between finds both places, and the later one wins.
        log.sync_to(log.end())?;
        self.copied = 0;
        // In the order in which they were emptied: a tombstone is gone only where everything older is.
        self.emptied.drain(..).try_for_each(|segment| log.retire(&self.engine.pins, segment))
    }
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

/// Copies the records and tombstones of a group that still count.
fn copy_group(engine: &Engine, pin: &Pin<'_>, group: &[u64], report: &mut CompactReport) -> Result<()> {
    let mut frames = Vec::with_capacity(group.len());
    for &offset in group {
        let frame = engine.log.frame(offset)?;
        let hash = engine.full_key(frame.header.namespace, frame.key()).hash;
        // All of them are on their way before the first is looked at.
        engine.index.prefetch(pin, hash);
        frames.push((hash, frame));
    }
    for (hash, frame) in &frames {
        match frame.header.kind {
            Kind::Put => copy_put(engine, frame, *hash, report)?,
            kind if kind.is_carried() => carry(engine, frame, report)?,
            _ => copy_tombstone(engine, frame, *hash, report)?,
        }
    }
    Ok(())
}

/// Appends a record again if it is the one that the index knows, under the lock that its writers hold: a copy can never overtake
/// a newer write.
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
    let spec = FrameSpec { kind: Kind::Put, continues: false, meta: frame.meta().copied(), key, value: frame.value() };
    let new = engine.log.append_one(&spec, Purpose::MakeSpace)?;
    let old = Placed { offset: frame.offset, len: frame.header.frame_len() as u64 };
    engine.publish_put(&mut shard, full_key, if lives { Some(old) } else { current }, new);
    report.records_copied += 1;
    report.bytes_copied += new.len;
    Ok(())
}

/// Appends a record again that no index of this build points at: it is kept as long as its segment's records are.
fn carry(engine: &Engine, frame: &Frame<'_>, report: &mut CompactReport) -> Result<()> {
    let log = &engine.log;
    let spec = FrameSpec {
        kind: frame.header.kind,
        continues: false,
        meta: frame.meta().copied(),
        key: frame.key(),
        value: frame.value(),
    };
    let placed = log.append_one(&spec, Purpose::MakeSpace)?;
    log.ledger.change_live(log.geometry.extent_of(placed.offset), placed.len as i64, false);
    log.ledger.change_live(log.geometry.extent_of(frame.offset), -(frame.header.frame_len() as i64), false);
    report.records_copied += 1;
    report.bytes_copied += placed.len;
    Ok(())
}

/// Appends a tombstone again: an older segment may still hold a record of its key. Not if the key lives: its record is further along
/// the log than the tombstone, and hides whatever is older just as well.
fn copy_tombstone(engine: &Engine, frame: &Frame<'_>, hash: KeyHash, report: &mut CompactReport) -> Result<()> {
    if is(Bug::TombstoneDroppedEarly) {
        return Ok(());
    }
    let (namespace, key) = (frame.header.namespace, frame.key());
    let shard = engine.lock(hash)?;
    if engine.find_locked(&shard, FullKey { namespace, key, hash })?.is_some() {
        return Ok(());
    }
    let spec = FrameSpec { kind: Kind::Tombstone, continues: false, meta: frame.meta().copied(), key, value: frame.value() };
    let placed = engine.log.append_one(&spec, Purpose::MakeSpace)?;
    engine.log.ledger.add_tombstone(engine.log.geometry.extent_of(placed.offset), placed.len);
    report.records_copied += 1;
    report.bytes_copied += placed.len;
    Ok(())
}

/// The planted bug of copying without a look at the checksum.
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
