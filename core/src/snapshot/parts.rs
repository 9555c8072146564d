//! Encoding and decoding the parts of a snapshot. Every byte that is read may be hostile.

use crate::frame::{decode_u64, encode_u64};
use crate::index::{Expiring, ShardChanges, ShardImage, Slot};
use crate::limits::{NAMESPACE_NAME_LEN_MAX, NAMESPACE_NUMBER_MAX};
use crate::sorted::sort;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Reads values from the front of the bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    pub(crate) fn number(&mut self, width: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        bytes.get_mut(..width)?.copy_from_slice(self.take(width)?);
        Some(u64::from_le_bytes(bytes))
    }

    /// A long varint.
    #[inline]
    pub(crate) fn long(&mut self) -> Option<u64> {
        let (number, taken) = decode_u64(self.0)?;
        self.0 = self.0.get(taken..)?;
        Some(number)
    }

    /// Tag distance and offset of a slot. The first lookup in each shard waits for thousands of these: where enough bytes follow, both
    /// are read from one word. `width` is at most 6.
    #[inline]
    fn slot(&mut self, width: usize) -> Option<(u64, u64)> {
        if let Some(front) = self.0.first_chunk::<16>() {
            let low = u64::from(u32::from_le_bytes(*front.first_chunk()?));
            // The last byte of the varint is the first one without the continuation bit; at most three bytes precede it.
            let bits = (!low & 0x8080_8080).trailing_zeros() + 1;
            if bits <= 32 {
                let len = (bits / 8) as usize;
                let varint = low & (u64::MAX >> (64 - bits));
                let distance = varint & 0x7f | varint >> 1 & 0x7f << 7 | varint >> 2 & 0x7f << 14 | varint >> 3 & 0x7f << 21;
                let is_shortest = bits == 8 || varint >> (bits - 8) != 0;
                let behind = u64::from_le_bytes(*front.get(len..)?.first_chunk()?);
                self.0 = self.0.get(len + width..)?;
                return is_shortest.then_some((distance, behind & ((1 << (8 * width)) - 1)));
            }
        }
        Some((self.long()?, self.number(width)?))
    }

    /// Number of entries that follow; `None` if it exceeds the bytes left, since no entry is shorter than a byte.
    pub(super) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.long()?).ok().filter(|&count| count <= self.0.len())
    }
}

pub(crate) fn put(out: &mut Vec<u8>, value: u64, width: usize) {
    out.extend_from_slice(value.to_le_bytes().get(..width).unwrap_or_default());
}

pub(crate) fn put_long(out: &mut Vec<u8>, value: u64) {
    encode_u64(value, |byte| out.push(byte));
}

/// A namespace as a snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedNumber {
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) options: Box<[u8]>,
}

/// Names, numbers and options of the namespaces, and the next number.
pub(super) fn encode_names<'a>(out: &mut Vec<u8>, next: u32, names: impl Iterator<Item = (&'a str, u32, &'a [u8])>) {
    put(out, u64::from(next), 4);
    for (name, number, options) in names {
        put(out, name.len() as u64, 2);
        put(out, u64::from(number), 4);
        put_long(out, options.len() as u64);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(options);
    }
}

/// A hash of encoded names, to detect changes.
pub(super) fn hash_of(names: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(names, 0)
}

pub(super) fn decode_names(bytes: &[u8]) -> Option<(u32, Vec<NamedNumber>)> {
    let mut reader = Reader(bytes);
    let next = reader.number(4)? as u32;
    let mut names: Vec<NamedNumber> = Vec::new();
    while !reader.0.is_empty() {
        let len = reader.number(2)? as usize;
        let number = reader.number(4)? as u32;
        let options_len = reader.count()?;
        if len > NAMESPACE_NAME_LEN_MAX || number > NAMESPACE_NUMBER_MAX {
            return None;
        }
        let name = String::from(core::str::from_utf8(reader.take(len)?).ok()?);
        names.push(NamedNumber { name, number, options: reader.take(options_len)?.into() });
    }
    // Each name once, and each number once: records of a number with two names would belong to both.
    let mut numbers: Vec<u64> = names.iter().map(|named| named.number.into()).collect();
    sort(&mut numbers);
    let is_set = numbers.is_sorted_by(|one, other| one < other) && names.is_sorted_by(|one, other| one.name < other.name);
    is_set.then_some((next, names))
}

