//! The directory: which segments hold the snapshot, and the place of each part in them. Every byte that is read may be hostile.

use super::parts::{Reader, SegmentUse, put, put_long};
use crate::index::SHARDS;
use crate::limits::{FILE_LEN_MAX, KEY_LEN_MAX, LOG_POSITION_MAX, NAMESPACE_NUMBER_MAX};
use crate::log::{Geometry, SEGMENT_HEADER_LEN, SnapshotSegment};
use crate::sorted::Set;
use alloc::vec::Vec;

/// Version of the directory's shape: the first byte of its value.
const VERSION: u64 = 1;

/// Place of a part of the snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartPlace {
    /// Offset of its chunk in the file.
    pub(crate) offset: u64,
    /// Salt of the segment that holds it.
    pub(crate) salt: u64,
}

/// Number of the calendars among the parts that are not of the index.
const CALENDARS: u64 = 1;
/// Number of the places of events, and of the newest events of chains.
const EVENT_PLACES: u64 = 2;
const EVENT_HEADS: u64 = 3;
/// Number of the keys in order.
const ORDER: u64 = 4;
/// Number of the keys in order where not all namespaces are kept so.
const ORDER_OF_SOME: u64 = 5;
/// Records that a part of the order may have: a reader reads their keys at once.
const ORDER_RECORDS_MAX: u64 = 1 << 16;

/// Places of the parts that have the keys in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OrderParts {
    /// By namespaces, in order.
    pub(crate) parts: Vec<OrderPart>,
    /// All keys are in them. If not, the directory in the file does not name them: they are only kept for a session that has not read them.
    pub(crate) is_whole: bool,
    /// Numbers of the namespaces whose keys are in them, rising; `None`: all.
    pub(crate) only: Option<Vec<u32>>,
}

/// The place of some records of a namespace whose keys follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderPart {
    pub(crate) namespace: u32,
    pub(crate) records: u32,
    /// The separator: above all keys of the part in front, and not above any of this one; empty for the first of a namespace.
    pub(crate) from: Vec<u8>,
    pub(crate) place: PartPlace,
}

/// Places of the parts that have the index of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventParts {
    /// Places of events, each with the number of its chunk, which rise.
    pub(crate) chunks: Vec<(usize, PartPlace)>,
    /// The newest events of chains, in pieces.
    pub(crate) heads: Vec<PartPlace>,
    /// They are so up to the event with this number.
    pub(crate) last: u64,
}

#[cfg(feature = "events")]
impl EventParts {
    /// The place of a chunk.
    pub(crate) fn chunk(&self, number: usize) -> Option<PartPlace> {
        let place = self.chunks.binary_search_by_key(&number, |(chunk, _)| *chunk).ok()?;
        self.chunks.get(place).map(|(_, place)| *place)
    }

    /// True without an event.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

/// Places of a part of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardPlace {
    pub(crate) slots: PartPlace,
    /// When its records expire; `None` if none does.
    pub(crate) calendar: Option<PartPlace>,
}

/// A snapshot: its segments and its parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// The segments that hold a part, in the order in which they were written. The last one holds the directory.
    pub(crate) segments: Vec<SnapshotSegment>,
    pub(crate) names: Option<PartPlace>,
    /// A hash of the names, to detect changes. Not stored in the file.
    pub(crate) names_hash: u64,
    /// The parts of each shard that is not empty, with the shard's number: first the whole shard, then the changes, in the order in
    /// which they were made.
    pub(crate) shards: Vec<(usize, Vec<ShardPlace>)>,
    /// A part without a calendar has no record that expires.
    pub(crate) knows_expiring: bool,
    /// Figures of the segments of the log.
    pub(crate) uses: Vec<SegmentUse>,
    /// The index of events.
    pub(crate) events: EventParts,
    /// The keys in order.
    pub(crate) order: OrderParts,
}

impl Directory {
    /// The parts of a shard.
    pub(crate) fn parts_of(&self, shard: usize) -> &[ShardPlace] {
        let place = self.shards.binary_search_by_key(&shard, |(number, _)| *number).ok();
        place.and_then(|place| self.shards.get(place)).map_or(&[], |(_, parts)| parts)
    }

