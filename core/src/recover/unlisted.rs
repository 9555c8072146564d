//! A checkpoint whose segment list is damaged. If nothing else is wrong, the list is rebuilt: the directory of the index snapshot, or a
//! chain of headers back to the very first one, shows which segments count; their headers show where they are and end. Every frame
//! before the checkpoint is verified. If any doubt remains, opening the store fails.

use super::chain::Chain;
use super::follow::Follower;
use super::headers::{are_apart, find_headers};
use crate::error::Result;
use crate::frame::Kind;
use crate::log::{
    CheckpointPlace, FEATURE_EXPIRY, Figures, Segment, SegmentHeader, SegmentKind, SegmentList, Step, SuperblockPair, Walk,
    Window, read_next,
};
use crate::scan::{Found, Stretch, scan};
use crate::snapshot::{Directory, SegmentUse, load, load_shard, read_directory};
use crate::sorted::{Map, Set, sort_by_key};
use crate::storage::Storage;
use alloc::vec::Vec;

/// The log of a store whose list is damaged; `None` if the list could not be proven by other means.
///
/// # Errors
///
/// [`Error::Corrupt`] where something else is damaged.
pub(super) fn without_list(storage: &dyn Storage, pair: &SuperblockPair) -> Result<Option<Chain>> {
    let superblock = pair.current;
    // Only the list has the number of the next event, and which segments are kept as history.
    let is_plain = superblock.floor == 0 && superblock.optional_features & !FEATURE_EXPIRY == 0;
    let (Some(place), true) = (superblock.checkpoint, is_plain && !pair.other_damaged) else { return Ok(None) };
    let headers = find_headers(storage, superblock.geometry(), superblock.store_id, &SegmentList::default())?;
    let Some((last, behind)) = last_listed(storage, pair, &place, &headers)? else { return Ok(None) };
    let mut follower = Follower::new(storage, pair, headers);
    follower.run(
        SegmentList { segments: [last].into(), figures: [Figures::default()].into(), ..SegmentList::default() },
        Some(behind),
    )?;
    let Follower { headers, mut chain, .. } = follower;
    let mut unlisted = Unlisted { storage, pair, directory: Directory::default(), has_directory: place.directory.is_some() };
    if let Some(directory) = place.directory {
        unlisted.directory = read_directory(storage, superblock.geometry(), superblock.store_id, directory)?;
        load(storage, &mut unlisted.directory)?;
        unlisted.directory.shards.iter().try_for_each(|(shard, parts)| load_shard(storage, *shard, parts).map(drop))?;
    }
    let Some(listed) = unlisted.list(&headers, &chain, last)? else { return Ok(None) };
    (chain.listed, chain.damaged_list) = (listed, true);
    chain.stale = unlisted.stale_extents(&chain)?;
    Ok(Some(chain))
}

/// The segment that holds the checkpoint, and the offset at which its frames continue after the list. Only the list is damaged if its
/// header is intact, and at the end that it gives a valid frame begins, or nothing does.
fn last_listed(
    storage: &dyn Storage,
    pair: &SuperblockPair,
    place: &CheckpointPlace,
    headers: &Map<u32, SegmentHeader>,
) -> Result<Option<(Segment, u64)>> {
    let geometry = pair.current.geometry();
    let mut holders = headers
        .iter()
        .filter(|(_, header)| (header.kind, header.base, header.salt) == (SegmentKind::Log, place.base, place.salt));
    let (Some((extent, header)), None) = (holders.next(), holders.next()) else { return Ok(None) };
    let segment = Segment { end: place.offset, ..header.segment(geometry, extent) };
    let to = segment.limit(geometry).min(storage.len()?);
    if !(segment.first_frame(geometry)..to).contains(&place.offset) {
        return Ok(None);
    }
    let list = Window::new(storage, to).header(place.offset)?;
    let behind = place.offset + list.frame_len() as u64;
    // The superblock was written after the list was synced.
    if list.kind != Kind::Checkpoint || list.is_sealed() || behind > to || segment.lsn(geometry, behind) > pair.current.synced {
        return Ok(None);
    }
    let mut next = None;
    scan(storage, Stretch { salt: segment.salt, from: place.offset, to, full: false }, &mut |found| {
        if let Found::Frame { offset, .. } = found {
            next = next.or(Some(offset));
        }
        Ok(())
    })?;
    Ok(next.is_none_or(|next| next == behind).then_some((segment, behind)))
}

