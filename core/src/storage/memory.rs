//! The smallest storage: bytes in memory, shared by every clone of the handle.

use super::{Durability, Storage, StorageError, StorageErrorKind};
use crate::sync::RwLock;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// Unit of allocation. Large enough that the table of a store of gigabytes stays small, small enough that a reserved segment
/// costs next to nothing.
const CHUNK_LEN: usize = 64 * 1024;
/// Smallest allocation, in bytes: images of a few KiB are common in tests.
const BLOCK_LEN_MIN: usize = 4 * 1024;

/// A file in memory.
///
/// A clone is another handle to the same bytes, so a test can drop a store and open what it left behind. Bytes cost memory from
/// the first write to their part of a chunk on: a long file of zeros is free. [`sync`](Storage::sync) promises
/// [`Durability::None`].
///
/// ```
/// use pipkin::storage::{MemoryStorage, Storage};
///
/// let storage = MemoryStorage::new();
/// let same = storage.clone();
/// storage.write_at(2, &[b"pip", b"kin"])?;
/// assert_eq!(same.to_vec(), b"\0\0pipkin");
/// # Ok::<(), pipkin::StorageError>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryStorage {
    #[cfg(feature = "encrypt")]
    keys: crate::seal::KeyCell,
    space: Arc<RwLock<Space>>,
}

/// Readers and writers of chunks hold the outer lock shared; only growing and shrinking take it alone.
#[derive(Default)]
struct Space {
    len: u64,
    /// May cover less than `len`: the rest has never been written and reads as zero.
    chunks: Vec<Chunk>,
}

/// The written front part of a chunk; the rest of it reads as zero.
#[derive(Default)]
struct Chunk(RwLock<Vec<u8>>);

impl MemoryStorage {
    /// An empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// A file that holds `bytes`. Up to 64 KiB are taken over without a copy.
    ///
    /// ```
    /// use pipkin::{Db, storage::MemoryStorage};
    ///
    /// let file = MemoryStorage::new();
    /// Db::builder().open_storage(Box::new(file.clone()))?.insert("color", "green")?;
    /// let copy = MemoryStorage::from_vec(file.to_vec()); // read from somewhere
    /// assert_eq!(Db::builder().open_storage(Box::new(copy))?.len()?, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        let chunks = if bytes.len() <= CHUNK_LEN {
            alloc::vec![Chunk(RwLock::new(bytes))]
        } else {
            bytes.chunks(CHUNK_LEN).map(|chunk| Chunk(RwLock::new(chunk.to_vec()))).collect()
        };
        Self {
            #[cfg(feature = "encrypt")]
            keys: crate::seal::KeyCell::new(),
            space: Arc::new(RwLock::new(Space { len, chunks })),
        }
    }

    /// A copy of the whole file.
    pub fn to_vec(&self) -> Vec<u8> {
        let space = self.space.read();
        let mut out = alloc::vec![0; usize::try_from(space.len).unwrap_or(usize::MAX)];
        for (target, chunk) in out.chunks_mut(CHUNK_LEN).zip(&space.chunks) {
            chunk.read(0, target);
        }
        out
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStorage").field("len", &self.space.read().len).finish_non_exhaustive()
    }
}

