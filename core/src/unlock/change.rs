//! Changes of the page of keys: who can open the store. The data key stays, so that whoever had it can still read every record.

use super::next_version;
use super::page::Stored;
use super::slot::Slot;
use crate::error::{Error, Result};
use crate::seal::{Keys, Secret};
use crate::storage::Storage;
use alloc::vec::Vec;

/// A key or a passphrase that opens a sealed store; see [`Db::key_slots`](crate::Db::key_slots).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeySlot {
    /// Its number, from 0; the others keep theirs when it is removed.
    pub number: u8,
    /// What opens it.
    pub kind: KeySlotKind,
}

/// What opens a [`KeySlot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeySlotKind {
    /// A key of 32 bytes.
    Key,
    /// A passphrase.
    Passphrase,
}

/// A change of who can open the store.
pub(crate) enum Change<'a> {
    /// One more key or passphrase.
    Add(&'a Secret),
    /// The slot with this number opens nothing any more.
    Remove(u8),
    /// The slot of the first one takes the second one instead.
    Replace(&'a Secret, &'a Secret),
}

/// The version and the bytes of the page behind a change, and the number of the slot that it made or removed.
///
/// # Errors
///
/// [`Error::WrongKey`] if there is no slot of the secret that is to be replaced; [`Error::InvalidArgument`] for a ninth slot, a number without a
/// slot, the last slot, and a secret that has a slot already.
pub(crate) fn changed(storage: &dyn Storage, keys: &Keys, change: &Change<'_>) -> Result<(u64, Vec<u8>, u8)> {
    let (store_id, current) = (keys.store_id(), keys.current());
    let (data, derived) = (&current.data, &current.derived);
    let mut page = read(keys)?.page;
    let is_taken = |page: &super::page::KeyPage, secret: &Secret| Ok::<bool, Error>(page.find(secret, store_id, 0)?.is_some());
    let number = match change {
        Change::Add(secret) => {
            if is_taken(&page, secret)? {
                return Err(Error::InvalidArgument("this key or passphrase opens the store already"));
            }
            let number = page.slots.iter().position(|slot| slot.kind == 0).unwrap_or(page.slots.len());
            page.put_slot(number, data, secret, store_id)?;
            number
        }
        Change::Remove(number) => {
            let number = usize::from(*number);
            let others = page.slots.iter().enumerate().filter(|(other, slot)| *other != number && slot.is_users()).count();
            let place = page.slots.get_mut(number).filter(|slot| slot.is_users());
            let place = place.ok_or(Error::InvalidArgument("there is no key slot with this number"))?;
            if others == 0 {
                return Err(Error::InvalidArgument("without its last key or passphrase nobody could open the store"));
            }
            *place = Slot::NONE;
            number
        }
        Change::Replace(old, new) => {
            let (number, _) = page.find(old, store_id, 0)?.ok_or(Error::WrongKey)?;
            if is_taken(&page, new)? {
                return Err(Error::InvalidArgument("this key or passphrase opens the store already"));
            }
            page.put_slot(number, data, new, store_id)?;
            number
        }
    };
    page.version = next_version(storage, page.version)?;
    page.trim();
    Ok((page.version, page.encode(derived, store_id)?, number as u8))
}

/// What opens the store.
pub(crate) fn slots_of(keys: &Keys) -> Result<Vec<KeySlot>> {
    let slots = (0_u8..).zip(read(keys)?.page.slots);
    let kind = |slot: &Slot| match slot.kind {
        1 => Some(KeySlotKind::Key),
        2 => Some(KeySlotKind::Passphrase),
        _ => None,
    };
    Ok(slots.filter_map(|(number, slot)| kind(&slot).map(|kind| KeySlot { number, kind })).collect())
}

pub(super) fn read(keys: &Keys) -> Result<Stored> {
    Stored::decode(&keys.page(), 0).ok_or(Error::Bug("a page of keys that was checked is none"))
}