struct Unlisted<'a> {
    storage: &'a dyn Storage,
    pair: &'a SuperblockPair,
    directory: Directory,
    has_directory: bool,
}

/// A segment before the checkpoint.
#[derive(Clone, Copy)]
struct Candidate {
    segment: Segment,
    header: SegmentHeader,
    /// Its figures in the directory.
    used: SegmentUse,
    is_retired: bool,
}

impl Unlisted<'_> {
    /// The list as it must have been; `None` if that is not certain.
    fn list(&self, headers: &Map<u32, SegmentHeader>, chain: &Chain, last: Segment) -> Result<Option<SegmentList>> {
        let Some(candidates) = self.candidates(headers, chain, last) else { return Ok(None) };
        let geometry = self.pair.current.geometry();
        let mut listed = SegmentList::default();
        for (index, candidate) in candidates.iter().enumerate() {
            let next = candidates.get(index + 1);
            let Some(segment) = self.with_end(candidate, next, last)? else { return Ok(None) };
            if next.is_some_and(|next| segment.next_base(geometry) > next.segment.base) {
                return Ok(None);
            }
            let SegmentUse { live, tombstones, .. } = candidate.used;
            listed.segments.push(segment);
            listed.figures.push(Figures { live, tombstones, ..Figures::default() });
        }
        let counts = |segment: &&Segment| !chain.retired.contains(segment.base);
        let mut places: Vec<Segment> = listed.segments.iter().filter(counts).chain(chain.tail.iter().skip(1)).copied().collect();
        sort_by_key(&mut places, |segment| segment.extent.into());
        let in_file = geometry.extents_in(self.storage.len()?);
        let is_inside = |segment: &Segment| segment.extent.checked_add(segment.extents).is_some_and(|behind| behind <= in_file);
        let are_good =
            places.iter().all(is_inside) && places.iter().zip(places.iter().skip(1)).all(|(one, other)| are_apart(one, other));
        let is_apart = |used: &Segment| {
            self.directory
                .segments
                .iter()
                .all(|own| own.extent + own.extents <= used.extent || used.extent + used.extents <= own.extent)
        };
        Ok((are_good && places.iter().all(is_apart)).then_some(listed))
    }

    /// The segments that the list must have named, in log order; the last one holds it.
    fn candidates(&self, headers: &Map<u32, SegmentHeader>, chain: &Chain, last: Segment) -> Option<Vec<Candidate>> {
        let geometry = self.pair.current.geometry();
        let mut found: Vec<(u32, SegmentHeader)> = headers
            .iter()
            .filter(|(_, header)| header.kind == SegmentKind::Log && header.base <= last.base)
            .map(|(extent, header)| (extent, *header))
            .collect();
        sort_by_key(&mut found, |(_, header)| header.base);
        let candidate = |&(extent, header): &(u32, SegmentHeader), used: SegmentUse| {
            let segment = header.segment(geometry, extent);
            Candidate { segment, header, used, is_retired: chain.retired.contains(header.base) }
        };
        if !self.has_directory {
            // If all headers form one chain from the very first segment on, nothing has ever been retired.
            let none = |base: u64| SegmentUse { base, live: 0, tombstones: 0 };
            let all: Vec<Candidate> = found.iter().map(|found| candidate(found, none(found.1.base))).collect();
            let is_first = all.first().is_some_and(|first| first.header.previous_base == 0);
            let is_row = all.iter().zip(all.iter().skip(1)).all(|(one, next)| follows(&next.header, &one.segment));
            return (is_first && is_row).then_some(all);
        }
        let mut candidates = Vec::with_capacity(self.directory.uses.len());
        for &used in &self.directory.uses {
            let is_retired = chain.retired.contains(used.base);
            if used.base > last.base {
                let mut behind = chain.tail.iter().chain(&chain.kept);
                if !is_retired && !behind.any(|segment| segment.base == used.base) {
                    return None;
                }
                continue;
            }
            let first = found.partition_point(|(_, header)| header.base < used.base);
            let same = found.get(first..)?.iter().take_while(|(_, header)| header.base == used.base);
            match (same.clone().count(), same.clone().next()) {
                (1, Some(found)) => candidates.push(candidate(found, used)),
                // Its extents have been reused.
                _ if is_retired => {}
                _ => return None,
            }
        }
        let fits = |candidate: &Candidate| {
            let bytes = candidate.used.live.checked_add(candidate.used.tombstones);
            bytes.is_some_and(|bytes| bytes <= candidate.segment.len(geometry))
        };
        let holds_it = |candidate: &Candidate| (candidate.segment.base, candidate.segment.salt) == (last.base, last.salt);
        (candidates.iter().all(fits) && candidates.last().is_some_and(holds_it)).then_some(candidates)
    }

    /// Extents that hold no segment which the directory knows and which has not been retired since; a reused extent has a segment with
    /// a new base.
    fn stale_extents(&self, chain: &Chain) -> Result<Vec<u32>> {
        let known = Set::collect(self.directory.uses.iter().map(|used| used.base).filter(|&base| !chain.retired.contains(base)));
        let there = chain.listed.segments.iter().chain(&chain.tail).filter(|segment| known.contains(segment.base));
        let there = Set::collect(there.flat_map(|segment| segment.extent..segment.extent + segment.extents).map(u64::from));
        let all = 0..self.pair.current.geometry().extents_in(self.storage.len()?);
        Ok(all.filter(|&extent| !there.contains(extent.into())).collect())
    }

    /// The segment up to the end that `next` names. Where the next segment is gone, it ends before its trailer, provided that it is full
    /// and something in it counts: in a segment that a recovery has given up nothing counts, and where a recovery has cut one, only the
    /// next segment tells.
    fn with_end(&self, candidate: &Candidate, next: Option<&Candidate>, last: Segment) -> Result<Option<Segment>> {
        let geometry = self.pair.current.geometry();
        let segment = candidate.segment;
        let known = match next {
            None => Some(last.end),
            Some(next) => follows(&next.header, &segment).then_some(next.header.previous_end),
        };
        let limit = segment.limit(geometry);
        let end = known.unwrap_or(limit);
        if candidate.is_retired {
            return Ok(Some(Segment { end: limit, ..segment }));
        }
        let counts = candidate.used.live > 0 || candidate.used.tombstones > 0;
        if !(segment.first_frame(geometry)..=limit.min(self.storage.len()?)).contains(&end) || known.is_none() && !counts {
            return Ok(None);
        }
        let mut walk = Walk::new(self.storage, segment.salt, segment.first_frame(geometry), end);
        let mut is_whole = true;
        loop {
            match walk.step()? {
                Step::End => break,
                Step::Frame { header, .. } if header.kind.is_control() => {}
                Step::Frame { header, .. } if !header.kind.is_carried() => is_whole = !header.continues,
                Step::Frame { .. } | Step::Bad { .. } => return Ok(None),
            }
        }
        let goes_on = next.filter(|next| known.is_some() && next.header.linked);
        let trailer = if goes_on.is_some() { read_next(self.storage, geometry, &segment)? } else { None };
        let linked = goes_on.is_some_and(|next| trailer.is_some_and(|trailer| trailer.salt == next.segment.salt));
        // No commit spans a checkpoint.
        let must_be_whole = known.is_none() || next.is_none();
        Ok((is_whole || !must_be_whole).then_some(Segment { end, linked, ..segment }))
    }
}

fn follows(header: &SegmentHeader, segment: &Segment) -> bool {
    (header.previous_base, header.previous_salt) == (segment.base, segment.salt)
}
