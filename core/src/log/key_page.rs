//! The superblocks of a sealed store name the page of keys that counts.

use super::{Log, Superblock};
use crate::error::{Error, Result};

impl Log {
    /// Begins to write, as the first append of a session does.
    pub(crate) fn begin_to_write(&self) -> Result<()> {
        let mut tail = self.tail.lock();
        self.writable()?;
        self.announce(&mut tail)
    }

    /// Names the page of keys that counts from now on in both superblocks: none is left that names the one before. The session has begun to write.
    pub(crate) fn name_key_page(&self, version: u64) -> Result<()> {
        for _ in 0..2 {
            self.flip(&|superblock| Superblock { key_page: version, ..superblock })?;
        }
        Ok(())
    }

    /// Puts what the current superblock says into the other slot, too.
    pub(crate) fn write_superblock_again(&self) -> Result<()> {
        self.flip(&|superblock| superblock)
    }

    /// Runs a write to the front of the file and syncs it. A failure closes the store to writes.
    pub(crate) fn write_front(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        write().map_err(|error: Error| self.poison(error))?;
        self.sync_alone()
    }
}
