//! A list of segments that does not check, made again where all the rest is whole: what FORMAT.md calls "without its list".

use crate::bytes::part;
use crate::frame::Kind;
use crate::log::{Finder, Log, Stretch};
use crate::segment::{self, FIRST_FRAME, Segment};
use crate::snapshot::Snapshot;
use crate::superblock::{Checkpoint, Superblock};

/// The head of a checkpoint: its kind and nothing else.
const HEAD: u8 = 4;

/// A segment in front of the checkpoint.
struct Listed {
    segment: Segment,
    /// Something in it lives, or is a tombstone.
    counts: bool,
    is_retired: bool,
}

/// The log; `None` where something else is wrong, too, or nothing proves that all of it is there.
pub(crate) fn find(file: &[u8], superblock: &Superblock) -> Option<Log> {
    let place = superblock.checkpoint.filter(|_| superblock.is_plain)?;
    let finder = Finder { file, superblock, headers: segment::all(file, superblock) };
    let holds_it =
        |header: &&Segment| header.kind == segment::Kind::Log && (header.base, header.salt) == (place.base, place.salt);
    let mut holders = finder.headers.iter().filter(holds_it);
    let (last, None) = (*holders.next()?, holders.next()) else { return None };
    let behind = behind_list(&finder, &last, &place)?;
    let mut log = Log::default();
    let retired = finder.follow(last, behind, &mut log).ok()?;
    let snapshot = match superblock.snapshot {
        Some(place) => Some(Snapshot::read(file, superblock, place)?),
        None => None,
    };
    let listed = match &snapshot {
        Some(snapshot) => by_snapshot(&finder, snapshot, &last, &log, &retired)?,
        None => in_a_row(&finder, &last, &retired)?,
    };
    for (index, one) in listed.iter().enumerate().filter(|(_, one)| !one.is_retired) {
        let segment = &one.segment;
        let to = match listed.get(index + 1) {
            None => place.offset,
            Some(next) if next.segment.before == (segment.base, segment.salt) => next.segment.end_before,
            Some(_) if one.counts && is_whole(&finder, segment, segment.trailer())? => segment.trailer(),
            Some(_) => return None,
        };
        let is_last = index + 1 == listed.len();
        if is_last && !is_whole(&finder, segment, to)? || !is_last && is_whole(&finder, segment, to).is_none() {
            return None;
        }
        log.listed.push(Stretch { salt: segment.salt, base: segment.base, from: segment.start + FIRST_FRAME, to });
    }
    let others = log.tail.iter().skip(1).filter_map(|stretch| finder.headers.iter().find(|header| header.salt == stretch.salt));
    let mut places: Vec<(u64, u64)> = others.map(|segment| (segment.start, segment.end)).collect();
    places.extend(listed.iter().filter(|one| !one.is_retired).map(|one| (one.segment.start, one.segment.end)));
    places.extend(snapshot.iter().flat_map(|snapshot| snapshot.places.iter().copied()));
    places.sort_unstable();
    places.iter().zip(places.iter().skip(1)).all(|(one, next)| one.1 <= next.0).then_some(log)
}

/// Where the frame ends that holds the list, if nothing but that frame is damaged.
fn behind_list(finder: &Finder<'_>, last: &Segment, place: &Checkpoint) -> Option<u64> {
    let mut rest = part(finder.file, place.offset, 16)?;
    let before = rest.0.len();
    let (_sum, head) = (rest.u32()?, rest.number(1)? as u8);
    let (key_len, value_len) = (rest.varint()?, rest.varint()?);
    let len = (before - rest.0.len()) as u64 + u64::from(value_len);
    let behind = place.offset + len;
    if head != HEAD || key_len != 0 || behind > last.trailer() || last.position(behind) > finder.superblock.synced {
        return None;
    }
    let next = (place.offset..last.trailer()).find(|&at| finder.frame(last, at, last.trailer()).is_some());
    next.is_none_or(|next| next == behind).then_some(behind)
}

/// The segments whose bases stand in the directory of the snapshot.
fn by_snapshot(finder: &Finder<'_>, snapshot: &Snapshot, last: &Segment, log: &Log, retired: &[u64]) -> Option<Vec<Listed>> {
    let mut listed = Vec::new();
    for &(base, counts) in &snapshot.uses {
        let is_retired = retired.contains(&base);
        if base > last.base {
            if !is_retired && !log.tail.iter().any(|stretch| stretch.base == base) {
                return None;
            }
            continue;
        }
        let mut found = finder.headers.iter().filter(|header| header.kind == segment::Kind::Log && header.base == base);
        match (found.next(), found.next()) {
            (Some(&segment), None) => listed.push(Listed { segment, counts, is_retired }),
            _ if is_retired => {}
            _ => return None,
        }
    }
    (listed.last()?.segment == *last).then_some(listed)
}

/// All segments up to the checkpoint, if nothing has ever been retired in front of it.
fn in_a_row(finder: &Finder<'_>, last: &Segment, retired: &[u64]) -> Option<Vec<Listed>> {
    let is_in_front = |header: &&Segment| header.kind == segment::Kind::Log && header.base <= last.base;
    let mut row: Vec<Segment> = finder.headers.iter().filter(is_in_front).copied().collect();
    row.sort_unstable_by_key(|segment| segment.base);
    let follows = |(one, next): (&Segment, &Segment)| next.before == (one.base, one.salt);
    let is_row = row.first()?.before.0 == 0 && row.iter().zip(row.iter().skip(1)).all(follows);
    let listed = |segment: Segment| Listed { segment, counts: true, is_retired: retired.contains(&segment.base) };
    is_row.then(|| row.into_iter().map(listed).collect())
}

/// True when the frames of a segment up to `to` end behind a whole commit; `None` when one of them does not check, or is an event.
fn is_whole(finder: &Finder<'_>, segment: &Segment, to: u64) -> Option<bool> {
    let (mut at, mut is_whole) = (segment.start + FIRST_FRAME, true);
    while let Some(frame) = finder.frame(segment, at, to) {
        if matches!(frame.kind, Kind::Event | Kind::Stub) {
            return None;
        }
        if frame.kind.is_record() {
            is_whole = !frame.continues;
        }
        at += frame.len as u64;
    }
    finder.is_end(segment, at, to).then_some(is_whole)
}
