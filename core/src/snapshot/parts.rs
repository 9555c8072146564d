//! The parts of a snapshot as bytes, and back. Every byte that is read may be hostile.

use crate::index::{ShardImage, Slot};
use crate::limits::{NAMESPACE_NAME_LEN_MAX, NAMESPACE_NUMBER_MAX};
use alloc::string::String;
use alloc::vec::Vec;

/// Takes bytes from the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn number(&mut self, width: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        bytes.get_mut(..width)?.copy_from_slice(self.take(width)?);
        Some(u64::from_le_bytes(bytes))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.number(1)?;
            value |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

fn put(out: &mut Vec<u8>, value: u64, width: usize) {
    out.extend_from_slice(value.to_le_bytes().get(..width).unwrap_or_default());
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Names and numbers of the namespaces, and the next number.
pub(super) fn encode_names<'a>(out: &mut Vec<u8>, next: u32, names: impl Iterator<Item = (&'a str, u32)>) {
    put(out, u64::from(next), 4);
    for (name, number) in names {
        put(out, name.len() as u64, 2);
        put(out, u64::from(number), 4);
        out.extend_from_slice(name.as_bytes());
    }
}

pub(super) fn decode_names(bytes: &[u8]) -> Option<(u32, Vec<(String, u32)>)> {
    let mut reader = Reader(bytes);
    let next = reader.number(4)? as u32;
    let mut names = Vec::new();
    while !reader.0.is_empty() {
        let len = reader.number(2)? as usize;
        let number = reader.number(4)? as u32;
        if len > NAMESPACE_NAME_LEN_MAX || number > NAMESPACE_NUMBER_MAX {
            return None;
        }
        names.push((String::from(core::str::from_utf8(reader.take(len)?).ok()?), number));
    }
    Some((next, names))
}

/// A part behind the names.
#[derive(Debug)]
pub(super) enum Part {
    /// A shard; [`decode_shard`] reads it.
    Shard(usize),
    /// The last part.
    Uses(Vec<SegmentUse>),
}

/// Stands in the place of a shard's number in front of the last part.
const USES: u64 = 0xffff;

pub(super) fn decode_part(bytes: &[u8]) -> Option<Part> {
    let mut reader = Reader(bytes);
    match reader.number(2)? {
        USES => decode_uses(reader.0).map(Part::Uses),
        shard => Some(Part::Shard(shard as usize)),
    }
}

/// One shard: its number, counts by namespace, then the slots in order of their tags: the distance from the tag before, and the offset in as
/// few bytes as the file needs.
pub(super) fn encode_shard(out: &mut Vec<u8>, shard: usize, image: &ShardImage, offset_width: usize) {
    put(out, shard as u64, 2);
    put(out, image.counts.len() as u64, 4);
    for &(namespace, count) in &image.counts {
        put(out, u64::from(namespace), 4);
        put(out, count, 8);
    }
    put(out, image.slots.len() as u64, 4);
    put(out, offset_width as u64, 1);
    let mut before = 0;
    for slot in &image.slots {
        put_varint(out, slot.tag() - before);
        put(out, slot.offset(), offset_width);
        before = slot.tag();
    }
}

pub(super) fn decode_shard(bytes: &[u8]) -> Option<ShardImage> {
    let mut reader = Reader(bytes);
    reader.number(2)?;
    let mut counts = Vec::new();
    for _ in 0..reader.number(4)? {
        counts.push((reader.number(4)? as u32, reader.number(8)?));
    }
    let len = reader.number(4)? as usize;
    let width = reader.number(1)? as usize;
    // Counts of a forged file may add up to more than a number holds.
    let counted = counts.iter().try_fold(0_u64, |sum, &(_, count)| sum.checked_add(count));
    if len > reader.0.len() || width > 6 || counted != Some(len as u64) {
        return None;
    }
    let mut slots = Vec::with_capacity(len);
    let mut tag = 0;
    for _ in 0..len {
        tag += reader.varint()?;
        let slot = Slot::new(tag, reader.number(width)?);
        if slot.tag() != tag || !slot.is_live() {
            return None;
        }
        slots.push(slot);
    }
    reader.0.is_empty().then_some(ShardImage { slots, counts })
}

/// What is known of one segment: its order, the bytes of its live records and of its tombstones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentUse {
    pub(crate) base: u64,
    pub(crate) live: u64,
    pub(crate) tombstones: u64,
}

pub(super) fn encode_uses(out: &mut Vec<u8>, uses: &[SegmentUse]) {
    put(out, USES, 2);
    for part in uses.iter().flat_map(|part| [part.base, part.live, part.tombstones]) {
        put(out, part, 8);
    }
}

fn decode_uses(bytes: &[u8]) -> Option<Vec<SegmentUse>> {
    let mut reader = Reader(bytes);
    let mut uses = Vec::new();
    while !reader.0.is_empty() {
        uses.push(SegmentUse { base: reader.number(8)?, live: reader.number(8)?, tombstones: reader.number(8)? });
    }
    Some(uses)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn parts_read_back_and_cut_parts_are_refused() {
        let slots = alloc::vec![Slot::new(0, 20_000), Slot::new(1, 20_100), Slot::new((1 << 22) - 1, 1 << 30)];
        let image = ShardImage { slots, counts: alloc::vec![(0, 2), (7, 1)] };
        let mut bytes = Vec::new();
        encode_shard(&mut bytes, 9, &image, 4);
        assert!(matches!(decode_part(&bytes), Some(Part::Shard(9))));
        let back = decode_shard(&bytes).unwrap();
        assert_eq!((back.slots, back.counts), (image.slots, image.counts));
        for len in 0..bytes.len() {
            assert!(decode_shard(bytes.get(..len).unwrap()).is_none());
        }
        let forged = ShardImage { slots: Vec::new(), counts: alloc::vec![(0, 1 << 63), (7, 1 << 63)] };
        let mut bytes = Vec::new();
        encode_shard(&mut bytes, 9, &forged, 4);
        assert!(decode_shard(&bytes).is_none());
        let mut bytes = Vec::new();
        encode_names(&mut bytes, 9, [("", 0), ("users", 3)].into_iter());
        assert_eq!(decode_names(&bytes).unwrap(), (9, alloc::vec![(String::new(), 0), (String::from("users"), 3)]));
        let mut bytes = Vec::new();
        encode_names(&mut bytes, 9, [("reserved", NAMESPACE_NUMBER_MAX + 1)].into_iter());
        assert!(decode_names(&bytes).is_none());
    }
}
