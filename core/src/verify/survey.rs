//! Which segments of a damaged store count, and how far they reach.

use super::VerifyReport;
use crate::error::{Error, Result};
use crate::frame::Kind;
use crate::log::{Geometry, Roster, Segment, SegmentHeader, SegmentKind, SuperblockPair};
use crate::recover::{find_headers, read_roster};
use crate::scan::{Found, Stretch, scan, value_of};
use crate::sorted::{Map, Set};
use crate::storage::Storage;
use alloc::vec::Vec;

/// The segments of a damaged store that count, in log order.
pub(crate) struct Survey {
    /// By base.
    pub(crate) stretches: Map<u64, Stretch>,
}

impl Survey {
    pub(crate) fn take(storage: &dyn Storage, pair: &SuperblockPair) -> Result<Self> {
        let superblock = pair.current;
        let geometry = superblock.geometry();
        let listed = match read_roster(storage, geometry, &superblock) {
            Err(Error::Corrupt { .. }) => Roster::default(),
            result => result?,
        };
        let headers = find_headers(storage, geometry, superblock.store_id, &listed)?;
        let headers: Vec<(u32, SegmentHeader)> = headers
            .iter()
            .filter(|(_, header)| header.kind == SegmentKind::Log)
            .map(|(extent, header)| (extent, *header))
            .collect();
        let found = Map::collect(headers.iter().map(|&(extent, header)| {
            (
                header.base,
                Segment { base: header.base, extent, extents: header.extents, end: 0, salt: header.salt, linked: false },
            )
        }));
        let (roster, retired) = Self::newest_list(storage, geometry, listed, &found)?;
        let listed = Map::collect(roster.segments.iter().map(|segment| (segment.base, *segment)));
        let last_listed = roster.segments.last().map_or(0, |segment| segment.base);
        let given_up = given_up(&headers);
        let counts = |base: u64| (base > last_listed && !given_up.contains(base)) || listed.contains(base);
        let found = found.values().filter(|segment| counts(segment.base));
        let live = listed.values().chain(found).filter(|segment| !retired.contains(segment.base));
        let live = Map::collect(live.map(|segment| (segment.base, *segment)));

        let len = storage.len()?;
        let stretch = |segment: &Segment| {
            let next =
                headers.iter().filter(|(_, header)| header.previous_base == segment.base && !given_up.contains(header.base));
            let said = next.map(|(_, header)| header.previous_end).max();
            let listed = listed.get(segment.base).filter(|_| segment.base < last_listed).map(|segment| segment.end);
            let closed = superblock.clean_end.and_then(|end| {
                let first = segment.lsn(geometry, geometry.start(segment.extent));
                let inside = (first..=segment.next_base(geometry)).contains(&end);
                (inside && said.is_none()).then(|| geometry.start(segment.extent) + (end - first))
            });
            let known = said.or(listed).or(closed);
            let from = segment.first_frame(geometry);
            let to = known.unwrap_or(u64::MAX).min(segment.limit(geometry)).min(len).max(from.min(len));
            Stretch { salt: segment.salt, from: from.min(to), to, full: known.is_some() }
        };
        Ok(Self { stretches: Map::collect(live.iter().map(|(base, segment)| (base, stretch(segment)))) })
    }

    /// What a store that does not open any more looks like.
    pub(super) fn report(&self, storage: &dyn Storage) -> Result<VerifyReport> {
        let mut report = VerifyReport { segments: self.stretches.values().count() as u64, ..VerifyReport::default() };
        for &stretch in self.stretches.values() {
            report.bytes_checked += stretch.to - stretch.from;
            scan(storage, stretch, &mut |found| {
                match found {
                    Found::Frame { header, .. } => report.records += u64::from(!header.kind.is_control()),
                    Found::Damage(damage) => report.damage.push(damage),
                }
                Ok(())
            })?;
        }
        Ok(report)
    }

    /// The newest list of live segments that can be read, and what was retired behind it.
    fn newest_list(
        storage: &dyn Storage,
        geometry: Geometry,
        listed: Roster,
        found: &Map<u64, Segment>,
    ) -> Result<(Roster, Set)> {
        let len = storage.len()?;
        let mut roster = listed;
        let known = roster.segments.last().map_or(0, |segment| segment.base);
        let mut retired = Vec::new();
        for segment in found.values().filter(|segment| segment.base >= known) {
            let from = segment.first_frame(geometry);
            let to = segment.limit(geometry).min(len);
            if from >= to {
                continue;
            }
            let stretch = Stretch { salt: segment.salt, from, to, full: false };
            scan(storage, stretch, &mut |event| {
                let Found::Frame { offset, header } = event else {
                    return Ok(());
                };
                let value = value_of(storage, offset, &header)?;
                match header.kind {
                    Kind::Retire => retired.extend(value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))),
                    Kind::Checkpoint if known == 0 => {
                        if let Some(newer) = Roster::decode(&value, geometry, geometry.extents_in(len)) {
                            roster = newer;
                        }
                    }
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok((roster, Set::collect(retired.into_iter())))
    }
}

/// Segments that a recovery gave up: another one follows the same predecessor and is younger; and whatever follows them.
fn given_up(headers: &[(u32, SegmentHeader)]) -> Set {
    let mut youngest = Map::collect(headers.iter().map(|(_, header)| (header.previous_base, header.base)));
    for (_, header) in headers {
        if let Some(base) = youngest.get_mut(header.previous_base) {
            *base = header.base.max(*base);
        }
    }
    let by_order = Map::collect(headers.iter().map(|(_, header)| (header.base, header.previous_base)));
    let mut given_up: Vec<u64> = Vec::new();
    for (base, previous) in by_order.iter() {
        if youngest.get(*previous) != Some(&base) || given_up.binary_search(previous).is_ok() {
            given_up.push(base);
        }
    }
    Set::collect(given_up.into_iter())
}
