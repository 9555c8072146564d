//! Opening and creating sealed stores: from what the user has to the keys of the store.

mod page;
#[cfg(test)]
mod tests;

pub(crate) use page::{PAGE_LEN, PAGE_PLACES, is_whole};

use crate::error::{Error, Result};
use crate::seal::{Cipher, Derived, Key, Keys, Secret, Vault, random};
use crate::storage::{SealedStorage, Storage};
use alloc::boxed::Box;
use alloc::vec::Vec;
use page::KeyPage;
use zeroize::Zeroizing;

/// The version of the page of keys that a new store begins with.
const FIRST_PAGE: u64 = 1;

/// What is known of a sealed store before its key is.
pub(crate) struct Sealed {
    pub(crate) store_id: [u8; 16],
    /// The version of the page of keys that the superblock names.
    pub(crate) page: u64,
}

/// The storage of the sealed store in `storage`, with its keys.
///
/// # Errors
///
/// [`Error::KeyNeeded`], [`Error::WrongKey`], [`Error::Forged`]; [`Error::Corrupt`] if no copy of the page of keys is whole.
pub(crate) fn unlock(storage: Box<dyn Storage>, sealed: &Sealed, secret: Option<&Secret>) -> Result<Box<dyn Storage>> {
    let secret = secret.ok_or(Error::KeyNeeded)?;
    let whole = KeyPage::read(&*storage)?;
    let page = whole.ok_or_else(|| Error::corrupt(page::PAGE_PLACES[0], "all three copies of the page of keys"))?;
    let keys = page.unlock(secret, &sealed.store_id)?;
    if page.version != sealed.page {
        return Err(Error::Forged { offset: page::PAGE_PLACES[0], what: "the version of the page of keys" });
    }
    let vault = Vault(Some(Keys::new(sealed.store_id, page.cipher, keys, page.version)?));
    Ok(Box::new(SealedStorage { inner: storage, vault }))
}

/// A new store's keys and page of keys, and the seed of its hashes.
pub(crate) struct New {
    pub(crate) storage: Box<dyn Storage>,
    pub(crate) page: Vec<u8>,
}

/// The storage of a store that is to be created in `storage`.
pub(crate) fn create(storage: Box<dyn Storage>, store_id: [u8; 16], cipher: Cipher, secret: &Secret) -> Result<New> {
    let mut data: Key = Zeroizing::new([0; 32]);
    random(data.as_mut_slice())?;
    let derived = Derived::new(&data, &store_id)?;
    let page = page::encode(FIRST_PAGE, cipher, &data, &derived, secret, &store_id)?;
    let vault = Vault(Some(Keys::new(store_id, cipher, (data, derived), FIRST_PAGE)?));
    Ok(New { storage: Box::new(SealedStorage { inner: storage, vault }), page })
}

/// Writes all copies of a page of keys; durable only after a sync.
pub(crate) fn write_page(storage: &dyn Storage, page: &[u8]) -> Result<()> {
    page::write(storage, page)
}

/// Writes the page of keys again if a copy of it is not whole, or if it is not known to be on the medium: a creation that was cut short may have
/// failed to sync it. True if so; durable only after a sync.
pub(crate) fn mend_page(storage: &dyn Storage, is_unsynced: bool) -> Result<bool> {
    let mut is_due = is_unsynced;
    for place in PAGE_PLACES {
        is_due = is_due || !is_whole(storage, place)?;
    }
    match page_of(storage)?.filter(|_| is_due) {
        Some(page) => write_page(storage, &page).map(|()| true),
        None => Ok(false),
    }
}

/// The page of keys of the store in `storage`, for a copy of the store; `None` if no copy of it is whole.
pub(crate) fn page_of(storage: &dyn Storage) -> Result<Option<Vec<u8>>> {
    Ok(page::first_whole(storage)?.map(|(_, bytes)| bytes))
}
