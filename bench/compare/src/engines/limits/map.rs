//! One mapped file, and a small one beside it that says what is in it.

use crate::Result;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CHUNK: usize = 1 << 20;

/// Writes zeros, so that later writes and syncs change nothing but data.
pub(super) fn prepare(path: &Path, bytes: u64) -> Result<()> {
    let mut file = File::create(path)?;
    let zeros = vec![0; CHUNK];
    for _ in 0..bytes.div_ceil(CHUNK as u64) {
        file.write_all(&zeros)?;
    }
    Ok(file.sync_all()?)
}

/// The cheaper way for a file that is written once, from its beginning to its end.
pub(super) fn allocate(path: &Path, bytes: usize) -> Result<()> {
    let file = File::create(path)?;
    Ok(rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes.max(1) as u64)?)
}

pub(super) struct Map {
    file: File,
    map: MmapRaw,
    head: PathBuf,
    /// Records of the load.
    count: AtomicU64,
    /// Bytes of each of them.
    stride: AtomicU64,
    /// All records.
    len: AtomicU64,
    /// Bytes that are used. None of these numbers lives in the map: a store there makes a whole folio dirty, up to megabytes, which the
    /// next sync would have to write.
    used: AtomicU64,
}

impl Map {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let map = MmapOptions::new().map_raw(&file)?;
        let head = path.with_extension("head");
        let numbers = std::fs::read(&head).unwrap_or_default();
        let mut numbers = numbers.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let (count, stride) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let new = AtomicU64::new;
        Ok(Self { file, map, head, count: new(count), stride: new(stride), len: new(count), used: new(count * stride) })
    }

    /// So that another process finds the loaded records; what was put later it does not.
    pub(super) fn write_head(&self) -> Result<()> {
        Ok(std::fs::write(&self.head, [self.count().to_le_bytes(), (self.stride() as u64).to_le_bytes()].concat())?)
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    pub(super) fn stride(&self) -> usize {
        self.stride.load(Relaxed) as usize
    }

    pub(super) fn set_stride(&self, stride: usize) {
        self.stride.store(stride as u64, Relaxed);
    }

    pub(super) fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    pub(super) fn add_loaded(&self, records: u64) {
        self.count.fetch_add(records, Relaxed);
        self.add_records(records);
    }

    pub(super) fn add_records(&self, records: u64) {
        self.len.fetch_add(records, Relaxed);
    }

    /// Where the next record goes.
    pub(super) fn tail(&self) -> usize {
        self.used.load(Relaxed) as usize
    }

    /// Space for so many bytes.
    pub(super) fn reserve(&self, bytes: usize) -> Result<usize> {
        let start = self.used.fetch_add(bytes as u64, Relaxed) as usize;
        if start + bytes > self.map.len() {
            return Err("more is written than space was prepared for".into());
        }
        Ok(start)
    }

    /// A copy into the map.
    pub(super) fn append(&self, parts: &[&[u8]]) -> Result<()> {
        let mut to = self.reserve(parts.iter().map(|part| part.len()).sum())?;
        for part in parts {
            let target = self.map.as_mut_ptr().wrapping_add(to);
            // SAFETY: the reserved bytes lie inside of the map, belong to this call alone, and nobody reads them before it returns.
            unsafe { target.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            to += part.len();
        }
        Ok(())
    }

    /// A positional write and a sync.
    pub(super) fn write_durable(&self, bytes: &[u8]) -> Result<()> {
        let start = self.reserve(bytes.len())?;
        self.file.write_all_at(bytes, start as u64)?;
        self.sync()
    }

    pub(super) fn sync(&self) -> Result<()> {
        Ok(self.file.sync_data()?)
    }

    #[inline]
    pub(super) fn bytes(&self, start: usize, len: usize) -> Option<&[u8]> {
        if start.checked_add(len)? > self.map.len() {
            return None;
        }
        let first = self.map.as_ptr().wrapping_add(start);
        // SAFETY: the bytes lie inside of the map, which lives as long as `self`; what has been appended is never written again.
        Some(unsafe { std::slice::from_raw_parts(first, len) })
    }
}

/// Asks for the cache lines of a value, without waiting for them.
#[inline]
pub(super) fn prefetch(value: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in value.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see, and every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
