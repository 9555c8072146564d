//! Rotation of the data key of a sealed store.

use super::handle::Db;
use crate::error::Result;
use crate::maintenance::{CompactProgress, KeyRotation};
use crate::nested::Held;
use crate::seal::{KeyProvider, Secret};
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Db {
    /// Seals everything under a new data key, which `key` alone opens from now on: whoever had an earlier key or passphrase, or the data key itself,
    /// reads nothing that is written from now on, and nothing in the file once the rotation has finished. Other slots are gone; add them again.
    ///
    /// Durable when it returns. Every live record is copied, and what is left of the old ones overwritten with zeros; reads and writes continue
    /// meanwhile. Where that cannot be done yet, the report says what it waits for, and [`Db::finish_key_rotation`] goes on later. So it does behind a
    /// crash: the store opens with the new key, or with the old ones if it was cut short before anything was under the new one.
    ///
    /// ```
    /// use pipkin::storage::MemoryStorage;
    /// use pipkin::{Db, Error};
    ///
    /// let file = MemoryStorage::new();
    /// let with = |key| Db::builder().encryption_key(key).open_storage(Box::new(file.clone()));
    /// let db = with([7; 32])?;
    /// db.insert("color", "green")?;
    /// assert!(db.rotate_encryption_key([8; 32])?.is_finished);
    /// db.close()?;
    /// assert!(matches!(with([7; 32]), Err(Error::WrongKey)));
    /// assert_eq!(with([8; 32])?.get("color")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotSealed`](crate::Error::NotSealed); [`Error::InvalidArgument`](crate::Error::InvalidArgument) while an earlier rotation cannot be
    /// finished, and where the host cannot lock the file; else as for [`Db::compact`]. After an error the rotation may have begun: [`Db::key_rotation_pending`] says so.
    pub fn rotate_encryption_key(&self, key: [u8; 32]) -> Result<KeyRotation> {
        self.rotate(&Secret::Key(key.into()))
    }

    /// As [`Self::rotate_encryption_key`], with a passphrase.
    pub fn rotate_encryption_passphrase(&self, passphrase: impl AsRef<[u8]>) -> Result<KeyRotation> {
        self.rotate(&Secret::Passphrase(Vec::from(passphrase.as_ref()).into()))
    }

    /// As [`Self::rotate_encryption_key`], with a key that lives elsewhere.
    pub fn rotate_encryption_key_provider(&self, provider: impl KeyProvider + 'static) -> Result<KeyRotation> {
        self.rotate(&Secret::Provider(Arc::new(provider)))
    }

    fn rotate(&self, secret: &Secret) -> Result<KeyRotation> {
        self.store.may_wait_for_the_turn()?;
        self.store.seen(self.store.rotate_key(secret))
    }

    /// True while a rotation has not finished: segments may be under the key before, and the page of keys leads to it; or while the sealing of a plain
    /// store has not, or a sealed one is being made plain: segments may be plain.
    pub fn key_rotation_pending(&self) -> bool {
        crate::log::keys_of(&*self.store.engine.log.storage).is_some_and(crate::seal::Keys::is_rotating)
    }

    /// Goes on with a rotation, or with [`Self::enable_encryption`] or [`Self::disable_encryption`], that could not finish or that a crash has cut short. Where a consumer of changes holds
    /// it up, that has to take note of a commit from behind its beginning first. `progress` runs with the maintenance lock held, as that of
    /// [`Db::compact_with`]. Without a rotation the report says that it has finished.
    ///
    /// # Errors
    ///
    /// As for [`Self::rotate_encryption_key`].
    pub fn finish_key_rotation(&self, mut progress: impl FnMut(CompactProgress)) -> Result<KeyRotation> {
        self.store.may_wait_for_the_turn()?;
        let finished = self.store.finish_rotation(&mut |so_far| {
            let _inside = self.store.engine.inside(Held::Turn);
            progress(so_far);
        });
        self.store.seen(finished)
    }
}
