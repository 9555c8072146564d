//! A storage that stops before, within and after each write, so that somebody else can look at the file.

use pipkin::storage::{Durability, MemoryStorage, Storage, StorageError};
use std::sync::{Arc, Mutex};

/// Called with what the writer has come to.
type Look = Box<dyn FnMut() + Send>;

/// The writer's file.
#[derive(Clone)]
pub(super) struct Stepped {
    file: MemoryStorage,
    look: Arc<Mutex<Option<Look>>>,
}

impl Stepped {
    /// The file in this memory.
    pub(super) fn new(file: MemoryStorage) -> Self {
        Self { file, look: Arc::default() }
    }

    /// From now on this is called at each step.
    pub(super) fn set(&self, look: Look) {
        *self.look.lock().unwrap() = Some(look);
    }

    fn step(&self) {
        // Taken out meanwhile: it must not be called from within itself.
        let look = self.look.lock().unwrap().take();
        if let Some(mut look) = look {
            look();
            *self.look.lock().unwrap() = Some(look);
        }
    }
}

impl Storage for Stepped {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.step();
        self.file.set_len(len)?;
        self.step();
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_at(offset, out)
    }

    /// In two parts, the later one first every other time.
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.step();
        let bytes = parts.concat();
        let half = bytes.len() / 2;
        let (front, back) = bytes.split_at(half);
        let halves = [(offset, front), (offset + half as u64, back)];
        let first = usize::from(offset.is_multiple_of(2));
        self.file.write_at(halves[first].0, &[halves[first].1])?;
        self.step();
        self.file.write_at(halves[1 - first].0, &[halves[1 - first].1])?;
        self.step();
        Ok(())
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.step();
        self.file.sync()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.step();
        // What a host gives back reads as zero.
        let there = self.file.len()?.saturating_sub(offset).min(len) as usize;
        self.file.write_at(offset, &[&vec![0; there]])?;
        self.step();
        Ok(())
    }
}
