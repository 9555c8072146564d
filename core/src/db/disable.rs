//! Making a sealed store plain while it is open.

use super::builder::Builder;
use super::handle::Db;
use crate::error::{Error, Result};
use crate::maintenance::{CompactProgress, KeyRotation};
use crate::nested::Held;
use crate::storage::Storage;
use alloc::boxed::Box;

impl Db {
    /// Makes this sealed store a plain one while it is open, which opens without a key. Whatever is written from now on is plain; every live record is copied,
    /// plain, and what is left of the sealed ones and of the page of keys overwritten with zeros. Reads and writes continue meanwhile.
    ///
    /// Durable when it returns. Positions, numbers and versions of events stay, and so do snapshots and consumers; [`Db::anchor`](crate::Db::anchor)s are still
    /// known, but who can write a plain file can make one that has them. Where not everything can be copied yet, because a snapshot or a consumer of changes
    /// holds what is sealed, the report says so, and [`Db::finish_key_rotation`] goes on later.
    ///
    /// Until it has finished, nothing authenticates what was written meanwhile. So behind a crash no call opens the store by its key alone
    /// ([`Error::DisablingEncryption`]): `Builder::disable_encryption` and [`Builder::disable_encryption_in`] do, and go on. If it was cut short before
    /// anything was plain, the store is sealed as before; at the very end, it is plain.
    ///
    /// Compressed values stay compressed. Followers must be opened again, without the key.
    ///
    /// ```
    /// use pipkin::Db;
    /// use pipkin::storage::MemoryStorage;
    ///
    /// let file = MemoryStorage::new();
    /// let db = Db::builder().encryption_key([7; 32]).open_storage(Box::new(file.clone()))?;
    /// db.insert("color", "green")?;
    /// assert!(db.disable_encryption()?.is_finished);
    /// assert_eq!(db.get("color")?.as_deref(), Some(&b"green"[..]));
    /// db.close()?;
    /// let db = Db::builder().open_storage(Box::new(file))?;
    /// assert_eq!(db.get("color")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotSealed`]; [`Error::InvalidArgument`] while a rotation or the sealing of the store cannot be finished, for a store that has stranded records,
    /// or that has 8 keys and passphrases: remove one first; [`Error::Corrupt`] where damage leaves doubt about records: salvage them first; else as for
    /// [`Db::compact`]. After an error the store may have begun to become plain: [`Db::key_rotation_pending`] says so.
    pub fn disable_encryption(&self) -> Result<KeyRotation> {
        self.disable_encryption_with(|_| {})
    }

    /// As [`Self::disable_encryption`]. `progress` runs with the maintenance lock held, as that of [`Db::compact_with`].
    pub fn disable_encryption_with(&self, mut progress: impl FnMut(CompactProgress)) -> Result<KeyRotation> {
        self.store.may_wait_for_the_turn()?;
        let disabled = self.store.disable_encryption(&mut |so_far| {
            let _inside = self.store.engine.inside(Held::Turn);
            progress(so_far);
        });
        self.store.seen(disabled)
    }

    /// The same as far as there is room and nothing else is in the way.
    pub(crate) fn disable_as_far_as_it_can(self) -> Result<Self> {
        match self.disable_encryption() {
            // With room, `finish_key_rotation` goes on.
            Ok(_) | Err(Error::NoSpace) => Ok(self),
            Err(error) => Err(error),
        }
    }
}

impl Builder {
    /// Opens the sealed store in `storage` with the key or passphrase of this builder, and makes it plain in its place, as [`Db::disable_encryption`]; also one
    /// in which that was cut short. [`Db::key_rotation_pending`] says whether something holds it up.
    ///
    /// **What was written while the store was being made plain is not authenticated**: who could write to the file meanwhile can have changed it.
    ///
    /// ```
    /// use pipkin::Db;
    /// use pipkin::storage::MemoryStorage;
    ///
    /// let file = MemoryStorage::new();
    /// let sealed = Db::builder().encryption_key([7; 32]);
    /// let db = sealed.clone().open_storage(Box::new(file.clone()))?;
    /// db.insert("color", "green")?;
    /// db.close()?;
    /// let db = sealed.disable_encryption_in(Box::new(file))?;
    /// assert!(!db.key_rotation_pending() && db.cipher().is_none());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::KeyNeeded`] without a key or passphrase; else as for [`Builder::open_storage`] and [`Db::disable_encryption`], but for
    /// [`Error::NoSpace`](crate::Error::NoSpace), which leaves it pending.
    pub fn disable_encryption_in(self, storage: Box<dyn Storage>) -> Result<Db> {
        if !self.has_secret() {
            return Err(Error::KeyNeeded);
        }
        self.create(false).becoming_plain().open_storage(storage)?.disable_as_far_as_it_can()
    }
}
