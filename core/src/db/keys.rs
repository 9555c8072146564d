//! Who can open a sealed store: its keys and passphrases, which are changed while it is open.

use super::handle::Db;
use crate::error::{Error, Result};
use crate::log::keys_of;
use crate::position::Position;
use crate::seal::{KeyProvider, Keys, Secret};
use crate::store::Store;
use crate::unlock::{Change, KeySlot, changed, slots_of, write_front_of_page, write_page_looking};
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Db {
    /// The keys and passphrases that open this store, in the order of their numbers.
    ///
    /// ```
    /// use pipkin::{Db, KeySlotKind};
    ///
    /// let db = Db::builder().encryption_key([7; 32]).in_memory()?;
    /// db.add_encryption_passphrase("correct horse battery staple")?;
    /// let kinds: Vec<KeySlotKind> = db.key_slots()?.iter().map(|slot| slot.kind).collect();
    /// assert_eq!(kinds, [KeySlotKind::Key, KeySlotKind::Passphrase]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotSealed`], also for the methods below.
    pub fn key_slots(&self) -> Result<Vec<KeySlot>> {
        slots_of(self.store.keys()?)
    }

    /// Lets one more key open this store, beside those that do; returns the number of its slot. Durable when it returns.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a ninth slot, and for a key that opens the store already. After an error of the file system, or
    /// [`Error::Fenced`], it may open the store, or not; everything else that did still does.
    pub fn add_encryption_key(&self, key: [u8; 32]) -> Result<u8> {
        self.store.change_keys(&Change::Add(&Secret::Key(key.into())))
    }

    /// As [`Self::add_encryption_key`], with a passphrase.
    pub fn add_encryption_passphrase(&self, passphrase: impl AsRef<[u8]>) -> Result<u8> {
        self.store.change_keys(&Change::Add(&secret_of(passphrase)))
    }

    /// As [`Self::add_encryption_key`], with a key that lives elsewhere.
    pub fn add_encryption_key_provider(&self, provider: impl KeyProvider + 'static) -> Result<u8> {
        self.store.change_keys(&Change::Add(&Secret::Provider(Arc::new(provider))))
    }

    /// What to keep elsewhere, so that an earlier state of the file is noticed: the position of the last commit, flushed; see
    /// [`Builder::not_before`](crate::Builder::not_before). It tells nothing of the records. Take one whenever you have written what must not be undone.
    ///
    /// # Errors
    ///
    /// As for [`Db::flush`].
    pub fn anchor(&self) -> Result<Position> {
        let position = self.position()?;
        self.flush_to(position)?;
        Ok(position)
    }

    /// The key or passphrase with this slot does not open the store any more. Durable when it returns.
    ///
    /// Whoever has had it may have kept the key that it led to, or an earlier copy of the file: this revokes nothing that they have seen, and they can
    /// read what is written later if they get the file. To lock somebody out, copy the records into a new store.
    ///
    /// ```
    /// use pipkin::storage::MemoryStorage;
    /// use pipkin::{Db, Error};
    ///
    /// let file = MemoryStorage::new();
    /// let db = Db::builder().encryption_key([7; 32]).open_storage(Box::new(file.clone()))?;
    /// db.add_encryption_key([8; 32])?;
    /// db.remove_key_slot(0)?;
    /// db.close()?;
    /// let with = |key| Db::builder().encryption_key(key).open_storage(Box::new(file.clone()));
    /// assert!(matches!(with([7; 32]), Err(Error::WrongKey)));
    /// with([8; 32])?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a number without a slot, and for the last slot.
    pub fn remove_key_slot(&self, number: u8) -> Result<()> {
        self.store.change_keys(&Change::Remove(number)).map(drop)
    }

    /// Opens the store with `new` instead of `old` from now on. Durable when it returns. It revokes nothing, as [`Self::remove_key_slot`] says.
    ///
    /// ```
    /// let db = pipkin::Db::builder().encryption_passphrase("correct horse").in_memory()?;
    /// db.change_passphrase("correct horse", "battery staple")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::WrongKey`] if `old` does not open the store; [`Error::InvalidArgument`] if `new` does already. After an error of the file
    /// system one of the two opens the store.
    pub fn change_passphrase(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        self.store.change_keys(&Change::Replace(&secret_of(old), &secret_of(new))).map(drop)
    }

    /// The page of keys, and the id of the store behind it: keep it elsewhere against the loss of all three copies in the file, or of both superblocks,
    /// after which no key would open the store; see [`Builder::key_page`](crate::Builder::key_page). It tells nothing without a key or passphrase. Each change of these makes a
    /// new one, and earlier ones do not fit any more.
    pub fn export_key_page(&self) -> Result<Vec<u8>> {
        let keys = self.store.keys()?;
        Ok([keys.page().as_slice(), keys.store_id()].concat())
    }
}

fn secret_of(passphrase: impl AsRef<[u8]>) -> Secret {
    Secret::Passphrase(passphrase.as_ref().to_vec().into())
}

impl Store {
    fn keys(&self) -> Result<&Keys> {
        keys_of(&*self.engine.log.storage).ok_or(Error::NotSealed)
    }

    /// Two copies of the page of keys are replaced before a superblock names the new version, and the third one once no superblock names the old one: at
    /// every moment there is a copy for each superblock.
    fn change_keys(&self, change: &Change<'_>) -> Result<u8> {
        let keys = self.keys()?;
        self.may_wait_for_the_turn()?;
        let _turn = self.turn.lock();
        self.writable()?;
        let log = &self.engine.log;
        let (version, page, slot) = changed(&*log.storage, keys, change)?;
        log.begin_to_write()?;
        log.write_front(|look| write_front_of_page(&*log.storage, &page, look))?;
        log.name_key_page(version)?;
        keys.set_page(version, page.clone());
        log.write_front(|look| write_page_looking(&*log.storage, &page, look))?;
        Ok(slot)
    }
}
