//! The slots of a shard that stay in the file: a whole part of the index snapshot, read in place.
//!
//! In memory there is a fence for each group of up to 64 slots: the tag of its first slot, where it begins, and the checksum of its bytes.
//! A look-up finds the group by its fences, reads it, some 450 bytes, and compares the checksum, since bytes that were verified once may
//! rot later, and a slot that is not seen would be a record that is lost without a word.

use super::rot::Rot;
use super::slot::{Slot, TAG_BITS};
use crate::error::{Error, Result};
use crate::frame::{crc32c, decode_u64};
use crate::planted::{Bug, is};
use crate::storage::Storage;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

/// A group has at most so many slots.
const GROUP_SLOTS: usize = 64;
/// Bytes of a slot: a varint of the distance of tags, and the offset.
const SLOT_LEN_MAX: usize = 4 + 6;
pub(crate) const GROUP_LEN_MAX: usize = GROUP_SLOTS * SLOT_LEN_MAX;
/// A group lies in one block of the file, unless one slot of it crosses into the next: a look-up reads the device once.
const BLOCK: u64 = 4096;
/// The group of a tag is looked for so many groups before and after the place where tags that are spread evenly have it.
const NEAR: usize = 32;

/// Where the slots of a part lie in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BasePlace {
    /// File offset of the part, and the salt of its segment: they tell one part from another.
    pub(crate) part: u64,
    pub(crate) salt: u64,
    /// File offset of its first slot.
    pub(crate) slots: u64,
    /// Bytes of an offset.
    pub(crate) width: usize,
}

/// Where a group begins, counted from the first slot, and the checksum of its bytes.
#[derive(Clone, Copy, Debug)]
struct Group {
    at: u32,
    crc: u32,
}

/// The slots of a part, in tag order.
#[derive(Debug)]
pub(crate) struct Base {
    place: BasePlace,
    len: usize,
    /// Bytes of all slots.
    bytes: u32,
    /// The first tag of each group.
    tags: Box<[u32]>,
    groups: Box<[Group]>,
    /// Hears of damage.
    rot: Arc<Rot>,
}

/// Bytes of the distance of two tags.
const fn distance_len(distance: u64) -> usize {
    1 + (distance >= 1 << 7) as usize + (distance >= 1 << 14) as usize + (distance >= 1 << 21) as usize
}

impl Base {
    /// The base of a part whose bytes of slots have just been verified and decoded; `None` where they do not belong together.
    pub(crate) fn new(place: BasePlace, bytes: &[u8], slots: &[Slot], rot: &Arc<Rot>) -> Option<Self> {
        let (mut tags, mut groups): (Vec<u32>, Vec<Group>) = (Vec::new(), Vec::new());
        let (mut at, mut before, mut in_group) = (0_usize, 0, 0);
        for slot in slots {
            let end = at + distance_len(slot.tag() - before) + place.width;
            let from = groups.last().map_or(0, |group| group.at);
            let block = |at: u64| (place.slots + at) / BLOCK;
            if groups.is_empty() || in_group == GROUP_SLOTS || block(from.into()) != block(end as u64 - 1) {
                tags.push(slot.tag() as u32);
                groups.push(Group { at: u32::try_from(at).ok()?, crc: 0 });
                in_group = 0;
            }
            in_group += 1;
            (at, before) = (end, slot.tag());
        }
        let ends: Vec<u32> = groups.iter().skip(1).map(|group| group.at).chain([u32::try_from(at).ok()?]).collect();
        for (group, end) in groups.iter_mut().zip(ends) {
            group.crc = crc32c(bytes.get(group.at as usize..end as usize)?);
        }
        let (tags, groups) = (tags.into(), groups.into());
        let base = Self { place, len: slots.len(), bytes: bytes.len() as u32, tags, groups, rot: rot.clone() };
        (at == bytes.len()).then_some(base)
    }

    pub(crate) const fn place(&self) -> BasePlace {
        self.place
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (size_of::<Self>() + size_of_val(&*self.tags) + size_of_val(&*self.groups)) as u64
    }

