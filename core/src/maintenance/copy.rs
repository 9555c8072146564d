//! Copies records that still count to the end of the log, and makes the index point at the copies.

#[cfg(feature = "compress")]
use super::compressed::Recoded;
use super::expired;
use super::report::CompactReport;
use super::sift::{Prior, Record};
use crate::engine::{Engine, FullKey};
use crate::error::Result;
use crate::frame::{CopyMeta, FrameSpec, Kind, Meta, event_number};
use crate::index::{KeyHash, Pointed, SHARDS, ShardGuard};
use crate::log::{Copies, Dated, Frame, Placed, Purpose};
use crate::pins::Pin;
use crate::planted::{Bug, is};
use alloc::vec::Vec;

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
pub(super) enum Recoded {}

/// The records of a group whose copies are compressed, by their places in it; none at all where nothing is.
#[cfg(feature = "compress")]
pub(super) fn recoded(
    engine: &Engine,
    compressor: &super::compressed::Compressor,
    frames: &[Record<'_>],
) -> Vec<Option<Recoded>> {
    if compressor.is_none() && !engine.log.holds_sealed() {
        return Vec::new();
    }
    frames.iter().map(|(_, frame)| compressor.recode(engine, frame)).collect()
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

/// Copies those of the records and tombstones that still count. Their shards are locked from the look-up until the index points at the
/// copies: a copy can never overtake a newer write.
pub(super) fn copy_sifted(
    engine: &Engine,
    pin: &Pin<'_>,
    (frames, recoded): (&[Record<'_>], &[Option<Recoded>]),
    prior: Prior<'_>,
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
            && expired::shrink(engine, shard, key, frame, prior, report)?
        {
            continue;
        }
        #[cfg(feature = "events")]
        if frame.header.kind.is_carried() && !engine.needs_event(frame, prior.oldest)? {
            continue;
        }
        if let Some(what) = what_counts(engine, shards.of(*hash), key, frame, prior.pointed)? {
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
    let mut places =
        if are_dated { append_dated(engine, &wanted, copies)? } else { engine.log.append_copies(copies, Purpose::MakeSpace)? };
    if let (None, true, Some((_, (frame, recoded), _))) = (&places, !are_dated && copies.go_together(), wanted.first()) {
        // The segment has no room for them: the first one begins the next segment, and the others follow it.
        let first = append_copy(engine, frame, *recoded)?;
        copies.drop_first();
        let others = engine.log.append_copies(copies, Purpose::MakeSpace)?;
        places = Some([first].into_iter().chain(others.unwrap_or_default()).collect());
    }
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
    pointed: Option<&Pointed>,
) -> Result<Option<Counts>> {
    match (frame.header.kind, shard) {
        (kind, _) if kind.is_carried() => Ok(Some(Counts::Carried)),
        (Kind::Put, Some(shard)) if shard.points_at(engine.medium(), key.hash, frame.offset, pointed)? => Ok(Some(Counts::Live)),
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
pub(super) fn resign(engine: &Engine, offset: u64, report: &mut CompactReport) -> Result<()> {
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
