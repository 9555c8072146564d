//! Calls of all kinds in sequence, and the calls that a store makes when it opens and closes.

use super::{Suite, noise, put};
use crate::storage::random::Rng;
use crate::storage::{HOLDER_LEN, HOLDER_OFFSET, Storage};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Suite {
    pub(super) fn sync_and_claim(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let mut bytes = noise(11, 20_000);
        if let Some(note) = bytes.get_mut(HOLDER_OFFSET as usize..HOLDER_OFFSET as usize + HOLDER_LEN) {
            note.fill(0);
        }
        self.done("write", storage.write_at(0, &[&bytes]))?;
        for _ in 0..2 {
            let achieved = self.done("sync", storage.sync())?;
            let expected = self.options.durability;
            self.check(expected.is_none_or(|expected| achieved == expected), || {
                format!("sync says {achieved:?}, not {expected:?}")
            })?;
        }
        self.done("claim", storage.claim())?;
        self.has_len(storage, bytes.len() as u64)?;
        let (before, after) = (HOLDER_OFFSET as usize, HOLDER_OFFSET as usize + HOLDER_LEN);
        self.holds(storage, 0, bytes.get(..before).unwrap_or_default())?;
        self.holds(storage, after as u64, bytes.get(after..).unwrap_or_default())?;
        self.done("release", storage.release())?;
        self.is(storage, &bytes)
    }

    /// The same random calls on the storage and on a vector.
    pub(super) fn random_calls(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let mut rng = Rng::new(self.options.seed);
        let mut expected: Vec<u8> = Vec::new();
        let bytes = noise(self.options.seed, 200_000);
        for _ in 0..self.options.random_calls {
            let len = if rng.chance(1, 8) { rng.below(150_000) } else { rng.below(2_000) } as usize;
            let offset = if rng.chance(1, 2) { expected.len() } else { rng.below(250_000) as usize };
            match rng.below(16) {
                0 => {
                    let len = rng.below(300_000) as usize;
                    self.done("set_len", storage.set_len(len as u64))?;
                    expected.resize(len, 0);
                }
                1 => {
                    self.done("reserve", storage.reserve(offset as u64, len as u64))?;
                    if len > 0 {
                        expected.resize(expected.len().max(offset + len), 0);
                    }
                }
                2 => {
                    // A hint changes nothing, whatever its range.
                    storage.will_sync(offset as u64, len as u64);
                    self.done("sync", storage.sync())?;
                }
                3..8 => {
                    let start = rng.below(expected.len() as u64 + 1) as usize;
                    let end = (start + len).min(expected.len());
                    self.holds(storage, start as u64, expected.get(start..end).unwrap_or_default())?;
                }
                _ => {
                    let source = bytes.get(rng.below(50_000) as usize..).unwrap_or_default();
                    let (first, second) = source.get(..len).unwrap_or_default().split_at(rng.below(len as u64 + 1) as usize);
                    self.done("write", storage.write_at(offset as u64, &[first, second]))?;
                    if len > 0 {
                        put(&mut expected, offset, first);
                        put(&mut expected, offset + first.len(), second);
                    }
                }
            }
            self.has_len(storage, expected.len() as u64)?;
        }
        self.is(storage, &expected)
    }
}
