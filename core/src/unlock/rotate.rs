//! Rotation of the data key: the pages of keys at its beginning and at its end.

use super::change::read;
use super::page::KeyPage;
use super::slot::Slot;
use crate::error::Result;
use crate::seal::{KeySet, Keys, Secret};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The number of the slot of the key before, or of the one that says that there was none.
pub(super) const BEFORE: usize = 1;

/// Version and bytes of a page.
pub(crate) type Page = (u64, Vec<u8>);

/// A new data key, and the page with which a rotation begins: `secret` alone opens it, and it leads to the key before, too.
pub(crate) fn rotated(keys: &Keys, secret: &Secret) -> Result<(Arc<KeySet>, Page)> {
    let (store_id, current) = (keys.store_id(), keys.current());
    let next = KeySet::drawn(store_id)?;
    let mut page = KeyPage::new(keys.page_version() + 1, keys.cipher(), &next.derived);
    page.put_slot(0, &next.data, secret, store_id)?;
    page.put_slot(BEFORE, &current.data, &Secret::Current(next.data.clone()), store_id)?;
    let bytes = page.encode(&next.derived, store_id)?;
    Ok((Arc::new(next), (page.version, bytes)))
}

/// The page with which it ends: the key before is not in it.
pub(crate) fn ended(keys: &Keys) -> Result<Page> {
    let mut page = read(keys)?.page;
    page.slots.iter_mut().filter(|slot| slot.kind != 0 && !slot.is_users()).for_each(|slot| *slot = Slot::NONE);
    page.trim();
    page.version += 1;
    let bytes = page.encode(&keys.current().derived, keys.store_id())?;
    Ok((page.version, bytes))
}
