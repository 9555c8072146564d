//! Opening, creating and changing the keys of sealed stores: from what the user has to the keys of the store.

mod change;
mod disable;
mod enable;
mod page;
mod rotate;
mod slot;
#[cfg(test)]
mod tests;

pub(crate) use change::{Change, changed, slots_of};
pub use change::{KeySlot, KeySlotKind};
pub(crate) use disable::disabled;
pub(crate) use enable::enabled;
pub(crate) use page::{Look, PAGE_LEN, PAGE_PLACES};
pub(crate) use rotate::{Page, ended, rotated};

use crate::error::{Error, Result};
use crate::limits::LOG_POSITION_FIRST;
use crate::planted::{Bug, is};
use crate::seal::{Cipher, KeySet, Keys, PlainSide, Ring, Secret, Vault, random};
use crate::storage::Storage;
use alloc::sync::Arc;
use page::{KeyPage, Stored, Unlocked};

/// The version of the page of keys that a new store begins with.
const FIRST_PAGE: u64 = 1;

/// What is known of a sealed store before its key is.
pub(crate) struct Sealed {
    pub(crate) store_id: [u8; 16],
    /// The version of the page of keys that the superblock names.
    pub(crate) page: u64,
    /// The log position from which on everything is sealed under the current key; or plain, in a store that is being made plain.
    pub(crate) border: u64,
    /// The caller has said that the store is to become plain: what is plain in it already may be taken for true.
    pub(crate) is_to_be_plain: bool,
}

/// The keys of the sealed store in `storage`. `kept` is a page of keys that somebody has kept elsewhere, for a file that has lost
/// all copies.
///
/// # Errors
///
/// [`Error::KeyNeeded`], [`Error::WrongKey`], [`Error::Forged`]; [`Error::DisablingEncryption`]; [`Error::Corrupt`] if no copy of the page of keys is whole.
pub(crate) fn unlock(storage: &dyn Storage, sealed: &Sealed, secret: Option<&Secret>, kept: Option<&[u8]>) -> Result<Keys> {
    let secret = secret.ok_or(Error::KeyNeeded)?;
    let first = page::PAGE_PLACES[0];
    let stored = match (Stored::read(storage, sealed.page)?, kept) {
        (Some(stored), _) => stored,
        (None, Some(kept)) => {
            Stored::decode(kept, first).ok_or(Error::InvalidArgument("the page of keys that was kept is none"))?
        }
        (None, None) => return Err(Error::corrupt(first, "all three copies of the page of keys")),
    };
    let Unlocked { current, previous, plain } = stored.unlock(secret, &sealed.store_id)?;
    let page = &stored.page;
    if page.version != sealed.page {
        return Err(Error::Forged { offset: first, what: "the version of the page of keys" });
    }
    // Nothing says that what is plain behind the border was written by somebody with the key.
    if plain == PlainSide::Behind && !sealed.is_to_be_plain && !is(Bug::DisablingOpened) {
        return Err(Error::DisablingEncryption);
    }
    let ring = Ring { current: Arc::new(current), previous: previous.map(Arc::new), border: sealed.border, plain };
    Keys::new(sealed.store_id, page.cipher, ring, (page.version, stored.bytes()))
}

/// The keys of a store that is to be created in `storage`. Where others may create one there at the same time, the version of its page of keys is drawn, so
/// that theirs is not taken for it.
pub(crate) fn create(storage: &dyn Storage, store_id: [u8; 16], cipher: Cipher, secret: &Secret) -> Result<Keys> {
    let current = KeySet::drawn(&store_id)?;
    let version = next_version(storage, FIRST_PAGE - 1)?;
    let mut first = KeyPage::new(version, cipher, &current.derived);
    first.put_slot(0, &current.data, secret, &store_id)?;
    let page = first.encode(&current.derived, &store_id)?;
    let ring = Ring { current: Arc::new(current), previous: None, border: LOG_POSITION_FIRST, plain: PlainSide::Nowhere };
    Keys::new(store_id, cipher, ring, (version, page))
}

/// The version of the page of keys behind `version`. On a host that cannot lock the file it is drawn: a session that was overtaken may leave copies of a page
/// that has never counted, and no later page may have their version.
pub(crate) fn next_version(storage: &dyn Storage, version: u64) -> Result<u64> {
    let mut drawn = [0; 4];
    if !storage.is_exclusive() && !is(Bug::PagesOfOneVersion) {
        random(&mut drawn)?;
    }
    Ok(version + 1 + u64::from(u32::from_le_bytes(drawn)))
}

/// Makes the page of keys of this version the one that is known, if it is under the same data key: another session has changed who opens the store, or was
/// overtaken while it did.
pub(crate) fn follow_page(storage: &dyn Storage, version: u64) -> Result<()> {
    let Some(keys) = storage.vault().and_then(Vault::keys).filter(|keys| keys.page_version() != version) else { return Ok(()) };
    let offset = page::PAGE_PLACES[0];
    let stored = Stored::read(storage, version)?.filter(|stored| stored.page.version == version);
    let stored = stored.ok_or_else(|| Error::corrupt(offset, "all three copies of the page of keys"))?;
    stored.check(&keys.current().derived, keys.store_id())?;
    keys.set_page(version, stored.bytes());
    Ok(())
}

