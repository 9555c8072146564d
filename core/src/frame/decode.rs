//! From bytes to a frame. Every byte is hostile: nothing is indexed unchecked, and every length is held against its limit.

use super::{
    CRC_LEN, FLAG_NAMESPACE, FLAGS_KNOWN, FRAME_LEN_MIN, HEAD_CONTINUES, HEAD_EXTENDED, HEAD_KIND, HEAD_VERSION, Kind, bind,
    crc32c, varint,
};
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The bytes end before the frame does.
    Truncated,
    /// No frame of any version looks like this.
    Invalid(&'static str),
    /// The checksum does not fit the bytes, the segment or the place.
    Checksum,
}

impl DecodeError {
    /// What a person should read.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Truncated => "a record that ends too early",
            Self::Invalid(what) => what,
            Self::Checksum => "a record whose checksum does not fit",
        }
    }
}

/// What stands in front of a key and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// More frames of the same commit follow.
    pub(crate) continues: bool,
    pub(crate) namespace: u32,
    pub(crate) header_len: usize,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
}

impl Header {
    /// Reads a header from the front of `bytes`, which may end anywhere behind it.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_small(bytes).map_or_else(|| Self::decode_any(bytes), Ok)
    }

    /// What nearly every record has: no flags, a short key, a value that is not long. `None` says nothing.
    #[inline]
    pub(super) fn decode_small(bytes: &[u8]) -> Option<Self> {
        let &[.., head, key_len, low, high] = bytes.first_chunk::<{ FRAME_LEN_MIN + 1 }>()?;
        let (value_len, header_len) = match (low, high) {
            (0..0x80, _) => (usize::from(low), FRAME_LEN_MIN),
            (_, 1..0x80) => (usize::from(low & 0x7f) | usize::from(high) << 7, FRAME_LEN_MIN + 1),
            _ => return None,
        };
        let is_small = head & !HEAD_CONTINUES == Kind::Put.code() && key_len < 0x80;
        is_small.then_some(Self {
            kind: Kind::Put,
            continues: head & HEAD_CONTINUES != 0,
            namespace: 0,
            header_len,
            key_len: usize::from(key_len),
            value_len,
        })
    }

    pub(super) fn decode_any(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut at = CRC_LEN;
        let mut next = || {
            let byte = bytes.get(at).copied().ok_or(DecodeError::Truncated);
            at += 1;
            byte
        };
        let head = next()?;
        if head & HEAD_VERSION != 0 {
            return Err(DecodeError::Invalid("a record of an unknown version"));
        }
        let kind = Kind::from_code(head & HEAD_KIND).ok_or(DecodeError::Invalid("a record of an unknown kind"))?;
        let flags = if head & HEAD_EXTENDED == 0 { 0 } else { next()? };
        if flags & !FLAGS_KNOWN != 0 || (flags == 0 && head & HEAD_EXTENDED != 0) {
            return Err(DecodeError::Invalid("a record with unknown flags"));
        }
        let mut number = || {
            let rest = bytes.get(at..).unwrap_or_default();
            let (value, taken) = varint::decode(rest).ok_or(if rest.len() < 5 {
                DecodeError::Truncated
            } else {
                DecodeError::Invalid("a record with a malformed length")
            })?;
            at += taken;
            Ok(value)
        };
        let key_len = number()? as usize;
        let value_len = number()? as usize;
        let namespace = if flags & FLAG_NAMESPACE == 0 { 0 } else { number()? };
        if flags & FLAG_NAMESPACE != 0 && namespace == 0 {
            return Err(DecodeError::Invalid("a record with a malformed namespace"));
        }
        if key_len > KEY_LEN_MAX || value_len > VALUE_LEN_MAX {
            return Err(DecodeError::Invalid("a record over the limits of key or value"));
        }
        if kind.is_control() && (head & HEAD_CONTINUES != 0 || flags != 0) {
            return Err(DecodeError::Invalid("a control record with flags of a data record"));
        }
        Ok(Self { kind, continues: head & HEAD_CONTINUES != 0, namespace, header_len: at, key_len, value_len })
    }

    /// Bytes of the whole frame.
    pub(crate) const fn frame_len(&self) -> usize {
        self.header_len + self.key_len + self.value_len
    }

    /// The key inside the bytes of the frame.
    pub(crate) fn key<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        frame.get(self.header_len..self.header_len + self.key_len)
    }

    /// The value inside the bytes of the frame.
    pub(crate) fn value<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        frame.get(self.header_len + self.key_len..self.frame_len())
    }
}

/// Holds the checksum of a whole frame against its bytes, its segment and its place.
#[inline(always)]
pub(crate) fn check(header: &Header, frame: &[u8], salt: u64, offset: u64) -> Result<(), DecodeError> {
    let stored = frame.first_chunk::<CRC_LEN>().ok_or(DecodeError::Truncated)?;
    let body = frame.get(CRC_LEN..header.frame_len()).ok_or(DecodeError::Truncated)?;
    let covered = if crate::planted::is(crate::planted::Bug::ChecksumSkipsKey) && header.key_len > 0 {
        let mut sum = super::Checksum::new();
        sum.update(frame.get(CRC_LEN..header.header_len).unwrap_or_default());
        sum.update(header.value(frame).unwrap_or_default());
        sum.finish()
    } else {
        crc32c(body)
    };
    if u32::from_le_bytes(*stored) == covered ^ bind(salt, offset) { Ok(()) } else { Err(DecodeError::Checksum) }
}
