//! From a file to the keys of its store, or to those of a new one.

use super::sealed::Asked;
use crate::db::front::{create_beside_others, is_shared};
use crate::error::{Error, Result};
use crate::limits::DATA_START;
use crate::log::{Front, GENERATIONS_OF_CREATION, Superblock, SuperblockSlot, read_slots, read_superblocks};
use crate::planted::{Bug, is};
use crate::seal::{Keys, Vault, random};
use crate::storage::{SealedStorage, Storage};
use crate::store::{Attached, Options};
use crate::unlock::{Sealed, create, has_page_of, unlock};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes of a superblock.
const FRONT: u64 = 512;
/// How often the front of a shared file is read again: another session may be writing to it.
const FINDS_MAX: usize = 64;

/// A storage, with the keys of its store if that is sealed; and the page of keys of a store that is still to be created.
type Found = (Box<dyn Storage>, Option<Vec<u8>>);

/// What a look at a file has shown.
enum Met {
    /// No sealed store, as far as it matters here.
    AsItIs,
    /// A sealed store, which these keys open.
    Store(Keys),
    /// Nothing, or a creation that was cut short; a sealed store under these keys is to be created.
    Nothing { keys: Keys, is_cut_short: bool },
}

fn keyed(storage: Box<dyn Storage>, keys: Keys) -> Box<dyn Storage> {
    Box::new(SealedStorage::new(storage, Vault(Some(keys))))
}

impl Asked {
    /// The storage with the keys of its store, if that is sealed or is to be; of a new one also its page of keys.
    pub(super) fn find(&self, storage: Box<dyn Storage>, options: &mut Options, attached: &mut Attached) -> Result<Found> {
        let storage = SealedStorage::without_keys_of_before(storage);
        if is_shared(&*storage) || options.follows() {
            return self.find_beside_others(storage, options, attached);
        }
        Ok(match self.look(&*storage, options, attached)? {
            Met::AsItIs => (storage, None),
            Met::Store(keys) => (keyed(storage, keys), None),
            Met::Nothing { keys, is_cut_short } => {
                if is_cut_short {
                    blank(&*storage)?;
                }
                attached.created = true;
                let page = keys.page();
                (keyed(storage, keys), Some(page))
            }
        })
    }

    /// The same where others may write to the file, or create a store in it: what does not fit together counts only where nothing has changed.
    fn find_beside_others(&self, mut storage: Box<dyn Storage>, options: &mut Options, attached: &mut Attached) -> Result<Found> {
        for _ in 0..FINDS_MAX {
            let (slots, before) = (read_slots(&*storage)?, front_of(&*storage)?);
            // Behind them, so that what is looked at is not older.
            storage.refresh()?;
            match self.look(&*storage, options, attached) {
                Ok(Met::AsItIs) => return Ok((storage, None)),
                Ok(Met::Store(keys)) => return Ok((keyed(storage, keys), None)),
                Ok(Met::Nothing { keys, .. }) => {
                    let created = SealedStorage::new(storage, Vault(Some(keys)));
                    if create_beside_others(&created, options, slots)? {
                        attached.created = true;
                        return Ok((Box::new(created), None));
                    }
                    storage = created.into_inner();
                }
                Err(error) => {
                    if front_of(&*storage)? == before {
                        return Err(error);
                    }
                }
            }
        }
        Err(Error::Fenced)
    }

