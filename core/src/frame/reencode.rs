//! The codec as a test outside of the crate can reach it.

use super::{DecodeError, FrameSpec, Header, check};
use alloc::vec::Vec;

/// Decodes the frame at the front of `bytes`, which stands at `offset` of a segment with `salt`, and encodes what it says.
///
/// A record has one encoding, so this gives the bytes of the frame, whatever follows it.
///
/// # Errors
///
/// What a person would be told about the bytes.
pub fn reencode(bytes: &[u8], salt: u64, offset: u64) -> Result<Vec<u8>, &'static str> {
    decode_and_encode(bytes, salt, offset).map_err(|error| error.what())
}

fn decode_and_encode(bytes: &[u8], salt: u64, offset: u64) -> Result<Vec<u8>, DecodeError> {
    let header = Header::decode(bytes)?;
    check(&header, bytes, salt, offset)?;
    let key = header.key(bytes).ok_or(DecodeError::Truncated)?;
    let value = header.value(bytes).ok_or(DecodeError::Truncated)?;
    let Header { kind, continues, namespace, .. } = header;
    let mut out = Vec::new();
    FrameSpec { kind, continues, namespace, key, value }.encode_into(&mut out, salt, offset);
    Ok(out)
}
