//! A cache that saves calls to the storage below it, for hosts where a call costs more than most records: a sandbox, a browser.
//!
//! Blocks that were read stay in memory, and records are read in place there. Small adjacent writes can be gathered. They
//! reach the storage below in the order in which they were made: if the process ends before all of them were handed over, the file
//! holds a prefix of the writes, which is what the engine recovers from.

mod block;
mod blocks;
#[cfg(test)]
mod tests;

use super::{Durability, Storage, StorageError};
use crate::sync::Mutex;
use alloc::vec;
use alloc::vec::Vec;
use block::BLOCK;
use blocks::Blocks;

/// Longer reads bypass the cache, in bytes: they would evict everything else.
const CACHED_READ_MAX: usize = 32 * 1024;
/// Limit of [`CacheOptions::read_bytes`].
const READ_BYTES_MAX: usize = 1 << 20;

/// How much a [`CachedStorage`] keeps in memory and reads at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of blocks in memory; allocated as needed. While an engine call runs, up to 1 MiB more may be held of what it
    /// has read. Default: 16 MiB.
    pub cache_bytes: usize,
    /// Alignment in bytes of reads from the storage below, both start and end. Choose the largest size that costs no more than a smaller
    /// one. Rounded up to a multiple of 4096, and 1 MiB at most. Default: 4096.
    pub read_bytes: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { cache_bytes: 16 << 20, read_bytes: BLOCK }
    }
}

/// A cache over another storage: blocks that were read from it, and writes that it has not been given yet.
///
/// Gathers writes up to `GATHER` bytes; longer ones are handed over at once. With 0 nothing is gathered: every write that `write_at` has
/// acknowledged is in the storage below.
///
/// ```
/// use pipkin::Db;
/// use pipkin::storage::{CacheOptions, CachedStorage, MemoryStorage};
/// use std::sync::Arc;
///
/// let file = MemoryStorage::new();
/// let cached = Arc::new(CachedStorage::<_, 65_536>::new(file, CacheOptions::default())?);
/// let db = Db::builder().background(false).open_storage(Box::new(cached.clone()))?;
/// db.insert("color", "green")?;
/// cached.hand_over()?; // from here on it is in `file`; `flush` does that too
/// assert_eq!(db.get("color")?.as_deref(), Some(&b"green"[..]));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Debug)]
pub struct CachedStorage<S, const GATHER: usize = 0> {
    #[cfg(feature = "encrypt")]
    keys: crate::seal::KeyCell,
    below: S,
    options: CacheOptions,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Length of the file below.
    len: u64,
    /// File offset of the gathered bytes.
    start: u64,
    gathered: Vec<u8>,
    blocks: Blocks,
    /// Error of the first acknowledged write that failed in the storage below.
    failed: Option<StorageError>,
}

impl State {
    fn gathered_end(&self) -> u64 {
        self.start + self.gathered.len() as u64
    }

    /// The length that the user of this storage sees.
    fn full_len(&self) -> u64 {
        if self.gathered.is_empty() { self.len } else { self.len.max(self.gathered_end()) }
    }

    fn check(&self) -> Result<(), StorageError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn gather(&mut self, offset: u64, parts: &[&[u8]]) {
        if self.gathered.is_empty() {
            self.start = offset;
        }
        parts.iter().for_each(|part| self.gathered.extend_from_slice(part));
    }
}

impl<S: Storage, const GATHER: usize> CachedStorage<S, GATHER> {
    /// A cache over `below`. Nobody else may change the file as long as this lives, unless `below` reports that it is not
    /// [exclusive](Storage::is_exclusive).
    pub fn new(below: S, options: CacheOptions) -> Result<Self, StorageError> {
        let len = below.len()?;
        let blocks = Blocks::new(options.cache_bytes);
        let read_bytes = options.read_bytes.clamp(1, READ_BYTES_MAX).next_multiple_of(BLOCK);
        let options = CacheOptions { read_bytes, ..options };
        Ok(Self {
            #[cfg(feature = "encrypt")]
            keys: crate::seal::KeyCell::new(),
            below,
            options,
            state: Mutex::new(State { len, start: 0, gathered: Vec::new(), blocks, failed: None }),
        })
    }

