//! Emptying segments: the live records of one are appended again at the end of the log, and the segment is retired. Reads and writes
//! continue meanwhile; one free segment is enough.

#[cfg(feature = "compress")]
use super::compressed::Recoded;
use super::report::CompactReport;
use super::sift::{Record, Sieve, TOGETHER_BYTES, whole};
use super::{ahead, choose, expired};
use crate::engine::{Engine, FullKey};
use crate::error::Result;
use crate::frame::{CopyMeta, FrameSpec, Kind, Meta, ORIGIN_LEN_MAX, event_number};
use crate::index::{KeyHash, SHARDS, ShardGuard};
use crate::log::{Copies, Dated, Frame, Placed, Purpose, Segment};
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::scan::{Damage, Found, scan};
use alloc::vec::Vec;

/// Most segments that are emptied per sync. Each new one is compared with all of them, and if everything is dead, no copied bytes would end
/// the group.
const EMPTIED_MAX: usize = 64;

/// Most records of a group, dead ones included. Writers of their shards wait until the live ones are copied.
const TOGETHER: usize = 64;

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
        let copies = &mut self.copies;
        #[cfg(feature = "compress")]
        let compressor = &self.compressor;
        let mut copy = |frames: &[Record<'_>], report: &mut CompactReport| {
            #[cfg(feature = "compress")]
            let recoded = recoded(engine, compressor, frames);
            #[cfg(not(feature = "compress"))]
            let recoded: [Option<Recoded>; 0] = [];
            copy_sifted(engine, &pin, (frames, &recoded), oldest, copies, report)?;
            #[cfg(feature = "ordered")]
            engine.make_many_moves();
            pace(report.bytes_copied);
            Ok(())
        };
        let damage = match ahead::sift(engine, segment, oldest, self.ahead, &mut |frames| copy(frames, &mut report))? {
            Some(damage) => damage,
            None => {
                let mut sieve = Sieve::new(engine, oldest, (TOGETHER, TOGETHER_BYTES));
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

    /// Retires the emptied segments. Their space is free after another sync, once no reader from before is left.
    pub(crate) fn retire(&mut self) -> Result<()> {
        let log = &self.engine.log;
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

/// What the copy of a record stores: its own metadata and value, or those with which it is compressed.
#[cfg(feature = "compress")]
fn stored<'a>(frame: &'a Frame<'_>, recoded: Option<&'a Recoded>) -> (Meta<'a>, &'a [u8]) {
    match recoded {
        Some(_) if is(Bug::CodecNotCopied) => (frame.meta(), recoded.map_or(&[], |recoded| &recoded.value)),
        Some(recoded) => (recoded.meta(), &recoded.value),
        None => (frame.meta(), frame.value()),
    }
}

#[cfg(not(feature = "compress"))]
fn stored<'a>(frame: &'a Frame<'_>, _: Option<&'a Recoded>) -> (Meta<'a>, &'a [u8]) {
    (frame.meta(), frame.value())
}

/// A build without compression copies every record as it is.
#[cfg(not(feature = "compress"))]
enum Recoded {}

/// The records of a group whose copies are compressed, by their places in it; none at all where nothing is.
#[cfg(feature = "compress")]
fn recoded(engine: &Engine, compressor: &super::compressed::Compressor, frames: &[Record<'_>]) -> Vec<Option<Recoded>> {
    if compressor.is_none() && !engine.log.holds_sealed() {
        return Vec::new();
    }
    frames.iter().map(|(_, frame)| compressor.recode(engine, frame)).collect()
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

/// What a copy of a record or a tombstone is to be. It says when the record was first written, unless that was before every living snapshot: then
/// it counts in all of them.
fn dated<'a>(engine: &Engine, frame: &'a Frame<'_>, recoded: Option<&'a Recoded>) -> Result<Dated<'a>> {
    // The copy gets a checksum of its own, and the bytes may have changed since they were verified.
    if !is(Bug::CompactUnchecked) {
        frame.check()?;
    }
    let (meta, value) = stored(frame, recoded);
    let begin = frame.meta().begin(engine.log.lsn(frame.offset));
    let oldest = engine.moments.oldest();
    let counts_in_all = oldest == 0 || begin < oldest || is(Bug::CopyWithoutOrigin);
    Ok(Dated {
        frame: FrameSpec { kind: frame.header.kind, continues: false, meta, key: frame.key(), value },
        begin: if counts_in_all { None } else { Some(begin) },
    })
}

/// Appends a copy of a record or a tombstone by itself.
fn append_copy(engine: &Engine, frame: &Frame<'_>, recoded: Option<&Recoded>) -> Result<Placed> {
    let (log, copy) = (&engine.log, dated(engine, frame, recoded)?);
    let placed = match copy.begin {
        None => {
            let meta = CopyMeta::new(&copy.frame.meta, None);
            log.append_one(&FrameSpec { meta: meta.meta(), ..copy.frame }, Purpose::MakeSpace)?
        }
        Some(begin) => log.append_with_origin(&copy.frame, begin, Purpose::MakeSpace)?,
    };
    engine.moments.made_copy(log.lsn(placed.offset));
    Ok(placed)
}

/// Appends copies while a snapshot lives, together; `None` if they must be appended one by one.
fn append_dated(engine: &Engine, wanted: &[Wanted<'_>], copies: &mut Copies) -> Result<Option<Vec<Placed>>> {
    // It saves other threads and the system calls, of which a page has none: there it would be a kilobyte more to download.
    if cfg!(not(feature = "std")) {
        return Ok(None);
    }
    let all = wanted.iter().map(|&(_, (frame, recoded), _)| dated(engine, frame, recoded)).collect::<Result<Vec<_>>>()?;
    engine.log.append_dated(&all, copies.room(), Purpose::MakeSpace)
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

/// Copies those of the records and tombstones that still count. Their shards are locked from the look-up until the index points at the
/// copies: a copy can never overtake a newer write.
fn copy_sifted(
    engine: &Engine,
    pin: &Pin<'_>,
    (frames, recoded): (&[Record<'_>], &[Option<Recoded>]),
    oldest: bool,
    copies: &mut Copies,
    report: &mut CompactReport,
) -> Result<()> {
    engine.prefetch_slots(pin, frames.iter().map(|&(hash, _)| hash));
    let indexed = frames.iter().filter(|(_, frame)| !frame.header.kind.is_carried());
    let mut shards = Shards::lock(engine, frames.len(), indexed.map(|&(hash, _)| hash))?;
    // Behind the shards, as a commit does: an event that is in the log and not yet in the index would be entered where it was.
    #[cfg(feature = "events")]
    let _appending =
        if frames.iter().any(|(_, frame)| frame.header.kind.is_carried()) { Some(engine.events()?.lock()) } else { None };
    let mut wanted = Vec::with_capacity(frames.len());
    // While a snapshot lives, copies may need origins.
    let are_dated = engine.moments.oldest() != 0;
    copies.clear();
    for (number, (hash, frame)) in frames.iter().enumerate() {
        let key = FullKey { namespace: frame.header.namespace, key: frame.key(), hash: *hash };
        if frame.header.kind == Kind::Put
            && frame.header.expires()
            && let Some(shard) = shards.of(*hash)
            && expired::shrink(engine, shard, key, frame, oldest, report)?
        {
            continue;
        }
        #[cfg(feature = "events")]
        if frame.header.kind.is_carried() && !engine.needs_event(frame, oldest)? {
            continue;
        }
        if let Some(what) = what_counts(engine, shards.of(*hash), key, frame)? {
            let recoded = recoded.get(number).and_then(Option::as_ref);
            match recoded {
                _ if are_dated => {}
                None => copies.push(frame),
                #[cfg(feature = "compress")]
                Some(_) => {
                    let (meta, value) = stored(frame, recoded);
                    let meta = CopyMeta::new(&meta, None);
                    copies.push_new(&FrameSpec { kind: Kind::Put, continues: false, meta: meta.meta(), key: key.key, value });
                }
                #[cfg(not(feature = "compress"))]
                Some(never) => match *never {},
            }
            wanted.push((key, (frame, recoded), what));
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let places =
        if are_dated { append_dated(engine, &wanted, copies)? } else { engine.log.append_copies(copies, Purpose::MakeSpace)? };
    if let Some(last) = places.as_ref().and_then(|places| places.last()) {
        engine.moments.made_copy(engine.log.lsn(last.offset));
    }
    copy_wanted(engine, &mut shards, &wanted, places, report)
}

/// A record that is to be copied, as it is or compressed, and why.
type Wanted<'a> = (FullKey<'a>, (&'a Frame<'a>, Option<&'a Recoded>), Counts);

/// Makes the index point at the copies, which are at `places`; without these, appends them one by one.
fn copy_wanted(
    engine: &Engine,
    shards: &mut Shards<'_>,
    wanted: &[Wanted<'_>],
    places: Option<Vec<Placed>>,
    report: &mut CompactReport,
) -> Result<()> {
    #[cfg(feature = "ordered")]
    let mut moves = wanted.iter().any(|(key, ..)| engine.gathers_moves(key.namespace)).then(|| engine.moves.lock());
    // Numbers and new places.
    let mut events: Vec<(u64, Placed)> = Vec::new();
    let (mut from, mut to) = (engine.log.segment_stats.tally(), engine.log.segment_stats.tally());
    for (number, &(key, (frame, recoded), what)) in wanted.iter().enumerate() {
        let len = frame.header.frame_len() as u64;
        let new = match places.as_ref().and_then(|places| places.get(number)) {
            Some(&place) => place,
            None => append_copy(engine, frame, recoded)?,
        };
        let old = Placed { offset: frame.offset, len };
        match (what, shards.of(key.hash)) {
            (Counts::Live, Some(shard)) => {
                #[cfg(feature = "ordered")]
                if let Some(moves) = moves.as_mut().filter(|_| engine.gathers_moves(key.namespace) && !is(Bug::MovesForgotten)) {
                    moves.push(key.namespace, key.key, old.offset, new.offset);
                }
                engine.publish_copy_tallied(shard, key, (old, &mut from), (new, &mut to));
                if let Some(expiry) = frame.expiry() {
                    engine.expires(shard, key.hash.slot(new.offset), expiry);
                }
            }
            (Counts::Overtaken(current), Some(shard)) => engine.publish_copy(shard, key, current, new),
            (Counts::Hides, _) => {
                engine.log.segment_stats.add_tombstone(engine.log.geometry.extent_of(new.offset), new.len);
            }
            _ => {
                from.add(engine.log.geometry.extent_of(old.offset), -(len as i64), false);
                to.add(engine.log.geometry.extent_of(new.offset), new.len as i64, false);
                events.push((event_number(frame.value()), new));
            }
        }
        report.records_copied += 1;
        report.bytes_copied += new.len;
    }
    #[cfg(feature = "events")]
    if !events.is_empty() && !is(Bug::EventsNotMoved) {
        engine.events.moved(&engine.log, &events);
    }
    Ok(())
}

/// The locked shards of a group. They are locked in ascending order, as those of a commit are.
struct Shards<'a> {
    guards: Vec<ShardGuard<'a>>,
    /// By shard: its index among the guards, of those that are locked.
    places: [u8; SHARDS],
}

impl<'a> Shards<'a> {
    fn lock(engine: &'a Engine, frames: usize, hashes: impl Iterator<Item = KeyHash>) -> Result<Self> {
        let mut wanted = [false; SHARDS];
        for hash in hashes {
            if let Some(wanted) = wanted.get_mut(hash.shard()) {
                *wanted = true;
            }
        }
        let mut shards = Self { guards: Vec::with_capacity(frames.min(SHARDS)), places: [u8::MAX; SHARDS] };
        for (number, _) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
            if let Some(place) = shards.places.get_mut(number) {
                *place = shards.guards.len() as u8;
            }
            shards.guards.push(engine.lock_shard(number)?);
        }
        Ok(shards)
    }

    fn of(&mut self, hash: KeyHash) -> Option<&mut ShardGuard<'a>> {
        self.guards.get_mut(usize::from(*self.places.get(hash.shard())?))
    }
}

/// Why a record is copied.
#[derive(Clone, Copy)]
enum Counts {
    /// The index points at it.
    Live,
    /// The planted bug: the index points at another record of its key, or at none.
    Overtaken(Option<Placed>),
    /// It is a tombstone, and an older segment may still hold a record of its key.
    Hides,
    /// An event, or what is left of one. The index of events finds it.
    Carried,
}

/// Why `frame` is copied; `None` if it is not.
fn what_counts(
    engine: &Engine,
    shard: Option<&mut ShardGuard<'_>>,
    key: FullKey<'_>,
    frame: &Frame<'_>,
) -> Result<Option<Counts>> {
    match (frame.header.kind, shard) {
        (kind, _) if kind.is_carried() => Ok(Some(Counts::Carried)),
        (Kind::Put, Some(shard)) if shard.has(engine.medium(), key.hash.slot(frame.offset))? => Ok(Some(Counts::Live)),
        (Kind::Put, Some(shard)) if is(Bug::CompactOvertakes) => engine.find_locked(shard, key).map(Counts::Overtaken).map(Some),
        (Kind::Tombstone, _) if is(Bug::ExpiredTombstoneDropped) && frame.header.is_expired_tombstone() => Ok(None),
        (Kind::Tombstone, Some(shard)) if !is(Bug::TombstoneDroppedEarly) => {
            // Not if the key lives: its record is later in the log than the tombstone, and hides older ones just as well.
            Ok(if engine.find_locked(shard, key)?.is_none() { Some(Counts::Hides) } else { None })
        }
        _ => Ok(None),
    }
}

/// The planted bug: copies a record without verifying its checksum.
fn resign(engine: &Engine, offset: u64, report: &mut CompactReport) -> Result<()> {
    match engine.log.header(offset) {
        Ok(header) if header.kind == Kind::Put => {
            let frame = engine.log.frame(offset)?;
            let key = engine.full_key(header.namespace, frame.key());
            let mut shard = engine.lock(key.hash)?;
            if shard.has(engine.medium(), key.hash.slot(offset))? {
                let new = append_copy(engine, &frame, None)?;
                let old = Placed { offset, len: frame.header.frame_len() as u64 };
                engine.publish_copy(&mut shard, key, Some(old), new);
                report.records_copied += 1;
                report.bytes_copied += new.len;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