/// Content of a part of a shard.
#[derive(Debug)]
pub(super) enum ShardPart {
    Whole(ShardImage),
    Changes(ShardChanges),
}

impl ShardPart {
    /// The slots that it adds.
    pub(super) fn added(&self) -> &[Slot] {
        match self {
            Self::Whole(image) => &image.slots,
            Self::Changes(changes) => &changes.added,
        }
    }
}

/// The kinds of a shard's parts in the file.
const WHOLE: u64 = 0;
const CHANGES: u64 = 1;

/// Number of the shard, kind, counts by namespace.
fn encode_front(out: &mut Vec<u8>, shard: usize, kind: u64, counts: &[(u32, u64)], offset_width: usize) {
    put(out, shard as u64, 1);
    put(out, kind, 1);
    put_long(out, counts.len() as u64);
    for &(namespace, count) in counts {
        put(out, u64::from(namespace), 4);
        put_long(out, count);
    }
    put(out, offset_width as u64, 1);
}

/// Slots in tag order: the distance from the previous tag, and the offset in as few bytes as the length of the file needs.
fn encode_slots(out: &mut Vec<u8>, slots: &[Slot], offset_width: usize) {
    put_long(out, slots.len() as u64);
    let mut room = [0; 512];
    let (mut at, mut before) = (0, 0);
    for slot in slots {
        let (varint, len) = short_varint((slot.tag() - before) as u32);
        // Each number is written as one word, over the unused end of the one before it: byte by byte takes three times as long.
        if let Some(place) = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<SLOT_ROOM>) {
            if let Some(place) = place.first_chunk_mut() {
                *place = varint.to_le_bytes();
            }
            if let Some(place) = place.get_mut(len..).and_then(<[u8]>::first_chunk_mut) {
                *place = slot.offset().to_le_bytes();
            }
        }
        at += len + offset_width;
        before = slot.tag();
        if at > room.len() - SLOT_ROOM {
            out.extend_from_slice(room.get(..at).unwrap_or_default());
            at = 0;
        }
    }
    out.extend_from_slice(room.get(..at).unwrap_or_default());
}

/// Bytes that are written for a slot: a varint of at most four, and a whole word of which the offset takes at most six.
const SLOT_ROOM: usize = 4 + 8;
const _: () = assert!(Slot::TAGS <= 1 << 28, "the distance of two tags fits into four bytes");

/// A number below 2^28 as a varint, and the length of that.
#[inline]
fn short_varint(number: u32) -> (u32, usize) {
    let len = 1 + usize::from(number >= 1 << 7) + usize::from(number >= 1 << 14) + usize::from(number >= 1 << 21);
    let groups = number & 0x7f | (number & 0x3f80) << 1 | (number & 0x1f_c000) << 2 | (number & 0xfe0_0000) << 3;
    (groups | 0x0080_8080 & ((1 << (8 * (len - 1))) - 1), len)
}

/// A part with a whole shard.
pub(super) fn encode_shard(out: &mut Vec<u8>, shard: usize, image: &ShardImage, offset_width: usize) {
    encode_front(out, shard, WHOLE, &image.counts, offset_width);
    encode_slots(out, &image.slots, offset_width);
}

/// A part with the changes of a shard since the previous part.
pub(super) fn encode_changes(out: &mut Vec<u8>, shard: usize, changes: &ShardChanges, offset_width: usize) {
    encode_front(out, shard, CHANGES, &changes.counts, offset_width);
    encode_slots(out, &changes.added, offset_width);
    encode_slots(out, &changes.removed, offset_width);
}

fn decode_slots(reader: &mut Reader<'_>, width: usize) -> Option<Vec<Slot>> {
    let len = reader.count()?;
    let mut slots: Vec<Slot> = Vec::with_capacity(len);
    let (mut tag, mut before) = (0_u64, Slot::new(0, 0));
    for _ in 0..len {
        let (distance, offset) = reader.slot(width)?;
        tag = tag.checked_add(distance)?;
        let slot = Slot::new(tag, offset);
        // Each slot once.
        if tag >= Slot::TAGS || slot.tag() != tag || !slot.is_live() || before >= slot {
            return None;
        }
        slots.push(slot);
        before = slot;
    }
    Some(slots)
}

