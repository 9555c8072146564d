//! Decoding frames. Every byte may be hostile: nothing is indexed unchecked, and every length is checked against its limit.

use super::checksum::around_zeros;
use super::encode::bind_number;
use super::meta::{self, FLAG_NAMESPACE};
use super::{
    CRC_LEN, Checksum, EVENT_NUMBER_LEN, FRAME_LEN_MIN, HEAD_CONTINUES, HEAD_COPIED, HEAD_EXTENDED, HEAD_KIND, HEAD_VERSION,
    HEADER_LEN_MAX, Kind, MARK_VALUE_LEN, Meta, bind, crc32c, varint,
};
use crate::limits::{KEY_LEN_MAX, LOG_POSITION_MAX, VALUE_LEN_MAX};

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The bytes end before the frame does.
    Truncated,
    /// No frame of any version looks like this.
    Invalid(&'static str),
    /// The checksum does not match the bytes, the segment or the offset.
    Checksum,
}

impl DecodeError {
    /// A message for people.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Truncated => "a record that ends too early",
            Self::Invalid(what) => what,
            Self::Checksum => "a record whose checksum does not fit",
        }
    }
}

/// The header of a frame: everything before key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// More frames of the same commit follow.
    pub(crate) continues: bool,
    /// Compaction has written this copy.
    pub(crate) copied: bool,
    /// The flags, without that of the namespace.
    pub(crate) flags: u8,
    /// Length in bytes of the optional fields, which end the header.
    pub(super) fields_len: u8,
    pub(crate) namespace: u32,
    /// Narrow integers, like the other lengths: a walk copies a header for every record.
    header_len: u8,
    key_len: u32,
    value_len: u32,
    /// Tags behind the value: 0 in a plain store.
    #[cfg(feature = "encrypt")]
    tags: u16,
}

const _: () =
    assert!(HEADER_LEN_MAX <= u8::MAX as usize && KEY_LEN_MAX <= u32::MAX as usize && VALUE_LEN_MAX <= u32::MAX as usize);
const _: () = assert!(size_of::<Header>() <= 20);

/// Refuses what a record of a kind cannot have; `is_data` where its head says so of it that only data can be.
const fn check_kind(kind: Kind, flags: u8, is_data: bool, value_len: usize) -> Result<(), &'static str> {
    if kind.is_control() && (is_data || flags != 0) {
        return Err("a control record with flags of a data record");
    }
    if !meta::fit(flags & !FLAG_NAMESPACE, kind) {
        return Err("a record with flags of another kind");
    }
    let is_short = match kind {
        Kind::Mark => value_len != MARK_VALUE_LEN,
        Kind::Event | Kind::Stub => value_len < EVENT_NUMBER_LEN,
        _ => false,
    };
    if is_short { Err("a record that is too short for its kind") } else { Ok(()) }
}

