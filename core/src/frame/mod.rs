//! Frames: how one record stands in the log. Pure functions over bytes; nothing here does I/O.
//!
//! ```text
//! +---------+------+-------+-----------+-----------+----------+-----+-------+
//! | crc 4   | head | flags | key len   | value len | fields   | key | value |
//! |         | 1    | 0 / 1 | varint    | varint    | 0 ..     |     |       |
//! +---------+------+-------+-----------+-----------+----------+-----+-------+
//! ```
//!
//! The checksum covers everything behind it and is bound to the salt of the segment and to the offset in the file, so that a
//! stale, moved or spliced frame fails its check. `core/FORMAT.md` is the specification.

mod checksum;
mod decode;
mod encode;
#[cfg(feature = "testing")]
mod reencode;
mod varint;

pub(crate) use checksum::{Checksum, bind, crc32c};
pub(crate) use decode::{DecodeError, Header, check};
pub(crate) use encode::{FrameSpec, ONE_PIECE_MAX, bind_front, pad_spec};
#[cfg(feature = "testing")]
pub use reencode::reencode;

/// Bytes of checksum in front of every frame.
pub(crate) const CRC_LEN: usize = 4;
/// The shortest frame: checksum, head, two empty lengths.
pub(crate) const FRAME_LEN_MIN: usize = CRC_LEN + 3;
/// The longest possible header: checksum, head, flags, two lengths, namespace, expiry, origin.
pub(crate) const HEADER_LEN_MAX: usize = CRC_LEN + 1 + 1 + 5 + 5 + 5 + 8 + 8;

/// The namespace of namespace definitions: its keys are names, its values numbers of namespaces.
pub(crate) const NAMESPACE_OF_NAMES: u32 = u32::MAX;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A key and its value.
    Put,
    /// A key that is gone.
    Tombstone,
    /// How far the log was known to be synced when this was written (value: the log position, 8 bytes).
    Mark,
    /// The list of live segments; replay begins here when a superblock points at it.
    Checkpoint,
    /// A segment whose live records have all been copied forward (value: its order, 8 bytes).
    Retire,
    /// Zeros up to the end of a segment.
    Pad,
}

impl Kind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Put => 1,
            Self::Tombstone => 2,
            Self::Mark => 3,
            Self::Checkpoint => 4,
            Self::Retire => 5,
            Self::Pad => 6,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Put),
            2 => Some(Self::Tombstone),
            3 => Some(Self::Mark),
            4 => Some(Self::Checkpoint),
            5 => Some(Self::Retire),
            6 => Some(Self::Pad),
            _ => None,
        }
    }

    /// Frames of the store's own book-keeping: they belong to no commit and end none.
    pub(crate) const fn is_control(self) -> bool {
        !matches!(self, Self::Put | Self::Tombstone)
    }
}

/// The low bits of the head: the kind.
const HEAD_KIND: u8 = 0b0001_1111;
/// The commit goes on in the next frame.
const HEAD_CONTINUES: u8 = 0b0010_0000;
/// A byte of flags follows the head.
const HEAD_EXTENDED: u8 = 0b0100_0000;
/// Zero in version 1 of the frame.
const HEAD_VERSION: u8 = 0b1000_0000;

/// A namespace number follows the lengths (varint). Absent: namespace 0.
const FLAG_NAMESPACE: u8 = 0b0000_0001;
/// The flags that this build understands. Reserved: expiry `0x02`, compressed `0x04`, encrypted `0x08`, origin `0x10`.
const FLAGS_KNOWN: u8 = FLAG_NAMESPACE;

#[cfg(test)]
mod tests;