    fn look(&self, storage: &dyn Storage, options: &mut Options, attached: &Attached) -> Result<Met> {
        let may_create = options.create && !options.read_only && !options.follows();
        let superblock = match read_superblocks(storage) {
            Ok(Front::Store(pair)) => Some(pair.current),
            Ok(Front::Blank) => None,
            // Once more, it may be read, and then the keys would be missing.
            Err(error @ Error::Storage(_)) => return Err(error),
            Err(Error::Corrupt { .. }) if self.secret.is_some() && is_shared(storage) && is_creation(storage)? => None,
            Err(error) if is_shared(storage) => return Err(error),
            // Opening will say what is wrong.
            Err(_) => return Ok(Met::AsItIs),
        };
        if superblock.is_none_or(|superblock| superblock.key_page == 0) && self.secret.is_none() {
            return Ok(Met::AsItIs);
        }
        if self.secret.is_none() {
            return Err(Error::KeyNeeded);
        }
        refuse(attached)?;
        let is_cut_short = match &superblock {
            Some(superblock) => self.is_cut_short(storage, superblock)?,
            None => false,
        };
        if is_cut_short && !may_create {
            return Err(Error::NotAStore { detail: "its creation was cut short, so it is empty" });
        }
        match (superblock.filter(|_| !is_cut_short), &self.secret) {
            (Some(superblock), secret) if superblock.key_page != 0 => {
                let Superblock { store_id, key_page: page, sealed_from: border, .. } = superblock;
                let sealed = Sealed { store_id, page, border, is_to_be_plain: self.is_to_be_plain };
                unlock(storage, &sealed, secret.as_ref(), self.kept_page.as_deref()).map(Met::Store)
            }
            (Some(_), _) if is(Bug::PlainOpenedWithKey) => Ok(Met::AsItIs),
            (Some(_), _) => Err(Error::NotSealed),
            (None, Some(secret)) if may_create => {
                let mut entropy = options.entropy.unwrap_or_default();
                if options.entropy.is_none() {
                    random(&mut entropy)?;
                }
                options.entropy = Some(entropy);
                let store_id = entropy.first_chunk().copied().unwrap_or_default();
                let keys = create(storage, store_id, self.cipher.unwrap_or_default(), secret)?;
                Ok(Met::Nothing { keys, is_cut_short })
            }
            // What somebody creates meanwhile would be met without its keys.
            (None, _) if options.follows() => Err(Error::NotAStore { detail: "there is no store in it yet" }),
            (None, _) => Ok(Met::AsItIs),
        }
    }

    /// True for a file in which the creation of a sealed store has ended before a copy of its page of keys was whole: there is nothing in it, and no key
    /// to it. The second superblock is written only behind the page. Of several sessions that create a store at once on a host without locks, each may have
    /// written a part of what is there.
    fn is_cut_short(&self, storage: &dyn Storage, superblock: &Superblock) -> Result<bool> {
        if superblock.key_page == 0 || superblock.generation > GENERATIONS_OF_CREATION || storage.len()? > DATA_START {
            return Ok(false);
        }
        let other = read_slots(storage)?;
        let is_alone = superblock.generation == 1 && other.of(SuperblockSlot::B).iter().all(|&byte| byte == 0);
        let is_of_several = (is_shared(storage) || are_of_several(storage)?) && self.kept_page.is_none() && is_creation(storage)?;
        Ok((is_alone || is_of_several) && !has_page_of(storage, superblock.key_page)?)
    }
}

/// True for a file in which nothing can be stored yet: no session has begun to write.
fn is_creation(storage: &dyn Storage) -> Result<bool> {
    let slots = read_slots(storage)?;
    let is_first = |slot: SuperblockSlot| Superblock::generation_in(slots.of(slot)) <= GENERATIONS_OF_CREATION;
    Ok(storage.len()? <= DATA_START && is_first(SuperblockSlot::A) && is_first(SuperblockSlot::B))
}

/// True if the superblocks are those of two stores.
fn are_of_several(storage: &dyn Storage) -> Result<bool> {
    let slots = read_slots(storage)?;
    let [one, other] = [SuperblockSlot::A, SuperblockSlot::B].map(|slot| Superblock::id_of(slots.of(slot), slot));
    Ok(one.is_some() && other.is_some() && one != other)
}

/// The front of the file as it is now: superblocks and page of keys.
fn front_of(storage: &dyn Storage) -> Result<Vec<u8>> {
    let mut front = alloc::vec![0; DATA_START as usize];
    storage.read_now(0, &mut front)?;
    Ok(front)
}

/// Takes away what a creation has left that was cut short, all but its superblock: that says what the file is until the next creation has put its own in its
/// place, with nothing but zeros around it.
fn blank(storage: &dyn Storage) -> Result<()> {
    storage.reserve(0, DATA_START)?;
    storage.write_at(FRONT, &[&alloc::vec![0; (DATA_START - FRONT) as usize]])?;
    storage.sync()?;
    Ok(())
}

/// What is not built for sealed stores.
fn refuse(attached: &Attached) -> Result<()> {
    #[cfg(feature = "compress")]
    if attached.compression != crate::Compression::Off && !attached.compress_sealed {
        return Err(Error::InvalidArgument(crate::compression::NOT_ASKED_FOR));
    }
    let _ = attached;
    Ok(())
}
