//! Chooses segments that are worth compacting, and computes what that would free. Changes nothing.

use super::stranded;
use crate::engine::Engine;
use crate::frame::{FRAME_LEN_MIN, HEADER_LEN_MAX, Kind, ORIGIN_LEN_MAX};
use crate::log::Segment;
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// Explicit compaction skips segments with less than 1/64 dead.
pub(crate) const PARTS_ASKED: f64 = 64.0;
/// Least share of dead bytes in a segment that a write without room has compacted. Less is left for removals, each of which must be able to
/// free some.
const SHARE_FOR_WRITES: f64 = 1.0 / 8.0;
/// A compaction moves segments to shorten the file only if more than 1/8 of the file's extents are free.
const GAPS_LEAST: u64 = 8;
/// Bytes that the retirement frames of a compaction may take: freeing less than this is no gain.
pub(crate) const SLACK: u64 = crate::log::RETIRE_ROOM;
/// Frames of a segment that are read to count its padding.
const PADDED_FRAMES_MAX: usize = 64;

/// Segments that compaction may take: those before the newest checkpoint, because opening replays everything after it, except segments that
/// are in doubt or kept for stranded records.
pub(crate) fn candidates(engine: &Engine) -> Vec<Segment> {
    candidates_below(engine, replayed_from(engine))
}

/// Base of the segment with the newest checkpoint.
fn replayed_from(engine: &Engine) -> u64 {
    engine.log.newest_checkpoint().map_or(0, |place| place.base)
}

/// The candidates if the newest checkpoint were in the segment of this base.
pub(crate) fn candidates_below(engine: &Engine, replay_from: u64) -> Vec<Segment> {
    // Segments in doubt stay: copies of their records would look certain.
    let is_in_doubt = |segment: &Segment| engine.doubt.get().is_some_and(|doubt| doubt.holds(segment.extent));
    let stays = |segment: &Segment| is_in_doubt(segment) || stranded::is_kept(engine, segment);
    engine.log.segments().into_iter().filter(|segment| segment.base < replay_from && !stays(segment)).collect()
}

/// Bytes that [`drop_stranded`](crate::Db::drop_stranded) would free: segments for whose live records there is room elsewhere, and the rest
/// of a torn segment in which the log could continue. Zero while the reserve is there: then space is short for another reason.
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

/// True when no segment older than the first of these is left, except those for which `is_passed` is true.
pub(crate) fn begins_with_oldest(engine: &Engine, segments: &[Segment], is_passed: &dyn Fn(&Segment) -> bool) -> bool {
    let oldest = engine.log.oldest(is_passed);
    oldest.map(|oldest| oldest.base) == segments.first().map(|first| first.base)
}

/// Bytes that a segment other than the active one occupies. Includes the unused rest after its last record that a crash has left: nothing
/// else can use it.
pub(crate) fn taken_bytes(engine: &Engine, segment: &Segment) -> u64 {
    let geometry = engine.log.geometry;
    segment.limit(geometry) - segment.first_frame(geometry)
}

/// The bytes that compacting a segment would free, if that is at least one part in `parts` of the `taken` ones; otherwise `None`.
///
/// Long records leave padding at the end of their segment, and copies of them would, too: that padding is not counted as gain, nor is what
/// the compaction itself would write. Both are counted if more than 5/8 of the segment is dead: its live records are then short enough to
/// leave room for others.
pub(crate) fn gain(engine: &Engine, segment: &Segment, taken: u64, oldest: bool, parts: f64) -> Option<u64> {
    #[cfg(feature = "compress")]
    let taken = taken.saturating_sub(padding_of_home(engine, segment));
    let is_enough = |bytes: &u64| *bytes as f64 * parts >= taken as f64 && *bytes >= SLACK;
    let dead = Some(taken.saturating_sub(kept_bytes(engine, segment, oldest))).filter(is_enough)?;
    if dead * 8 > taken * 5 {
        return Some(dead);
    }
    Some(dead.saturating_sub(overhead(engine, segment))).filter(is_enough)
}

/// Bytes of padding in a segment with a dictionary, whose other copy has to stand in another one: emptying it would only move the padding.
#[cfg(feature = "compress")]
fn padding_of_home(engine: &Engine, segment: &Segment) -> u64 {
    if !engine.homes.read().contains(&segment.base) {
        return 0;
    }
    let (mut position, mut padding) = (segment.first_frame(engine.log.geometry), 0);
    while position + FRAME_LEN_MIN as u64 <= segment.end {
        let Ok(header) = engine.log.header(position) else { break };
        padding += if header.kind == Kind::Pad { header.frame_len() as u64 } else { 0 };
        position += header.frame_len() as u64;
    }
    padding
}

