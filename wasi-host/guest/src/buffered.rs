//! A storage that spares the one below it calls: small writes that follow each other gather here, and blocks that were read stay.
//!
//! Writes reach the storage below in the order in which they were made: whatever was not handed over when the instance ends, the file
//! is as it was after some first part of the writes. That is what the engine recovers from.

use crate::blocks::{BLOCK, Blocks};
use alloc::vec;
use alloc::vec::Vec;
use pipkin::{Durability, Storage, StorageError};
use spin::Mutex;

/// Gathered writes are handed over at this size, longer ones at once.
const GATHER_BYTES_MAX: usize = 64 * 1024;
/// Longer reads pass the blocks by: they would push everything else out.
const CACHED_READ_MAX: usize = 32 * 1024;

/// The storage below, what it has not been told yet, and what it has told.
pub(crate) struct Buffered<S> {
    below: S,
    state: Mutex<State>,
}

struct State {
    /// Length of the file below.
    len: u64,
    /// Where the gathered bytes belong.
    start: u64,
    gathered: Vec<u8>,
    blocks: Blocks,
    /// The first write that the storage below refused after it had been acknowledged here.
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

impl<S: Storage> Buffered<S> {
    /// Keeps at most `cache_bytes` of what was read.
    pub(crate) fn new(below: S, cache_bytes: usize) -> Result<Self, StorageError> {
        let len = below.len()?;
        let blocks = Blocks::new(cache_bytes);
        Ok(Self { below, state: Mutex::new(State { len, start: 0, gathered: Vec::new(), blocks, failed: None }) })
    }

    /// Hands everything over that was gathered: from then on it survives the end of the instance.
    pub(crate) fn hand_over(&self) -> Result<(), StorageError> {
        self.hand_over_locked(&mut self.state.lock())
    }

    fn hand_over_locked(&self, state: &mut State) -> Result<(), StorageError> {
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

    /// No view of this storage from before is in use any more: blocks that were viewed may go.
    pub(crate) fn end_call(&self) {
        self.state.lock().blocks.end_call();
    }

    /// Forgets what was read: the next read sees the file.
    pub(crate) fn forget(&self) {
        self.state.lock().blocks.cut(0);
    }

    /// The storage below.
    pub(crate) fn below(&self) -> &S {
        &self.below
    }

    /// Reads what was handed over; behind the end of the file below are zeros.
    fn read_below(&self, state: &mut State, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        if state.blocks.is_used() && out.len() <= CACHED_READ_MAX {
            if state.blocks.read(offset, out) {
                return Ok(());
            }
            let from = offset - offset % BLOCK as u64;
            let until = (offset + out.len() as u64).next_multiple_of(BLOCK as u64);
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

impl<S: Storage> Storage for Buffered<S> {
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
        let (len, wanted) = (state.full_len(), out.len());
        let end = offset.checked_add(wanted as u64).filter(|end| *end <= len);
        let Some(end) = end else { return Err(StorageError::out_of_range(offset, wanted, len)) };
        let (start, stop) = if state.gathered.is_empty() { (end, end) } else { (state.start, state.gathered_end()) };
        // In front of the gathered bytes, among them, behind them.
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
        state.check()?;
        let follows = state.gathered.is_empty() || state.gathered_end() == offset;
        if !follows || state.gathered.len() + len > GATHER_BYTES_MAX {
            self.hand_over_locked(&mut state)?;
        }
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= i64::MAX as u64);
        if len <= GATHER_BYTES_MAX && fits {
            state.gather(offset, parts);
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

    /// Only what is in memory in one piece: everything else is read, and is there from then on.
    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let state = self.state.lock();
        let end = offset.checked_add(len as u64).filter(|end| *end <= state.len)?;
        if !state.gathered.is_empty() && offset < state.gathered_end() && state.start < end {
            return None;
        }
        // SAFETY: the slice borrows this storage. By the caller's promise nobody writes to the range meanwhile, and the user of this storage
        // says when a call has ended.
        unsafe { state.blocks.view(offset, len) }
    }

    fn is_checked(&self, offset: u64, salt: u64) -> Option<bool> {
        let state = self.state.lock();
        state.blocks.is_used().then(|| state.blocks.is_checked(offset, salt))
    }

    fn set_checked(&self, offset: u64, salt: u64) {
        self.state.lock().blocks.set_checked(offset, salt);
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.hand_over_locked(&mut self.state.lock())?;
        self.below.sync()
    }
}
