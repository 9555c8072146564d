//! Writes: near and far, in parts and in one piece, and through mapped memory.

use super::{Suite, noise, put};
use crate::storage::random::Rng;
use crate::storage::{Storage, StorageErrorKind};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

impl Suite {
    pub(super) fn writes_behind_the_end(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let mut expected = Vec::new();
        for (offset, len) in [(10, 5), (15, 1), (600, 10), (5000, 4096), (140_000, 3), (140_002, 70_000), (1_000_000, 1)] {
            let bytes = noise(offset as u64, len);
            self.done("write", storage.write_at(offset as u64, &[&bytes]))?;
            put(&mut expected, offset, &bytes);
            self.is(storage, &expected)?;
        }
        Ok(())
    }

    pub(super) fn writes_of_nothing(&mut self, storage: &dyn Storage) -> Result<(), String> {
        for parts in [&[] as &[&[u8]], &[&[]], &[&[], &[]]] {
            self.done("an empty write", storage.write_at(0, parts))?;
            self.done("an empty write behind the end", storage.write_at(5000, parts))?;
            self.is(storage, &[])?;
        }
        self.done("write", storage.write_at(0, &[b"pipkin"]))?;
        self.done("an empty write", storage.write_at(3, &[&[]]))?;
        self.done("an empty write behind the end", storage.write_at(9, &[]))?;
        self.is(storage, b"pipkin")
    }

    pub(super) fn writes_in_parts(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let bytes = noise(5, 300_000);
        let mut expected = Vec::new();
        let mut rng = Rng::new(self.options.seed);
        // Few and many parts, short and long ones, some empty: more parts than one call of any host accepts.
        for (offset, count, len_max) in
            [(0, 2, 8), (7, 3, 700), (100, 9, 9_000), (4_000, 3000, 6), (500, 1025, 90), (123_456, 6, 40_000)]
        {
            let mut rest = bytes.as_slice();
            let mut parts: Vec<&[u8]> = Vec::new();
            for _ in 0..count {
                let (part, later) = rest.split_at_checked(rng.below(len_max) as usize).unwrap_or((&[], rest));
                parts.push(part);
                rest = later;
            }
            parts.push(&[]);
            self.done("write", storage.write_at(offset as u64, &parts))?;
            put(&mut expected, offset, &parts.concat());
            self.is(storage, &expected)?;
        }
        Ok(())
    }

    pub(super) fn long_writes(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let bytes = noise(6, 3 * 1024 * 1024 + 17);
        let mut expected = Vec::new();
        for len in [65_535, 65_536, 65_537, 1_048_575, 1_048_576, 1_048_577, bytes.len()] {
            for offset in [0, 4093] {
                let part = bytes.get(..len).unwrap_or_default();
                self.done("write", storage.write_at(offset as u64, &[part]))?;
                put(&mut expected, offset, part);
                self.is(storage, &expected)?;
            }
        }
        self.done("set_len", storage.set_len(0))?;
        let (first, second) = bytes.split_at(1_500_000);
        self.done("write", storage.write_at(1, &[first, second]))?;
        self.holds(storage, 1, &bytes)
    }

    /// Through mapped memory, where the host has it, into reserved space: the same bytes as by a write, for every way to read.
    pub(super) fn stores(&mut self, storage: &dyn Storage) -> Result<(), String> {
        const LEN: usize = 900_000;
        let bytes = noise(12, LEN);
        self.done("reserve", storage.reserve(0, LEN as u64))?;
        let mut expected = vec![0; LEN];
        let mut rng = Rng::new(self.options.seed);
        for round in 0..400 {
            // Short ones forward, as a log is written, then anywhere.
            let offset = if round < 200 { round * 1500 } else { rng.below(LEN as u64 - 3000) as usize };
            let source = bytes.get(offset..offset + rng.below(3000) as usize).unwrap_or_default();
            let (first, second) = source.split_at(source.len() / 3);
            // SAFETY: the range was reserved above, nothing was cut off or discarded since, and this thread is the only one.
            if !unsafe { storage.store(offset as u64, &[first, second]) } {
                self.done("write", storage.write_at(offset as u64, &[first, second]))?;
            }
            put(&mut expected, offset, source);
            self.holds(storage, offset as u64, source)?;
            if round % 100 == 50 {
                self.done("sync", storage.sync())?;
                self.is(storage, &expected)?;
            }
        }
        self.is(storage, &expected)?;
        self.done("set_len", storage.set_len(LEN as u64 - 5000))?;
        self.done("reserve", storage.reserve(0, LEN as u64))?;
        expected.truncate(LEN - 5000);
        expected.resize(LEN, 0);
        self.is(storage, &expected)
    }

    pub(super) fn far_offsets(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let impossible = [(u64::MAX, 1), (u64::MAX - 1, 2), (u64::MAX - 4095, 5000)];
        for (offset, len) in impossible {
            let result = storage.write_at(offset, &[&vec![1; len]]);
            self.fails(&format!("a write of {len} bytes at {offset}"), result, None)?;
            let result = storage.reserve(offset, len as u64 + 4096);
            if offset.checked_add(len as u64 + 4096).is_none() {
                self.fails("reserve", result, None)?;
            }
        }
        self.is(storage, &[])?;
        if !self.options.sparse {
            return Ok(());
        }
        for offset in [(1 << 31) - 3, (1 << 32) - 3, (5 << 30) + 1, (1 << 33) + 4095] {
            let bytes = noise(offset, 9000);
            self.done("write", storage.write_at(offset, &[&bytes]))?;
            self.has_len(storage, offset + 9000)?;
            self.holds(storage, offset, &bytes)?;
            self.holds(storage, offset - 5000, &[0; 5000])?;
            self.fails("a read", storage.read_at(offset + 8999, &mut [0; 2]), Some(StorageErrorKind::OutOfRange))?;
        }
        // An offset cut to 32 bits would have landed here.
        self.holds(storage, 0, &[0; 20_000])?;
        self.done("set_len", storage.set_len((1 << 32) + 100))?;
        self.has_len(storage, (1 << 32) + 100)?;
        self.done("set_len", storage.set_len(1 << 34))?;
        self.holds(storage, (5 << 30) + 1, &[0; 9000])?;
        self.done("set_len", storage.set_len(0))?;
        self.is(storage, &[])
    }
}
