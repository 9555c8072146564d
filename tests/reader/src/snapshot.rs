//! The index of a checkpoint, and whether it says what the log says.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::{Bytes, bind, crc, hash_of_key, part};
use crate::frame::{Frame, Kind};
use crate::log::Log;
use crate::replay::{Living, State};
use crate::segment::{self, Extents, FIRST_FRAME};
use crate::superblock::{DirectoryPlace, Superblock};
use crate::{Record, Refusal};

/// The state that snapshot and tail give; `None` when there is no snapshot, or anything of it does not check.
pub(crate) fn state(file: &[u8], superblock: &Superblock, log: &Log) -> Result<Option<State>, Refusal> {
    let Some(snapshot) = superblock.snapshot.and_then(|place| Snapshot::read(file, superblock, place)) else { return Ok(None) };
    let calendar = snapshot.calendar.as_ref().map_or(0, BTreeMap::len);
    let order = snapshot.order.as_ref().map(|parts| check_order(file, log, parts)).transpose()?;
    let mut state = State { names: snapshot.names, calendar, order, ..State::new() };
    // Slots that point anywhere else were taken behind the checkpoint, or into segments that the tail retires: the tail has those records.
    for (shard, slots) in &snapshot.shards {
        for &(tag, offset) in slots {
            let Some(stretch) = log.listed.iter().find(|stretch| (stretch.from..stretch.to).contains(&offset)) else { continue };
            let frame = bytes_to(file, offset, stretch.to).and_then(|bytes| Frame::decode(bytes, stretch.salt, offset));
            let damaged = Refusal::Damaged { offset, what: "a record that the snapshot names" };
            let Some(frame) = frame.filter(|frame| frame.kind == Kind::Put) else { return Err(damaged) };
            let hash = hash_of_key(&superblock.seed, frame.namespace, frame.key);
            if (hash >> 34 & 0x3f_ffff, (hash >> 56) as u8) != (tag, *shard) {
                return Err(damaged);
            }
            if let Some(calendar) = &snapshot.calendar
                && let Some(expiry) = frame.fields.expiry
                && state.names.values().any(|(number, _)| *number == frame.namespace)
                && calendar.get(&(*shard, tag, offset)).is_none_or(|&time| time > expiry)
            {
                return Err(Refusal::Damaged { offset, what: "a record that expires before its calendar says so" });
            }
            let Frame { namespace, key, value, fields, copied, .. } = frame;
            let record = Record { value: value.to_vec(), fields, copied };
            state.records.insert((namespace, key.to_vec()), Living { record, offset });
        }
    }
    for stretch in &log.tail {
        state.apply(file, stretch)?;
    }
    Ok(Some(state))
}

/// Records whose keys the parts give in order. Of an offset that points elsewhere than a listed segment the tail has the record.
fn check_order(file: &[u8], log: &Log, parts: &[OrderPart]) -> Result<usize, Refusal> {
    let mut records = 0;
    let mut last: Option<(u32, Vec<u8>)> = None;
    for part in parts {
        for (place, &offset) in part.offsets.iter().enumerate() {
            let Some(stretch) = log.listed.iter().find(|stretch| (stretch.from..stretch.to).contains(&offset)) else { continue };
            let frame = bytes_to(file, offset, stretch.to).and_then(|bytes| Frame::decode(bytes, stretch.salt, offset));
            let frame = frame.filter(|frame| frame.kind == Kind::Put && frame.namespace == part.namespace);
            let key = frame.map(|frame| (frame.namespace, frame.key.to_vec()));
            let is_behind = key.as_ref().is_some_and(|key| last.as_ref().is_none_or(|last| last < key) && key.1 >= part.from);
            // A separator is above every key in front of it.
            let is_apart = place > 0 || last.as_ref().is_none_or(|last| *last < (part.namespace, part.from.clone()));
            if !is_behind || !is_apart {
                return Err(Refusal::Damaged { offset, what: "a record that is not in its place in the order of the snapshot" });
            }
            records += 1;
            last = key;
        }
    }
    Ok(records)
}

fn bytes_to(file: &[u8], from: u64, to: u64) -> Option<&[u8]> {
    part(file, from, usize::try_from(to.checked_sub(from)?).ok()?).map(|bytes| bytes.0)
}

/// Tag and offset.
type Slots = BTreeSet<(u64, u64)>;

/// Some records of a namespace whose keys follow each other.
struct OrderPart {
    namespace: u32,
    from: Vec<u8>,
    offsets: Vec<u64>,
}