    /// Every part, in no order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = PartPlace> {
        let events = self.events.chunks.iter().map(|(_, place)| *place).chain(self.events.heads.iter().copied());
        let order = self.order.parts.iter().map(|part| part.place);
        self.names.into_iter().chain(self.shard_parts()).chain(events).chain(order)
    }

    /// The parts of all shards, calendars included.
    pub(super) fn shard_parts(&self) -> impl Iterator<Item = PartPlace> {
        self.shard_places().flat_map(|place| [Some(place.slots), place.calendar]).flatten()
    }

    fn shard_places(&self) -> impl Iterator<Item = ShardPlace> {
        self.shards.iter().flat_map(|(_, places)| places.iter().copied())
    }

    /// Drops everything but the list of segments.
    pub(crate) fn forget_parts(&mut self) {
        *self = Self { segments: core::mem::take(&mut self.segments), ..Self::default() };
    }

    /// Bytes of its segments in the file.
    pub(crate) fn len(&self, geometry: Geometry) -> u64 {
        self.segments.iter().map(|segment| segment.len(geometry)).sum()
    }

    /// The largest number of parts of any shard.
    pub(crate) fn parts_max(&self) -> usize {
        self.shards.iter().map(|(_, parts)| parts.len()).max().unwrap_or(0)
    }

    /// Drops the segments that hold no part any more, except the last `kept` ones.
    pub(super) fn drop_unused(&mut self, kept: usize) {
        let used = Set::collect(self.parts().map(|part| part.salt));
        let first_kept = self.segments.len().saturating_sub(kept);
        let mut number = 0;
        self.segments.retain(|segment| {
            number += 1;
            number > first_kept || used.contains(segment.salt)
        });
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>, geometry: Geometry) {
        put_long(out, VERSION);
        put_long(out, self.segments.len() as u64);
        for segment in &self.segments {
            put(out, segment.salt, 8);
            let bytes = segment.end.saturating_sub(geometry.start(segment.extent));
            [segment.extent.into(), segment.extents.into(), bytes].into_iter().for_each(|number| put_long(out, number));
        }
        let place = |out: &mut Vec<u8>, part: &PartPlace| {
            let number = self.segments.iter().position(|segment| segment.salt == part.salt).unwrap_or_default();
            let start = self.segments.get(number).map_or(0, |segment| geometry.start(segment.extent));
            put_long(out, number as u64);
            put_long(out, part.offset.saturating_sub(start));
        };
        place(out, &self.names.unwrap_or_default());
        put_long(out, self.shards.len() as u64);
        for (shard, parts) in &self.shards {
            put(out, *shard as u64, 1);
            put_long(out, parts.len() as u64);
            parts.iter().for_each(|part| place(out, &part.slots));
        }
        put_long(out, self.uses.len() as u64);
        let mut before = 0;
        for one in &self.uses {
            [one.base.saturating_sub(before), one.live, one.tombstones].into_iter().for_each(|number| put_long(out, number));
            before = one.base;
        }
        let calendars: Vec<Option<PartPlace>> = self.shard_places().map(|place| place.calendar).collect();
        let used = calendars.iter().flatten().count();
        let (has_calendars, has_events) = (self.knows_expiring && used > 0, !self.events.chunks.is_empty());
        let has_order = cfg!(feature = "ordered") && self.order.is_whole;
        put_long(out, u64::from(has_calendars) + 2 * u64::from(has_events) + u64::from(has_order));
        if has_calendars {
            [CALENDARS, used as u64].into_iter().for_each(|number| put_long(out, number));
            calendars.iter().flatten().for_each(|calendar| place(out, calendar));
            put_long(out, calendars.len().div_ceil(8) as u64);
            let bits = |eight: &[Option<PartPlace>]| {
                (0..).zip(eight).map(|(bit, calendar)| u8::from(calendar.is_some()) << bit).sum::<u8>()
            };
            out.extend(calendars.chunks(8).map(bits));
        }
        if has_events {
            self.encode_events(out, place);
        }
        if has_order {
            self.encode_order(out, place);
        }
    }

    fn encode_order(&self, out: &mut Vec<u8>, place: impl Fn(&mut Vec<u8>, &PartPlace)) {
        let (parts, only) = (&self.order.parts, &self.order.only);
        let kind = if only.is_some() { ORDER_OF_SOME } else { ORDER };
        [kind, parts.len() as u64].into_iter().for_each(|number| put_long(out, number));
        parts.iter().for_each(|part| place(out, &part.place));
        let mut bytes = Vec::new();
        if let Some(only) = only {
            put_long(&mut bytes, only.len() as u64);
            only.iter().for_each(|&number| put_long(&mut bytes, number.into()));
        }
        for part in parts {
            [part.namespace.into(), part.records.into(), part.from.len() as u64]
                .into_iter()
                .for_each(|number| put_long(&mut bytes, number));
            bytes.extend_from_slice(&part.from);
        }
        put_long(out, bytes.len() as u64);
        out.extend_from_slice(&bytes);
    }

    fn encode_events(&self, out: &mut Vec<u8>, place: impl Fn(&mut Vec<u8>, &PartPlace)) {
        let EventParts { chunks, heads, last } = &self.events;
        [EVENT_PLACES, chunks.len() as u64].into_iter().for_each(|number| put_long(out, number));
        chunks.iter().for_each(|(_, chunk)| place(out, chunk));
        let (mut numbers, mut before) = (Vec::new(), 0);
        for (number, _) in chunks {
            put_long(&mut numbers, (number - before) as u64);
            before = *number;
        }
        put_long(out, numbers.len() as u64);
        out.extend_from_slice(&numbers);
        [EVENT_HEADS, heads.len() as u64].into_iter().for_each(|number| put_long(out, number));
        heads.iter().for_each(|head| place(out, head));
        let mut bytes = Vec::new();
        put_long(&mut bytes, *last);
        put_long(out, bytes.len() as u64);
        out.extend_from_slice(&bytes);
    }

    /// `None` when the bytes are not a valid directory at the offset `own` of a file of `file_len` bytes: extents outside of the file or
    /// used twice, parts outside of their segments, numbers that do not rise.
    pub(super) fn decode(bytes: &[u8], geometry: Geometry, own: u64, file_len: u64) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.long()? != VERSION {
            return None;
        }
        let segments = decode_segments(&mut reader, geometry, file_len)?;
        if segments.last()?.end != own {
            return None;
        }
        let place = |reader: &mut Reader<'_>| decode_place(reader, geometry, &segments);
        let names = Some(place(&mut reader)?);
        let mut shards: Vec<(usize, Vec<ShardPlace>)> = Vec::new();
        for _ in 0..reader.count()? {
            let shard = reader.number(1)? as usize;
            let mut parts = Vec::new();
            for _ in 0..reader.count()? {
                parts.push(ShardPlace { slots: place(&mut reader)?, calendar: None });
            }
            if shard >= SHARDS || parts.is_empty() || shards.last().is_some_and(|&(before, _)| before >= shard) {
                return None;
            }
            shards.push((shard, parts));
        }
        let uses = decode_uses(&mut reader)?;
        let (mut knows_expiring, mut events, mut order) = (false, EventParts::default(), OrderParts::default());
        for _ in 0..reader.count()? {
            let kind = reader.long()?;
            let count = reader.count()?;
            let places = (0..count).map(|_| place(&mut reader)).collect::<Option<Vec<_>>>()?;
            let len = reader.count()?;
            let bytes = reader.take(len)?;
            // Those that a newer build has written and this one does not know are independent of the shards; the next directory omits
            // them.
            match kind {
                CALENDARS => {
                    set_calendars(&mut shards, &places, bytes)?;
                    knows_expiring = true;
                }
                EVENT_PLACES if cfg!(feature = "events") => events.chunks = chunks_of(&places, bytes)?,
                EVENT_HEADS if cfg!(feature = "events") => {
                    (events.heads, events.last) = (places, Reader(bytes).long()?);
                }
                ORDER | ORDER_OF_SOME if cfg!(feature = "ordered") => {
                    let (only, bytes) = if kind == ORDER { (None, bytes) } else { order_of_some(bytes)? };
                    order = OrderParts { parts: order_of(&places, bytes)?, is_whole: true, only };
                }
                _ => {}
            }
        }
        reader.0.is_empty().then_some(Self { segments, names, names_hash: 0, shards, knows_expiring, uses, events, order })
    }
}