impl Header {
    /// Reads a header from the front of `bytes`, which may end anywhere after it.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_small(bytes).map_or_else(|| Self::decode_any(bytes), Ok)
    }

    /// [`Self::decode`] where most often an event stands.
    #[cfg(feature = "events")]
    #[inline]
    pub(crate) fn decode_event(bytes: &[u8]) -> Result<Self, DecodeError> {
        let named = if cfg!(target_family = "wasm") { None } else { Self::decode_named(bytes) };
        named.map_or_else(|| Self::decode(bytes), Ok)
    }

    /// Fast path for the header of nearly every record: no flags, a short key, a value that is not long. `None` for all others, valid
    /// or not.
    #[inline]
    pub(crate) fn decode_small(bytes: &[u8]) -> Option<Self> {
        let &[.., head, key_len, low, high] = bytes.first_chunk::<{ FRAME_LEN_MIN + 1 }>()?;
        let (value_len, header_len) = match (low, high) {
            (0..0x80, _) => (u32::from(low), FRAME_LEN_MIN),
            (_, 1..0x80) => (u32::from(low & 0x7f) | u32::from(high) << 7, FRAME_LEN_MIN + 1),
            _ => return None,
        };
        let is_small = head & !(HEAD_CONTINUES | HEAD_COPIED) == Kind::Put.code() && key_len < 0x80;
        is_small.then_some(Self {
            kind: Kind::Put,
            continues: head & HEAD_CONTINUES != 0,
            copied: head & HEAD_COPIED != 0,
            flags: 0,
            fields_len: 0,
            namespace: 0,
            header_len: header_len as u8,
            key_len: u32::from(key_len),
            value_len,
            #[cfg(feature = "encrypt")]
            tags: 0,
        })
    }

    /// Fast path for the header of nearly every record and event of a namespace: as in [`Self::decode_small`], and the number of the
    /// namespace is one byte.
    #[inline]
    pub(super) fn decode_named(bytes: &[u8]) -> Option<Self> {
        let &[.., head, flags, key_len, low, high, behind] = bytes.first_chunk::<{ FRAME_LEN_MIN + 3 }>()?;
        let (value_len, namespace, header_len) = match (low, high, behind) {
            (0..0x80, 1..0x80, _) => (u32::from(low), high, FRAME_LEN_MIN + 2),
            (_, 1..0x80, 1..0x80) if low >= 0x80 => (u32::from(low & 0x7f) | u32::from(high) << 7, behind, FRAME_LEN_MIN + 3),
            _ => return None,
        };
        const NAMED_PUT: u8 = HEAD_EXTENDED | Kind::Put.code();
        const NAMED_EVENT: u8 = HEAD_EXTENDED | Kind::Event.code();
        let kind = match head & !(HEAD_CONTINUES | HEAD_COPIED) {
            NAMED_PUT => Kind::Put,
            NAMED_EVENT if value_len >= EVENT_NUMBER_LEN as u32 => Kind::Event,
            _ => return None,
        };
        (flags == FLAG_NAMESPACE && key_len < 0x80).then_some(Self {
            kind,
            continues: head & HEAD_CONTINUES != 0,
            copied: head & HEAD_COPIED != 0,
            flags: 0,
            fields_len: 0,
            namespace: u32::from(namespace),
            header_len: header_len as u8,
            key_len: u32::from(key_len),
            value_len,
            #[cfg(feature = "encrypt")]
            tags: 0,
        })
    }

    pub(super) fn decode_any(bytes: &[u8]) -> Result<Self, DecodeError> {
        // A module that is downloaded does without the fast path, for its size.
        let named = if cfg!(target_family = "wasm") { None } else { Self::decode_named(bytes) };
        named.map_or_else(|| Self::decode_whole(bytes), Ok)
    }

    pub(super) fn decode_whole(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut at = CRC_LEN;
        let mut next = || {
            let byte = bytes.get(at).copied().ok_or(DecodeError::Truncated);
            at += 1;
            byte
        };
        let head = next()?;
        let is_sealed = cfg!(feature = "encrypt") && head & HEAD_VERSION != 0;
        if head & HEAD_VERSION != 0 && !is_sealed {
            return Err(DecodeError::Invalid("a record of an unknown version"));
        }
        let kind = Kind::from_code(head & HEAD_KIND).ok_or(DecodeError::Invalid("a record of an unknown kind"))?;
        let flags = if head & HEAD_EXTENDED == 0 { 0 } else { next()? };
        if flags == 0 && head & HEAD_EXTENDED != 0 {
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
        let stored_len = number()? as usize;
        let tags = if is_sealed { super::tags_in(stored_len, kind.is_control()) } else { Some(0) };
        let tags = tags.ok_or(DecodeError::Invalid("a sealed record without a tag"))?;
        let value_len = stored_len - super::TAG_LEN * tags;
        let namespace = if flags & FLAG_NAMESPACE == 0 { 0 } else { number()? };
        if flags & FLAG_NAMESPACE != 0 && namespace == 0 {
            return Err(DecodeError::Invalid("a record with a malformed namespace"));
        }
        if key_len > KEY_LEN_MAX || value_len > VALUE_LEN_MAX {
            return Err(DecodeError::Invalid("a record over the limits of key or value"));
        }
        let fields_len = meta::fields_len(flags, bytes.get(at..).unwrap_or_default()).map_err(DecodeError::Invalid)?;
        let fields_len = fields_len.ok_or(DecodeError::Truncated)?;
        let (continues, copied) = (head & HEAD_CONTINUES != 0, head & HEAD_COPIED != 0);
        check_kind(kind, flags, continues || copied, value_len).map_err(DecodeError::Invalid)?;
        let flags = flags & !FLAG_NAMESPACE;
        let (header_len, fields_len) = ((at + fields_len) as u8, fields_len as u8);
        let (key_len, value_len) = (key_len as u32, value_len as u32);
        Ok(Self {
            kind,
            continues,
            copied,
            flags,
            fields_len,
            namespace,
            header_len,
            key_len,
            value_len,
            #[cfg(feature = "encrypt")]
            tags: tags as u16,
        })
    }

    /// The record's metadata; `frame` begins with the bytes of the header.
    pub(crate) fn meta<'a>(&self, frame: &'a [u8]) -> Meta<'a> {
        let fields = frame.get(self.header_len() - usize::from(self.fields_len)..self.header_len()).unwrap_or_default();
        Meta { copied: self.copied, ..Meta::new(self.namespace, self.flags, fields) }
    }

    /// True if the record expires.
    #[inline]
    pub(crate) const fn expires(&self) -> bool {
        self.flags & meta::FLAG_EXPIRY != 0
    }

    /// True for the tombstone that compaction has left of an expired record.
    pub(crate) const fn is_expired_tombstone(&self) -> bool {
        self.flags & meta::FLAG_EXPIRED != 0
    }

    /// True if the value is more than its bytes: it may have expired, or have to be decoded.
    #[inline]
    pub(crate) const fn needs_a_closer_look(&self) -> bool {
        self.flags & !(meta::FLAG_ORIGIN) != 0 || self.is_sealed()
    }

    /// True if key and value are sealed, and tags follow them.
    #[inline]
    pub(crate) const fn is_sealed(&self) -> bool {
        self.tags() != 0
    }

    /// Tags behind the value.
    #[inline]
    pub(crate) const fn tags(&self) -> usize {
        #[cfg(feature = "encrypt")]
        return self.tags as usize;
        #[cfg(not(feature = "encrypt"))]
        0
    }

    /// True if the value is compressed.
    #[inline]
    pub(crate) const fn is_compressed(&self) -> bool {
        self.flags & meta::FLAG_CODEC != 0
    }

    /// Why this build cannot return the value; `None` when it can.
    #[inline]
    pub(crate) const fn unsupported(&self) -> Option<&'static str> {
        if self.flags == 0 { None } else { meta::unsupported(self.flags) }
    }

    /// Bytes before the key.
    pub(crate) const fn header_len(&self) -> usize {
        self.header_len as usize
    }

    pub(crate) const fn key_len(&self) -> usize {
        self.key_len as usize
    }

    pub(crate) const fn value_len(&self) -> usize {
        self.value_len as usize
    }

    /// Bytes of the whole frame.
    pub(crate) const fn frame_len(&self) -> usize {
        self.plain_len() + self.tags() * super::TAG_LEN
    }

    /// Bytes of header, key and value: all but the tags.
    pub(crate) const fn plain_len(&self) -> usize {
        self.header_len() + self.key_len() + self.value_len()
    }

    /// The key inside the bytes of the frame.
    pub(crate) fn key<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        frame.get(self.header_len()..self.header_len() + self.key_len())
    }

    /// The value inside the bytes of the frame.
    pub(crate) fn value<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        frame.get(self.header_len() + self.key_len()..self.plain_len())
    }
}

