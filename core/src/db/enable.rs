//! Sealing a plain store while it is open.

use super::handle::Db;
use crate::error::Result;
use crate::maintenance::{CompactProgress, KeyRotation};
use crate::nested::Held;
use crate::seal::{KeyProvider, Secret};
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Db {
    /// Seals this plain store under a new data key, which `key` alone opens, while it is open. Whatever is written from now on is sealed; every
    /// live record is copied, sealed, and what is left of the plain ones overwritten with zeros. Reads and writes continue meanwhile. What a medium, a
    /// file system or a backup keeps of the plain bytes is beyond that.
    ///
    /// Durable when it returns. Positions, numbers and versions of events stay, and so do snapshots and consumers. Where not everything can be copied yet,
    /// because a snapshot or a consumer of changes holds what is plain, the report says so, and [`Db::finish_key_rotation`] goes on later. So it does
    /// behind a crash: the store then opens with the key, or is plain as before if it was cut short before anything was sealed. Until it has finished,
    /// opening reads all that is plain, and compares it with digests that nobody without the key can make.
    ///
    /// The cipher is that of [`Builder::cipher`](crate::Builder::cipher). Compressed values become plain ones, unless
    /// `Builder::compress_sealed` allowed them. The storage needs a
    /// [`key_cell`](crate::storage::Storage::key_cell), as all have that come with this crate. Followers must be opened again, with the key.
    ///
    /// ```
    /// use pipkin::storage::MemoryStorage;
    /// use pipkin::{Db, Error};
    ///
    /// let file = MemoryStorage::new();
    /// let db = Db::builder().open_storage(Box::new(file.clone()))?;
    /// db.insert("color", "green")?;
    /// assert!(db.enable_encryption([7; 32])?.is_finished);
    /// assert_eq!(db.get("color")?.as_deref(), Some(&b"green"[..]));
    /// db.close()?;
    /// assert!(matches!(Db::builder().open_storage(Box::new(file.clone())), Err(Error::KeyNeeded)));
    /// Db::builder().encryption_key([7; 32]).open_storage(Box::new(file))?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a store that is sealed already, that compresses without
    /// `Builder::compress_sealed`, that has stranded records, that is open with its index [in the file](crate::Builder::index_memory), or whose file
    /// the host cannot lock;
    /// [`Error::Unsupported`](crate::Error::Unsupported) for a storage without a place for keys; [`Error::Corrupt`](crate::Error::Corrupt) where damage leaves doubt about records:
    /// [`salvage`](crate::salvage) them first; else as for [`Db::compact`]. After an error the store may have begun to be sealed:
    /// [`Db::key_rotation_pending`] says so.
    pub fn enable_encryption(&self, key: [u8; 32]) -> Result<KeyRotation> {
        self.enable_encryption_with(key, |_| {})
    }

    /// As [`Self::enable_encryption`]. `progress` runs with the maintenance lock held, as that of [`Db::compact_with`].
    pub fn enable_encryption_with(&self, key: [u8; 32], progress: impl FnMut(CompactProgress)) -> Result<KeyRotation> {
        self.enable(&Secret::Key(key.into()), progress)
    }

    /// As [`Self::enable_encryption`], with a passphrase.
    pub fn enable_encryption_passphrase(&self, passphrase: impl AsRef<[u8]>) -> Result<KeyRotation> {
        self.enable(&Secret::Passphrase(Vec::from(passphrase.as_ref()).into()), |_| {})
    }

    /// As [`Self::enable_encryption`], with a key that lives elsewhere.
    pub fn enable_encryption_key_provider(&self, provider: impl KeyProvider + 'static) -> Result<KeyRotation> {
        self.enable(&Secret::Provider(Arc::new(provider)), |_| {})
    }

    fn enable(&self, secret: &Secret, mut progress: impl FnMut(CompactProgress)) -> Result<KeyRotation> {
        self.store.may_wait_for_the_turn()?;
        let cipher = self.store.attached.cipher.unwrap_or_default();
        let enabled = self.store.enable_encryption(secret, cipher, &mut |so_far| {
            let _inside = self.store.engine.inside(Held::Turn);
            progress(so_far);
        });
        self.store.seen(enabled)
    }
}