/// The places of chunks with their numbers, which rise; `None` unless there are as many of them.
fn chunks_of(places: &[PartPlace], bytes: &[u8]) -> Option<Vec<(usize, PartPlace)>> {
    let mut reader = Reader(bytes);
    let mut chunks: Vec<(usize, PartPlace)> = Vec::with_capacity(places.len());
    for &place in places {
        let step = usize::try_from(reader.long()?).ok()?;
        let number = chunks.last().map_or(Some(step), |(before, _)| before.checked_add(step).filter(|_| step > 0))?;
        // A store has fewer events than log positions: what is above costs memory for nothing.
        chunks.push((number, place));
    }
    reader.0.is_empty().then_some(chunks)
}

/// The numbers of the namespaces that are kept in order, and the bytes behind them.
fn order_of_some(bytes: &[u8]) -> Option<(Option<Vec<u32>>, &[u8])> {
    let mut reader = Reader(bytes);
    let mut only = Vec::new();
    for _ in 0..reader.count()? {
        let number = u32::try_from(reader.long()?).ok()?;
        if number > NAMESPACE_NUMBER_MAX || only.last().is_some_and(|&before| before >= number) {
            return None;
        }
        only.push(number);
    }
    Some((Some(only), reader.0))
}

/// The parts of the order; `None` unless namespaces and separators rise.
fn order_of(places: &[PartPlace], bytes: &[u8]) -> Option<Vec<OrderPart>> {
    let mut reader = Reader(bytes);
    let mut parts: Vec<OrderPart> = Vec::with_capacity(places.len());
    for &place in places {
        let namespace = u32::try_from(reader.long()?).ok()?;
        let records = reader.long().filter(|records| (1..=ORDER_RECORDS_MAX).contains(records))? as u32;
        let len = reader.count().filter(|&len| len <= KEY_LEN_MAX)?;
        let from = reader.take(len)?.to_vec();
        let rises = match parts.last() {
            Some(before) if before.namespace == namespace => before.from < from,
            Some(before) => before.namespace < namespace && from.is_empty(),
            None => from.is_empty(),
        };
        if !rises || namespace > NAMESPACE_NUMBER_MAX {
            return None;
        }
        parts.push(OrderPart { namespace, records, from, place });
    }
    reader.0.is_empty().then_some(parts)
}