/// The number at the front of an event's value, limited to the largest number that may be assigned.
pub(crate) fn event_number(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes).min(LOG_POSITION_MAX))
}

/// Verifies the checksum of a whole frame against its bytes, its segment and its offset.
#[inline(always)]
pub(crate) fn check(header: &Header, frame: &[u8], salt: u64, offset: u64) -> Result<(), DecodeError> {
    let stored = frame.first_chunk::<CRC_LEN>().ok_or(DecodeError::Truncated)?;
    let covered = sum_of(header, frame)?;
    if u32::from_le_bytes(*stored) == covered ^ bind(salt, offset) { Ok(()) } else { Err(DecodeError::Checksum) }
}

/// The checksum of a whole frame, not bound to its place.
#[inline(always)]
pub(super) fn sum_of(header: &Header, frame: &[u8]) -> Result<u32, DecodeError> {
    let body = frame.get(CRC_LEN..header.frame_len()).ok_or(DecodeError::Truncated)?;
    Ok(if header.kind == Kind::Event {
        sum_of_event(header, body)
    } else if crate::planted::is(crate::planted::Bug::ChecksumSkipsKey) && header.key_len() > 0 {
        sum_without_key(header, frame)
    } else {
        crc32c(body)
    })
}

/// The checksum of an event: its number counts as zeros, and is bound to it.
#[inline(never)]
fn sum_of_event(header: &Header, body: &[u8]) -> u32 {
    let at = header.header_len() + header.key_len() - CRC_LEN;
    let Some((number, rest)) = body.get(at..).and_then(<[u8]>::split_first_chunk::<EVENT_NUMBER_LEN>) else { return 0 };
    around_zeros(body.get(..at).unwrap_or_default(), rest) ^ bind_number(Some(u64::from_le_bytes(*number)))
}

/// Only for a planted bug: as if the key did not count.
#[cold]
fn sum_without_key(header: &Header, frame: &[u8]) -> u32 {
    let mut sum = Checksum::new();
    sum.update(frame.get(CRC_LEN..header.header_len()).unwrap_or_default());
    sum.update(header.value(frame).unwrap_or_default());
    sum.finish()
}

/// As [`check`], for a frame whose bytes come in pieces: `front` has its header, its key and the first bytes of its value, and `sum` is
/// the checksum of everything after `front`, appended to `of_front`.
pub(crate) fn check_sum(
    header: &Header,
    front: &[u8],
    salt: u64,
    offset: u64,
    rest: impl FnOnce(Checksum) -> Checksum,
) -> Result<(), DecodeError> {
    let stored = front.first_chunk::<CRC_LEN>().ok_or(DecodeError::Truncated)?;
    let mut sum = Checksum::new();
    let number = header.header_len() + header.key_len();
    let number = (header.kind == Kind::Event).then(|| front.get(number..)?.first_chunk::<EVENT_NUMBER_LEN>()).flatten();
    match number {
        Some(_) => {
            let (covered, value) =
                front.split_at_checked(header.header_len() + header.key_len()).ok_or(DecodeError::Truncated)?;
            sum.update(covered.get(CRC_LEN..).unwrap_or_default());
            sum.update(&[0; EVENT_NUMBER_LEN]);
            sum.update(value.get(EVENT_NUMBER_LEN..).unwrap_or_default());
        }
        None => sum.update(front.get(CRC_LEN..).unwrap_or_default()),
    }
    let sum = rest(sum).finish() ^ bind_number(number.map(|number| u64::from_le_bytes(*number)));
    if u32::from_le_bytes(*stored) == sum ^ bind(salt, offset) { Ok(()) } else { Err(DecodeError::Checksum) }
}
