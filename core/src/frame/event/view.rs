//! The value of an event, read in place, and the tags with which pipkin itself marks one.

use super::super::varint;
use super::{long_number_of, number_of, piece, put};
use alloc::vec::Vec;

/// Keys of the tags with which pipkin itself marks an event. They begin with a byte with which no tag of a user begins.
pub(crate) mod own_tags {
    /// Names the event before in the same stream.
    pub(crate) const STREAM: &[u8] = &[0];
    /// Names an earlier event of the same stream, further back, see `jump_version`.
    pub(crate) const JUMP: &[u8] = &[0, 1];
    /// Names the event before of the same type.
    pub(crate) const TYPE: &[u8] = &[0, 2];
    /// The rest of the key is the user's metadata.
    pub(crate) const METADATA: &[u8] = &[0, 3];
}

/// The version to which the jump of an event at `version` leads; 0: there is none. The versions of a stream are cut into pieces of 2^k - 1, the
/// largest first; an event jumps over the last piece. So any version is reached in steps as many as the logarithm of the distance (E. Myers,
/// "An applicative random-access stack", 1983).
pub(crate) const fn jump_version(version: u64) -> u64 {
    let mut rest = version;
    while rest > 0 {
        let piece = (1 << (u64::BITS - 1 - (rest + 1).leading_zeros())) - 1;
        if rest == piece {
            return version - piece;
        }
        rest -= piece;
    }
    0
}

/// Bytes of number, version, time and id.
const FRONT_LEN: usize = 8 + 8 + 6 + 16;

/// An event, read in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventView<'a> {
    pub(crate) number: u64,
    pub(crate) version: u64,
    pub(crate) time: u64,
    pub(crate) id: [u8; 16],
    pub(crate) kind: &'a [u8],
    count: u32,
    tags: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> EventView<'a> {
    /// Reads a frame's value; `None` when it is not a valid event.
    #[inline]
    pub(crate) fn decode(value: &'a [u8]) -> Option<Self> {
        let (front, mut rest) = value.split_first_chunk::<FRONT_LEN>()?;
        let (number, front) = front.split_first_chunk()?;
        let (version, front) = front.split_first_chunk()?;
        let (&[a, b, c, d, e, f], front) = front.split_first_chunk()?;
        let &id = front.first_chunk()?;
        let kind = piece(&mut rest)?;
        let count = number_of(&mut rest)?;
        let tags = rest;
        for _ in 0..count {
            tag_of(&mut rest)?;
        }
        let (number, version) = (u64::from_le_bytes(*number), u64::from_le_bytes(*version));
        let time = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        Some(Self { number, version, time, id, kind, count, tags, payload: rest })
    }

    /// Keys of all tags, each with the number of the event before that has it.
    pub(crate) fn tags(&self) -> impl Iterator<Item = (&'a [u8], u64)> + use<'a> {
        let (mut rest, count) = (self.tags, self.count);
        (0..count).map_while(move |_| tag_of(&mut rest))
    }

    /// The number of the event before with the tag `key`, 0 if there is none; `None` when this event does not have the tag.
    pub(crate) fn before(&self, key: &[u8]) -> Option<u64> {
        self.tags().find(|(tag, _)| *tag == key).map(|(_, before)| before)
    }
}

#[cfg_attr(not(target_family = "wasm"), inline)]
fn tag_of<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], u64)> {
    let (key, before) = (piece(rest)?, long_number_of(rest)?);
    match rest {
        // What pipkin writes.
        [0, behind @ ..] => *rest = behind,
        _ => _ = long_number_of(rest)?,
    }
    Some((key, before))
}

/// The version in a frame's value.
pub(crate) fn event_version(value: &[u8]) -> Option<u64> {
    value.get(8..).and_then(<[u8]>::first_chunk).map(|bytes| u64::from_le_bytes(*bytes))
}

/// Encodes the value of an event. Each tag has the number of the event before with this tag; how far back that is stays unsaid.
pub(crate) fn encode_event<'t>(
    (number, version, time, id): (u64, u64, u64, [u8; 16]),
    kind: &[u8],
    tags: impl ExactSizeIterator<Item = (&'t [u8], u64)>,
    payload: &[u8],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + kind.len() + 32 * tags.len() + payload.len());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(time.to_le_bytes().get(..6).unwrap_or_default());
    out.extend_from_slice(&id);
    put(&mut out, kind);
    varint::encode(tags.len() as u32, |byte| out.push(byte));
    for (key, before) in tags {
        put(&mut out, key);
        varint::encode_u64(before, |byte| out.push(byte));
        out.push(0);
    }
    out.extend_from_slice(payload);
    out
}
