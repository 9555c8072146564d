//! What the machine could do: a store that knows where everything is.
//!
//! It has no index, no checksums and no way back from a crash. The key of a record says its number ([`crate::data::number`]), the number
//! says its place in one mapped file whose space was prepared, which means written with zeros and synced before any clock runs. So its rows
//! are bare costs: copying into a map, `pwrite` and `fdatasync` on prepared space, random reads of a map, for multi-gets with prefetch.

mod group;
mod map;

use crate::Result;
use crate::data::{KEY_LEN, Key, Pair, number};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use group::Group;
use map::Map;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is written to the log for a removal: a key and a header.
const TOMBSTONE: [u8; 32] = [0; 32];
/// Reads that are under way together in a multi-get.
const TOGETHER: usize = 16;

pub(crate) struct Limits {
    map: Map,
    group: Group,
    path: PathBuf,
    /// A bit for each record of the load, from the first removal on.
    removed: OnceLock<Vec<AtomicU64>>,
}

impl Limits {
    fn is_removed(&self, number: u64) -> bool {
        let word = self.removed.get().and_then(|removed| removed.get(number as usize / 64));
        word.is_some_and(|word| word.load(Relaxed) & (1 << (number % 64)) != 0)
    }

    fn removed_bytes(&self, stride: usize) -> usize {
        let removed: u32 = self.removed.get().into_iter().flatten().map(|word| word.load(Relaxed).count_ones()).sum();
        removed as usize * (stride + TOMBSTONE.len())
    }

    /// One write and one sync. Records that continue the load can be found again.
    fn write_together<'r>(&self, records: impl Iterator<Item = Pair<'r>>, continues: bool) -> Result<()> {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for (key, value) in records {
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value);
            count += 1;
        }
        if continues && count > 0 {
            self.map.set_stride(bytes.len() / count);
            self.map.add_loaded(count as u64);
        } else {
            self.map.add_records(count as u64);
        }
        self.map.write_durable(&bytes)
    }
}

impl Engine for Limits {
    const FACTS: Facts = Facts {
        package: None,
        peer: false,
        unflushed: Unflushed::Kept("in the map, which is the page cache of the system"),
        ..Facts::peer(
            "limits",
            "",
            "no index, no checksums, no recovery: bare copies, bare reads of a map, pwrite and fdatasync on prepared space",
        )
    };

    type Reader<'a> = View<'a>;

    fn open(folder: &Path, options: &OpenOptions) -> Result<Self> {
        let path = folder.join("limits");
        if !path.exists() {
            map::prepare(&path, options.expected)?;
        }
        let map = Map::open(&path)?;
        Ok(Self { map, group: Group::default(), path, removed: OnceLock::new() })
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        let mut count = 0;
        for (key, value) in records {
            self.map.set_stride(key.len() + value.len());
            self.map.append(&[key, value])?;
            count += 1;
        }
        self.map.add_loaded(count);
        self.map.write_head()?;
        self.flush()
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.map.add_records(1);
        self.group.write(&self.map, &[key, value])
    }

    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        let mut records = records.peekable();
        let next = self.map.count();
        let continues = records.peek().is_some_and(|(key, _)| number(key) == next);
        self.write_together(records, continues)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.map.append(&[key, value])?;
        if number(key) >= self.map.count() {
            self.map.add_records(1);
        }
        Ok(())
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        let words = self.map.count().div_ceil(64);
        let removed = self.removed.get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        for key in keys {
            let number = number(key);
            let word = removed.get(number as usize / 64).ok_or("a key that is not there is removed")?;
            word.fetch_or(1 << (number % 64), Relaxed);
            self.map.append(&[&TOMBSTONE])?;
        }
        self.flush()
    }

    fn flush(&self) -> Result<()> {
        self.map.sync()
    }

    fn len(&self) -> Result<u64> {
        Ok(self.map.len())
    }

    fn reader(&self) -> Result<View<'_>> {
        Ok(View { store: self, count: self.map.count(), stride: self.map.stride(), removals: self.removed.get().is_some() })
    }

    /// Copies what lives into a new file. The map stays that of the old one: the places of the records are known there only.
    fn compact(self) -> Result<Self> {
        let copy = self.path.with_file_name("copy");
        let (count, stride) = (self.map.count(), self.map.stride());
        let used = self.map.tail() - self.removed_bytes(stride);
        map::allocate(&copy, used)?;
        let target = Map::open(&copy)?;
        for number in (0..count).filter(|number| !self.is_removed(*number)) {
            target.append(&[self.map.bytes(number as usize * stride, stride).unwrap_or_default()])?;
        }
        let rest = count as usize * stride;
        target.append(&[self.map.bytes(rest, used - target.tail()).unwrap_or_default()])?;
        target.sync()?;
        fs::rename(copy, &self.path)?;
        Ok(self)
    }

    fn append_events(&mut self, _: u64, events: &[Vec<u8>]) -> Result<()> {
        self.write_together(events.iter().map(|event| ([].as_slice(), event.as_slice())), true)
    }

    fn each_event(&self, count: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let stride = self.map.stride();
        let events = self.map.bytes(0, count * stride).unwrap_or_default();
        events.chunks(stride).for_each(&mut each);
        Ok(events.len() / stride)
    }

    fn get_event(&self, number: u64, found: impl FnOnce(&[u8])) -> Result<bool> {
        let stride = self.map.stride();
        let event = self.map.bytes(number as usize * stride, stride);
        let is_there = event.is_some();
        event.map(found);
        Ok(is_there)
    }

    fn size(&self, _: &Path) -> Result<u64> {
        let removed = self.removed_bytes(self.map.stride());
        Ok((self.map.tail() - removed) as u64)
    }

    fn close(self) -> Result<()> {
        self.flush()
    }
}

pub(crate) struct View<'a> {
    store: &'a Limits,
    count: u64,
    stride: usize,
    removals: bool,
}

impl View<'_> {
    #[inline]
    fn value(&self, number: u64) -> Option<&[u8]> {
        if number >= self.count || (self.removals && self.store.is_removed(number)) {
            return None;
        }
        self.store.map.bytes(number as usize * self.stride + KEY_LEN, self.stride - KEY_LEN)
    }
}

impl Reader for View<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        Ok(self.value(number(key)).map(with).is_some())
    }

    fn get_many(&mut self, keys: &[Key], mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut hits = 0;
        for keys in keys.chunks(TOGETHER) {
            let mut values = [None; TOGETHER];
            for (to, key) in values.iter_mut().zip(keys) {
                *to = self.value(number(key));
                to.iter().for_each(|value: &&[u8]| map::prefetch(value));
            }
            for value in values.into_iter().flatten() {
                each(value);
                hits += 1;
            }
        }
        Ok(hits)
    }

    /// As if the neighbours of a key were those that were written after it.
    fn range(&mut self, from: &[u8], count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let first = number(from).min(self.count.saturating_sub(count as u64));
        let mut hits = 0;
        for number in first..first + count as u64 {
            if let Some(value) = self.value(number) {
                each(from, value);
                hits += 1;
            }
        }
        Ok(hits)
    }
}
