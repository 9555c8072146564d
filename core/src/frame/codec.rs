//! The codec of a compressed value: its fields in a frame, and metadata with another codec, or without one.

use super::meta::{EXPIRY_LEN, FIELDS_LEN_MAX, FLAG_CODEC, FLAG_EXPIRY, FLAG_NAMESPACE, fields_len};
use super::{Meta, varint};

/// How a value is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Codec {
    /// 1: one block of LZ4.
    pub(crate) codec: u8,
    /// Number of the dictionary; 0: none.
    pub(crate) dictionary: u32,
    /// Length in bytes of the plain value.
    pub(crate) plain_len: u32,
}

impl Meta<'_> {
    /// How the value is compressed; `None` if it is not.
    pub(crate) fn codec(&self) -> Option<Codec> {
        if self.flags & FLAG_CODEC == 0 {
            return None;
        }
        let fields = self.fields.get(self.before_codec()..)?;
        let (&codec, rest) = fields.split_first()?;
        let (dictionary, taken) = varint::decode(rest)?;
        let (plain_len, _) = varint::decode(rest.get(taken..)?)?;
        Some(Codec { codec, dictionary, plain_len })
    }

    /// True if a later version has given the record a property.
    pub(crate) const fn has_more(&self) -> bool {
        self.flags & super::meta::FLAG_MORE != 0
    }

    const fn before_codec(&self) -> usize {
        if self.flags & FLAG_EXPIRY != 0 { EXPIRY_LEN } else { 0 }
    }
}

/// Metadata with another codec than the record has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodecMeta {
    namespace: u32,
    copied: bool,
    flags: u8,
    fields: [u8; FIELDS_LEN_MAX],
    len: usize,
}

impl CodecMeta {
    /// The metadata of a record whose value is compressed like this, or plain.
    pub(crate) fn new(meta: &Meta<'_>, codec: Option<Codec>) -> Self {
        let flags = meta.flags & !(FLAG_CODEC | FLAG_NAMESPACE);
        let mut new = Self { namespace: meta.namespace, copied: meta.copied, flags, fields: [0; FIELDS_LEN_MAX], len: 0 };
        let (front, rest) = meta.fields.split_at_checked(meta.before_codec()).unwrap_or((meta.fields, &[]));
        front.iter().for_each(|&byte| new.push(byte));
        if let Some(Codec { codec, dictionary, plain_len }) = codec {
            new.flags |= FLAG_CODEC;
            new.push(codec);
            varint::encode(dictionary, |byte| new.push(byte));
            varint::encode(plain_len, |byte| new.push(byte));
        }
        let old = fields_len(meta.flags & FLAG_CODEC, rest).ok().flatten().unwrap_or(0);
        rest.iter().skip(old).for_each(|&byte| new.push(byte));
        new
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.fields.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    pub(crate) fn meta(&self) -> Meta<'_> {
        Meta { copied: self.copied, ..Meta::new(self.namespace, self.flags, self.fields.get(..self.len).unwrap_or_default()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::meta::Optional;
    use super::*;

    #[test]
    fn another_codec_leaves_all_other_fields_as_they_are() {
        let codecs = [None, Some((1, 0, 0)), Some((1, 300, 70_000)), Some((255, u32::MAX, u32::MAX))];
        for (before, after) in codecs.into_iter().flat_map(|before| codecs.map(|after| (before, after))) {
            for (expiry, origin, more) in
                [(None, None, None), (Some(77), Some(1 << 40), Some((1, alloc::vec![9; 16]))), (Some(5), None, None)]
            {
                let encoded = |codec| Optional { expiry, codec, origin, expired: false, more: more.clone() }.encode();
                let codec = |(codec, dictionary, plain_len)| Codec { codec, dictionary, plain_len };
                for (namespace, copied) in [(0, false), (7, true)] {
                    let (flags, fields) = encoded(before);
                    let meta = Meta { copied, ..Meta::new(namespace, flags, &fields) };
                    assert_eq!(meta.codec(), before.map(codec));
                    let new = CodecMeta::new(&meta, after.map(codec));
                    let (flags, fields) = encoded(after);
                    assert_eq!(new.meta(), Meta { copied, ..Meta::new(namespace, flags, &fields) });
                    assert_eq!(new.meta().codec(), after.map(codec));
                }
            }
        }
    }
}