/// Gives the parts whose bits are set their calendars; `None` unless there are as many of them.
fn set_calendars(shards: &mut [(usize, Vec<ShardPlace>)], calendars: &[PartPlace], bits: &[u8]) -> Option<()> {
    let mut calendars = calendars.iter();
    let mut bits = bits.iter().flat_map(|eight| (0..8).map(move |bit| eight >> bit & 1 != 0));
    for part in shards.iter_mut().flat_map(|(_, parts)| parts) {
        if bits.next()? {
            part.calendar = Some(*calendars.next()?);
        }
    }
    // The last byte has no bits of further parts, and no byte follows it.
    let rest: Vec<bool> = bits.collect();
    (rest.len() < 8 && !rest.contains(&true) && calendars.next().is_none()).then_some(())
}

/// The segments that hold the parts; `None` unless each is listed once, inside of the file, and none overlap.
fn decode_segments(reader: &mut Reader<'_>, geometry: Geometry, file_len: u64) -> Option<Vec<SnapshotSegment>> {
    let count = reader.count()?;
    let mut segments: Vec<SnapshotSegment> = Vec::with_capacity(count);
    let mut taken = Vec::new();
    for _ in 0..count {
        let salt = reader.number(8)?;
        let (extent, extents) = (u32::try_from(reader.long()?).ok()?, u32::try_from(reader.long()?).ok()?);
        let len = reader.long()?;
        let last = extent.checked_add(extents)?.checked_sub(1).filter(|&last| last >= extent)?;
        let start = geometry.start(extent);
        if start > FILE_LEN_MAX || last > geometry.extent_of(FILE_LEN_MAX) || segments.iter().any(|other| other.salt == salt) {
            return None;
        }
        let end = start.checked_add(len)?;
        // Extents of the last segment after the directory may have been freed and reused.
        let is_used = segments.len() + 1 == count || end > geometry.start(last);
        if len < SEGMENT_HEADER_LEN as u64 || end > file_len || end > geometry.start(last + 1) || !is_used {
            return None;
        }
        taken.extend((extent..=last).map(u64::from));
        segments.push(SnapshotSegment { extent, extents, salt, end, own: false });
    }
    let all = taken.len();
    (Set::collect(taken.into_iter()).len() == all).then_some(segments)
}

/// The place of a part; `None` outside of these segments.
fn decode_place(reader: &mut Reader<'_>, geometry: Geometry, segments: &[SnapshotSegment]) -> Option<PartPlace> {
    let segment = segments.get(usize::try_from(reader.long()?).ok()?)?;
    let start = geometry.start(segment.extent);
    let offset = start.checked_add(reader.long()?)?;
    let is_inside = offset >= start + SEGMENT_HEADER_LEN as u64 && offset < segment.end;
    is_inside.then_some(PartPlace { offset, salt: segment.salt })
}

