//! One suite for every implementation of [`Storage`]: each sentence of its contract, checked without the standard library and
//! without panics, so that it runs inside a WebAssembly guest or a browser worker as well.

mod calls;
mod lengths;
mod reads;
#[cfg(feature = "std")]
mod threads;
mod writes;

use super::random::Rng;
use super::{Durability, Storage, StorageError, StorageErrorKind};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// What the suite expects of the host.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Files may have holes: checks offsets past 4 GiB, which takes that much space on a host without holes.
    pub sparse: bool,
    /// Several threads may call at once. Has no effect without the feature `std`.
    pub threads: bool,
    /// What `sync` must return; `None` accepts any value.
    pub durability: Option<Durability>,
    /// Seed of the random calls.
    pub seed: u64,
    /// Number of random calls.
    pub random_calls: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { sparse: false, threads: !cfg!(target_family = "wasm"), durability: None, seed: 1, random_calls: 600 }
    }
}

/// Runs the suite with the default [`Options`]; see [`run_with`].
///
/// ```
/// use pipkin::storage::{MemoryStorage, conformance};
///
/// let checks = conformance::run(&mut || Box::new(MemoryStorage::new()))?;
/// assert!(checks > 100);
/// # Ok::<(), String>(())
/// ```
pub fn run(make: &mut dyn FnMut() -> Box<dyn Storage>) -> Result<u32, String> {
    run_with(Options::default(), make)
}

/// Checks the contract. `make` yields an empty file each time. Returns the number of checks, or a message about the one that failed.
pub fn run_with(options: Options, make: &mut dyn FnMut() -> Box<dyn Storage>) -> Result<u32, String> {
    let mut suite = Suite { options, checks: 0 };
    let parts: [(&str, Part); 15] = [
        ("an empty file", Suite::empty_file),
        ("growing", Suite::growing),
        ("shrinking", Suite::shrinking),
        ("reads past the end", Suite::reads_past_the_end),
        ("writes behind the end", Suite::writes_behind_the_end),
        ("writes of nothing", Suite::writes_of_nothing),
        ("writes in parts", Suite::writes_in_parts),
        ("long writes", Suite::long_writes),
        ("stores", Suite::stores),
        ("far offsets", Suite::far_offsets),
        ("reserve", Suite::reserve),
        ("discard", Suite::discard),
        ("view", Suite::view),
        ("sync and claim", Suite::sync_and_claim),
        ("random calls", Suite::random_calls),
    ];
    #[cfg(feature = "std")]
    let parts = parts.into_iter().chain([("threads", Suite::threads as Part)]);
    for (name, part) in parts {
        let storage = make();
        part(&mut suite, &*storage).map_err(|what| format!("{name}: {what}"))?;
    }
    Ok(suite.checks)
}

type Part = fn(&mut Suite, &dyn Storage) -> Result<(), String>;

struct Suite {
    options: Options,
    checks: u32,
}

impl Suite {
    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
        self.checks += 1;
        if holds { Ok(()) } else { Err(what()) }
    }

    /// The call must succeed.
    fn done<T>(&mut self, what: &str, result: Result<T, StorageError>) -> Result<T, String> {
        self.checks += 1;
        result.map_err(|error| format!("{what}: {error}"))
    }

    /// The call must fail, with this kind where one is given.
    fn fails<T>(&mut self, what: &str, result: Result<T, StorageError>, kind: Option<StorageErrorKind>) -> Result<(), String> {
        match result {
            Ok(_) => self.check(false, || format!("{what} succeeded")),
            Err(error) => self.check(kind.is_none_or(|kind| error.kind == kind), || {
                format!("{what} failed with {:?} in place of {kind:?}: {error}", error.kind)
            }),
        }
    }

    fn has_len(&mut self, storage: &dyn Storage, expected: u64) -> Result<(), String> {
        let len = self.done("len", storage.len())?;
        self.check(len == expected, || format!("the length is {len} in place of {expected}"))?;
        let is_empty = self.done("is_empty", storage.is_empty())?;
        self.check(is_empty == (expected == 0), || format!("is_empty says {is_empty} at {expected} bytes"))
    }

    /// The file holds `expected` from `offset`.
    fn holds(&mut self, storage: &dyn Storage, offset: u64, expected: &[u8]) -> Result<(), String> {
        // Not zeros: those would hide a read that does nothing.
        let mut seen = vec![0xA5; expected.len()];
        self.done("read", storage.read_at(offset, &mut seen))?;
        let wrong = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
        self.check(wrong.is_none(), || {
            format!("the read of {} bytes at {offset} differs from byte {} on", expected.len(), wrong.unwrap_or_default())
        })
    }

    /// The file is `expected`, no more and no less.
    fn is(&mut self, storage: &dyn Storage, expected: &[u8]) -> Result<(), String> {
        self.has_len(storage, expected.len() as u64)?;
        self.holds(storage, 0, expected)
    }
}

/// Random bytes from a seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

/// Writes to the model.
fn put(expected: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if expected.len() < end {
        expected.resize(end, 0);
    }
    if let Some(target) = expected.get_mut(offset..end) {
        target.copy_from_slice(bytes);
    }
}
