//! The moments from which on a sealed store takes plain records, and from which on it is a plain one.

use super::{Log, NO_CELL, Superblock};
use crate::error::Result;
use crate::frame::TAG_LEN;
use crate::seal::{KeySet, Keys};
use crate::sync::Ordering;

impl Log {
    /// The log goes on in a plain segment. Both superblocks name its position as the border, and the page that says so, before it is begun. They name no
    /// index snapshot any more: it is sealed. The caller blocks all writers, and holds the maintenance lock.
    pub(crate) fn begin_disabling(&self, keys: &Keys, (version, page): (u64, &[u8])) -> Result<()> {
        let mut tail = self.tail.lock();
        self.name_border(&mut tail, version, &mut |border| {
            keys.plain_from(border);
            keys.set_page(version, page.to_vec());
        })?;
        self.tag_len.store(0, Ordering::Release);
        tail.last_tag = [0; TAG_LEN];
        Ok(())
    }

    /// Makes the store a plain one: nothing in it is sealed any more but its superblocks, which name no sealed segment and no sealed index snapshot. `dead`
    /// takes the place of the data key. Once the first superblock is written, the store is plain, and neither the other one nor the page of keys counts,
    /// which is still there when this returns.
    ///
    /// # Errors
    ///
    /// Any error closes the store to writes. It is one that is being made plain when it is opened again, or a plain one.
    pub(crate) fn end_disabling(&self, keys: &Keys, dead: KeySet) -> Result<()> {
        self.writable()?;
        let cell = self.storage.key_cell().ok_or(NO_CELL)?;
        self.holds_sealed.store(false, Ordering::Release);
        let plain = |superblock| Superblock { key_page: 0, sealed_from: 0, ..superblock };
        // With the superblocks locked, so that none is written in between that is neither plain nor tagged.
        let flipped = self.flip(&|superblock| {
            cell.clear();
            plain(superblock)
        });
        if cell.get().is_none() {
            keys.forget(dead);
        }
        flipped?;
        self.flip(&plain)
    }
}
