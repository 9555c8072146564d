//! Sealed frames: how a frame is laid out before it is sealed, and the checksum of what stands there afterwards.

use super::decode::sum_of;
use super::{CHUNK, CRC_LEN, FrameSpec, HEAD_VERSION, Header, Kind, TAG_LEN, bind, tags_of};
use alloc::vec::Vec;

/// How the bytes of a frame are to be taken: those of its header, its key and its value, and then so many tags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) header: usize,
    pub(crate) key: usize,
    pub(crate) value: usize,
    pub(crate) tags: usize,
    /// Key and value are readable, and only tagged.
    pub(crate) is_control: bool,
    /// The value is so many zeros, and not tagged.
    pub(crate) is_pad: bool,
}

impl Parts {
    /// Where the text begins.
    pub(crate) const fn text(&self) -> usize {
        if self.is_control { self.header + self.key + self.value } else { self.header }
    }

    /// Length of the chunk of this number, of a text of which `left` bytes are left.
    pub(crate) fn chunk_len(&self, number: u32, left: usize) -> usize {
        let most = if number == 0 { self.key + CHUNK } else { CHUNK };
        left.min(most)
    }
}

impl FrameSpec<'_> {
    /// Bytes of the whole frame in a sealed store.
    pub(crate) fn sealed_len(&self) -> usize {
        self.len_with(self.key.len(), self.value.len() + self.tags() * TAG_LEN)
    }

    fn tags(&self) -> usize {
        if self.kind.is_control() { 1 } else { tags_of(self.value.len()) }
    }

    /// Appends the frame to `out` as it is before it is sealed: without a checksum, and with zeros for its tags.
    pub(crate) fn encode_unsealed(&self, out: &mut Vec<u8>) -> Parts {
        let tags = self.tags();
        let header = self.header_of(self.value.len() + tags * TAG_LEN, HEAD_VERSION);
        out.reserve(self.sealed_len());
        out.extend_from_slice(header.as_slice());
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
        out.resize(out.len() + tags * TAG_LEN, 0);
        Parts {
            header: header.as_slice().len(),
            key: self.key.len(),
            value: self.value.len(),
            tags,
            is_control: self.kind.is_control(),
            is_pad: self.kind == Kind::Pad,
        }
    }
}

impl Header {
    /// How the frame's bytes are to be taken.
    pub(crate) const fn parts(&self) -> Parts {
        Parts {
            header: self.header_len(),
            key: self.key_len(),
            value: self.value_len(),
            tags: self.tags(),
            is_control: self.kind.is_control(),
            is_pad: matches!(self.kind, Kind::Pad),
        }
    }
}

/// Puts the checksum at the front of a sealed frame.
pub(crate) fn sum_sealed(frame: &mut [u8], salt: u64, offset: u64) {
    let sum = Header::decode(frame).and_then(|header| sum_of(&header, frame)).unwrap_or_default();
    if let Some(place) = frame.first_chunk_mut::<CRC_LEN>() {
        *place = (sum ^ bind(salt, offset)).to_le_bytes();
    }
}
