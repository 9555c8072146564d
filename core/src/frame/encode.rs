//! Encoding frames.

use super::{
    CRC_LEN, Checksum, EVENT_NUMBER_LEN, FRAME_LEN_MIN, HEAD_CONTINUES, HEAD_COPIED, HEAD_EXTENDED, HEADER_LEN_MAX, Kind, Meta,
    bind, crc32c, varint,
};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// Longest frame in bytes that is assembled in one piece before it is written; most records fit.
pub(crate) const ONE_PIECE_MAX: usize = 256;

/// A frame to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameSpec<'a> {
    pub(crate) kind: Kind,
    /// More frames of the same commit follow.
    pub(crate) continues: bool,
    pub(crate) meta: Meta<'a>,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> FrameSpec<'a> {
    /// A frame of the store's own book-keeping.
    pub(crate) const fn control(kind: Kind, value: &'a [u8]) -> Self {
        Self { kind, continues: false, meta: Meta::plain(0), key: &[], value }
    }

    /// Bytes of the whole frame.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len_with(self.key.len(), self.value.len())
    }

    /// Bytes that the frame would have with a key and a value of these lengths.
    #[inline]
    pub(crate) fn len_with(&self, key: usize, value: usize) -> usize {
        CRC_LEN + 1 + self.meta_len() + varint::len(key as u32) + varint::len(value as u32) + key + value
    }

    /// Bytes of flags, namespace and optional fields.
    #[inline]
    fn meta_len(&self) -> usize {
        if self.meta.flags == 0 {
            return 0;
        }
        let namespace = if self.meta.namespace == 0 { 0 } else { varint::len(self.meta.namespace) };
        1 + namespace + self.meta.fields.len()
    }

    /// The header with its checksum, for a frame at `offset` of a segment with `salt`.
    pub(crate) fn header(&self, salt: u64, offset: u64) -> HeaderBytes {
        let mut header = self.unbound_header();
        bind_front(header.as_mut_slice(), salt, offset);
        header
    }

    /// The header with a checksum that is not bound to an offset yet: the costly part, for which no lock is needed.
    pub(crate) fn unbound_header(&self) -> HeaderBytes {
        let mut out = self.any_header();
        let mut checksum = Checksum::new();
        checksum.update(out.as_slice().get(CRC_LEN..).unwrap_or_default());
        if !is(Bug::ChecksumSkipsKey) {
            checksum.update(self.key);
        }
        let number = self.event_number();
        if number.is_some() {
            checksum.update(&[0; EVENT_NUMBER_LEN]);
            checksum.update(self.value.get(EVENT_NUMBER_LEN..).unwrap_or_default());
        } else {
            checksum.update(self.value);
        }
        if let Some(place) = out.bytes.first_chunk_mut::<CRC_LEN>() {
            *place = (checksum.finish() ^ bind_number(number)).to_le_bytes();
        }
        out
    }

    /// The number of an event. The checksum is bound to it instead of covering its bytes, because it is assigned under the tail's lock,
    /// where nothing long should be hashed.
    fn event_number(&self) -> Option<u64> {
        match self.kind {
            Kind::Event => self.value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
            _ => None,
        }
    }

    fn head(&self) -> u8 {
        let copied = if self.meta.copied { HEAD_COPIED } else { 0 };
        self.kind.code() | copied | if self.continues { HEAD_CONTINUES } else { 0 }
    }

    /// As [`Self::unbound_header`], but assembles a whole small frame in `room`; `None` for others. The checksum
    /// of one piece takes half the instructions of that of three.
    #[inline]
    pub(crate) fn encode_unbound<'b>(&self, room: &'b mut [u8; ONE_PIECE_MAX]) -> Option<&'b mut [u8]> {
        let header = self.small_header().filter(|_| !is(Bug::ChecksumSkipsKey))?;
        // If the header is one byte shorter, the key overwrites its unused last byte.
        *room.first_chunk_mut()? = header.bytes;
        let frame = room.get_mut(..header.len() + self.key.len() + self.value.len())?;
        let (key, value) = frame.get_mut(header.len()..)?.split_at_mut_checked(self.key.len())?;
        key.copy_from_slice(self.key);
        value.copy_from_slice(self.value);
        let (place, covered) = frame.split_first_chunk_mut::<CRC_LEN>()?;
        *place = crc32c(covered).to_le_bytes();
        Some(frame)
    }

    /// The header of nearly every record without its checksum, in one piece: no flags, a short key, a value that is not long.
    #[inline]
    pub(super) fn small_header(&self) -> Option<SmallHeader> {
        let (key, value) = (self.key.len(), self.value.len());
        if self.meta.flags != 0 || self.kind == Kind::Event || key >= 0x80 || value >= 0x4000 {
            return None;
        }
        let head = self.head();
        let is_long = value >= 0x80;
        let low = value as u8 | if is_long { 0x80 } else { 0 };
        Some(SmallHeader { bytes: [0, 0, 0, 0, head, key as u8, low, (value >> 7) as u8], is_long })
    }

    /// The header of any record, without its checksum.
    pub(super) fn any_header(&self) -> HeaderBytes {
        self.header_of(self.value.len(), 0)
    }

    /// The same for a value that takes so many bytes, with more bits in the head.
    pub(super) fn header_of(&self, value_len: usize, bits: u8) -> HeaderBytes {
        let mut out = HeaderBytes { bytes: [0; HEADER_LEN_MAX], len: CRC_LEN };
        let flags = self.meta.flags;
        if flags == 0 {
            out.push(self.head() | bits);
        } else {
            out.push(self.head() | bits | HEAD_EXTENDED);
            out.push(flags);
        }
        varint::encode(self.key.len() as u32, |byte| out.push(byte));
        varint::encode(value_len as u32, |byte| out.push(byte));
        if self.meta.namespace != 0 {
            varint::encode(self.meta.namespace, |byte| out.push(byte));
        }
        self.meta.fields.iter().for_each(|&byte| out.push(byte));
        out
    }

    /// Appends the whole frame, for `offset` of a segment with `salt`, to `out`.
    #[inline]
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>, salt: u64, offset: u64) {
        let start = out.len();
        out.reserve(HEADER_LEN_MAX + self.key.len() + self.value.len());
        // An event in one piece, too, but in a page: there the code for that is left out.
        let number = self.event_number().filter(|_| cfg!(feature = "std"));
        let by_parts = is(Bug::ChecksumSkipsKey) || self.kind == Kind::Event && number.is_none();
        match self.small_header().filter(|_| !by_parts) {
            Some(header) => out.extend_from_slice(header.as_slice()),
            None => {
                let header = if by_parts { self.unbound_header() } else { self.any_header() };
                out.extend_from_slice(header.as_slice());
            }
        }
        out.extend_from_slice(self.key);
        let at = out.len();
        out.extend_from_slice(self.value);
        // The number of an event counts as zeros.
        if number.is_some() {
            set_number(out, at, 0);
        }
        // One piece takes half the time of three.
        if let Some((place, covered)) = out.get_mut(start..).and_then(<[u8]>::split_first_chunk_mut::<CRC_LEN>) {
            let sum = if by_parts { u32::from_le_bytes(*place) } else { crc32c(covered) ^ bind_number(number) };
            *place = (sum ^ bind(salt, offset)).to_le_bytes();
        }
        if let Some(number) = number {
            set_number(out, at, number);
        }
    }
}

