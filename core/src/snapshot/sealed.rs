//! The chunks of a sealed store: their bytes are encrypted, and end with a tag.

use crate::error::{Error, Result};
use crate::frame::TAG_LEN;
use crate::log::{is_sealed_segment, keys_of, seals};
use crate::planted::{Bug, is};
use crate::storage::Storage;
use alloc::borrow::Cow;

/// Bytes that a chunk is longer than its part.
pub(super) fn tag_len(storage: &dyn Storage) -> usize {
    if seals(storage) { TAG_LEN } else { 0 }
}

/// Seals the bytes of a chunk in place, in a sealed segment: the last ones are room for the tag.
pub(super) fn seal(storage: &dyn Storage, salt: u64, offset: u64, body: &mut [u8]) -> Result<()> {
    let keys = keys_of(storage).filter(|keys| !keys.is_plain(salt));
    let (Some(keys), Some((text, tag))) = (keys, body.split_last_chunk_mut()) else { return Ok(()) };
    *tag = keys.seal_part(text, salt, offset)?;
    Ok(())
}

/// The part in the bytes of a chunk.
///
/// # Errors
///
/// [`Error::Corrupt`] if the tag does not fit: like a damaged one, a part that somebody has changed costs time only. [`Error::KeyNeeded`] without
/// the key.
pub(super) fn open<'a>(storage: &dyn Storage, salt: u64, offset: u64, body: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    // A plain one is of this session, from before the store began to be sealed; or the store is being made plain.
    if !is_sealed_segment(storage, salt) {
        return Ok(Cow::Borrowed(body));
    }
    let forged =
        || Error::corrupt(offset, "a part of the index snapshot that somebody without the key has made, changed or moved");
    let keys = keys_of(storage).ok_or(Error::KeyNeeded)?;
    let (text, tag) = body.split_last_chunk().ok_or_else(forged)?;
    let mut text = text.to_vec();
    if !keys.open_part(&mut text, tag, salt, offset)? && !is(Bug::PartTagSkipped) {
        return Err(forged());
    }
    Ok(Cow::Owned(text))
}
