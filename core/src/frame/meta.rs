//! Metadata of a record beside its key and value. Append, compaction, salvage and replay pass it on as one value, so that no
//! path can drop a part of it.

use super::varint;

/// A namespace number follows the lengths (varint). Absent: namespace 0.
pub(super) const FLAG_NAMESPACE: u8 = 0x01;
/// The record expires: 6 bytes, milliseconds since 1970.
pub(super) const FLAG_EXPIRY: u8 = 0x02;
/// The value is compressed: codec (1), number of the dictionary and plain length (varints).
pub(super) const FLAG_CODEC: u8 = 0x04;
/// The record is a copy: bytes of log between it and the record's first version (varint).
pub(super) const FLAG_ORIGIN: u8 = 0x08;
/// Only in a tombstone: the key expired.
pub(super) const FLAG_EXPIRED: u8 = 0x10;
/// A second byte of flags, the length of their fields (1), and these.
pub(super) const FLAG_MORE: u8 = 0x80;
/// Never set in this version.
const FLAGS_UNUSED: u8 = 0x60;

/// Length in bytes of an expiry.
pub(super) const EXPIRY_LEN: usize = 6;
/// Limit in bytes of the fields of the second byte of flags.
const MORE_LEN_MAX: usize = 16;
/// Limit in bytes of the optional fields: expiry, codec, origin, and those of the second byte of flags.
pub(super) const FIELDS_LEN_MAX: usize = EXPIRY_LEN + (1 + 5 + 5) + 9 + (2 + MORE_LEN_MAX);

/// All metadata of a record beside its key and value, including what this build does not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta<'a> {
    pub(crate) namespace: u32,
    /// Compaction has written this copy, and nobody held a position between it and the record's first version.
    pub(crate) copied: bool,
    /// The byte of flags, that of the namespace included.
    pub(super) flags: u8,
    /// The optional fields as stored in the frame.
    pub(super) fields: &'a [u8],
}

impl<'a> Meta<'a> {
    /// Metadata of a record without optional fields.
    pub(crate) const fn plain(namespace: u32) -> Self {
        Self::new(namespace, 0, &[])
    }

    /// Metadata of a record with these flags, without the flag of the namespace, and their fields.
    #[inline]
    pub(super) const fn new(namespace: u32, flags: u8, fields: &'a [u8]) -> Self {
        let flags = flags | if namespace == 0 { 0 } else { FLAG_NAMESPACE };
        Self { namespace, copied: false, flags, fields }
    }

    /// Metadata of compaction's copy of the record.
    pub(crate) const fn copied(self) -> Self {
        Self { copied: true, ..self }
    }

    /// The record expires then, in milliseconds since 1970; `None` if it never does.
    pub(crate) fn expiry(&self) -> Option<u64> {
        expiry(self.flags, self.fields)
    }

    /// The same metadata with another namespace number.
    #[cfg(feature = "salvage")]
    pub(crate) const fn with_namespace(self, namespace: u32) -> Self {
        Self { copied: self.copied, ..Self::new(namespace, self.flags & !FLAG_NAMESPACE, self.fields) }
    }
}

/// The expiry of a record as its field holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    bytes: [u8; EXPIRY_LEN],
    is_set: bool,
}

impl Until {
    /// Milliseconds since 1970; 0 for never.
    #[inline]
    pub(crate) const fn new(expiry: u64) -> Self {
        let [a, b, c, d, e, f, ..] = expiry.to_le_bytes();
        Self { bytes: [a, b, c, d, e, f], is_set: expiry != 0 }
    }

    /// Metadata of a record without any other optional field.
    #[inline]
    pub(crate) const fn meta(&self, namespace: u32) -> Meta<'_> {
        if self.is_set { Meta::new(namespace, FLAG_EXPIRY, &self.bytes) } else { Meta::plain(namespace) }
    }
}

/// Metadata of the tombstone that takes the place of an expired record.
pub(crate) const fn expired(namespace: u32) -> Meta<'static> {
    Meta::new(namespace, FLAG_EXPIRED, &[]).copied()
}

/// The expiry at the front of the optional fields; `None` without one.
pub(super) fn expiry(flags: u8, fields: &[u8]) -> Option<u64> {
    let bytes = fields.first_chunk::<EXPIRY_LEN>().filter(|_| flags & FLAG_EXPIRY != 0)?;
    let &[a, b, c, d, e, f] = bytes;
    Some(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
}

/// Why this build cannot return the value of a record with these flags; `None` when it can.
pub(crate) const fn unsupported(flags: u8) -> Option<&'static str> {
    if flags & FLAG_CODEC != 0 {
        Some("a compressed value")
    } else if flags & FLAG_MORE != 0 {
        Some("a property that this build does not know")
    } else {
        None
    }
}

