//! What the benches share: the records, and the places where a store can lie.
//!
//! Records are made before the clock runs: 24-byte keys and 150-byte values, both of pseudo-random bytes, in an order that has
//! nothing to do with the keys. The environment changes what a bench works on:
//!
//! - `PIPKIN_BENCH_RECORDS`: how many records, 100 000 by default;
//! - `PIPKIN_BENCH_VALUE`: bytes of a value;
//! - `PIPKIN_BENCH_THREADS`: with how many threads, `1,2,4,8,16,32,64` by default;
//! - `PIPKIN_BENCH_DIR`: the folder of the stores, on the disk that is meant.

pub mod counted;

use pipkin::{Builder, Db, Result};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Bytes of a key.
pub const KEY_LEN: usize = 24;
/// Bytes of a value, unless the environment says otherwise.
pub const VALUE_LEN: usize = 150;

const RECORDS_DEFAULT: usize = 100_000;

/// A key and a value.
pub type Record = ([u8; KEY_LEN], Vec<u8>);

/// SplitMix64 (Steele, Lea, Flood 2014): small, fast, the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers that belong to a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`. The bias of the remainder is far below anything that a clock could see.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn fill<T: AsMut<[u8]>>(&mut self, mut out: T) -> T {
        for chunk in out.as_mut().chunks_mut(8) {
            chunk.iter_mut().zip(self.next().to_le_bytes()).for_each(|(to, from)| *to = from);
        }
        out
    }

    /// Fisher-Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

/// How many records the benches work on.
pub fn record_count() -> usize {
    number("PIPKIN_BENCH_RECORDS").unwrap_or(RECORDS_DEFAULT).max(1)
}

/// How long the values are that the benches work on.
pub fn value_len() -> usize {
    number("PIPKIN_BENCH_VALUE").unwrap_or(VALUE_LEN)
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.replace('_', "").parse().ok()
}

/// With how many threads a bench runs, unless the environment names others.
pub fn thread_counts() -> Vec<usize> {
    let wanted = std::env::var("PIPKIN_BENCH_THREADS").ok();
    let wanted = wanted.map(|wanted| wanted.split(',').filter_map(|count| count.trim().parse().ok()).collect::<Vec<_>>());
    wanted.filter(|counts| !counts.is_empty()).unwrap_or_else(|| vec![1, 2, 4, 8, 16, 32, 64])
}

/// Records whose keys are as good as certainly different; another seed gives other keys.
pub fn records(count: usize, seed: u64) -> Vec<Record> {
    let mut random = Random::new(seed);
    let len = value_len();
    (0..count).map(|_| (random.fill([0; KEY_LEN]), random.fill(vec![0; len]))).collect()
}

/// Their keys, in an order of its own.
pub fn shuffled_keys(records: &[Record]) -> Vec<[u8; KEY_LEN]> {
    let mut keys: Vec<_> = records.iter().map(|(key, _)| *key).collect();
    Random::new(keys.len() as u64).shuffle(&mut keys);
    keys
}

/// Touches every byte, so that a value that is a slice of the file is really read.
pub fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

/// Where a store lies.
#[derive(Clone, Debug)]
pub enum Place {
    /// In a file of its own, in a new folder inside this one.
    File(PathBuf),
    /// In memory.
    Memory,
}

impl Place {
    /// A file inside `folder`, or where the environment says.
    pub fn file(folder: impl Into<PathBuf>) -> Self {
        Self::File(std::env::var_os("PIPKIN_BENCH_DIR").map_or_else(|| folder.into(), Into::into))
    }

    /// A file inside `folder`, and memory.
    pub fn both(folder: impl Into<PathBuf>) -> [Self; 2] {
        [Self::file(folder), Self::Memory]
    }

    /// Its name in the reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Memory => "memory",
        }
    }

    /// A new store with default options.
    pub fn create(&self) -> Result<Store> {
        self.create_with(Db::builder())
    }

    /// A new store.
    pub fn create_with(&self, builder: Builder) -> Result<Store> {
        let folder = match self {
            Self::File(parent) => Some(new_folder(parent)?),
            Self::Memory => None,
        };
        let db = match &folder {
            Some(folder) => builder.path(folder.path().join("bench.pipkin")).open()?,
            None => builder.in_memory()?,
        };
        Ok(Store { db, _folder: folder })
    }
}

/// A folder that ends with its guard.
pub fn new_folder(parent: &Path) -> Result<TempDir> {
    tempfile::tempdir_in(parent).map_err(|_| pipkin::Error::InvalidArgument("the folder for the benches cannot be written"))
}

/// An open store, and the folder that goes with it.
#[derive(Debug)]
pub struct Store {
    /// The store; closed before its folder is removed.
    pub db: Db,
    _folder: Option<TempDir>,
}

impl Store {
    /// Inserts all records, one by one.
    pub fn load(self, records: &[Record]) -> Result<Self> {
        for (key, value) in records {
            self.db.insert(key, value)?;
        }
        Ok(self)
    }
}
