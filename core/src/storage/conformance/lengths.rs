//! Calls that change the length of a file, reserve space or discard it.

use super::{Suite, noise, put};
use crate::storage::{Storage, StorageErrorKind};
use alloc::format;
use alloc::string::String;
use alloc::vec;

impl Suite {
    pub(super) fn empty_file(&mut self, storage: &dyn Storage) -> Result<(), String> {
        self.is(storage, &[])?;
        self.fails("a read of an empty file", storage.read_at(0, &mut [0]), Some(StorageErrorKind::OutOfRange))?;
        self.done("set_len(0)", storage.set_len(0))?;
        self.done("sync", storage.sync())?;
        self.done("discard", storage.discard(0, 4096))?;
        self.is(storage, &[])
    }

    pub(super) fn growing(&mut self, storage: &dyn Storage) -> Result<(), String> {
        for len in [1, 511, 512, 4096, 4097, 65_536, 100_000, 1_100_000] {
            self.done("set_len", storage.set_len(len))?;
            self.is(storage, &vec![0; len as usize])?;
        }
        let bytes = noise(2, 70_000);
        self.done("write", storage.write_at(0, &[&bytes]))?;
        self.done("set_len", storage.set_len(1_200_000))?;
        self.holds(storage, 0, &bytes)?;
        self.holds(storage, 70_000, &vec![0; 1_130_000])
    }

    pub(super) fn shrinking(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let full = noise(3, 200_000);
        for len in [199_999, 131_072, 65_537, 65_536, 65_535, 4097, 4096, 4095, 513, 512, 511, 1, 0] {
            self.done("write", storage.write_at(0, &[&full]))?;
            self.done("set_len", storage.set_len(len as u64))?;
            let mut expected = full.clone();
            expected.truncate(len);
            self.is(storage, &expected)?;
            self.fails("a read of cut bytes", storage.read_at(len as u64, &mut [0]), Some(StorageErrorKind::OutOfRange))?;
            self.done("set_len", storage.set_len(200_100))?;
            expected.resize(200_100, 0);
            self.is(storage, &expected)?;
            // The same by a write past the new end.
            self.done("set_len", storage.set_len(len as u64))?;
            self.done("write", storage.write_at(200_099, &[b"x"]))?;
            if let Some(last) = expected.last_mut() {
                *last = b'x';
            }
            self.is(storage, &expected)?;
        }
        Ok(())
    }

    pub(super) fn reserve(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let bytes = noise(7, 10_000);
        self.done("reserve", storage.reserve(0, 4096))?;
        self.is(storage, &[0; 4096])?;
        self.done("write", storage.write_at(0, &[&bytes]))?;
        let mut expected = bytes.clone();
        for (offset, len, end) in
            [(0, 10_000, 10_000), (5_000, 1, 10_000), (9_000, 3_000, 12_000), (100_000, 50_000, 150_000), (0, 1, 150_000)]
        {
            self.done("reserve", storage.reserve(offset, len))?;
            expected.resize(end, 0);
            self.is(storage, &expected)?;
        }
        self.done("reserve of nothing", storage.reserve(1_000_000, 0))?;
        self.is(storage, &expected)?;
        self.done("write", storage.write_at(120_000, &[&bytes]))?;
        put(&mut expected, 120_000, &bytes);
        self.done("reserve", storage.reserve(0, 4 * 1024 * 1024))?;
        expected.resize(4 * 1024 * 1024, 0);
        self.is(storage, &expected)
    }

    pub(super) fn discard(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let bytes = noise(8, 300_000);
        let ranges = [
            (0, 300_000),
            (4096, 8192),
            (5000, 100_000),
            (65_536, 65_536),
            (100, 50),
            (131_071, 65_538),
            (250_000, 100_000),
            (300_000, 10),
            (7, 0),
        ];
        for (offset, len) in ranges {
            self.done("write", storage.write_at(0, &[&bytes]))?;
            self.done("discard", storage.discard(offset, len))?;
            self.has_len(storage, 300_000)?;
            let mut seen = vec![0xA5; 300_000];
            self.done("read", storage.read_at(0, &mut seen))?;
            let wrong = seen.iter().zip(&bytes).enumerate().position(|(place, (seen, written))| {
                let is_inside = (offset..offset + len).contains(&(place as u64));
                seen != written && !(is_inside && *seen == 0)
            });
            self.check(wrong.is_none(), || format!("discard({offset}, {len}) changed byte {}", wrong.unwrap_or_default()))?;
            let again = bytes.get(..1000).unwrap_or_default();
            self.done("write", storage.write_at(offset.min(290_000), &[again]))?;
            self.holds(storage, offset.min(290_000), again)?;
        }
        Ok(())
    }
}