/// Figures of the segments of the log, in log order.
fn decode_uses(reader: &mut Reader<'_>) -> Option<Vec<SegmentUse>> {
    let mut uses: Vec<SegmentUse> = Vec::new();
    let mut base = 0_u64;
    for _ in 0..reader.count()? {
        let distance = reader.long()?;
        base = base.checked_add(distance).filter(|&base| base <= LOG_POSITION_MAX && distance > 0)?;
        uses.push(SegmentUse { base, live: reader.long()?, tombstones: reader.long()? });
    }
    Some(uses)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn a_directory_reads_back_and_one_that_cannot_be_is_refused() {
        let geometry = Geometry::new(4096, 4096);
        let segment =
            |extent: u32, salt: u64| SnapshotSegment { extent, extents: 1, salt, end: geometry.start(extent) + 3000, own: false };
        let part =
            |segment: &SnapshotSegment, at: u64| PartPlace { offset: geometry.start(segment.extent) + at, salt: segment.salt };
        let slots = |slots: PartPlace| ShardPlace { slots, calendar: None };
        let (first, last) = (segment(3, 77), segment(1, 78));
        let directory = Directory {
            segments: alloc::vec![first, last],
            names: Some(part(&first, 704)),
            names_hash: 0,
            shards: alloc::vec![
                (0, alloc::vec![slots(part(&first, 800)), slots(part(&last, 704))]),
                (255, alloc::vec![slots(part(&last, 900))])
            ],
            knows_expiring: false,
            uses: alloc::vec![
                SegmentUse { base: 16_384, live: 5, tombstones: 6 },
                SegmentUse { base: 20_480, live: 0, tombstones: 0 }
            ],
            events: EventParts::default(),
            order: OrderParts::default(),
        };
        let (own, len) = (last.end, geometry.start(9));
        let bytes_of = |directory: &Directory| {
            let mut bytes = Vec::new();
            directory.encode(&mut bytes, geometry);
            bytes
        };
        let bytes = bytes_of(&directory);
        let back = Directory::decode(&bytes, geometry, own, len).unwrap();
        assert_eq!(
            (&back.segments, back.names, &back.shards, &back.uses),
            (&directory.segments, directory.names, &directory.shards, &directory.uses)
        );
        for cut in 0..bytes.len() {
            assert!(Directory::decode(bytes.get(..cut).unwrap(), geometry, own, len).is_none());
        }
        assert!(Directory::decode(&bytes, geometry, own + 1, len).is_none(), "not the end of its segment");
        assert!(Directory::decode(&bytes, geometry, own, geometry.start(3)).is_none(), "behind the end of the file");
        let twice =
            Directory { segments: alloc::vec![SnapshotSegment { extent: 1, end: last.end, ..first }, last], ..directory.clone() };
        assert!(Directory::decode(&bytes_of(&twice), geometry, own, len).is_none(), "one place for two segments");
        let mut falling = directory.clone();
        falling.shards.reverse();
        assert!(Directory::decode(&bytes_of(&falling), geometry, own, len).is_none(), "shards out of order");
        let with_others = |others: &[u8]| {
            let mut bytes = bytes.clone();
            bytes.pop();
            bytes.extend_from_slice(others);
            Directory::decode(&bytes, geometry, own, len).map(|back| back.shards)
        };
        // Two of unknown kinds: one with a place and three more bytes, one with neither.
        let others = [2, 40, 1, 0, 0x88, 0x06, 3, 1, 2, 3, 41, 0, 0];
        assert_eq!(with_others(&others), Some(directory.shards.clone()));
        for cut in 0..others.len() {
            assert_eq!(with_others(others.get(..cut).unwrap()), None);
        }
        assert_eq!(with_others(&[1, 40, 1, 0, 1, 0]), None, "a part inside of a header");
        assert_eq!(with_others(&[1, 40, 1, 9, 0x88, 0x06, 0]), None, "a part of no segment");
        let mut expiring = Directory { knows_expiring: true, ..directory.clone() };
        assert_eq!(bytes_of(&expiring), bytes, "nothing expires");
        expiring.shards[0].1[1].calendar = Some(part(&last, 1000));
        expiring.shards[1].1[0].calendar = Some(part(&first, 1000));
        let back = Directory::decode(&bytes_of(&expiring), geometry, own, len).unwrap();
        assert_eq!((back.shards, back.knows_expiring), (expiring.shards.clone(), true));
        assert_eq!(bytes_of(&expiring).last(), Some(&0b110));
        for (bits, why) in [(0b10, "a calendar of no part"), (0b111, "a part without its calendar"), (0b1110, "of a fourth part")]
        {
            let mut bytes = bytes_of(&expiring);
            *bytes.last_mut().unwrap() = bits;
            assert!(Directory::decode(&bytes, geometry, own, len).is_none(), "{why}");
        }
        let mut outside = directory;
        outside.names = Some(part(&first, 703));
        assert!(Directory::decode(&bytes_of(&outside), geometry, own, len).is_none(), "a part inside of a header");
    }
}
