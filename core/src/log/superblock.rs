//! The two superblocks: what the file is, where the newest checkpoint stands, and whether the last writer closed it.
//!
//! A new superblock always goes to the other slot; the one with the higher generation that checks is the current one. Everything
//! that counts lies in the first sector of its slot.

use crate::error::{Error, Result};
use crate::frame::{bind, crc32c};
use crate::limits::{DATA_START, FILE_LEN_MAX, LOG_POSITION_MAX, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN};
use crate::storage::Storage;

const MAGIC: [u8; 8] = *b"PIPKIN\x1a\n";
/// The format that this build writes, and the newest that it reads.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// Features that a reader must know to read the file at all. None exist yet.
const FEATURES_KNOWN: u32 = 0;
const SECTOR: usize = 512;
/// Distance between the slots.
pub(crate) const SLOT_LEN: u64 = 4096;

/// Which of the two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuperblockSlot {
    A,
    B,
}

impl SuperblockSlot {
    pub(crate) const fn offset(self) -> u64 {
        match self {
            Self::A => 0,
            Self::B => SLOT_LEN,
        }
    }

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Where replay begins, and the index as it was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckpointPlace {
    /// Order of the segment that holds the checkpoint frame.
    pub(crate) order: u64,
    /// Salt of that segment.
    pub(crate) salt: u64,
    /// Offset of the checkpoint frame in the file.
    pub(crate) offset: u64,
    /// Offset of the snapshot's segment; 0 when there is no snapshot.
    pub(crate) snapshot_offset: u64,
    /// Bytes of the snapshot behind its segment header.
    pub(crate) snapshot_len: u64,
    /// Salt of the snapshot's segment.
    pub(crate) snapshot_salt: u64,
}

/// One superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) store_id: [u8; 16],
    /// Grows with every superblock written.
    pub(crate) generation: u64,
    pub(crate) segment_size: u32,
    /// `None` in a store that was never checkpointed: replay begins with the first segment.
    pub(crate) checkpoint: Option<CheckpointPlace>,
    /// Log position of the end, if the last writer closed the store and nobody has written since.
    pub(crate) clean_end: Option<u64>,
    /// The log was synced up to here when this was written.
    pub(crate) synced: u64,
    /// Behind the end of a closed log stand the leftovers of a crash: it goes on in a fresh segment.
    pub(crate) torn_end: bool,
}

impl Superblock {
    fn encode(&self, slot: SuperblockSlot) -> [u8; SECTOR] {
        let mut out = [0; SECTOR];
        let id = u128::from_le_bytes(self.store_id);
        let checkpoint = self.checkpoint.unwrap_or_default();
        let fields = [
            u64::from_le_bytes(MAGIC),
            u64::from(FORMAT_VERSION),
            id as u64,
            (id >> 64) as u64,
            self.generation,
            u64::from(self.segment_size),
            checkpoint.order,
            checkpoint.salt,
            checkpoint.offset,
            checkpoint.snapshot_offset,
            checkpoint.snapshot_len,
            checkpoint.snapshot_salt,
            self.clean_end.unwrap_or(u64::MAX),
            self.synced,
            u64::from(self.torn_end),
        ];
        for (place, field) in out.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
            *place = field.to_le_bytes();
        }
        let (body, crc) = out.split_at_mut(SECTOR - 4);
        let sum = crc32c(body) ^ bind(0, slot.offset());
        crc.copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; SECTOR], slot: SuperblockSlot) -> Decoded {
        let words = bytes.as_chunks::<8>().0;
        let word = |index: usize| words.get(index).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
            return Decoded::Foreign;
        };
        if bytes.iter().all(|&byte| byte == 0) {
            return Decoded::Blank;
        }
        if word(0) != u64::from_le_bytes(MAGIC) {
            return Decoded::Foreign;
        }
        if u32::from_le_bytes(*crc) != crc32c(body) ^ bind(0, slot.offset()) {
            return Decoded::Damaged;
        }
        let version = word(1) as u32;
        if version > FORMAT_VERSION || (word(1) >> 32) as u32 & !FEATURES_KNOWN != 0 {
            return Decoded::Newer(version.max(FORMAT_VERSION + 1));
        }
        let segment_size = word(5);
        let allowed = u64::from(SEGMENT_SIZE_MIN)..=u64::from(SEGMENT_SIZE_MAX);
        if version == 0 || !allowed.contains(&segment_size) || !segment_size.is_power_of_two() {
            return Decoded::Damaged;
        }
        let checkpoint = CheckpointPlace {
            order: word(6),
            salt: word(7),
            offset: word(8),
            snapshot_offset: word(9),
            snapshot_len: word(10),
            snapshot_salt: word(11),
        };
        // Numbers that no store reaches: behind this line sums of them do not overflow.
        let places = [checkpoint.offset, checkpoint.snapshot_offset, checkpoint.snapshot_len];
        let positions = [word(4), word(13), if word(12) == u64::MAX { 0 } else { word(12) }];
        if checkpoint.order.saturating_mul(segment_size) > LOG_POSITION_MAX
            || places.iter().any(|&place| place > FILE_LEN_MAX)
            || positions.iter().any(|&position| position > LOG_POSITION_MAX)
        {
            return Decoded::Damaged;
        }
        Decoded::Good(Self {
            store_id: (u128::from(word(2)) | u128::from(word(3)) << 64).to_le_bytes(),
            generation: word(4),
            segment_size: segment_size as u32,
            checkpoint: (checkpoint.order != 0).then_some(checkpoint),
            clean_end: (word(12) != u64::MAX).then_some(word(12)),
            synced: word(13),
            torn_end: word(14) != 0,
        })
    }

    /// Writes it to `slot`; it counts once it is synced.
    pub(crate) fn write(&self, storage: &dyn Storage, slot: SuperblockSlot) -> Result<()> {
        Ok(storage.write_at(slot.offset(), &[&self.encode(slot)])?)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decoded {
    /// Zeros.
    Blank,
    /// No magic: nothing of ours.
    Foreign,
    /// The magic, and a checksum or field that does not fit.
    Damaged,
    Newer(u32),
    Good(Superblock),
}

/// The current superblock and what is known of the other slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuperblockPair {
    pub(crate) current: Superblock,
    pub(crate) slot: SuperblockSlot,
    /// The other slot could not be read. Its generation may have been higher, so the state of the log is taken for unclean.
    pub(crate) other_damaged: bool,
}