    /// Bytes in the file.
    pub(crate) const fn file_bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The first group that may have a tag.
    fn first_group(&self, tag: u64) -> usize {
        let guess = ((tag * self.tags.len() as u64) >> TAG_BITS) as usize;
        let from = guess.saturating_sub(NEAR);
        let near = self.tags.get(from..self.tags.len().min(guess + NEAR)).unwrap_or_default();
        let is_below = |first: &u32| u64::from(*first) < tag;
        let is_near = near.first().is_some_and(is_below) && !near.last().is_some_and(is_below);
        let (from, tags) = if is_near { (from, near) } else { (0, &*self.tags) };
        // The group before the first one that begins with the tag may end with it.
        (from + tags.partition_point(is_below)).saturating_sub(1)
    }

    /// Where in the file a look-up of the tag begins to read.
    pub(super) fn place_of(&self, tag: u64) -> u64 {
        self.place.slots + u64::from(self.range(self.first_group(tag)).start)
    }

    /// Calls `found` with the slots with `tag`, until it returns a result.
    ///
    /// # Errors
    ///
    /// [`Error::IndexDamaged`] when a group is not what it was; [`Error::Storage`] when it cannot be read.
    pub(super) fn find<T>(
        &self,
        storage: &dyn Storage,
        tag: u64,
        mut found: impl FnMut(Slot) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let mut number = self.first_group(tag);
        while self.tags.get(number).is_some_and(|&first| u64::from(first) <= tag) {
            let answer = self.in_group(storage, number, |bytes| self.find_in(number, bytes, tag, &mut found))?;
            if answer.is_some() {
                return Ok(answer);
            }
            number += 1;
        }
        Ok(None)
    }

    /// [`Self::find`] in the bytes of a group.
    fn find_in<T>(
        &self,
        number: usize,
        bytes: &[u8],
        tag: u64,
        found: &mut impl FnMut(Slot) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.check(number, bytes)?;
        let (mut rest, mut now) = (bytes, 0);
        while !rest.is_empty() {
            let (distance, len) = decode_distance(rest).ok_or_else(|| self.damaged(number))?;
            now = if rest.len() == bytes.len() { self.first_tag(number) } else { now + distance };
            if now > tag {
                return Ok(None);
            }
            let (front, behind) = rest.split_at_checked(len + self.place.width).ok_or_else(|| self.damaged(number))?;
            if now == tag
                && let Some(answer) = found(Slot::new(tag, offset_of(front, len)))?
            {
                return Ok(Some(answer));
            }
            rest = behind;
        }
        Ok(None)
    }

    /// All slots with tags in this range, in order. Errors as for [`Self::find`].
    pub(super) fn between(&self, storage: &dyn Storage, tags: Range<u64>) -> Result<Vec<Slot>> {
        let mut slots = Vec::new();
        if tags == (0..Slot::TAGS) {
            slots.reserve_exact(self.len);
            // Otherwise a mapped file that is in no cache is read page by page.
            storage.will_read(&[self.place.slots], self.bytes as usize);
            // One read for all of it where nothing can be mapped.
            let mut each = |all: &[u8]| {
                (0..self.groups.len()).try_for_each(|number| {
                    let range = self.range(number);
                    let bytes = all.get(range.start as usize..range.end as usize).unwrap_or_default();
                    self.decode(number, bytes, |slot| slots.push(slot))
                })
            };
            match self.view(storage, 0..self.bytes) {
                Some(all) => each(all)?,
                None => {
                    let mut all = alloc::vec![0; self.bytes as usize];
                    storage.read_at(self.place.slots, &mut all)?;
                    each(&all)?;
                }
            }
            return Ok(slots);
        }
        let mut number = self.first_group(tags.start);
        while self.tags.get(number).is_some_and(|&first| u64::from(first) < tags.end) {
            let add = |slot: Slot| {
                if tags.contains(&slot.tag()) {
                    slots.push(slot);
                }
            };
            self.in_group(storage, number, |bytes| self.decode(number, bytes, add))?;
            number += 1;
        }
        Ok(slots)
    }

    /// The bytes of a group, counted from the first slot.
    fn range(&self, number: usize) -> Range<u32> {
        let at = |number: usize| self.groups.get(number).map_or(self.bytes, |group| group.at);
        at(number)..at(number + 1)
    }

