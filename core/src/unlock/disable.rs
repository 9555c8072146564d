//! Making a sealed store plain: the page of keys at its beginning. At its end there is none.

use super::change::read;
use super::rotate::Page;
use super::slot::Slot;
use crate::error::Result;
use crate::seal::Keys;

/// The page with which a sealed store begins to be made plain: what opens the store stays, and it says that segments behind the border are plain.
///
/// # Errors
///
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if all slots are taken.
pub(crate) fn disabled(keys: &Keys) -> Result<Page> {
    let mut page = read(keys)?.page;
    page.put(Slot::PLAIN_BEHIND)?;
    page.version += 1;
    let bytes = page.encode(&keys.current().derived, keys.store_id())?;
    Ok((page.version, bytes))
}
