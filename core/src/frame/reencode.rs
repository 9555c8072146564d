//! The codec, for tests outside of the crate.

use super::event::Event;
#[cfg(feature = "events")]
use super::event::{EventView, Tag, encode_event};
use super::meta::Optional;
use super::{DecodeError, FrameSpec, Header, Kind, Meta, check};
use alloc::vec::Vec;

/// Decodes the frame at the front of `bytes`, for `offset` of a segment with `salt`, and encodes it again.
///
/// A record has one encoding, so this gives the bytes of the frame, whatever follows it.
///
/// # Errors
///
/// A message that tells what is wrong with the bytes.
pub fn reencode(bytes: &[u8], salt: u64, offset: u64) -> Result<Vec<u8>, &'static str> {
    decode_and_encode(bytes, salt, offset).map_err(|error| error.what())
}

fn decode_and_encode(bytes: &[u8], salt: u64, offset: u64) -> Result<Vec<u8>, DecodeError> {
    let header = Header::decode(bytes)?;
    check(&header, bytes, salt, offset)?;
    if header.is_sealed() {
        return Err(DecodeError::Invalid("a sealed record, which is sealed again only by its key"));
    }
    let key = header.key(bytes).ok_or(DecodeError::Truncated)?;
    let value = header.value(bytes).ok_or(DecodeError::Truncated)?;
    let mut out = Vec::new();
    let spec = FrameSpec { kind: header.kind, continues: header.continues, meta: header.meta(bytes), key, value };
    spec.encode_into(&mut out, salt, offset);
    Ok(out)
}

/// A frame of any kind and with any optional fields, unbound: the caller binds its checksum to salt and offset. For tests of stores with
/// capabilities that are not built yet.
pub fn build(code: u8, namespace: u32, optional: &Optional, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let (flags, fields) = optional.encode();
    let meta = Meta::new(namespace, flags, &fields);
    let mut out = Vec::new();
    FrameSpec { kind: Kind::from_code(code)?, continues: false, meta, key, value }.encode_into(&mut out, 0, 0);
    Some(out)
}

/// Decodes and encodes the value of an event.
pub fn reencode_event(value: &[u8]) -> Option<Vec<u8>> {
    Event::decode(value).map(|event| event.encode())
}

/// True when the value of an event reads in place as it does in parts of its own, and encodes the same.
#[cfg(feature = "events")]
pub fn event_reads_alike(value: &[u8]) -> bool {
    let (Some(own), Some(view)) = (Event::decode(value), EventView::decode(value)) else {
        return Event::decode(value).is_none() && EventView::decode(value).is_none();
    };
    let tags: Vec<(&[u8], u64)> = view.tags().collect();
    let is_same = (own.number, own.version, own.time, own.id) == (view.number, view.version, view.time, view.id)
        && (&*own.kind, &*own.payload) == (view.kind, view.payload)
        && tags.iter().copied().eq(own.tags.iter().map(|tag| (&*tag.key, tag.before)));
    let near = Event { tags: own.tags.iter().map(|tag| Tag { distance: 0, ..tag.clone() }).collect(), ..own.clone() };
    let head = (view.number, view.version, view.time, view.id);
    is_same && encode_event(head, view.kind, tags.into_iter(), view.payload) == near.encode()
}
