//! A medium with an end: the crash simulator on so many blocks. Holes take none, what was discarded gives its blocks back, and a reservation
//! of what has none is refused when no more are left.

use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::{Durability, Storage, StorageError, StorageErrorKind};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const BLOCK: u64 = 4096;

/// The file and its blocks. A clone is another handle to both.
#[derive(Clone, Debug)]
pub struct Medium {
    file: CrashStorage,
    blocks: Arc<Mutex<BTreeSet<u64>>>,
    capacity: u64,
}

impl Medium {
    /// An empty file on a medium of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        Self { file: CrashStorage::new(), blocks: Arc::default(), capacity: bytes / BLOCK }
    }

    /// The simulator.
    pub fn file(&self) -> &CrashStorage {
        &self.file
    }

    /// What a crash left: the file of the next session. What had blocks keeps them, and what is more than a hole has some.
    pub fn after(&self, image: &CrashImage) -> Self {
        let bytes = image.to_vec();
        let end = (bytes.len() as u64).div_ceil(BLOCK);
        let written = bytes.chunks(BLOCK as usize).zip(0_u64..).filter(|(block, _)| block.iter().any(|&byte| byte != 0));
        let kept = self.blocks().iter().copied().filter(|&block| block < end).collect::<BTreeSet<_>>();
        let blocks = kept.into_iter().chain(written.map(|(_, block)| block)).collect();
        Self { file: CrashStorage::from_image(image), blocks: Arc::new(Mutex::new(blocks)), capacity: self.capacity }
    }

    fn blocks(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, operation: &'static str, range: Range<u64>) -> Result<(), StorageError> {
        let mut blocks = self.blocks();
        let missing: Vec<u64> = range.filter(|block| !blocks.contains(block)).collect();
        if !missing.is_empty() && (blocks.len() + missing.len()) as u64 > self.capacity {
            return Err(StorageError::new(StorageErrorKind::NoSpace, operation, "the medium is full"));
        }
        blocks.extend(missing);
        Ok(())
    }
}

fn touched(offset: u64, len: u64) -> Range<u64> {
    offset / BLOCK..(offset + len).div_ceil(BLOCK)
}

impl Storage for Medium {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.file.set_len(len)?;
        self.blocks().retain(|&block| block < len.div_ceil(BLOCK));
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        self.take("write", touched(offset, len))?;
        self.file.write_at(offset, parts)
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.file.sync()
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.take("reserve", touched(offset, len))?;
        self.file.reserve(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.file.discard(offset, len)?;
        let inside = offset.div_ceil(BLOCK)..(offset + len) / BLOCK;
        self.blocks().retain(|block| !inside.contains(block));
        Ok(())
    }
}