/// Sets the number of the event whose value begins at `at`.
fn set_number(out: &mut [u8], at: usize, number: u64) {
    if let Some(place) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<EVENT_NUMBER_LEN>) {
        *place = number.to_le_bytes();
    }
}

/// An encoded header of a small record: seven bytes, or eight.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallHeader {
    bytes: [u8; FRAME_LEN_MIN + 1],
    is_long: bool,
}

impl SmallHeader {
    #[inline]
    pub(super) fn len(&self) -> usize {
        FRAME_LEN_MIN + usize::from(self.is_long)
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or_default()
    }
}

/// An encoded header, on the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderBytes {
    bytes: [u8; HEADER_LEN_MAX],
    len: usize,
}

impl HeaderBytes {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.len).unwrap_or_default()
    }
}

/// A mask that binds a checksum to the number of an event.
pub(super) const fn bind_number(number: Option<u64>) -> u32 {
    match number {
        Some(number) => bind(number, 1),
        None => 0,
    }
}

/// Binds the checksum at the front of a frame to the salt and offset where the frame will be written.
pub(crate) fn bind_front(frame: &mut [u8], salt: u64, offset: u64) {
    if let Some(place) = frame.first_chunk_mut::<CRC_LEN>() {
        *place = (u32::from_le_bytes(*place) ^ bind(salt, offset)).to_le_bytes();
    }
}

/// Lengths `(key, value)` of a pad frame that fills exactly `room` bytes; both parts are zeros. `None` when the room is too
/// small for a frame.
///
/// At sizes where the length of the value just needs one more byte, a key of one byte fills the gap.
pub(crate) fn pad_spec(room: usize) -> Option<(usize, usize)> {
    let fixed = CRC_LEN + 2;
    for key in 0..=1 {
        for value_len_bytes in 1..=5 {
            let Some(value) = room.checked_sub(fixed + key + value_len_bytes) else {
                continue;
            };
            if varint::len(value as u32) == value_len_bytes {
                return Some((key, value));
            }
        }
    }
    None
}
