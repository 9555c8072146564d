//! Reads: copies, several at once, and views.

use super::{Suite, noise, put};
use crate::storage::{Storage, StorageErrorKind};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

impl Suite {
    pub(super) fn reads_past_the_end(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let bytes = noise(4, 10_000);
        self.done("write", storage.write_at(0, &[&bytes]))?;
        for (offset, len) in
            [(10_000, 1), (9_999, 2), (0, 10_001), (9_000, 70_000), (1 << 33, 1), (u64::MAX, 1), (u64::MAX - 3, 8)]
        {
            let result = storage.read_at(offset, &mut vec![0; len]);
            self.fails(&format!("a read of {len} bytes at {offset}"), result, Some(StorageErrorKind::OutOfRange))?;
        }
        self.done("an empty read at the end", storage.read_at(10_000, &mut []))?;
        self.holds(storage, 9_999, bytes.get(9_999..).unwrap_or_default())?;
        self.is(storage, &bytes)
    }

    pub(super) fn view(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let bytes = noise(10, 3_000_000);
        let mut len = 0;
        // The file grows under earlier views, as it does under a reader of the store.
        let mut views: Vec<(usize, &[u8])> = Vec::new();
        for end in [1000, 4096, 70_000, 1_100_000, 3_000_000] {
            self.done("write", storage.write_at(len as u64, &[bytes.get(len..end).unwrap_or_default()]))?;
            for (offset, len) in [(0, end), (len, end - len), (end - 1, 1), (end / 2, 100), (end, 0), (0, 0)] {
                // SAFETY: from here on the file is only appended to, until the last use of the views below.
                if let Some(seen) = unsafe { storage.view(offset as u64, len) } {
                    self.check(seen.len() == len, || format!("a view of {len} bytes has {}", seen.len()))?;
                    views.push((offset, seen));
                }
            }
            for (offset, len) in
                [(end as u64, 1), (0, end + 1), (end as u64 - 1, 2), (1 << 50, 1), (u64::MAX, 1), (u64::MAX, usize::MAX)]
            {
                // SAFETY: as above.
                let seen = unsafe { storage.view(offset, len) };
                self.check(seen.is_none(), || format!("a view of {len} bytes at {offset} reaches behind the end at {end}"))?;
            }
            len = end;
        }
        for (offset, seen) in views {
            let expected = bytes.get(offset..offset + seen.len());
            self.check(expected == Some(seen), || format!("the view of {} bytes at {offset} differs", seen.len()))?;
        }
        // Written again, cut, and grown again.
        self.done("write", storage.write_at(500, &[b"again"]))?;
        self.done("set_len", storage.set_len(50_000))?;
        // SAFETY: nothing is written while this slice lives.
        let cut = unsafe { storage.view(49_999, 2) };
        self.check(cut.is_none(), || String::from("a view reaches behind the end of a file that was cut"))?;
        self.done("set_len", storage.set_len(90_000))?;
        // SAFETY: nothing is written while this slice lives.
        if let Some(seen) = unsafe { storage.view(0, 90_000) } {
            let mut expected = bytes.get(..50_000).unwrap_or_default().to_vec();
            put(&mut expected, 500, b"again");
            expected.resize(90_000, 0);
            self.check(seen == expected, || String::from("a view does not show what was written, cut and grown"))?;
        }
        Ok(())
    }
}
