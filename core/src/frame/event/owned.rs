//! The value of an event in parts of its own.

use super::super::varint;
use super::{long_number_of, number_of, piece, put, take};
use alloc::vec::Vec;

/// An event as stored in its frame's value; the frame's key is the name of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its position in the order of all events. The frame's checksum is bound to it, and does not cover its bytes.
    pub number: u64,
    /// Its position in its stream.
    pub version: u64,
    /// Milliseconds since 1970.
    pub time: u64,
    /// The caller's id: two events with the same id are the same event.
    pub id: [u8; 16],
    /// What kind of event it is.
    pub kind: Vec<u8>,
    /// Tags by which it can be found.
    pub tags: Vec<Tag>,
    /// The caller's bytes.
    pub payload: Vec<u8>,
}

/// A tag of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Its bytes.
    pub key: Vec<u8>,
    /// The number of the previous event with this tag; 0: none.
    pub before: u64,
    /// Bytes of log between the two events when this one was written; 0: not known.
    pub distance: u64,
}

impl Event {
    /// Encodes it as a frame's value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(self.time.to_le_bytes().get(..6).unwrap_or_default());
        out.extend_from_slice(&self.id);
        put(&mut out, &self.kind);
        varint::encode(self.tags.len() as u32, |byte| out.push(byte));
        for tag in &self.tags {
            put(&mut out, &tag.key);
            varint::encode_u64(tag.before, |byte| out.push(byte));
            varint::encode_u64(tag.distance, |byte| out.push(byte));
        }
        out.extend_from_slice(&self.payload);
        out
    }

    /// Decodes a frame's value; `None` when it is not a valid event.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let mut rest = value;
        let number = u64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?);
        let version = u64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?);
        let mut time = [0; 8];
        time.get_mut(..6)?.copy_from_slice(take(&mut rest, 6)?);
        let id = take(&mut rest, 16)?.try_into().ok()?;
        let kind = piece(&mut rest)?.to_vec();
        let count = number_of(&mut rest)?;
        let mut tags = Vec::new();
        for _ in 0..count {
            let key = piece(&mut rest)?.to_vec();
            tags.push(Tag { key, before: long_number_of(&mut rest)?, distance: long_number_of(&mut rest)? });
        }
        Some(Self { number, version, time: u64::from_le_bytes(time), id, kind, tags, payload: rest.to_vec() })
    }
}
