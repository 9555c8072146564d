//! One suite for every implementation of [`Storage`]: each sentence of its contract, checked without the standard library and
//! without panics, so that it runs inside a WebAssembly guest or a browser worker as well.

use super::random::Rng;
use super::{Durability, HOLDER_LEN, HOLDER_OFFSET, Storage, StorageError, StorageErrorKind};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// What to expect of the host.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Files may have holes: checks offsets behind 4 GiB, which costs a host without holes as much space.
    pub sparse: bool,
    /// Several threads may call at once. Has no effect without the feature `std`.
    pub threads: bool,
    /// What `sync` must say it achieved; `None` takes any answer.
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
pub fn run(make: &mut dyn FnMut() -> Box<dyn Storage>) -> Result<u32, String> {
    run_with(Options::default(), make)
}

/// Checks the contract. `make` yields an empty file each time. Says how many checks there were, or which one failed.
pub fn run_with(options: Options, make: &mut dyn FnMut() -> Box<dyn Storage>) -> Result<u32, String> {
    let mut suite = Suite { options, checks: 0 };
    let parts: [(&str, Part); 16] = [
        ("an empty file", Suite::empty_file),
        ("growing", Suite::growing),
        ("shrinking", Suite::shrinking),
        ("reads past the end", Suite::reads_past_the_end),
        ("writes behind the end", Suite::writes_behind_the_end),
        ("writes of nothing", Suite::writes_of_nothing),
        ("writes in parts", Suite::writes_in_parts),
        ("long writes", Suite::long_writes),
        ("far offsets", Suite::far_offsets),
        ("reserve", Suite::reserve),
        ("discard", Suite::discard),
        ("read_many", Suite::read_many),
        ("view", Suite::view),
        ("sync and claim", Suite::sync_and_claim),
        ("random calls", Suite::random_calls),
        ("threads", Suite::threads),
    ];
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
        // Not zeros, which a read that does nothing would leave in place.
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

    fn empty_file(&mut self, storage: &dyn Storage) -> Result<(), String> {
        self.is(storage, &[])?;
        self.fails("a read of an empty file", storage.read_at(0, &mut [0]), Some(StorageErrorKind::OutOfRange))?;
        self.done("set_len(0)", storage.set_len(0))?;
        self.done("sync", storage.sync())?;
        self.done("discard", storage.discard(0, 4096))?;
        self.is(storage, &[])
    }

    fn growing(&mut self, storage: &dyn Storage) -> Result<(), String> {
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

    fn shrinking(&mut self, storage: &dyn Storage) -> Result<(), String> {
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
            // The same by a write behind the new end.
            self.done("set_len", storage.set_len(len as u64))?;
            self.done("write", storage.write_at(200_099, &[b"x"]))?;
            if let Some(last) = expected.last_mut() {
                *last = b'x';
            }
            self.is(storage, &expected)?;
        }
        Ok(())
    }

    fn reads_past_the_end(&mut self, storage: &dyn Storage) -> Result<(), String> {
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

    fn writes_behind_the_end(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let mut expected = Vec::new();
        for (offset, len) in [(10, 5), (15, 1), (600, 10), (5000, 4096), (140_000, 3), (140_002, 70_000), (1_000_000, 1)] {
            let bytes = noise(offset as u64, len);
            self.done("write", storage.write_at(offset as u64, &[&bytes]))?;
            put(&mut expected, offset, &bytes);
            self.is(storage, &expected)?;
        }
        Ok(())
    }

    fn writes_of_nothing(&mut self, storage: &dyn Storage) -> Result<(), String> {
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

    fn writes_in_parts(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let bytes = noise(5, 300_000);
        let mut expected = Vec::new();
        let mut rng = Rng::new(self.options.seed);
        // Few and many parts, short and long ones, some empty: more of them than one call of any host takes.
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

    fn long_writes(&mut self, storage: &dyn Storage) -> Result<(), String> {
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

    fn far_offsets(&mut self, storage: &dyn Storage) -> Result<(), String> {
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

    fn reserve(&mut self, storage: &dyn Storage) -> Result<(), String> {
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

    fn discard(&mut self, storage: &dyn Storage) -> Result<(), String> {
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

    fn read_many(&mut self, storage: &dyn Storage) -> Result<(), String> {
        let bytes = noise(9, 200_000);
        self.done("write", storage.write_at(0, &[&bytes]))?;
        self.done("read_many of nothing", storage.read_many(&mut []))?;
        let places = [(150_000, 50_000), (0, 1), (65_530, 20), (7, 0), (200_000, 0), (0, 100_000), (199_999, 1), (10, 300)];
        let mut buffers = places.map(|(_, len)| vec![0xA5; len]);
        let mut reads: Vec<(u64, &mut [u8])> =
            places.iter().zip(&mut buffers).map(|((offset, _), buffer)| (*offset as u64, buffer.as_mut_slice())).collect();
        self.done("read_many", storage.read_many(&mut reads))?;
        for ((offset, len), buffer) in places.into_iter().zip(&buffers) {
            let expected = bytes.get(offset..offset + len).unwrap_or_default();
            self.check(buffer == expected, || format!("read_many of {len} bytes at {offset} differs"))?;
        }
        let (mut inside, mut outside) = ([0; 10], [0; 10]);
        let result = storage.read_many(&mut [(0, &mut inside), (199_995, &mut outside)]);
        self.fails("read_many past the end", result, Some(StorageErrorKind::OutOfRange))
    }

    fn view(&mut self, storage: &dyn Storage) -> Result<(), String> {
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

    fn sync_and_claim(&mut self, storage: &dyn Storage) -> Result<(), String> {
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
    fn random_calls(&mut self, storage: &dyn Storage) -> Result<(), String> {
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

    #[cfg(not(feature = "std"))]
    fn threads(&mut self, _storage: &dyn Storage) -> Result<(), String> {
        Ok(())
    }

    /// Threads write disjoint ranges, neighbours in the same sector, inside the file and behind its end, while it is grown; and read
    /// back what they wrote.
    #[cfg(feature = "std")]
    fn threads(&mut self, storage: &dyn Storage) -> Result<(), String> {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 300;
        const PIECE: u64 = 700;
        if !self.options.threads {
            return Ok(());
        }
        self.done("reserve", storage.reserve(0, PIECE * THREADS * ROUNDS / 2))?;
        let place = |thread: u64, round: u64| (round * THREADS + thread) * PIECE;
        let work = |thread: u64| -> Result<(), StorageError> {
            for round in 0..ROUNDS {
                let piece = noise(place(thread, round), PIECE as usize);
                let (first, second) = piece.split_at(100);
                storage.write_at(place(thread, round), &[first, second])?;
                if round % 16 == thread {
                    storage.reserve(place(thread, round), PIECE * THREADS * 8)?;
                }
                if round % 64 == thread {
                    storage.sync()?;
                }
                let earlier = place(thread, round / 2);
                let mut seen = vec![0; PIECE as usize];
                storage.read_at(earlier, &mut seen)?;
                if seen != noise(earlier, PIECE as usize) {
                    let what = format!("thread {thread} does not read back what it wrote at {earlier}");
                    return Err(StorageError::new(StorageErrorKind::Other, "read", what));
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            handles.into_iter().try_for_each(|handle| match handle.join() {
                Ok(result) => self.done("a thread", result),
                Err(_) => Err(String::from("a thread panicked")),
            })
        })?;
        for thread in 0..THREADS {
            for round in 0..ROUNDS {
                let at = place(thread, round);
                self.holds(storage, at, &noise(at, PIECE as usize))?;
            }
        }
        Ok(())
    }
}

/// Bytes that differ from place to place.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

/// A write to the model.
fn put(expected: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if expected.len() < end {
        expected.resize(end, 0);
    }
    if let Some(target) = expected.get_mut(offset..end) {
        target.copy_from_slice(bytes);
    }
}
