//! Finds the segments of a damaged store that count, and where each ends.

#[cfg(feature = "encrypt")]
mod sealed;

use super::VerifyReport;
use super::checks::{check_header, check_name, damage};
use super::lost::Lost;
use crate::error::{Error, Result};
use crate::frame::Kind;
#[cfg(feature = "encrypt")]
use crate::log::keys_of;
use crate::log::{
    Front, Geometry, SLOT_LEN, Segment, SegmentHeader, SegmentKind, SegmentList, Superblock, SuperblockPair, SuperblockSlot,
    named_without_header, read_superblocks,
};
use crate::planted::{Bug, is};
#[cfg(feature = "encrypt")]
use crate::recover::enter_listed;
use crate::recover::{drop_inside, find_headers, read_segment_list};
use crate::scan::{Damage, Found, Stretch, scan, value_of};
use crate::sorted::{Map, Set};
use crate::storage::Storage;
use alloc::vec::Vec;

/// The segments of a damaged store that count, in log order.
pub(crate) struct Survey {
    /// The newest superblock, or what could be derived of it if both are lost.
    pub(crate) pair: SuperblockPair,
    /// The records of each segment, by its base.
    pub(crate) stretches: Map<u64, Stretch>,
    /// The rest of each segment that an unclean end has cut, or that a recovery has given up, by its base. Records in it do not count.
    pub(crate) cut_off: Map<u64, Stretch>,
    /// Damage outside the records.
    pub(crate) damage: Vec<Damage>,
}

impl Survey {
    /// Surveys a file that is a store, even if both superblocks are lost.
    pub(crate) fn of(storage: &dyn Storage) -> Result<Self> {
        let refused = match read_superblocks(storage) {
            Ok(Front::Store(pair)) => return Self::take(storage, &pair, None),
            Ok(Front::Blank) => Error::NotAStore { detail: "it is empty" },
            Err(error @ (Error::Corrupt { .. } | Error::NotAStore { .. })) => error,
            Err(error) => return Err(error),
        };
        let Some(Lost { superblock, headers }) = Lost::find(storage)? else { return Err(refused) };
        let pair = SuperblockPair { current: superblock, slot: SuperblockSlot::A, other_damaged: true };
        let mut survey = Self::take(storage, &pair, Some(headers))?;
        let lost = |offset: u64| Damage { offset, len: 512, key: None, what: "both superblocks" };
        survey.damage.extend([0, SLOT_LEN].map(lost));
        Ok(survey)
    }

    /// `lost` are the segment headers of a store that has lost its superblocks.
    fn take(storage: &dyn Storage, pair: &SuperblockPair, lost: Option<Map<u32, SegmentHeader>>) -> Result<Self> {
        let superblock = pair.current;
        let geometry = superblock.geometry();
        let mut report = VerifyReport::default();
        #[cfg(feature = "encrypt")]
        sealed::enter(storage, &superblock)?;
        let listed = match read_segment_list(storage, geometry, &superblock) {
            Err(Error::Corrupt { offset, what, .. }) => {
                damage(&mut report, offset, 1, what);
                SegmentList::default()
            }
            result => result?,
        };
        #[cfg(feature = "encrypt")]
        enter_listed(storage, geometry, &listed)?;
        let is_lost = lost.is_some();
        let mut headers = log_headers(storage, &superblock, &listed, lost)?;
        add_headerless(storage, &superblock, &mut headers)?;
        #[cfg(feature = "encrypt")]
        sealed::add_active(storage, &superblock, &mut headers)?;
        let last_listed = listed.segments.last().map(|segment| segment.base);
        let last_listed = if superblock.checkpoint.is_none() && !is_lost { Some(0) } else { last_listed };
        drop_parts(&mut headers, pair, last_listed);
        let counted = Counted::of(storage, &superblock, listed, headers)?;
        let len = storage.len()?;
        let of = |(base, segment): (u64, &Segment)| (base, counted.stretch(&superblock, segment, len));
        let stretches = Map::collect(counted.live.iter().map(of));
        let rest = |segment: &Segment, from: u64| {
            let to = segment.limit(geometry).min(len);
            (segment.base, Stretch { salt: segment.salt, from: from.min(to), to, full: false })
        };
        let cut = counted.live.iter().filter_map(|(base, segment)| Some(rest(segment, stretches.get(base)?.to)));
        let left = counted.left.iter().map(|segment| rest(segment, segment.first_frame(geometry)));
        let cut_off = Map::collect(cut.chain(left));
        for segment in counted.live.values().filter(|_| !is_lost && !is(Bug::VerifyTrustsHeaders)) {
            if geometry.start(segment.extent) < len {
                check_header(storage, geometry, superblock.store_id, segment, &mut report)?;
            }
        }
        Ok(Self { pair: *pair, stretches, cut_off, damage: report.damage })
    }