    /// Writes everything that was gathered to the storage below: from then on it survives the end of the process, if what is written
    /// below does. After a failure every later write and sync fails with the same error.
    pub fn hand_over(&self) -> Result<(), StorageError> {
        self.hand_over_locked(&mut self.state.lock())
    }

    fn hand_over_locked(&self, state: &mut State) -> Result<(), StorageError> {
        if GATHER == 0 {
            return Ok(());
        }
        state.check()?;
        if state.gathered.is_empty() {
            return Ok(());
        }
        let State { start, gathered, .. } = &*state;
        if let Err(error) = self.below.write_at(*start, &[gathered]) {
            state.failed = Some(error.clone());
            return Err(error);
        }
        let (start, mut gathered) = (state.start, core::mem::take(&mut state.gathered));
        state.len = state.len.max(start + gathered.len() as u64);
        state.blocks.write(start, &gathered);
        gathered.clear();
        state.gathered = gathered;
        Ok(())
    }

    /// Marks the end of an engine call: blocks that it viewed may be evicted. Without this call at most 1 MiB of them is held, and after
    /// that new ones are not kept.
    ///
    /// # Safety
    ///
    /// No [view](Storage::view) of this storage from before is in use any more: no call of an engine over it is running, in any thread,
    /// and nothing is left that borrows what one has returned.
    pub unsafe fn end_call(&self) {
        self.state.lock().blocks.end_call();
    }

    /// Drops all cached blocks: the next read goes to the storage below.
    pub fn forget(&self) {
        self.state.lock().blocks.cut(0);
    }

    /// The storage below.
    pub fn below(&self) -> &S {
        &self.below
    }

    /// Gathers a short write; false for a long one. Gathered bytes that it does not directly follow are handed over first.
    fn gather(&self, state: &mut State, offset: u64, len: usize, parts: &[&[u8]]) -> Result<bool, StorageError> {
        state.check()?;
        let follows = state.gathered.is_empty() || state.gathered_end() == offset;
        if !follows || state.gathered.len() + len > GATHER {
            self.hand_over_locked(state)?;
        }
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= i64::MAX as u64);
        let is_short = len <= GATHER && fits;
        if is_short {
            state.gather(offset, parts);
        }
        Ok(is_short)
    }

    /// Reads from the blocks or the storage below, without gathered bytes; zeros after the end of the file below.
    fn read_below(&self, state: &mut State, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        if state.blocks.is_used() && out.len() <= CACHED_READ_MAX {
            if state.blocks.read(offset, out) {
                return Ok(());
            }
            let unit = self.options.read_bytes as u64;
            let from = offset - offset % unit;
            let until = (offset + out.len() as u64).next_multiple_of(unit);
            let mut blocks = vec![0; (until - from) as usize];
            self.read_and_pad(state.len, from, &mut blocks)?;
            state.blocks.write(from, &blocks);
            let inside = (offset - from) as usize;
            if let Some(bytes) = blocks.get(inside..inside + out.len()) {
                out.copy_from_slice(bytes);
            }
            return Ok(());
        }
        out.fill(0);
        self.read_and_pad(state.len, offset, out)
    }

    /// Fills the part of `out` that the file below has.
    fn read_and_pad(&self, len: u64, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let there = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        match out.get_mut(..there) {
            Some(out) if there > 0 => self.below.read_at(offset, out),
            _ => Ok(()),
        }
    }
}