/// What stands in front of the slots of a part.
struct Front {
    kind: u64,
    counts: Vec<(u32, u64)>,
    /// Bytes of an offset.
    width: usize,
}

/// The front of a part of the shard with this number.
fn decode_front(reader: &mut Reader<'_>, shard: usize) -> Option<Front> {
    if reader.number(1)? as usize != shard {
        return None;
    }
    let kind = reader.number(1)?;
    let mut counts = Vec::new();
    for _ in 0..reader.count()? {
        counts.push((reader.number(4)? as u32, reader.long()?));
    }
    let width = reader.number(1)? as usize;
    (width <= 6).then_some(Front { kind, counts, width })
}

/// Of a part with the whole of the shard with this number: bytes of an offset, where the first slot stands, and the slots.
#[cfg(feature = "std")]
pub(super) fn decode_base(bytes: &[u8], shard: usize) -> Option<(usize, usize, Vec<Slot>)> {
    let mut reader = Reader(bytes);
    let Front { kind, width, .. } = decode_front(&mut reader, shard)?;
    let mut behind = Reader(reader.0);
    behind.count()?;
    let slots = decode_slots(&mut reader, width)?;
    (kind == WHOLE && reader.0.is_empty()).then_some((width, bytes.len() - behind.0.len(), slots))
}

/// Decodes a part of the shard with this number.
pub(super) fn decode_shard(bytes: &[u8], shard: usize) -> Option<ShardPart> {
    let mut reader = Reader(bytes);
    let Front { kind, counts, width } = decode_front(&mut reader, shard)?;
    let slots = decode_slots(&mut reader, width)?;
    let part = match kind {
        WHOLE => ShardPart::Whole(ShardImage { slots, counts, expiring: Vec::new() }),
        CHANGES => ShardPart::Changes(ShardChanges {
            added: slots,
            removed: decode_slots(&mut reader, width)?,
            counts,
            expiring: Vec::new(),
        }),
        _ => return None,
    };
    reader.0.is_empty().then_some(part)
}

/// When the records of a part expire, at the earliest: the times, and for each slot that the part adds the number of its time, from 1, or 0 if
/// its record never expires. All are sorted.
pub(super) fn encode_calendar(out: &mut Vec<u8>, shard: usize, slots: &[Slot], expiring: &[Expiring]) {
    put(out, shard as u64, 1);
    put_long(out, expiring.len() as u64);
    let mut before = 0;
    for one in expiring {
        put_long(out, one.from - before);
        before = one.from;
    }
    let mut rests: Vec<&[Slot]> = expiring.iter().map(|one| &one.slots[..]).collect();
    for slot in slots {
        let mut number = 0;
        for (rest, time) in rests.iter_mut().zip(1..) {
            while let Some((first, behind)) = rest.split_first().filter(|(first, _)| *first <= slot) {
                *rest = behind;
                // Twice in the calendar: the earlier time counts.
                if first == slot && number == 0 {
                    number = time;
                }
            }
        }
        put_long(out, number);
    }
}

/// `None` unless it is of a part of this shard that adds these slots.
pub(super) fn decode_calendar(bytes: &[u8], shard: usize, slots: &[Slot]) -> Option<Vec<Expiring>> {
    let mut reader = Reader(bytes);
    if reader.number(1)? as usize != shard {
        return None;
    }
    let (mut expiring, mut from) = (Vec::new(), 0_u64);
    for _ in 0..reader.count()? {
        let distance = reader.long()?;
        from = from.checked_add(distance).filter(|_| expiring.is_empty() || distance > 0)?;
        expiring.push(Expiring { from, slots: Vec::new() });
    }
    for &slot in slots {
        let number = usize::try_from(reader.long()?).ok()?;
        if number > 0 {
            expiring.get_mut(number - 1)?.slots.push(slot);
        }
    }
    reader.0.is_empty().then_some(expiring)
}

/// A part of the order: the offsets of adjacent records.
#[cfg(feature = "ordered")]
pub(super) fn encode_order(out: &mut Vec<u8>, offsets: &[u64]) {
    let largest = offsets.iter().copied().max().unwrap_or_default();
    let width = (largest.max(1).ilog2() as usize / 8 + 1).min(6);
    put(out, width as u64, 1);
    offsets.iter().for_each(|&offset| put(out, offset, width));
}

