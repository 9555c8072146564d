//! The frames of a sealed store on their way back.

use crate::error::{Error, Result};
use crate::frame::Header;
use crate::seal::Keys;
use crate::storage::Storage;
use alloc::vec::Vec;

/// True if the store is sealed, whether or not its key is at hand.
pub(crate) fn is_sealed(storage: &dyn Storage) -> bool {
    storage.vault().is_some()
}

/// True if what is appended to the log is sealed.
pub(crate) fn seals(storage: &dyn Storage) -> bool {
    is_sealed(storage) && !keys(storage).is_some_and(Keys::is_disabling)
}

/// True if a segment that begins at the log position `base` is plain because the store is being made plain.
pub(crate) fn is_plain_from(storage: &dyn Storage, base: u64) -> bool {
    keys(storage).is_some_and(|keys| keys.is_plain_from(base))
}

/// The keys of a sealed store.
pub(crate) fn keys(storage: &dyn Storage) -> Option<&Keys> {
    storage.vault()?.keys()
}

/// True if the frames of the segment with this salt are sealed. Without the keys, nobody knows that of a store that is being sealed or
/// made plain.
pub(crate) fn is_sealed_segment(storage: &dyn Storage, salt: u64) -> bool {
    storage.vault().is_some_and(|vault| !vault.keys().is_some_and(|keys| keys.is_plain(salt)))
}

/// Header, key and value of the frame that begins with the bytes `frame` at `offset`; `None` if it is readable as it stands, in a plain segment of a
/// store that is being sealed or made plain, or if its key is not at hand.
///
/// # Errors
///
/// [`Error::Forged`] if the tags do not fit, and for a plain frame in a sealed segment; [`Error::Corrupt`] for a sealed one elsewhere.
pub(crate) fn open(storage: &dyn Storage, header: &Header, frame: &[u8], salt: u64, offset: u64) -> Result<Option<Vec<u8>>> {
    let Some(keys) = keys(storage) else { return Ok(None) };
    if !header.is_sealed() {
        if keys.is_plain(salt) {
            return Ok(None);
        }
        return Err(Error::Forged { offset, what: "a record that is not sealed" });
    }
    keys.open(frame, &header.parts(), salt, offset).map(Some)
}
