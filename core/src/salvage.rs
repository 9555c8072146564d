//! Salvage: every record that still checks, out of a store that may not open any more, into a new one. The source is never changed.

use crate::db::{Db, Namespace, VerifyReport};
use crate::error::{Error, Result};
use crate::frame::{Header, Kind, NAMESPACE_OF_NAMES};
use crate::log::{Front, Geometry, Roster, Segment, SegmentHeader, SegmentKind, SuperblockPair, Window, read_superblocks};
use crate::names::DEFAULT;
use crate::recover::{find_headers, read_roster};
use crate::scan::{Damage, Found, Stretch, scan};
use crate::sorted::{Map, Set};
use crate::storage::Storage;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// What salvaging got out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Records in the new store.
    pub records: u64,
    /// Removals that were applied on the way.
    pub removed: u64,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

/// Copies everything that checks from `source` into `target`, which should be new, in the order of the log. `progress` hears how
/// many bytes are done, of how many.
///
/// A namespace whose name is lost is called `salvaged-` and its number.
///
/// # Errors
///
/// [`Error::NotAStore`], [`Error::NewerVersion`], [`Error::Corrupt`] when both superblocks are lost, and errors of either storage.
pub fn salvage(source: &dyn Storage, target: &Db, progress: &mut dyn FnMut(u64, u64)) -> Result<SalvageReport> {
    let pair = match read_superblocks(source)? {
        Front::Store(pair) => pair,
        Front::Blank => {
            return Err(Error::NotAStore { detail: "it is empty" });
        }
    };
    let survey = Survey::take(source, &pair)?;
    let mut report = SalvageReport::default();
    let mut copy = Copy { source, target, names: survey.names(source)?, namespaces: BTreeMap::new(), removed: 0 };
    let total: u64 = survey.stretches.iter().map(|stretch| stretch.to - stretch.from).sum();
    let mut done = 0;
    for &stretch in &survey.stretches {
        scan(source, stretch, &mut |found| {
            match found {
                Found::Frame { offset, header } => {
                    copy.record(offset, &header)?;
                    progress(done + (offset - stretch.from), total);
                }
                Found::Damage(damage) => report.damage.push(damage),
            }
            Ok(())
        })?;
        done += stretch.to - stretch.from;
    }
    progress(total, total);
    target.flush()?;
    report.removed = copy.removed;
    report.records = target.stats()?.records;
    Ok(report)
}