    /// The report on a store that cannot be opened any more.
    pub(super) fn report(self, storage: &dyn Storage) -> Result<VerifyReport> {
        let segments = self.stretches.values().count() as u64;
        let mut report = VerifyReport { segments, damage: self.damage, ..VerifyReport::default() };
        for &stretch in self.stretches.values() {
            report.bytes_checked += stretch.to - stretch.from;
            scan(storage, stretch, &mut |found| {
                match found {
                    Found::Frame { offset, header } => {
                        report.records += u64::from(!header.kind.is_control());
                        report.compressed += u64::from(header.is_compressed());
                        check_name(storage, offset, &header, &mut report)?;
                    }
                    Found::Damage(damage) => report.damage.push(damage),
                }
                Ok(())
            })?;
        }
        #[cfg(feature = "compress")]
        super::compressed::check_compressed(storage, &self.stretches.values().copied().collect::<Vec<_>>(), &mut report)?;
        Ok(report)
    }
}

/// The segments that count, by what the segment list and the headers say.
struct Counted {
    headers: Vec<(u32, SegmentHeader)>,
    /// The segments of the newest segment list, by their bases, and the last of them.
    listed: Map<u64, Segment>,
    last_listed: u64,
    /// Bases of the segments that a recovery has given up.
    given_up: Set,
    /// The segments that count, by their bases.
    live: Map<u64, Segment>,
    /// Segments that were given up and have not been retired.
    left: Vec<Segment>,
}

impl Counted {
    fn of(
        storage: &dyn Storage,
        superblock: &Superblock,
        listed: SegmentList,
        headers: Vec<(u32, SegmentHeader)>,
    ) -> Result<Self> {
        let geometry = superblock.geometry();
        let found = Map::collect(headers.iter().map(|(extent, header)| (header.base, header.segment(geometry, *extent))));
        let (segment_list, retired) = newest_list(storage, geometry, listed, &found)?;
        #[cfg(feature = "encrypt")]
        enter_listed(storage, geometry, &segment_list)?;
        let history = segment_list.segments.iter().zip(&segment_list.figures).filter(|(_, figures)| figures.history);
        let history = Set::collect(history.map(|(segment, _)| segment.base).collect::<Vec<_>>().into_iter());
        let listed = Map::collect(segment_list.segments.iter().map(|segment| (segment.base, *segment)));
        let last_listed = segment_list.segments.last().map_or(0, |segment| segment.base);
        let given_up = given_up(&headers);
        let left = found.values().filter(|segment| given_up.contains(segment.base) && !retired.contains(segment.base));
        let left: Vec<Segment> = left.filter(|segment| !listed.contains(segment.base)).copied().collect();
        let counts = |base: u64| (base > last_listed && !given_up.contains(base)) || listed.contains(base);
        let found = found.values().filter(|segment| counts(segment.base));
        // The list overrides the headers: a header may be lost, or an older one at the same offset.
        let live = found.chain(listed.values());
        let live = live.filter(|segment| !retired.contains(segment.base) && !history.contains(segment.base));
        let live = Map::collect(live.map(|segment| (segment.base, *segment)));
        Ok(Self { headers, listed, last_listed, given_up, live, left })
    }

    /// The records of a segment, in a file of `len` bytes: up to the end that the list, the next header or the superblock gives, or else
    /// up to the limit of the segment.
    fn stretch(&self, superblock: &Superblock, segment: &Segment, len: u64) -> Stretch {
        let geometry = superblock.geometry();
        let next = self.headers.iter().map(|(_, header)| header);
        let next = next.filter(|header| header.previous_base == segment.base && !self.given_up.contains(header.base));
        let said = next.map(|header| header.previous_end).max();
        let listed = self.listed.get(segment.base).filter(|_| segment.base < self.last_listed).map(|segment| segment.end);
        let closed = superblock.clean_end.and_then(|end| {
            let first = segment.lsn(geometry, geometry.start(segment.extent));
            let inside = (first..=segment.next_base(geometry)).contains(&end);
            (inside && said.is_none()).then(|| geometry.start(segment.extent) + (end - first))
        });
        let known = listed.or(said).or(closed);
        let from = segment.first_frame(geometry);
        let to = known.unwrap_or(u64::MAX).min(segment.limit(geometry)).min(len).max(from.min(len));
        Stretch { salt: segment.salt, from: from.min(to), to, full: known.is_some() }
    }
}