pub(crate) struct Snapshot {
    /// Where the records stand in the order of their keys, if that is said.
    order: Option<Vec<OrderPart>>,
    names: BTreeMap<String, (u32, Vec<u8>)>,
    shards: Vec<(u8, Slots)>,
    /// The earliest time at which the record of a slot of a shard may expire, of those that do; `None` if that is not said.
    calendar: Option<BTreeMap<(u8, u64, u64), u64>>,
    /// Bases of segments of the log, and whether anything in them lives or is a tombstone.
    pub(crate) uses: Vec<(u64, bool)>,
    /// Where its own segments begin and end.
    pub(crate) places: Vec<(u64, u64)>,
}

struct Piece {
    salt: u64,
    start: u64,
    end: u64,
}

impl Snapshot {
    /// `None` where anything of it does not check.
    pub(crate) fn read(file: &[u8], superblock: &Superblock, place: DirectoryPlace) -> Option<Self> {
        let (directory, len) = chunk(file, place.salt, place.offset)?;
        let mut rest = Bytes(directory);
        let (version, count) = (rest.long()?, rest.count()?);
        if version != 1 || len != place.len {
            return None;
        }
        let mut pieces = Vec::new();
        for index in 0..count {
            let (salt, extent, extents) = (rest.u64()?, u32::try_from(rest.long()?).ok()?, u32::try_from(rest.long()?).ok()?);
            let start = Extents::new(superblock).start(extent);
            let end = start.checked_add(rest.long()?)?;
            let header = segment::read(file, superblock, extent)?;
            if header.kind != segment::Kind::Snapshot || header.salt != salt || header.extents < extents {
                return None;
            }
            if index + 1 == count && (end, salt) != (place.offset, place.salt) {
                return None;
            }
            pieces.push(Piece { salt, start, end });
        }
        pieces.iter().try_for_each(|piece| is_gapless(file, piece))?;
        let read = |rest: &mut Bytes<'_>| -> Option<&[u8]> {
            let piece = pieces.get(usize::try_from(rest.long()?).ok()?)?;
            let offset = piece.start.checked_add(rest.long()?)?;
            (offset < piece.end).then(|| chunk(file, piece.salt, offset))?.map(|(bytes, _)| bytes)
        };
        let names = decode_names(read(&mut rest)?)?;
        let (mut shards, mut parts) = (Vec::new(), Vec::new());
        for _ in 0..rest.count()? {
            let number = rest.number(1)? as u8;
            if shards.last().is_some_and(|&(before, _)| before >= number) {
                return None;
            }
            let mut slots = Slots::new();
            let mut counted = 0;
            for index in 0..rest.count()? {
                let (count, added) = apply_part(read(&mut rest)?, number, index == 0, &mut slots)?;
                counted = count;
                parts.push((number, added));
            }
            if counted != slots.len() as u64 {
                return None;
            }
            shards.push((number, slots));
        }
        let (mut uses, mut base) = (Vec::new(), 0_u64);
        for _ in 0..rest.count()? {
            base = base.checked_add(rest.long()?)?;
            let (live, tombstones) = (rest.long()?, rest.long()?);
            uses.push((base, live > 0 || tombstones > 0));
        }
        let (mut calendar, mut order) = (None, None);
        for _ in 0..rest.count()? {
            let (kind, count) = (rest.long()?, rest.count()?);
            let places = (0..count).map(|_| read(&mut rest)).collect::<Option<Vec<_>>>()?;
            let len = usize::try_from(rest.long()?).ok()?;
            let bits = rest.take(len)?;
            if kind == 1 {
                calendar = Some(decode_calendars(&places, bits, &parts)?);
            } else if kind == 4 {
                order = Some(decode_order(&places, Bytes(bits))?);
            }
        }
        let places = pieces.iter().map(|piece| (piece.start, piece.end)).collect();
        rest.is_empty().then_some(Self { order, names, shards, calendar, uses, places })
    }
}

/// The bytes of a chunk, and how many it takes itself.
fn chunk(file: &[u8], salt: u64, offset: u64) -> Option<(&[u8], u64)> {
    let mut head = part(file, offset, 8)?;
    let (len, sum) = (head.u32()?, head.u32()?);
    let bytes = part(file, offset + 8, len as usize)?.0;
    (sum == crc(&[bytes]) ^ bind(salt, offset)).then_some((bytes, 8 + u64::from(len)))
}