/// What a store that does not open any more looks like.
pub(crate) fn survey_report(storage: &dyn Storage, pair: &SuperblockPair) -> Result<VerifyReport> {
    let survey = Survey::take(storage, pair)?;
    let mut report = VerifyReport { segments: survey.stretches.len() as u64, ..VerifyReport::default() };
    for &stretch in &survey.stretches {
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

/// The segments of a damaged store that count, in log order.
struct Survey {
    stretches: Vec<Stretch>,
}

impl Survey {
    fn take(storage: &dyn Storage, pair: &SuperblockPair) -> Result<Self> {
        let superblock = pair.current;
        let geometry = Geometry::new(superblock.segment_size);
        let headers = find_headers(storage, geometry, superblock.store_id)?;
        let headers: Vec<(u32, SegmentHeader)> = headers
            .iter()
            .filter(|(_, header)| header.kind == SegmentKind::Log)
            .map(|(extent, header)| (extent, *header))
            .collect();
        let found = Map::collect(headers.iter().map(|&(extent, header)| {
            (header.order, Segment { order: header.order, extent, extents: header.extents, end: 0, salt: header.salt })
        }));
        let (roster, retired) = Self::newest_list(storage, geometry, pair, &found)?;
        let listed = Map::collect(roster.segments.iter().map(|segment| (segment.order, *segment)));
        let last_listed = roster.segments.last().map_or(0, |segment| segment.order);
        let given_up = given_up(&headers);
        let counts = |order: u64| (order > last_listed && !given_up.contains(order)) || listed.contains(order);
        let found = found.values().filter(|segment| counts(segment.order));
        let live = listed.values().chain(found).filter(|segment| !retired.contains(segment.order));
        let live = Map::collect(live.map(|segment| (segment.order, *segment)));

        let len = storage.len()?;
        let stretch = |segment: &Segment| {
            let next =
                headers.iter().filter(|(_, header)| header.previous_order == segment.order && !given_up.contains(header.order));
            let said = next.map(|(_, header)| header.previous_end).max();
            let listed = listed.get(segment.order).filter(|_| segment.order < last_listed).map(|segment| segment.end);
            let closed = superblock.clean_end.and_then(|end| {
                let first = segment.lsn(geometry, geometry.start(segment.extent));
                let inside = (first..=first + u64::from(segment.extents) * geometry.segment_size()).contains(&end);
                (inside && said.is_none()).then(|| geometry.start(segment.extent) + (end - first))
            });
            let known = said.or(listed).or(closed);
            let from = segment.first_frame(geometry);
            let to = known.unwrap_or(u64::MAX).min(segment.limit(geometry)).min(len).max(from.min(len));
            Stretch { salt: segment.salt, from: from.min(to), to, full: known.is_some() }
        };
        Ok(Self { stretches: live.values().map(stretch).collect() })
    }

    /// The newest list of live segments that can be read, and what was retired behind it.
    fn newest_list(
        storage: &dyn Storage,
        geometry: Geometry,
        pair: &SuperblockPair,
        found: &Map<u64, Segment>,
    ) -> Result<(Roster, Set)> {
        let len = storage.len()?;
        let mut roster = match read_roster(storage, geometry, &pair.current) {
            Ok(roster) => roster,
            Err(Error::Corrupt { .. }) => Roster::default(),
            Err(error) => return Err(error),
        };
        let known = roster.segments.last().map_or(0, |segment| segment.order);
        let mut retired = Vec::new();
        for segment in found.values().filter(|segment| segment.order >= known) {
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

    /// Names of namespaces by number.
    fn names(&self, storage: &dyn Storage) -> Result<BTreeMap<u32, String>> {
        let mut by_name: BTreeMap<String, u32> = BTreeMap::from([(String::from(DEFAULT), 0)]);
        let mut seen_numbers: BTreeSet<u32> = BTreeSet::new();
        for &stretch in &self.stretches {
            scan(storage, stretch, &mut |event| {
                let Found::Frame { offset, header } = event else {
                    return Ok(());
                };
                if header.kind.is_control() || header.namespace != NAMESPACE_OF_NAMES {
                    return Ok(());
                }
                let name = String::from_utf8(key_of(storage, offset, &header)?).unwrap_or_default();
                let number = value_of(storage, offset, &header)?.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                seen_numbers.insert(number);
                if header.kind == Kind::Put {
                    seen_numbers.extend(by_name.insert(name, number));
                } else {
                    seen_numbers.extend(by_name.remove(&name));
                }
                Ok(())
            })?;
        }
        let mut by_number: BTreeMap<u32, String> = BTreeMap::new();
        by_number.extend(seen_numbers.into_iter().map(|number| (number, String::from(FORGOTTEN))));
        by_number.extend(by_name.into_iter().map(|(name, number)| (number, name)));
        Ok(by_number)
    }
}

/// Stands for the name of a namespace that was dropped or cleared: not a name that anyone can give.
const FORGOTTEN: &str = "\0";

/// Segments that a recovery gave up: another one follows the same predecessor and is younger; and whatever follows them.
fn given_up(headers: &[(u32, SegmentHeader)]) -> Set {
    let mut youngest = Map::collect(headers.iter().map(|(_, header)| (header.previous_order, header.order)));
    for (_, header) in headers {
        if let Some(order) = youngest.get_mut(header.previous_order) {
            *order = header.order.max(*order);
        }
    }
    let by_order = Map::collect(headers.iter().map(|(_, header)| (header.order, header.previous_order)));
    let mut given_up: Vec<u64> = Vec::new();
    for (order, previous) in by_order.iter() {
        if youngest.get(*previous) != Some(&order) || given_up.binary_search(previous).is_ok() {
            given_up.push(order);
        }
    }
    Set::collect(given_up.into_iter())
}

fn key_of(storage: &dyn Storage, offset: u64, header: &Header) -> Result<Vec<u8>> {
    let from = offset + header.header_len as u64;
    Ok(Window::new(storage, from + header.key_len as u64).bytes(from, header.key_len)?.to_vec())
}

fn value_of(storage: &dyn Storage, offset: u64, header: &Header) -> Result<Vec<u8>> {
    let from = offset + (header.header_len + header.key_len) as u64;
    Ok(Window::new(storage, from + header.value_len as u64).bytes(from, header.value_len)?.to_vec())
}

struct Copy<'a> {
    source: &'a dyn Storage,
    target: &'a Db,
    names: BTreeMap<u32, String>,
    namespaces: BTreeMap<u32, Namespace>,
    removed: u64,
}

impl Copy<'_> {
    fn record(&mut self, offset: u64, header: &Header) -> Result<()> {
        let number = header.namespace;
        if header.kind.is_control() || number == NAMESPACE_OF_NAMES {
            return Ok(());
        }
        let name = self.names.entry(number).or_insert_with(|| alloc::format!("salvaged-{number}")).clone();
        if name == FORGOTTEN {
            return Ok(());
        }
        let key = key_of(self.source, offset, header)?;
        if name == DEFAULT {
            if header.kind == Kind::Put {
                return self.target.insert(key, value_of(self.source, offset, header)?);
            }
            self.removed += u64::from(self.target.remove(key)?);
            return Ok(());
        }
        let namespace = match self.namespaces.get(&number) {
            Some(namespace) => namespace.clone(),
            None => {
                let namespace = self.target.namespace(&name)?;
                self.namespaces.insert(number, namespace.clone());
                namespace
            }
        };
        if header.kind == Kind::Put {
            return namespace.insert(key, value_of(self.source, offset, header)?);
        }
        self.removed += u64::from(namespace.remove(key)?);
        Ok(())
    }
}