impl Storage for MemoryStorage {
    #[cfg(feature = "encrypt")]
    fn key_cell(&self) -> Option<&crate::seal::KeyCell> {
        Some(&self.keys)
    }

    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.space.read().len)
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.space.write().set_len(len);
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let space = self.space.read();
        if end_of(offset, out.len() as u64).is_none_or(|end| end > space.len) {
            return Err(StorageError::out_of_range(offset, out.len(), space.len));
        }
        let (mut index, mut within) = place(offset);
        let mut rest = out;
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(rest.len().min(CHUNK_LEN - within));
            match space.chunks.get(index) {
                Some(chunk) => chunk.read(within, now),
                None => now.fill(0),
            }
            (index, within, rest) = (index.saturating_add(1), 0, later);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let total = parts.iter().map(|part| part.len() as u64).sum();
        if total == 0 {
            return Ok(());
        }
        let end = end_of(offset, total).ok_or_else(|| no_space("write"))?;
        loop {
            let space = self.space.read();
            if space.len < end || !space.covers(end) {
                drop(space);
                self.space.write().grow(end)?;
                continue;
            }
            return space.write(offset, parts);
        }
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        Ok(Durability::None)
    }

    #[cfg(feature = "async")]
    fn is_at_hand(&self, _offset: u64, _len: usize) -> bool {
        true
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let end = end_of(offset, len).ok_or_else(|| no_space("reserve"))?;
        let mut space = self.space.write();
        if len > 0 && space.len < end {
            space.set_len(end);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let space = self.space.read();
        let first = offset.div_ceil(CHUNK_LEN as u64);
        let end = offset.saturating_add(len).min(space.len) / CHUNK_LEN as u64;
        for index in first..end {
            if let Some(chunk) = usize::try_from(index).ok().and_then(|index| space.chunks.get(index)) {
                *chunk.0.write() = Vec::new();
            }
        }
        Ok(())
    }
}

impl Space {
    /// True when the table has a chunk for every byte before `end`.
    fn covers(&self, end: u64) -> bool {
        (self.chunks.len() as u64).saturating_mul(CHUNK_LEN as u64) >= end
    }

    fn grow(&mut self, end: u64) -> Result<(), StorageError> {
        let wanted = usize::try_from(end.div_ceil(CHUNK_LEN as u64)).map_err(|_| no_space("write"))?;
        let more = wanted.saturating_sub(self.chunks.len());
        self.chunks.try_reserve(more).map_err(|_| no_space("write"))?;
        self.chunks.resize_with(self.chunks.len() + more, Chunk::default);
        self.len = self.len.max(end);
        Ok(())
    }

    fn set_len(&mut self, len: u64) {
        if len < self.len {
            let (index, within) = place(len);
            if let Some(last) = self.chunks.get(index) {
                last.0.write().truncate(within);
            }
            self.chunks.truncate(index.saturating_add(1));
        }
        self.len = len;
    }

    fn write(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let (mut index, mut within) = place(offset);
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(CHUNK_LEN - within));
                let chunk = self.chunks.get(index).ok_or_else(|| no_space("write"))?;
                chunk.write(within, now)?;
                within += now.len();
                if within == CHUNK_LEN {
                    (index, within) = (index + 1, 0);
                }
                rest = later;
            }
        }
        Ok(())
    }
}

impl Chunk {
    fn read(&self, within: usize, out: &mut [u8]) {
        let written = self.0.read();
        let source = written.get(within..).unwrap_or_default();
        let source = source.get(..out.len()).unwrap_or(source);
        let (head, tail) = out.split_at_mut(source.len());
        head.copy_from_slice(source);
        tail.fill(0);
    }

    fn write(&self, within: usize, bytes: &[u8]) -> Result<(), StorageError> {
        let mut written = self.0.write();
        let end = within + bytes.len();
        if written.len() < end {
            let capacity = end.next_power_of_two().clamp(BLOCK_LEN_MIN, CHUNK_LEN);
            let more = capacity - written.len();
            written.try_reserve_exact(more).map_err(|_| no_space("write"))?;
            written.resize(end, 0);
        }
        if let Some(target) = written.get_mut(within..end) {
            target.copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// Index of the chunk and offset inside it. An offset that this machine cannot address maps to past the last chunk.
fn place(offset: u64) -> (usize, usize) {
    let index = usize::try_from(offset / CHUNK_LEN as u64).unwrap_or(usize::MAX);
    (index, (offset % CHUNK_LEN as u64) as usize)
}

/// The end of a range, if a file can be that long.
fn end_of(offset: u64, len: u64) -> Option<u64> {
    offset.checked_add(len)
}

fn no_space(operation: &'static str) -> StorageError {
    StorageError::new(StorageErrorKind::NoSpace, operation, "out of memory")
}