/// What stands at the front of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// Nothing, or a creation that was cut short before anything could be stored.
    Blank,
    Store(SuperblockPair),
}

/// Reads both superblocks.
///
/// # Errors
///
/// [`Error::NotAStore`], [`Error::NewerVersion`], or [`Error::Corrupt`] when both are damaged.
pub(crate) fn read_superblocks(storage: &dyn Storage) -> Result<Front> {
    let len = storage.len()?;
    let read = |slot: SuperblockSlot| -> Result<Decoded> {
        let mut bytes = [0; SECTOR];
        let available = len.saturating_sub(slot.offset()).min(SECTOR as u64) as usize;
        if let Some(part) = bytes.get_mut(..available).filter(|part| !part.is_empty()) {
            storage.read_at(slot.offset(), part)?;
        }
        Ok(Superblock::decode(&bytes, slot))
    };
    let (a, b) = (read(SuperblockSlot::A)?, read(SuperblockSlot::B)?);
    for decoded in [a, b] {
        if let Decoded::Newer(found) = decoded {
            return Err(Error::NewerVersion { found, supported: FORMAT_VERSION });
        }
    }
    let newest =
        [a, b].iter().filter_map(|decoded| if let Decoded::Good(good) = decoded { Some(good.generation) } else { None }).max();
    if len < DATA_START && newest.is_some_and(|generation| generation > 2) {
        return Err(Error::corrupt(len, "the file was cut short in its first bytes"));
    }
    match (a, b) {
        (Decoded::Good(first), Decoded::Good(second)) => {
            let slot = if first.generation >= second.generation { SuperblockSlot::A } else { SuperblockSlot::B };
            let current = if slot == SuperblockSlot::A { first } else { second };
            Ok(Front::Store(SuperblockPair { current, slot, other_damaged: false }))
        }
        (Decoded::Good(current), _) => Ok(Front::Store(SuperblockPair { current, slot: SuperblockSlot::A, other_damaged: true })),
        (_, Decoded::Good(current)) => Ok(Front::Store(SuperblockPair { current, slot: SuperblockSlot::B, other_damaged: true })),
        _ if len <= DATA_START && is_cut_short(storage, len, a)? => Ok(Front::Blank),
        (Decoded::Foreign | Decoded::Blank, Decoded::Foreign | Decoded::Blank) => {
            Err(Error::NotAStore { detail: "it does not begin like one, and it is not empty" })
        }
        _ => Err(Error::corrupt(0, "both superblocks")),
    }
}

/// A new file gets its first superblock before anything else and is synced, so a crash in between leaves nothing but (part of)
/// that superblock, and zeros.
fn is_cut_short(storage: &dyn Storage, len: u64, a: Decoded) -> Result<bool> {
    if len < SECTOR as u64 {
        return Ok(len == 0);
    }
    let mut front = alloc::vec![0; len as usize];
    storage.read_at(0, &mut front)?;
    let (first, rest) = front.split_at(front.len().min(SECTOR));
    // A creation only ever leaves the first generations behind: anything more was a store once.
    let generation = first.as_chunks::<8>().0.get(4).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if generation > 2 {
        return Ok(false);
    }
    let torn_magic = first.iter().zip(MAGIC).all(|(&byte, magic)| byte == 0 || byte == magic);
    let ours =
        a == Decoded::Damaged || (torn_magic && first.iter().any(|&byte| byte != 0)) || first.iter().all(|&byte| byte == 0);
    Ok(ours && rest.iter().all(|&byte| byte == 0))
}
