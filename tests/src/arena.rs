//! A file in memory whose bytes nobody guards.
//!
//! Each read, write, view and store goes straight to the same bytes. The engine promises not to read what is being written, and to
//! let go of a range before it is written anew ([`Storage`], `core/src/pins.rs`). Here a promise that is not kept is a data race, which
//! ThreadSanitizer sees.

use pipkin::storage::{Durability, Storage, StorageError, StorageErrorKind};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that never gets longer than it was made for. A clone is another handle to it.
#[derive(Clone, Debug)]
pub struct Arena {
    bytes: Arc<[Byte]>,
    len: Arc<AtomicU64>,
}

#[derive(Debug)]
#[repr(transparent)]
struct Byte(UnsafeCell<u8>);

// SAFETY: the users of a `Storage` promise not to touch a byte while another thread writes to it. That this holds is what is tested.
unsafe impl Sync for Byte {}

impl Arena {
    /// An empty file with room for `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self { bytes: (0..capacity).map(|_| Byte(UnsafeCell::new(0))).collect(), len: Arc::default() }
    }

    /// Where the range begins, if the file has or may have all of it.
    fn place(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let start = usize::try_from(offset).ok()?;
        let range = self.bytes.get(start..start.checked_add(len)?)?;
        Some(UnsafeCell::raw_get(range.as_ptr().cast()))
    }

    fn put(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let len = parts.iter().map(|part| part.len()).sum();
        let mut at = self.place(offset, len).ok_or_else(|| full("write"))?;
        for part in parts {
            // SAFETY: `place` has room for all parts, and nobody else touches the range meanwhile: the promise of the caller.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), at, part.len()) };
            // SAFETY: still inside the range, or at its end.
            at = unsafe { at.add(part.len()) };
        }
        Ok(())
    }
}

fn full(operation: &'static str) -> StorageError {
    StorageError::new(StorageErrorKind::NoSpace, operation, "the arena is full")
}

impl Storage for Arena {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.len.load(Ordering::Relaxed))
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        if len > self.bytes.len() as u64 {
            return Err(full("resize"));
        }
        let before = self.len.swap(len, Ordering::Relaxed);
        let gone = before.saturating_sub(len) as usize;
        if let Some(place) = self.place(len, gone).filter(|_| gone > 0) {
            // SAFETY: nobody may touch what is being cut off.
            unsafe { ptr::write_bytes(place, 0, gone) };
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let len = self.len.load(Ordering::Relaxed);
        let place = self.place(offset, out.len()).filter(|_| offset + out.len() as u64 <= len);
        let place = place.ok_or_else(|| StorageError::out_of_range(offset, out.len(), len))?;
        // SAFETY: `place` has as many bytes, and nobody writes to them meanwhile: the promise of the caller.
        unsafe { ptr::copy_nonoverlapping(place, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if len == 0 {
            return Ok(());
        }
        self.put(offset, parts)?;
        self.len.fetch_max(offset + len, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        Ok(Durability::None)
    }

    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let place = self.place(offset, len).filter(|_| offset + len as u64 <= self.len.load(Ordering::Relaxed))?;
        // SAFETY: inside the arena, which the slice borrows; the caller has nobody write there while it lives.
        Some(unsafe { std::slice::from_raw_parts(place, len) })
    }

    unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
        self.put(offset, parts).is_ok()
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let end = offset.checked_add(len).filter(|end| *end <= self.bytes.len() as u64).ok_or_else(|| full("reserve"))?;
        if len > 0 {
            self.len.fetch_max(end, Ordering::Relaxed);
        }
        Ok(())
    }
}
