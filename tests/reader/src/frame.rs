//! One frame.

use crate::bytes::{Bytes, bind, crc};

pub(crate) const NAMES: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Tombstone,
    Mark,
    Checkpoint,
    Retire,
    Pad,
    Event,
    Floor,
    Stub,
    Adopt,
    Next,
}

impl Kind {
    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Put,
            2 => Self::Tombstone,
            3 => Self::Mark,
            4 => Self::Checkpoint,
            5 => Self::Retire,
            6 => Self::Pad,
            7 => Self::Event,
            8 => Self::Floor,
            9 => Self::Stub,
            10 => Self::Adopt,
            11 => Self::Next,
            _ => return None,
        })
    }

    pub(crate) const fn is_record(self) -> bool {
        matches!(self, Self::Put | Self::Tombstone | Self::Event | Self::Stub)
    }
}

/// How a value is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    /// Number of the codec, not 0.
    pub codec: u8,
    /// Number of its dictionary.
    pub dictionary: u32,
    /// Bytes of the plain value.
    pub plain_len: u32,
}

/// What a record has beside its key and value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// When the record ends to exist: milliseconds since 1970.
    pub expiry: Option<u64>,
    /// How the value is compressed.
    pub codec: Option<Codec>,
    /// Bytes of log from the record's first version to this copy.
    pub origin: Option<u64>,
    /// The key was not removed, it expired.
    pub expired: bool,
    /// The second byte of flags and the bytes of its fields.
    pub more: Option<(u8, Vec<u8>)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) copied: bool,
    pub(crate) continues: bool,
    pub(crate) namespace: u32,
    pub(crate) fields: Fields,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) len: usize,
}

const KEY_LEN_MAX: u32 = 64 << 10;
const VALUE_LEN_MAX: u32 = 1 << 30;

impl<'a> Frame<'a> {
    /// The frame that `bytes` begin with, which stand at `offset` of a segment with `salt`; `None` when there is none.
    pub(crate) fn decode(bytes: &'a [u8], salt: u64, offset: u64) -> Option<Self> {
        let mut rest = Bytes(bytes);
        let sum = rest.u32()?;
        let covered = rest.0;
        let head = rest.number(1)? as u8;
        let kind = Kind::from_code(head & 0x0f).filter(|_| head & 0x80 == 0)?;
        let flags = if head & 0x40 == 0 { 0 } else { Some(rest.number(1)? as u8).filter(|&flags| flags != 0)? };
        let (key_len, value_len) = (rest.varint()?, rest.varint()?);
        let namespace = if flags & 0x01 == 0 { 0 } else { Some(rest.varint()?).filter(|&number| number > 0)? };
        let fields = decode_fields(&mut rest, flags)?;
        let (copied, continues) = (head & 0x10 != 0, head & 0x20 != 0);
        let fits = match kind {
            Kind::Put | Kind::Event => !fields.expired,
            Kind::Tombstone | Kind::Stub => fields.expiry.is_none() && fields.codec.is_none(),
            _ => flags == 0 && !copied && !continues,
        };
        if !fits || key_len > KEY_LEN_MAX || value_len > VALUE_LEN_MAX {
            return None;
        }
        let (key, value) = (rest.take(key_len as usize)?, rest.take(value_len as usize)?);
        let len = bytes.len() - rest.0.len();
        let covered = covered.get(..len - 4)?;
        let expected = if kind == Kind::Event {
            let number = Bytes(value).u64()?;
            let before = covered.len() - value.len();
            crc(&[covered.get(..before)?, &[0; 8], value.get(8..)?]) ^ bind(number, 1)
        } else {
            crc(&[covered])
        };
        let frame = Self { kind, copied, continues, namespace, fields, key, value, len };
        (sum == expected ^ bind(salt, offset)).then_some(frame)
    }
}

fn decode_fields(rest: &mut Bytes<'_>, flags: u8) -> Option<Fields> {
    let has = |flag: u8| flags & flag != 0;
    if has(0x20) || has(0x40) {
        return None;
    }
    let mut fields = Fields { expired: has(0x10), ..Fields::default() };
    if has(0x02) {
        fields.expiry = Some(rest.number(6)?);
    }
    if has(0x04) {
        let codec = rest.number(1)? as u8;
        fields.codec = (codec != 0).then_some(Codec { codec, dictionary: rest.varint()?, plain_len: rest.varint()? });
        fields.codec?;
    }
    if has(0x08) {
        fields.origin = Some(rest.long()?);
    }
    if has(0x80) {
        let (more, len) = (rest.number(1)? as u8, rest.number(1)? as usize);
        if more == 0 || len > 16 {
            return None;
        }
        fields.more = Some((more, rest.take(len)?.to_vec()));
    }
    Some(fields)
}

/// A tag of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its bytes.
    pub key: Vec<u8>,
    /// The number of the event before with this tag; 0: none.
    pub before: u64,
    /// Bytes of log between the two; 0: not known.
    pub distance: u64,
}

/// An event of a stream, or what stays of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The stream.
    pub stream: Vec<u8>,
    /// Its place in the order of all events.
    pub number: u64,
    /// Its place in its stream.
    pub version: u64,
    /// Milliseconds since 1970.
    pub time: u64,
    /// The caller's id.
    pub id: [u8; 16],
    /// Its type.
    pub kind: Vec<u8>,
    /// What it can be found by.
    pub tags: Vec<Tag>,
    /// The caller's bytes; none of one that retention removed.
    pub payload: Option<Vec<u8>>,
    /// What its record carries.
    pub fields: Fields,
}

impl Event {
    pub(crate) fn decode(frame: &Frame<'_>) -> Option<Self> {
        let mut rest = Bytes(frame.value);
        let (number, version, time) = (rest.u64()?, rest.u64()?, rest.number(6)?);
        let id = rest.take(16)?.try_into().ok()?;
        let len = rest.varint()?;
        let kind = rest.take(len as usize)?.to_vec();
        let mut tags = Vec::new();
        for _ in 0..rest.varint()? {
            let len = rest.varint()?;
            tags.push(Tag { key: rest.take(len as usize)?.to_vec(), before: rest.long()?, distance: rest.long()? });
        }
        let payload = (frame.kind == Kind::Event).then(|| rest.0.to_vec());
        if payload.is_none() && !rest.is_empty() {
            return None;
        }
        Some(Self { stream: frame.key.to_vec(), number, version, time, id, kind, tags, payload, fields: frame.fields.clone() })
    }
}