/// `None` unless it holds whole offsets.
#[cfg(feature = "ordered")]
pub(crate) fn decode_order(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut reader = Reader(bytes);
    let width = Some(reader.number(1)? as usize).filter(|width| (1..=6).contains(width))?;
    let mut offsets = Vec::with_capacity(reader.0.len() / width);
    while !reader.0.is_empty() {
        offsets.push(reader.number(width)?);
    }
    Some(offsets)
}

/// Figures of one segment: its base, the bytes of its live records and of its tombstones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentUse {
    pub(crate) base: u64,
    pub(crate) live: u64,
    pub(crate) tombstones: u64,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn parts_read_back_and_cut_parts_are_refused() {
        let slots = alloc::vec![Slot::new(0, 20_000), Slot::new(1, 20_100), Slot::new((1 << 22) - 1, 1 << 30)];
        let image = ShardImage { slots, counts: alloc::vec![(0, 2), (7, 1)], expiring: Vec::new() };
        let mut bytes = Vec::new();
        encode_shard(&mut bytes, 9, &image, 4);
        let Some(ShardPart::Whole(back)) = decode_shard(&bytes, 9) else { panic!("{bytes:?}") };
        assert_eq!((&back.slots, &back.counts), (&image.slots, &image.counts));
        assert!(decode_shard(&bytes, 8).is_none(), "another shard's");
        for len in 0..bytes.len() {
            assert!(decode_shard(bytes.get(..len).unwrap(), 9).is_none());
        }
        let removed = alloc::vec![Slot::new(5, 30_000)];
        let changes = ShardChanges { added: image.slots.clone(), removed, counts: image.counts.clone(), expiring: Vec::new() };
        let mut bytes = Vec::new();
        encode_changes(&mut bytes, 9, &changes, 4);
        let Some(ShardPart::Changes(back)) = decode_shard(&bytes, 9) else { panic!("{bytes:?}") };
        assert_eq!((back.added, back.removed), (changes.added, changes.removed));
        for len in 0..bytes.len() {
            assert!(decode_shard(bytes.get(..len).unwrap(), 9).is_none());
        }
        let slots = alloc::vec![Slot::new(1, 20_000), Slot::new(1, 20_000)];
        let twice = ShardImage { slots, counts: alloc::vec![(0, 2)], expiring: Vec::new() };
        let mut bytes = Vec::new();
        encode_shard(&mut bytes, 9, &twice, 4);
        assert!(decode_shard(&bytes, 9).is_none(), "one slot twice");
    }

    #[cfg(feature = "ordered")]
    #[test]
    fn orders_read_back_and_cut_ones_are_refused() {
        for offsets in [&[][..], &[20_000, 16_384, 1 << 40], &[255, 1], &[1 << 47]] {
            let mut bytes = Vec::new();
            encode_order(&mut bytes, offsets);
            assert_eq!(decode_order(&bytes).as_deref(), Some(offsets));
            assert!(offsets.is_empty() || decode_order(&bytes[..bytes.len() - 1]).is_none_or(|cut| cut.len() < offsets.len()));
        }
        assert!([&[][..], &[0, 1], &[7, 1, 2, 3, 4, 5, 6, 7], &[4, 1, 2, 3]].iter().all(|bytes| decode_order(bytes).is_none()));
    }

    #[test]
    fn calendars_read_back_and_those_of_other_parts_are_refused() {
        let slots: Vec<Slot> = (0..5).map(|tag| Slot::new(tag, 20_000 + tag * 64)).collect();
        let expiring = |times: &[(u64, &[usize])]| -> Vec<Expiring> {
            let one = |&(from, tags): &(u64, &[usize])| Expiring { from, slots: tags.iter().map(|&tag| slots[tag]).collect() };
            times.iter().map(one).collect()
        };
        let mut bytes = Vec::new();
        encode_calendar(&mut bytes, 9, &slots, &expiring(&[(0, &[2]), (7 << 30, &[1, 2, 4])]));
        assert_eq!(bytes.len(), 1 + 1 + 1 + 5 + 5);
        assert_eq!(decode_calendar(&bytes, 9, &slots), Some(expiring(&[(0, &[2]), (7 << 30, &[1, 4])])));
        assert_eq!(decode_calendar(&bytes, 8, &slots), None, "another shard's");
        assert_eq!(decode_calendar(&bytes, 9, &slots[1..]), None, "of a part with more slots");
        for cut in 0..bytes.len() {
            assert_eq!(decode_calendar(&bytes[..cut], 9, &slots), None);
        }
        *bytes.last_mut().unwrap() = 3;
        assert_eq!(decode_calendar(&bytes, 9, &slots), None, "a third of two times");
        // An entry of a slot that the part does not have is left out.
        let mut bytes = Vec::new();
        encode_calendar(&mut bytes, 9, &slots[..2], &expiring(&[(5, &[0, 3])]));
        assert_eq!(decode_calendar(&bytes, 9, &slots[..2]), Some(expiring(&[(5, &[0])])));
    }

    /// The last slots of a part are read byte by byte, all others by words.
    #[test]
    fn slots_read_the_same_wherever_they_stand() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (seed >> 32) % below
        };
        for _ in 0..2000 {
            let (width, most) = [(2, 1 << 15), (3, 1 << 23), (4, 1 << 31), (6, 1 << 41)][random(4) as usize];
            let distances = [2, 200, 20_000, 3_000_000][random(4) as usize];
            let mut tag = 0;
            let mut slots = Vec::new();
            while slots.len() < 30 && tag < Slot::TAGS {
                slots.push(Slot::new(tag, 16_384 + random(most)));
                tag += random(distances);
            }
            slots.sort();
            slots.dedup();
            let mut bytes = Vec::new();
            encode_slots(&mut bytes, &slots, width);
            assert_eq!(decode_slots(&mut Reader(&bytes), width).as_ref(), Some(&slots));
            let (by_words, mut padded) = (bytes.clone(), Reader(&[]));
            bytes.resize(bytes.len() + 16, 0xff);
            padded.0 = &bytes;
            assert_eq!(decode_slots(&mut padded, width), Some(slots));
            assert_eq!(padded.0.len(), 16);
            assert!(decode_slots(&mut Reader(&by_words[..by_words.len() - 1]), width).is_none());
        }
        // A distance of 0 in two bytes, followed by enough bytes and by too few.
        for behind in [0, 16] {
            let mut bytes = alloc::vec![1, 0x80, 0x00, 0, 0x50];
            bytes.resize(bytes.len() + behind, 0);
            assert!(decode_slots(&mut Reader(&bytes), 2).is_none());
            bytes.splice(1..3, [0]);
            assert_eq!(decode_slots(&mut Reader(&bytes), 2), Some(alloc::vec![Slot::new(0, 0x5000)]));
        }
    }

    #[test]
    fn distances_are_varints_as_elsewhere() {
        let ends = (0..28).map(|bit| 1_u32 << bit).flat_map(|number| [number - 1, number, number + 1]);
        for number in ends.chain([(1 << 28) - 1, 0x0123_4567]) {
            let mut expected = Vec::new();
            put_long(&mut expected, number.into());
            let (varint, len) = short_varint(number);
            assert_eq!((&varint.to_le_bytes()[..len], varint >> (8 * len - 1)), (&expected[..], 0), "{number}");
        }
    }

    #[test]
    fn names_read_back_and_those_of_two_or_out_of_range_are_refused() {
        let back = |names: &[(&str, u32, &[u8])]| {
            let mut bytes = Vec::new();
            encode_names(&mut bytes, 9, names.iter().copied());
            decode_names(&bytes)
        };
        let (next, names) = back(&[("", 0, &[]), ("users", 3, b"options")]).unwrap();
        let users = NamedNumber { name: "users".into(), number: 3, options: b"options"[..].into() };
        assert_eq!((next, names.len(), names.get(1)), (9, 2, Some(&users)));
        assert!(back(&[("reserved", NAMESPACE_NUMBER_MAX + 1, &[])]).is_none());
        assert!(back(&[("a", 3, &[]), ("b", 3, &[])]).is_none(), "two names with one number");
        assert!(back(&[("a", 3, &[]), ("a", 4, &[])]).is_none(), "one name twice");
    }
}