impl<S: Storage, const GATHER: usize> Storage for CachedStorage<S, GATHER> {
    #[cfg(feature = "encrypt")]
    fn key_cell(&self) -> Option<&crate::seal::KeyCell> {
        Some(&self.keys)
    }

    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.state.lock().full_len())
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        self.hand_over_locked(&mut state)?;
        let result = self.below.set_len(len);
        if len < state.len {
            state.blocks.cut(len);
        }
        // After a failure any length in between is possible.
        state.len = if result.is_ok() { len } else { self.below.len()? };
        result
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        let (len, wanted) = (if GATHER == 0 { state.len } else { state.full_len() }, out.len());
        let end = offset.checked_add(wanted as u64).filter(|end| *end <= len);
        let Some(end) = end else { return Err(StorageError::out_of_range(offset, wanted, len)) };
        if GATHER == 0 {
            return self.read_below(&mut state, offset, out);
        }
        let (start, stop) = if state.gathered.is_empty() { (end, end) } else { (state.start, state.gathered_end()) };
        // Three parts of the range: before the gathered bytes, inside them, after them.
        let cut = |at: u64| at.clamp(offset, end);
        let (front, rest) = out.split_at_mut((cut(start) - offset) as usize);
        let (middle, back) = rest.split_at_mut((cut(stop) - cut(start)) as usize);
        if !front.is_empty() {
            self.read_below(&mut state, offset, front)?;
        }
        let from = cut(start).saturating_sub(start) as usize;
        if let Some(bytes) = state.gathered.get(from..from + middle.len()) {
            middle.copy_from_slice(bytes);
        }
        if back.is_empty() { Ok(()) } else { self.read_below(&mut state, cut(stop), back) }
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len == 0 {
            return Ok(());
        }
        let mut state = self.state.lock();
        if GATHER > 0 && self.gather(&mut state, offset, len, parts)? {
            return Ok(());
        }
        if let Err(error) = self.below.write_at(offset, parts) {
            state.blocks.cut(offset);
            state.len = self.below.len()?;
            return Err(error);
        }
        let mut at = offset;
        for part in parts {
            state.blocks.write(at, part);
            at += part.len() as u64;
        }
        state.len = state.len.max(at);
        Ok(())
    }

    /// Bypasses the blocks: the bytes do not change, so the blocks stay valid.
    fn rewrite(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.hand_over_locked(&mut self.state.lock())?;
        self.below.rewrite(offset, len)
    }

    /// Only of bytes inside one cached block, none of them gathered; `None` otherwise, and the read that follows caches them.
    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let state = self.state.lock();
        let end = offset.checked_add(len as u64).filter(|end| *end <= state.len)?;
        if GATHER > 0 && !state.gathered.is_empty() && offset < state.gathered_end() && state.start < end {
            return None;
        }
        // SAFETY: the slice borrows this storage. By the caller's promise nobody writes to the range meanwhile, and `end_call` is called
        // only when no view is in use.
        unsafe { state.blocks.view(offset, len) }
    }

    fn is_checked(&self, offset: u64, salt: u64) -> Option<bool> {
        let state = self.state.lock();
        state.blocks.is_used().then(|| state.blocks.is_checked(offset, salt))
    }

    fn set_checked(&self, offset: u64, salt: u64) {
        self.state.lock().blocks.set_checked(offset, salt);
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        self.hand_over_locked(&mut state)?;
        let result = self.below.reserve(offset, len);
        state.len = match result {
            Ok(()) if len == 0 => state.len,
            Ok(()) => state.len.max(offset.saturating_add(len)),
            Err(_) => self.below.len()?,
        };
        result
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.below.discard(offset, len)
    }

    fn is_exclusive(&self) -> bool {
        self.below.is_exclusive()
    }

    fn read_now(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        let end = offset.saturating_add(out.len() as u64);
        if !state.gathered.is_empty() && offset < state.gathered_end() && state.start < end {
            self.hand_over_locked(&mut state)?;
        }
        drop(state);
        self.below.read_now(offset, out)
    }

    fn hand_over(&self) -> Result<(), StorageError> {
        self.hand_over_locked(&mut self.state.lock())?;
        self.below.hand_over()
    }

    fn refresh(&self) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        self.hand_over_locked(&mut state)?;
        self.below.refresh()?;
        state.blocks.cut(0);
        state.len = self.below.len()?;
        Ok(())
    }

    fn claim(&self) -> Result<(), StorageError> {
        self.below.claim()
    }

    fn release(&self) -> Result<(), StorageError> {
        self.below.release()
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.hand_over_locked(&mut self.state.lock())?;
        self.below.sync()
    }
}
