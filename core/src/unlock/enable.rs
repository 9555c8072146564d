//! Sealing a store that is plain: the page of keys at its beginning. The one at its end is that of a rotation.

use super::page::{self, KeyPage};
use super::rotate::{BEFORE, Page};
use super::slot::Slot;
use super::{PAGE_PLACES, version_at};
use crate::error::Result;
use crate::seal::{Cipher, KeySet, Secret};
use crate::storage::Storage;

/// A data key for the plain store with this id, and the page with which it begins to be sealed: `secret` opens it, and it says that segments in front of
/// the border are plain. Its version is above that of every page that an attempt which was cut short has left.
pub(crate) fn enabled(storage: &dyn Storage, store_id: &[u8; 16], cipher: Cipher, secret: &Secret) -> Result<(KeySet, Page)> {
    let mut version = super::FIRST_PAGE;
    for place in PAGE_PLACES {
        version = version.max(version_at(storage, place)?.map_or(0, |left| left.saturating_add(1)).min(page::VERSION_MAX));
    }
    let next = KeySet::drawn(store_id)?;
    let mut page = KeyPage::new(version, cipher, &next.derived);
    page.put_slot(0, &next.data, secret, store_id)?;
    page.slots.resize(BEFORE, Slot::NONE);
    page.slots.push(Slot::PLAIN_BEFORE);
    let bytes = page.encode(&next.derived, store_id)?;
    Ok((next, (version, bytes)))
}