/// Bytes of padding, marks and retirements in a segment of few records, which copies of them would need again. With more records than are
/// read here, they are less than the smallest share that counts as a gain.
fn overhead(engine: &Engine, segment: &Segment) -> u64 {
    let (mut position, mut bytes) = (segment.first_frame(engine.log.geometry), 0);
    for _ in 0..PADDED_FRAMES_MAX {
        // Never read past the end of the segment: others may write there, and where it is a hole on a full tmpfs, reading it through the
        // map kills the process.
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

/// How many of these segments, from the oldest on, are worth emptying together to drop their tombstones, which requires that nothing older
/// is left: the tombstones must take at least one part in `parts` of the live bytes there. Otherwise cold records before many tombstones
/// would keep these forever.
pub(crate) fn front_of_tombstones(engine: &Engine, segments: &[Segment], parts: f64) -> usize {
    let segment_stats = &engine.log.segment_stats;
    let (mut tombstones, mut live, mut count) = (0, 0, 0);
    for (number, segment) in (1..).zip(segments) {
        let own = segment_stats.tombstones(segment.extent);
        tombstones += own;
        live += segment_stats.live(segment.extent);
        if own > 0 && tombstones as f64 * parts >= live as f64 {
            count = number;
        }
    }
    count
}

/// The bytes of a segment that compacting it would copy. Tombstones count except in the oldest segment, where they hide nothing older.
pub(crate) fn kept_bytes(engine: &Engine, segment: &Segment, oldest: bool) -> u64 {
    let segment_stats = &engine.log.segment_stats;
    segment_stats.live(segment.extent) + if oldest { 0 } else { segment_stats.tombstones(segment.extent) }
}

/// Bytes of room that emptying a segment needs elsewhere.
pub(crate) fn needed_bytes(engine: &Engine, segment: &Segment, oldest: bool) -> u64 {
    let kept = kept_bytes(engine, segment, oldest);
    let origins = if may_need_origins(engine, segment) { kept / record_len(engine, segment) * ORIGIN_LEN_MAX as u64 } else { 0 };
    #[cfg(feature = "encrypt")]
    let tags = if super::resealed::is_plain(engine, segment) {
        kept / record_len(engine, segment) * crate::frame::sealing_len(0) as u64 + kept / 1024
    } else {
        0
    };
    #[cfg(not(feature = "encrypt"))]
    let tags = 0;
    kept + origins + tags + SLACK
}

/// True when copies of the segment's records may have to say when these were first written, because a snapshot lives that is older than one
/// of them.
pub(crate) fn may_need_origins(engine: &Engine, segment: &Segment) -> bool {
    let oldest = engine.moments.oldest();
    oldest != 0 && segment.next_base(engine.log.geometry) > oldest
}

/// The mean length of the first records of a segment.
fn record_len(engine: &Engine, segment: &Segment) -> u64 {
    let first = segment.first_frame(engine.log.geometry);
    let (mut position, mut count) = (first, 0);
    while count < PADDED_FRAMES_MAX as u64 && position + HEADER_LEN_MAX as u64 <= segment.end {
        let Ok(header) = engine.log.header(position) else { break };
        position += header.frame_len() as u64;
        count += 1;
    }
    ((position - first) / count.max(1)).max(FRAME_LEN_MIN as u64)
}

/// The segment with the largest share of dead bytes, if that is `share` or more, of those that begin before the log position `until` and
/// for which `is_passed` is false; or else the oldest one, when it keeps many tombstones from being dropped. None for which `is_left` is true: it is
/// asked of those that would be returned otherwise.
///
/// A loop of calls must use one `until`: then each segment is returned at most once, and the loop terminates whatever the compaction itself
/// leaves dead.
pub(crate) fn worst(
    engine: &Engine,
    share: f64,
    until: u64,
    is_passed: &dyn Fn(&Segment) -> bool,
    is_left: &dyn Fn(&Segment) -> bool,
) -> Option<Segment> {
    let until = if is(Bug::CompactionWithoutEnd) { u64::MAX } else { until };
    let mut candidates = candidates(engine);
    candidates.retain(|segment| segment.base < until && !is_passed(segment));
    let begins_with_oldest = begins_with_oldest(engine, &candidates, is_passed);
    let mut oldest = begins_with_oldest;
    let mut found: Vec<(f64, Segment)> = Vec::new();
    for segment in &candidates {
        let taken = taken_bytes(engine, segment).max(1);
        let may_go = !engine.is_set_aside(segment, oldest);
        let gain = gain(engine, segment, taken, oldest, 1.0 / share).filter(|_| may_go);
        oldest = false;
        found.extend(gain.map(|gain| (gain as f64 / taken as f64, *segment)));
    }
    // Asking for one that is not left alone may take as long as reading it: only of the first of these, which is compacted then.
    let mut worst = None;
    while let Some(place) = largest(&found) {
        let (_, segment) = found.remove(place);
        if !is_left(&segment) {
            worst = Some(segment);
            break;
        }
    }
    let is_in_the_way = || share <= 1.0 && front_of_tombstones(engine, &candidates, 1.0) > 0;
    let may_go = |first: &&Segment| is_in_the_way() && !engine.is_set_aside(first, begins_with_oldest) && !is_left(first);
    let first = || candidates.first().filter(may_go).copied();
    worst.or_else(first)
}

/// The place of the largest share, the first of equal ones.
fn largest(shares: &[(f64, Segment)]) -> Option<usize> {
    let mut largest: Option<(usize, f64)> = None;
    for (place, &(share, _)) in shares.iter().enumerate() {
        if largest.is_none_or(|(_, most)| share > most) {
            largest = Some((place, share));
        }
    }
    largest.map(|(place, _)| place)
}

/// The segment with the largest share of dead bytes, of those that begin before `until`, whose live records may fit, and that are not in
/// `tried`: where space is short, a segment that does not fit must not block one that does.
pub(crate) fn worst_that_fits(engine: &Engine, until: u64, tried: &[u64]) -> Option<Segment> {
    worst_of(engine, &candidates(engine), 0.0, until, tried)
}

/// The segment of `candidates`, except those in `set_aside`, to compact for a write that has found no room.
pub(crate) fn worst_for_a_write(engine: &Engine, candidates: &[Segment], until: u64, set_aside: &[u64]) -> Option<Segment> {
    worst_of(engine, candidates, SHARE_FOR_WRITES, until, set_aside)
}

/// The same among `candidates`, which begin with the oldest, if `share` or more of the segment is dead.
fn worst_of(engine: &Engine, candidates: &[Segment], share: f64, until: u64, tried: &[u64]) -> Option<Segment> {
    let room = engine.log.room_at_most();
    // Prefer segments whose extent can serve as the reserve, and those that are all dead: freeing others is not worth the room that copies
    // take.
    let reserves = engine.log.reserve_extents();
    let mut worst: Option<((bool, f64), Segment)> = None;
    for (number, segment) in candidates.iter().enumerate() {
        let is_oldest = number == 0;
        let needed = needed_bytes(engine, segment, is_oldest);
        if segment.base >= until || tried.contains(&segment.base) || needed > room {
            continue;
        }
        let is_reserve = reserves.contains(&(segment.extent + segment.extents - 1)) || needed <= SLACK;
        let taken = taken_bytes(engine, segment).max(1);
        let Some(gain) = gain(engine, segment, taken, is_oldest, 1.0 / share) else { continue };
        let rank = (is_reserve, gain as f64 / taken as f64);
        if worst.is_none_or(|(most, _)| rank > most) {
            worst = Some((rank, *segment));
        }
    }
    worst.map(|(_, segment)| segment)
}

/// True when enough of a segment is dead for explicit compaction. `active` is the base of the segment that takes appends, or did when the
/// compaction began.
pub(crate) fn is_worth_it(engine: &Engine, segment: &Segment, active: Option<u64>, oldest: bool) -> bool {
    let geometry = engine.log.geometry;
    // The rest of the active segment is still usable, so it does not count; once sealed, the segment ends at its limit.
    let taken =
        if active == Some(segment.base) { segment.end - segment.first_frame(geometry) } else { taken_bytes(engine, segment) };
    let gain = gain(engine, segment, taken.max(1), oldest, PARTS_ASKED);
    gain.is_some_and(|gain| gain * 1024 > geometry.segment_size())
}

/// True when much of the file is free but cannot be cut off, because segments in use come after it.
pub(crate) fn has_gaps(engine: &Engine) -> bool {
    let usage = engine.log.usage();
    let (free, total) = (usage.free_extents, usage.extents);
    free > 2 && u64::from(free) * GAPS_LEAST > u64::from(total) && usage.last_extent > total - free
}
