//! Blocks of the file in memory: a call of the browser costs 3 to 90 us, a copy of a small record next to nothing.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use pipkin::{Durability, Storage, StorageError};
use spin::{Mutex, MutexGuard};

const BLOCK: u64 = 16 * 1024;
/// Longer reads are scans, which would only push out what is read again.
const READ_MAX: usize = 2 * BLOCK as usize;

/// A storage with some of its blocks in memory, never more than a budget.
///
/// A block has one place, its number modulo the number of places. What stands in a block behind the end of the file is zero.
#[derive(Debug)]
pub struct CachedStorage<S> {
    inner: S,
    places: Mutex<Box<[Place]>>,
}

#[derive(Debug, Default)]
struct Place {
    block: u64,
    /// Empty until a block is here.
    bytes: Vec<u8>,
}

impl<S: Storage> CachedStorage<S> {
    /// Keeps at most `budget` bytes of `inner` in memory; memory is taken as it is needed.
    pub fn new(inner: S, budget: usize) -> Self {
        let places = (0..budget / BLOCK as usize).map(|_| Place::default()).collect();
        Self { inner, places: Mutex::new(places) }
    }

    fn places(&self) -> MutexGuard<'_, Box<[Place]>> {
        self.places.lock()
    }

    /// Brings a block to its place.
    fn load<'a>(&self, places: &'a mut [Place], block: u64, len: u64) -> Result<&'a [u8], StorageError> {
        let count = places.len() as u64;
        let Some(place) = places.get_mut((block % count) as usize) else { return Ok(&[]) };
        if place.block != block || place.bytes.is_empty() {
            let mut bytes = core::mem::take(&mut place.bytes);
            bytes.clear();
            bytes.resize(BLOCK as usize, 0);
            let start = block * BLOCK;
            let filled = (len - start).min(BLOCK) as usize;
            self.inner.read_at(start, bytes.get_mut(..filled).unwrap_or_default())?;
            *place = Place { block, bytes };
        }
        Ok(&place.bytes)
    }

    /// Hands every block in memory that reaches into `range` to `change`, with where it begins.
    fn each_in(&self, range: Range<u64>, mut change: impl FnMut(u64, &mut Vec<u8>)) {
        if range.is_empty() {
            return;
        }
        let mut places = self.places();
        let count = places.len() as u64;
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        if blocks.end - blocks.start >= count {
            let reached = places.iter_mut().filter(|place| blocks.contains(&place.block) && !place.bytes.is_empty());
            reached.for_each(|place| change(place.block * BLOCK, &mut place.bytes));
            return;
        }
        for block in blocks {
            if let Some(place) = places.get_mut((block % count) as usize)
                && place.block == block
                && !place.bytes.is_empty()
            {
                change(block * BLOCK, &mut place.bytes);
            }
        }
    }

    /// Writes `part`, which stands at `offset`, into the blocks that are in memory.
    fn patch(&self, offset: u64, part: &[u8]) {
        let end = offset + part.len() as u64;
        self.each_in(offset..end, |start, bytes| {
            let (from, to) = (offset.max(start), end.min(start + BLOCK));
            let target = bytes.get_mut((from - start) as usize..(to - start) as usize);
            let source = part.get((from - offset) as usize..(to - offset) as usize);
            if let (Some(target), Some(source)) = (target, source) {
                target.copy_from_slice(source);
            }
        });
    }

    fn forget(&self, range: Range<u64>) {
        self.each_in(range, |_, bytes| bytes.clear());
    }
}

impl<S: Storage> Storage for CachedStorage<S> {
    fn len(&self) -> Result<u64, StorageError> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        let before = self.inner.len()?;
        self.inner.set_len(len)?;
        self.each_in(len..before, |start, bytes| {
            let kept = len.saturating_sub(start) as usize;
            bytes.get_mut(kept..).unwrap_or_default().fill(0);
        });
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let mut places = self.places();
        if places.is_empty() || out.len() > READ_MAX {
            drop(places);
            return self.inner.read_at(offset, out);
        }
        let len = self.inner.len()?;
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > len) {
            return Err(StorageError::out_of_range(offset, out.len(), len));
        }
        let (mut at, mut rest) = (offset, out);
        while !rest.is_empty() {
            let bytes = self.load(&mut places, at / BLOCK, len)?;
            let source = bytes.get((at % BLOCK) as usize..).unwrap_or_default();
            let count = source.len().min(rest.len());
            let Some((filled, unfilled)) = rest.split_at_mut_checked(count) else { break };
            filled.copy_from_slice(source.get(..count).unwrap_or_default());
            at += count as u64;
            rest = unfilled;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        if let Err(error) = self.inner.write_at(offset, parts) {
            let len: usize = parts.iter().map(|part| part.len()).sum();
            self.forget(offset..offset.saturating_add(len as u64));
            return Err(error);
        }
        let mut at = offset;
        for part in parts {
            self.patch(at, part);
            at += part.len() as u64;
        }
        Ok(())
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.inner.sync()
    }
}