    fn view<'a>(&self, storage: &'a dyn Storage, range: Range<u32>) -> Option<&'a [u8]> {
        // SAFETY: the segment that holds the part is not used again, nor cut off, while this base can be reached (`bases/`), and nobody
        // writes to a snapshot that is in use. No slice outlives the call that has found the base.
        unsafe { storage.view(self.place.slots + u64::from(range.start), (range.end - range.start) as usize) }
    }

    /// Hands over the bytes of a group.
    fn in_group<T>(&self, storage: &dyn Storage, number: usize, then: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let range = self.range(number);
        if let Some(bytes) = self.view(storage, range.clone()) {
            return then(bytes);
        }
        let mut room = [0; GROUP_LEN_MAX];
        let bytes = room.get_mut(..(range.end - range.start) as usize).ok_or_else(|| self.damaged(number))?;
        storage.read_at(self.place.slots + u64::from(range.start), bytes)?;
        then(bytes)
    }

    #[cold]
    fn damaged(&self, number: usize) -> Error {
        self.rot.note();
        Error::IndexDamaged { offset: self.place.slots + u64::from(self.range(number).start) }
    }

    fn check(&self, number: usize, bytes: &[u8]) -> Result<()> {
        let is_whole = self.groups.get(number).is_some_and(|group| group.crc == crc32c(bytes));
        if is_whole || is(Bug::IndexGroupUnchecked) { Ok(()) } else { Err(self.damaged(number)) }
    }

    fn first_tag(&self, number: usize) -> u64 {
        self.tags.get(number).map_or(0, |&tag| tag.into())
    }

    /// Calls `each` with all slots of a group.
    fn decode(&self, number: usize, bytes: &[u8], mut each: impl FnMut(Slot)) -> Result<()> {
        self.check(number, bytes)?;
        let (mut rest, mut tag) = (bytes, 0);
        while !rest.is_empty() {
            let (distance, len) = decode_distance(rest).ok_or_else(|| self.damaged(number))?;
            tag = if rest.len() == bytes.len() { self.first_tag(number) } else { tag + distance };
            let (front, behind) = rest.split_at_checked(len + self.place.width).ok_or_else(|| self.damaged(number))?;
            each(Slot::new(tag & (Slot::TAGS - 1), offset_of(front, len)));
            rest = behind;
        }
        Ok(())
    }
}

/// The distance at the front of the bytes, and its length. Without a branch on whether it has one byte or two: that cannot be predicted.
#[inline]
fn decode_distance(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes.first_chunk::<2>() {
        Some(&[low, high]) if low & high < 0x80 => {
            let is_long = low >> 7;
            let high = u64::from(high & is_long.wrapping_neg()) << 7;
            Some((u64::from(low & 0x7f) | high, 1 + usize::from(is_long)))
        }
        _ => decode_u64(bytes),
    }
}

/// The offset behind the distance of a slot.
#[inline]
fn offset_of(front: &[u8], distance_len: usize) -> u64 {
    let bytes = front.get(distance_len..).unwrap_or_default();
    bytes.iter().rev().fold(0, |offset, &byte| offset << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::encode_u64;

    #[test]
    fn a_distance_has_the_length_and_the_value_that_it_is_written_with() {
        let edges = [7_u32, 14, 21].into_iter().flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 1]);
        for distance in edges.chain([0, 1, 0x55, 0x1234, Slot::TAGS - 1]) {
            let mut bytes = Vec::new();
            encode_u64(distance, |byte| bytes.push(byte));
            let len = bytes.len();
            assert_eq!((distance_len(distance), decode_distance(&bytes)), (len, Some((distance, len))), "{distance}");
            for behind in [0, 0x7f, 0x80, 0xff] {
                bytes.truncate(len);
                bytes.extend([behind; 3]);
                assert_eq!(decode_distance(&bytes), Some((distance, len)), "{distance} in front of {behind}");
            }
        }
        assert_eq!((decode_distance(&[]), decode_distance(&[0x80]), decode_distance(&[0xff, 0xff])), (None, None, None));
    }

    #[test]
    fn an_offset_stands_behind_its_distance_with_the_lowest_byte_first() {
        assert_eq!((offset_of(&[9, 1, 2, 3], 1), offset_of(&[9, 9, 1, 2], 2), offset_of(&[9], 1)), (0x03_0201, 0x0201, 0));
    }
}