/// Length of the optional fields at the front of `bytes`, according to the flags; `None` where the bytes end before it is known. The
/// error tells what is wrong.
pub(super) fn fields_len(flags: u8, bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    if flags & FLAGS_UNUSED != 0 {
        return Err("a record with unknown flags");
    }
    let mut fields = Fields { rest: bytes };
    let Some(taken) = fields.skip(flags)? else { return Ok(None) };
    Ok(Some(taken))
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    fn skip(&mut self, flags: u8) -> Result<Option<usize>, &'static str> {
        let before = self.rest.len();
        if flags & FLAG_EXPIRY != 0 && self.take(EXPIRY_LEN).is_none() {
            return Ok(None);
        }
        if flags & FLAG_CODEC != 0 {
            match self.take(1) {
                None => return Ok(None),
                Some(&[0]) => return Err("a record with a malformed codec"),
                Some(_) => {}
            }
            for _ in 0..2 {
                let Some((_, taken)) = varint::decode(self.rest) else {
                    return if self.rest.len() < 5 { Ok(None) } else { Err("a record with a malformed codec") };
                };
                self.take(taken);
            }
        }
        if flags & FLAG_ORIGIN != 0 {
            let Some((_, taken)) = varint::decode_u64(self.rest) else {
                return if self.rest.len() < 9 { Ok(None) } else { Err("a record with a malformed origin") };
            };
            self.take(taken);
        }
        if flags & FLAG_MORE != 0 {
            let Some(&[more, len]) = self.take(2).and_then(|bytes| bytes.first_chunk::<2>()) else { return Ok(None) };
            if more == 0 || usize::from(len) > MORE_LEN_MAX {
                return Err("a record with malformed flags");
            }
            if self.take(len.into()).is_none() {
                return Ok(None);
            }
        }
        Ok(Some(before - self.rest.len()))
    }

    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let (front, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(front)
    }
}

/// True when a frame of this kind may have these flags (without that of the namespace).
pub(super) const fn fit(flags: u8, kind: super::Kind) -> bool {
    use super::Kind;
    match kind {
        Kind::Put | Kind::Event => flags & FLAG_EXPIRED == 0,
        Kind::Tombstone | Kind::Stub => flags & (FLAG_EXPIRY | FLAG_CODEC) == 0,
        _ => flags == 0,
    }
}

/// Builder of optional fields, for codecs of capabilities and for tests.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "testing"), expect(unreachable_pub, reason = "exported with the feature `testing`"))]
pub struct Optional {
    /// Milliseconds since 1970, below 2^48.
    pub expiry: Option<u64>,
    /// Codec, number of the dictionary, plain length.
    pub codec: Option<(u8, u32, u32)>,
    /// Bytes of log after the record's first version.
    pub origin: Option<u64>,
    /// Only in a tombstone: the key expired.
    pub expired: bool,
    /// A second byte of flags and its fields, at most 16 bytes.
    pub more: Option<(u8, alloc::vec::Vec<u8>)>,
}

#[cfg(any(test, feature = "testing"))]
impl Optional {
    /// The flags and the bytes of the fields.
    pub(super) fn encode(&self) -> (u8, alloc::vec::Vec<u8>) {
        let (mut flags, mut out) = (0, alloc::vec::Vec::new());
        if let Some(expiry) = self.expiry {
            flags |= FLAG_EXPIRY;
            out.extend_from_slice(expiry.to_le_bytes().get(..6).unwrap_or_default());
        }
        if let Some((codec, dictionary, plain_len)) = self.codec {
            flags |= FLAG_CODEC;
            out.push(codec);
            varint::encode(dictionary, |byte| out.push(byte));
            varint::encode(plain_len, |byte| out.push(byte));
        }
        if let Some(origin) = self.origin {
            flags |= FLAG_ORIGIN;
            varint::encode_u64(origin, |byte| out.push(byte));
        }
        if self.expired {
            flags |= FLAG_EXPIRED;
        }
        if let Some((more, fields)) = &self.more {
            flags |= FLAG_MORE;
            out.extend_from_slice(&[*more, fields.len() as u8]);
            out.extend_from_slice(fields);
        }
        (flags, out)
    }
}