/// Writes those copies of the page of keys again that are not as they should be, or all of them, each behind a `look`. False if none was written; durable
/// only after a sync.
pub(crate) fn mend(storage: &dyn Storage, all: bool, look: Look<'_>) -> Result<bool> {
    let Some(keys) = storage.vault().and_then(Vault::keys) else { return Ok(false) };
    let mut has_written = false;
    for place in PAGE_PLACES {
        if all || version_at(storage, place)? != Some(keys.page_version()) {
            page::write(storage, &keys.page(), &[place], look)?;
            has_written = true;
        }
    }
    Ok(has_written)
}

/// True if all copies of the page of keys are the one that is known.
pub(crate) fn is_written(storage: &dyn Storage) -> Result<bool> {
    let Some(keys) = storage.vault().and_then(Vault::keys) else { return Ok(false) };
    Ok(copies(storage, keys.page_version())? == Copies::Whole)
}

/// Writes all copies of a page of keys to a file that nobody else writes to; durable only after a sync.
pub(crate) fn write_page(storage: &dyn Storage, page: &[u8]) -> Result<()> {
    write_page_looking(storage, page, &|| Ok(()))
}

/// Writes all copies, each behind a `look`; durable only after a sync.
pub(crate) fn write_page_looking(storage: &dyn Storage, page: &[u8], look: Look<'_>) -> Result<()> {
    page::write(storage, page, &PAGE_PLACES, look)
}

/// The same of the first two copies, which leaves the last one as it was.
pub(crate) fn write_front_of_page(storage: &dyn Storage, page: &[u8], look: Look<'_>) -> Result<()> {
    page::write(storage, page, &PAGE_PLACES[..2], look)
}

/// True if anything stands where a plain store has no page of keys: what an attempt to seal it has left that was cut short.
pub(crate) fn has_leftover(storage: &dyn Storage) -> Result<bool> {
    let mut bytes = alloc::vec![0; PAGE_LEN];
    for place in PAGE_PLACES.into_iter().filter(|place| place + PAGE_LEN as u64 <= storage.len().unwrap_or(0)) {
        storage.read_at(place, &mut bytes)?;
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Overwrites that with zeros; durable only after a sync.
pub(crate) fn wipe_page(storage: &dyn Storage) -> Result<()> {
    PAGE_PLACES.into_iter().try_for_each(|place| Ok(storage.write_at(place, &[&[0; PAGE_LEN]])?))
}

/// How many copies of a page of keys are as they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// All of them.
    Whole,
    /// Not all are whole.
    Damaged,
    /// One is of another version: a change was cut short.
    Mixed,
}

/// Looks at the copies of the page of keys of this version.
pub(crate) fn copies(storage: &dyn Storage, version: u64) -> Result<Copies> {
    let mut found = Copies::Whole;
    for place in PAGE_PLACES {
        match version_at(storage, place)? {
            Some(of) if of == version => {}
            Some(_) => return Ok(Copies::Mixed),
            None => found = Copies::Damaged,
        }
    }
    Ok(found)
}

/// The version of the copy of the page of keys at `place`, if it is whole.
pub(crate) fn version_at(storage: &dyn Storage, place: u64) -> Result<Option<u64>> {
    Ok(page::whole(storage, place)?.and_then(|bytes| page::version_of(&bytes)))
}

/// True if the page of keys leads to another data key than the one that is known, and is a later one: another session has rotated the key.
#[cfg(feature = "followers")]
pub(crate) fn is_rotated(storage: &dyn Storage) -> Result<bool> {
    let Some(keys) = storage.vault().and_then(Vault::keys) else { return Ok(false) };
    for place in PAGE_PLACES {
        let later = page::whole(storage, place)?.filter(|bytes| page::version_of(bytes) > Some(keys.page_version()));
        if later.and_then(|bytes| page::key_id_of(&bytes)).is_some_and(|id| id != keys.current().derived.id) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if the page of keys says that the store is being made plain, and is later than the one that is known: another session has begun with that.
///
/// # Errors
///
/// [`Error::Forged`] for a page that somebody without the key has made.
#[cfg(feature = "followers")]
pub(crate) fn is_disabling(storage: &dyn Storage) -> Result<bool> {
    let Some(keys) = storage.vault().and_then(Vault::keys) else { return Ok(false) };
    for place in PAGE_PLACES {
        let later = page::whole(storage, place)?.filter(|bytes| page::version_of(bytes) > Some(keys.page_version()));
        if let Some(stored) = later.and_then(|bytes| Stored::decode(&bytes, place)).filter(Stored::is_of_disabling) {
            return stored.check(&keys.current().derived, keys.store_id()).map(|()| true);
        }
    }
    Ok(false)
}

/// True if any copy of a page of keys is whole.
pub(crate) fn has_page(storage: &dyn Storage) -> Result<bool> {
    Ok(page::first_whole(storage, FIRST_PAGE)?.is_some())
}

/// True if a copy of the page of keys of this version is whole.
pub(crate) fn has_page_of(storage: &dyn Storage, version: u64) -> Result<bool> {
    Ok(page::first_whole(storage, version)?.is_some_and(|(_, bytes)| page::version_of(&bytes) == Some(version)))
}