fn is_gapless(file: &[u8], piece: &Piece) -> Option<()> {
    let mut at = piece.start + FIRST_FRAME;
    while at < piece.end {
        at += chunk(file, piece.salt, at)?.1;
    }
    (at == piece.end).then_some(())
}

fn decode_names(bytes: &[u8]) -> Option<BTreeMap<String, (u32, Vec<u8>)>> {
    let mut rest = Bytes(bytes);
    let _next = rest.u32()?;
    let mut names = BTreeMap::new();
    while !rest.is_empty() {
        let (len, number, options) = (rest.number(2)?, rest.u32()?, rest.varint()?);
        let name = String::from_utf8(rest.take(len as usize)?.to_vec()).ok()?;
        names.insert(name, (number, rest.take(options as usize)?.to_vec()));
    }
    Some(names)
}

/// The times of the slots of all parts; a later part says what counts.
fn decode_order(parts: &[&[u8]], mut bytes: Bytes<'_>) -> Option<Vec<OrderPart>> {
    let mut all = Vec::new();
    for part in parts {
        let namespace = u32::try_from(bytes.long()?).ok()?;
        let (records, len) = (bytes.long()?, bytes.count()?);
        let from = bytes.take(len)?.to_vec();
        let mut rest = Bytes(part);
        let width = usize::try_from(rest.number(1)?).ok().filter(|width| (1..=6).contains(width))?;
        let mut offsets = Vec::new();
        while !rest.is_empty() {
            offsets.push(rest.number(width)?);
        }
        if offsets.is_empty() || offsets.len() as u64 != records {
            return None;
        }
        all.push(OrderPart { namespace, from, offsets });
    }
    bytes.is_empty().then_some(all)
}

fn decode_calendars(calendars: &[&[u8]], bits: &[u8], parts: &[(u8, Slots)]) -> Option<BTreeMap<(u8, u64, u64), u64>> {
    if bits.len() != parts.len().div_ceil(8) || calendars.len() as u32 != bits.iter().map(|byte| byte.count_ones()).sum() {
        return None;
    }
    let (mut all, mut calendars) = (BTreeMap::new(), calendars.iter());
    for (index, (shard, added)) in parts.iter().enumerate() {
        all.retain(|&(of, tag, offset), _| of != *shard || !added.contains(&(tag, offset)));
        if bits.get(index / 8)? >> (index % 8) & 1 == 0 {
            continue;
        }
        let mut rest = Bytes(calendars.next()?);
        let is_of_shard = rest.number(1)? == u64::from(*shard);
        let (mut times, mut time) = (Vec::new(), 0_u64);
        for _ in 0..rest.count()? {
            time = time.checked_add(rest.long()?)?;
            times.push(time);
        }
        for &(tag, offset) in added {
            if let Some(number) = usize::try_from(rest.long()?).ok()?.checked_sub(1) {
                all.insert((*shard, tag, offset), *times.get(number)?);
            }
        }
        if !is_of_shard || !rest.is_empty() || !times.is_sorted_by(|one, other| one < other) {
            return None;
        }
    }
    calendars.next().is_none().then_some(all)
}

/// Applies a part to the slots of a shard. Returns how many it says there are, and those that it adds.
fn apply_part(bytes: &[u8], number: u8, is_first: bool, slots: &mut Slots) -> Option<(u64, Slots)> {
    let mut rest = Bytes(bytes);
    let fits = (rest.number(1)?, rest.number(1)?) == (u64::from(number), u64::from(!is_first));
    let mut counted = 0_u64;
    for _ in 0..rest.count()? {
        let (_namespace, records) = (rest.u32()?, rest.long()?);
        counted = counted.checked_add(records)?;
    }
    let width = rest.number(1)? as usize;
    if !fits || width > 6 {
        return None;
    }
    let there = decode_slots(&mut rest, width)?;
    if !is_first {
        for gone in decode_slots(&mut rest, width)? {
            slots.remove(&gone);
        }
    }
    slots.extend(&there);
    rest.is_empty().then_some((counted, there))
}

fn decode_slots(rest: &mut Bytes<'_>, width: usize) -> Option<Slots> {
    let mut slots = Slots::new();
    let mut tag = 0_u64;
    for _ in 0..rest.count()? {
        tag = tag.checked_add(rest.long()?)?;
        slots.insert((tag, rest.number(width)?));
    }
    Some(slots)
}
