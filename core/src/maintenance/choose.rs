//! Which segments are worth compacting, and what that would free. It reads figures, and changes nothing.

use super::stranded;
use crate::engine::Engine;
use crate::frame::{HEADER_LEN_MAX, Kind};
use crate::log::Segment;
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// A compaction that was asked for leaves segments alone of which less than one part in so many is dead.
pub(crate) const PARTS_ASKED: f64 = 64.0;
/// A write that finds no room has segments compacted of which so much is dead: what is left is for removals, each of which has to find some.
const SHARE_FOR_WRITES: f64 = 1.0 / 8.0;
/// A compaction moves segments only to make the file shorter if one part in so many of it is free.
const GAPS_LEAST: u64 = 8;
/// Room for the frames that say what was done: less than this is no gain.
pub(crate) const SLACK: u64 = crate::log::RETIRE_ROOM;
/// Records of a segment that are looked at for the padding behind them.
const PADDED_FRAMES_MAX: usize = 64;

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

/// True when nothing older than the first of these segments is left, but for what `is_passed` names.
pub(crate) fn begins_with_oldest(engine: &Engine, segments: &[Segment], is_passed: &dyn Fn(&Segment) -> bool) -> bool {
    let oldest = engine.log.oldest(is_passed);
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

/// The bytes of a segment that compacting it would copy. Only in the oldest segment a tombstone has nothing older to hide.
pub(crate) fn kept_bytes(engine: &Engine, segment: &Segment, oldest: bool) -> u64 {
    let segment_stats = &engine.log.segment_stats;
    segment_stats.live(segment.extent) + if oldest { 0 } else { segment_stats.tombstones(segment.extent) }
}

/// The bytes that emptying a segment takes elsewhere.
pub(crate) fn needed_bytes(engine: &Engine, segment: &Segment, oldest: bool) -> u64 {
    kept_bytes(engine, segment, oldest) + SLACK
}

/// The segment with the largest share of dead bytes, if that is `share` or more, of those that began in front of the log position
/// `until` and that `is_passed` does not name; or else the oldest one, when it is in the way of many tombstones.
///
/// Whoever asks again and again keeps to one `until`: then each segment comes once at most, and the asking ends, whatever the
/// compaction itself leaves dead.
pub(crate) fn worst(engine: &Engine, share: f64, until: u64, is_passed: &dyn Fn(&Segment) -> bool) -> Option<Segment> {
    let until = if is(Bug::CompactionWithoutEnd) { u64::MAX } else { until };
    let mut candidates = candidates(engine);
    candidates.retain(|segment| segment.base < until && !is_passed(segment));
    let begins_with_oldest = begins_with_oldest(engine, &candidates, is_passed);
    let mut oldest = begins_with_oldest;
    let mut worst: Option<(f64, Segment)> = None;
    for segment in &candidates {
        let taken = taken_bytes(engine, segment).max(1);
        let may_go = !engine.is_set_aside(segment, oldest);
        let gain = gain(engine, segment, taken, oldest, 1.0 / share).filter(|_| may_go);
        let dead = gain.unwrap_or(0) as f64 / taken as f64;
        oldest = false;
        if gain.is_some() && worst.is_none_or(|(most, _)| dead > most) {
            worst = Some((dead, *segment));
        }
    }
    let is_in_the_way = || share <= 1.0 && front_of_tombstones(engine, &candidates, 1.0) > 0;
    let first = || candidates.first().filter(|first| is_in_the_way() && !engine.is_set_aside(first, begins_with_oldest)).copied();
    worst.map(|(_, segment)| segment).or_else(first)
}

/// The segment with the largest share of dead bytes, of those that began in front of `until` and whose live records there may be room for,
/// but for `tried`: where space is short, what does not fit must not stand in the way of what does.
pub(crate) fn worst_that_fits(engine: &Engine, until: u64, tried: &[u64]) -> Option<Segment> {
    worst_of(engine, &candidates(engine), 0.0, until, tried)
}

/// The one of `candidates` that is compacted for a write that has found no room, but for those in `set_aside`.
pub(crate) fn worst_for_a_write(engine: &Engine, candidates: &[Segment], until: u64, set_aside: &[u64]) -> Option<Segment> {
    worst_of(engine, candidates, SHARE_FOR_WRITES, until, set_aside)
}

/// The same of `candidates`, from the oldest on, if `share` or more of it is dead.
fn worst_of(engine: &Engine, candidates: &[Segment], share: f64, until: u64, tried: &[u64]) -> Option<Segment> {
    let room = engine.log.room_at_most();
    // An extent that is no reserve is not worth the room that copies take, while there are others; what is all dead takes none.
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

/// True when a compaction that was asked for takes a segment: enough of it is dead. `active` is the base of the one that takes appends, or did
/// when the compaction began.
pub(crate) fn is_worth_it(engine: &Engine, segment: &Segment, active: Option<u64>, oldest: bool) -> bool {
    let geometry = engine.log.geometry;
    // The rest of the active segment is still for others; when it has been sealed, it ends at its limit.
    let taken =
        if active == Some(segment.base) { segment.end - segment.first_frame(geometry) } else { taken_bytes(engine, segment) };
    let gain = gain(engine, segment, taken.max(1), oldest, PARTS_ASKED);
    gain.is_some_and(|gain| gain * 1024 > geometry.segment_size())
}

/// True when much of the file is free and cannot be cut off, for what counts stands behind it.
pub(crate) fn has_gaps(engine: &Engine) -> bool {
    let usage = engine.log.usage();
    let (free, total) = (usage.free_extents, usage.extents);
    free > 2 && u64::from(free) * GAPS_LEAST > u64::from(total) && usage.last_extent > total - free
}