/// The newest readable list of live segments, and the bases of those that were retired after it.
fn newest_list(
    storage: &dyn Storage,
    geometry: Geometry,
    listed: SegmentList,
    found: &Map<u64, Segment>,
) -> Result<(SegmentList, Set)> {
    let len = storage.len()?;
    let mut segment_list = listed;
    let known = segment_list.segments.last().map_or(0, |segment| segment.base);
    let mut retired = Vec::new();
    for segment in found.values().filter(|segment| segment.base >= known) {
        let from = segment.first_frame(geometry);
        let to = segment.limit(geometry).min(len);
        if from >= to {
            continue;
        }
        let stretch = Stretch { salt: segment.salt, from, to, full: false };
        // Opening ends in front of what a power cut has torn. Of several segments that were emptied together the first one's retirement may
        // be lost and a later one's be there: that one holds tombstones and stubs of the first.
        let mut is_torn = false;
        scan(storage, stretch, &mut |event| {
            let Found::Frame { offset, header } = event else {
                is_torn = true;
                return Ok(());
            };
            let value = value_of(storage, segment.salt, offset, &header)?;
            match header.kind {
                Kind::Retire if !is_torn => retired.extend(value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))),
                Kind::Checkpoint if known == 0 => {
                    if let Some(newer) = SegmentList::decode(&value, geometry, geometry.extents_in(len)) {
                        segment_list = newer;
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
    }
    Ok((segment_list, Set::collect(retired.into_iter())))
}

/// The headers of segments of the log, by extent: those in `found`, or all that the file has. A header inside of another segment does not count.
fn log_headers(
    storage: &dyn Storage,
    superblock: &Superblock,
    listed: &SegmentList,
    found: Option<Map<u32, SegmentHeader>>,
) -> Result<Vec<(u32, SegmentHeader)>> {
    let geometry = superblock.geometry();
    let mut headers = match found {
        Some(headers) => headers,
        None => find_headers(storage, geometry, superblock.store_id, listed)?,
    };
    let runs: Vec<Segment> = headers.iter().map(|(extent, header)| header.segment(geometry, extent)).collect();
    for run in runs.iter().filter(|run| run.extents > 1) {
        // A run inside an earlier run may have been dropped already.
        if headers.contains(run.extent) {
            drop_inside(storage, geometry, &mut headers, run)?;
        }
    }
    let of_log = headers.iter().filter(|(_, header)| header.kind == SegmentKind::Log);
    Ok(of_log.map(|(extent, header)| (extent, *header)).collect())
}

/// Adds the segments that have lost both copies of their headers, where the trailer of the segment before names them and no other one.
fn add_headerless(storage: &dyn Storage, superblock: &Superblock, headers: &mut Vec<(u32, SegmentHeader)>) -> Result<()> {
    let geometry = superblock.geometry();
    for index in 0..headers.len() {
        let Some(&(extent, header)) = headers.get(index) else { continue };
        let (mut last, mut session) = (header.segment(geometry, extent), header);
        let goes_on = |segment: &Segment, (_, header): &(u32, SegmentHeader)| {
            (header.previous_base, header.previous_salt) == (segment.base, segment.salt)
        };
        while !headers.iter().any(|header| goes_on(&last, header))
            && let Some(next) = named_without_header(storage, geometry, superblock.store_id, &last)?
        {
            session = SegmentHeader {
                salt: next.salt,
                base: next.base,
                extents: next.extents,
                carried_over: 0,
                previous_base: last.base,
                previous_salt: last.salt,
                previous_end: last.limit(geometry),
                linked: true,
                ..session
            };
            headers.push((next.extent, session));
            // Nothing tells of its seal; most often it is of the same session, and a tag of each record says whether it is.
            #[cfg(feature = "encrypt")]
            if let Some(keys) =
                keys_of(storage).filter(|keys| keys.listed_seal(next.salt).is_none() && !keys.is_plain_from(next.base))
            {
                session.enter_next(keys, &next, geometry.start(next.extent))?;
            }
            last = next;
        }
    }
    Ok(())
}

/// Drops headers inside a run of extents whose record a crash has torn, so that the record cannot show that they are part of its value.
fn drop_parts(headers: &mut Vec<(u32, SegmentHeader)>, pair: &SuperblockPair, last_listed: Option<u64>) {
    if is(Bug::HeadersInValuesCount) {
        return;
    }
    let runs: Vec<(u32, SegmentHeader)> = headers.iter().filter(|(_, header)| header.extents > 1).copied().collect();
    let holds = |&(first, run): &(u32, SegmentHeader), extent: u32| extent > first && extent - first < run.extents;
    // Only a later session reuses the space of a run that was given up, and the superblock has the number of the last one.
    let last_session = if pair.other_damaged { u64::MAX } else { pair.current.session };
    headers.retain(|(extent, inner)| {
        let is_part = |run: &(u32, SegmentHeader)| {
            let before = |header: &SegmentHeader| (header.previous_base, header.previous_salt);
            let same = before(inner) == before(&run.1) && (inner.session <= run.1.session || inner.session > last_session);
            holds(run, *extent) && (same || before(inner) == (run.1.base, run.1.salt))
        };
        !runs.iter().any(is_part)
    });
    // After the checkpoint nothing has been retired, so a run owns all its extents. Without the list, the checkpoint is unknown.
    let Some(last_listed) = last_listed else { return };
    let given_up = given_up(headers);
    let is_live = |run: &&(u32, SegmentHeader)| run.1.base > last_listed && !given_up.contains(run.1.base);
    let is_there = |run: &(u32, SegmentHeader)| headers.contains(run);
    let live: Vec<(u32, SegmentHeader)> = runs.iter().filter(is_live).filter(|run| is_there(run)).copied().collect();
    headers.retain(|(extent, _)| !live.iter().any(|run| holds(run, *extent)));
}

/// Segments that a recovery gave up, because a younger one follows the same predecessor, and all segments after them.
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
