//! The file as the next process finds it after a crash.

use super::pages::Pages;
use crate::storage::{Durability, MemoryStorage, Storage, StorageError};
use crate::sync::RwLock;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// What a crash left of a file, ready to be opened.
///
/// Pages are shared with the simulator and with other images until they are written, so an image costs only the pages that are
/// touched. A clone is another handle to the same bytes; [`fork`](Self::fork) makes an independent file.
/// [`CrashStorage::from_image`](super::CrashStorage::from_image) continues from it towards another crash, for example one during
/// recovery.
#[derive(Clone)]
pub struct CrashImage {
    pages: Arc<RwLock<Pages>>,
}

impl CrashImage {
    pub(super) fn new(pages: Pages) -> Self {
        Self { pages: Arc::new(RwLock::new(pages)) }
    }

    pub(super) fn pages(&self) -> Pages {
        self.pages.read().clone()
    }

    /// A file with this content.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::new(Pages::from_bytes(bytes))
    }

    /// An independent file with the same content.
    pub fn fork(&self) -> Self {
        Self::new(self.pages())
    }

    /// A copy of the content.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pages.read().to_vec()
    }

    /// A copy of the content as a [`MemoryStorage`].
    pub fn to_memory(&self) -> MemoryStorage {
        MemoryStorage::from_vec(self.to_vec())
    }

    /// Flips one bit, `bit` 0 to 7 of the byte at `offset`. False when the file ends before it.
    pub fn flip_bit(&self, offset: u64, bit: u32) -> bool {
        flip_bit(&mut self.pages.write(), offset, bit)
    }
}

pub(super) fn flip_bit(pages: &mut Pages, offset: u64, bit: u32) -> bool {
    let mut byte = [0];
    if pages.read(offset, &mut byte).is_err() {
        return false;
    }
    let [value] = byte;
    pages.write(offset, &[value ^ (1 << (bit % 8))]).is_ok()
}

impl fmt::Debug for CrashImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashImage").field("len", &self.pages.read().len()).finish_non_exhaustive()
    }
}

impl Storage for CrashImage {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.pages.read().len())
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.pages.write().set_len(len);
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.pages.read().read(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        super::range_end("write", offset, super::total_len(parts))?;
        let mut pages = self.pages.write();
        let mut at = offset;
        for part in parts {
            pages.write(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Returns [`Durability::Device`]: the simulated file is on a device.
    fn sync(&self) -> Result<Durability, StorageError> {
        Ok(Durability::Device)
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let end = super::range_end("reserve", offset, len)?;
        let mut pages = self.pages.write();
        if len > 0 && pages.len() < end {
            pages.set_len(end);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let mut pages = self.pages.write();
        for sector in super::whole_sectors(&pages, offset, len) {
            pages.zero_sector(sector);
        }
        Ok(())
    }
}
