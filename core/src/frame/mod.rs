//! Frames: the encoding of one record in the log. Pure functions over bytes; nothing here does I/O.
//!
//! ```text
//! +---------+------+-------+-----------+-----------+-----------+--------+-----+-------+
//! | crc 4   | head | flags | key len   | value len | namespace | fields | key | value |
//! |         | 1    | 0 / 1 | varint    | varint    | 0 ..      | 0 ..   |     |       |
//! +---------+------+-------+-----------+-----------+-----------+--------+-----+-------+
//! ```
//!
//! The checksum covers everything after it and is bound to the salt of the segment and to the offset in the file, so that a
//! stale, moved or spliced frame fails its check. `core/FORMAT.md` is the specification.

mod checksum;
#[cfg(feature = "compress")]
mod codec;
mod control;
mod copy;
mod decode;
mod encode;
#[cfg(any(test, feature = "testing", feature = "events"))]
mod event;
mod meta;
mod origin;
#[cfg(feature = "testing")]
mod reencode;
#[cfg(feature = "encrypt")]
mod sealed;
mod varint;

pub use checksum::crc32c;
pub(crate) use checksum::{Checksum, bind};
#[cfg(feature = "compress")]
pub(crate) use codec::{Codec, CodecMeta};
pub(crate) use control::{MARK_VALUE_LEN, Mark, NEXT_LEN, Next};
pub(crate) use copy::Copier;
pub(crate) use decode::{DecodeError, Header, check, check_sum, event_number};
pub(crate) use encode::{FrameSpec, ONE_PIECE_MAX, bind_front, pad_spec};
#[cfg(feature = "testing")]
pub use event::{Event, Tag};
#[cfg(feature = "events")]
pub(crate) use event::{EventView, encode_event, event_version, jump_version, own_tags};
#[cfg(feature = "testing")]
pub use meta::Optional;
pub(crate) use meta::{Meta, Until, expired};
pub(crate) use origin::{CopyMeta, ORIGIN_LEN_MAX};
#[cfg(feature = "testing")]
#[cfg(all(feature = "testing", feature = "events"))]
pub use reencode::event_reads_alike;
#[cfg(feature = "testing")]
pub use reencode::{build, reencode, reencode_event};
#[cfg(feature = "encrypt")]
pub(crate) use sealed::{Parts, sum_sealed};
pub(crate) use varint::{decode_u64, encode_u64};

/// Length in bytes of the checksum at the front of every frame.
pub(crate) const CRC_LEN: usize = 4;
/// Length in bytes of a tag of a sealed frame.
pub(crate) const TAG_LEN: usize = 16;

/// How many tags are among the `stored` bytes of a sealed frame's value; `None` for a number of bytes that no value has.
pub(crate) const fn tags_in(stored: usize, is_control: bool) -> Option<usize> {
    let chunks = if is_control { 1 } else { stored.div_ceil(CHUNK + TAG_LEN) };
    let tags = if chunks == 0 { 1 } else { chunks };
    let Some(plain) = stored.checked_sub(tags * TAG_LEN) else { return None };
    if is_control || tags == tags_of(plain) { Some(tags) } else { None }
}

/// Bytes that a sealed copy of a plain record is longer at most, with a value of so many bytes: its tags, and a longer length.
#[cfg(feature = "encrypt")]
pub(crate) const fn sealing_len(value: usize) -> usize {
    tags_of(value) * TAG_LEN + 4
}

/// How many tags the plain value of a record has.
pub(crate) const fn tags_of(value: usize) -> usize {
    if value == 0 { 1 } else { value.div_ceil(CHUNK) }
}

/// Bytes of a value that are sealed in one piece. The first piece has the key, too.
const CHUNK: usize = 64 * 1024;

/// Length in bytes of the shortest frame: checksum, head, two lengths of zero.
pub(crate) const FRAME_LEN_MIN: usize = CRC_LEN + 3;
/// Length in bytes of the longest possible header: checksum, head, flags, two lengths, namespace, optional fields.
pub(crate) const HEADER_LEN_MAX: usize = CRC_LEN + 1 + 1 + 5 + 5 + 5 + meta::FIELDS_LEN_MAX;
/// Length in bytes of the number at the front of an event's value, which is assigned last.
pub(crate) const EVENT_NUMBER_LEN: usize = 8;

/// The namespace of namespace definitions: its keys are names, its values numbers of namespaces and their options.
pub(crate) const NAMESPACE_OF_NAMES: u32 = u32::MAX;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A key and its value.
    Put = 1,
    /// The removal of a key.
    Tombstone = 2,
    /// How far the log was known to be synced when this was written, and the time.
    Mark = 3,
    /// The list of live segments; replay begins here when a superblock points at it.
    Checkpoint = 4,
    /// A segment whose live records have all been copied forward (value: its base, 8 bytes).
    Retire = 5,
    /// Zeros up to the end of a segment.
    Pad = 6,
    /// An event of a stream (key: the stream).
    Event = 7,
    /// The log position from which on history is kept.
    Floor = 8,
    /// The remainder of an event that retention has removed.
    Stub = 9,
    /// A segment that was written beside the tail is part of the log from here on.
    Adopt = 10,
    /// Where the next segment begins: the trailer of a segment, and, on shared files, a claim of a run.
    Next = 11,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Put,
        Self::Tombstone,
        Self::Mark,
        Self::Checkpoint,
        Self::Retire,
        Self::Pad,
        Self::Event,
        Self::Floor,
        Self::Stub,
        Self::Adopt,
        Self::Next,
    ];

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// True for frames of the store's own book-keeping: they belong to no commit and end none.
    pub(crate) const fn is_control(self) -> bool {
        !matches!(self, Self::Put | Self::Tombstone | Self::Event | Self::Stub)
    }

    /// True for events and what is left of them: no slot of the hash index points at them.
    pub(crate) const fn is_carried(self) -> bool {
        matches!(self, Self::Event | Self::Stub)
    }
}

/// The low bits of the head: the kind.
const HEAD_KIND: u8 = 0b0000_1111;
/// Compaction has written this copy, and nobody held a position between it and the record's first version.
const HEAD_COPIED: u8 = 0b0001_0000;
/// The commit continues in the next frame.
const HEAD_CONTINUES: u8 = 0b0010_0000;
/// A byte of flags follows the head.
const HEAD_EXTENDED: u8 = 0b0100_0000;
/// Zero in version 1 of the frame.
const HEAD_VERSION: u8 = 0b1000_0000;

#[cfg(test)]
mod tests;
