//! The two superblocks: the identity of the file, the place of the newest checkpoint, and whether the last session closed the store.
//!
//! Of the superblocks with a valid checksum, the one with the higher generation is the current one. All fields
//! lie in the first sector of the slot.

#[cfg(feature = "encrypt")]
mod sealed;

use super::Geometry;
use crate::error::{Error, Result};
use crate::frame::{bind, crc32c};
use crate::limits::{DATA_START, FILE_LEN_MAX, LOG_POSITION_MAX, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN};
use crate::storage::Storage;

const MAGIC: [u8; 8] = *b"PIPKIN\x1a\n";
/// The format that this build writes, and the newest that it reads and writes.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// A feature that a reader must know to read the file at all: the store is sealed.
const FEATURE_SEALED: u64 = 1;
/// Those that this build knows.
const FEATURES_KNOWN: u64 = if cfg!(feature = "encrypt") { FEATURE_SEALED } else { 0 };
pub(crate) const SECTOR: usize = 512;
/// The creation of a store writes these generations, and no session one of them.
#[cfg(feature = "encrypt")]
pub(crate) const GENERATIONS_OF_CREATION: u64 = 2;
/// Distance between the slots in bytes.
pub(crate) const SLOT_LEN: u64 = 4096;

/// Which of the two slots.
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

/// The bytes of both slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots(pub(super) [[u8; SECTOR]; 2]);

impl Slots {
    pub(crate) const fn of(&self, slot: SuperblockSlot) -> &[u8; SECTOR] {
        let Self([a, b]) = self;
        if matches!(slot, SuperblockSlot::A) { a } else { b }
    }

    pub(crate) const fn of_mut(&mut self, slot: SuperblockSlot) -> &mut [u8; SECTOR] {
        let Self([a, b]) = self;
        if matches!(slot, SuperblockSlot::A) { a } else { b }
    }
}

/// Where replay begins, and the index snapshot of that position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckpointPlace {
    /// Base of the segment that holds the checkpoint frame.
    pub(crate) base: u64,
    /// Salt of that segment.
    pub(crate) salt: u64,
    /// Offset of the checkpoint frame in the file.
    pub(crate) offset: u64,
    /// The directory of the index snapshot, if there is one.
    pub(crate) directory: Option<DirectoryPlace>,
}

/// Place of the directory of the index snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectoryPlace {
    /// Offset of its chunk in the file.
    pub(crate) offset: u64,
    /// Length of the chunk in bytes.
    pub(crate) len: u64,
    /// Salt of the segment that holds it.
    pub(crate) salt: u64,
}

/// The segment that takes appends, as it was when the superblock was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActivePlace {
    pub(crate) base: u64,
    pub(crate) salt: u64,
    pub(crate) extent: u32,
    pub(crate) extents: u32,
}

/// The root of the file, as stored in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// The format version that a writer must know; a reader must know `FORMAT_VERSION`.
    pub(crate) write_version: u32,
    /// Features that a reader need not know; preserved as they are.
    pub(crate) optional_features: u64,
    pub(crate) store_id: [u8; 16],
    /// Grows with every superblock written.
    pub(crate) generation: u64,
    /// Generation of the superblock that announced the last session that wrote.
    pub(crate) session: u64,
    pub(crate) segment_size: u32,
    pub(crate) first_extent: u32,
    /// `None` in a store that was never checkpointed: replay begins with the first segment.
    pub(crate) checkpoint: Option<CheckpointPlace>,
    /// Log position of the end, if the last writer closed the store and nobody has written since.
    pub(crate) clean_end: Option<u64>,
    /// The log was synced up to here when this was written.
    pub(crate) synced: u64,
    /// The end of the closed log is followed by the leftovers of a crash: appends continue in a fresh segment.
    pub(crate) torn_end: bool,
    /// Log position from which on history is kept; 0: none is.
    pub(crate) floor: u64,
    /// The store's clock, in milliseconds since 1970: no answer was given for a later one. 0 when nothing depends on it.
    pub(crate) clock: u64,
    pub(crate) active: ActivePlace,
    /// Number of the newest segment header.
    pub(crate) headers: u64,
    /// Version of the page of keys; 0: none.
    pub(crate) key_page: u64,
    /// Log position from which on everything is sealed under the current key; 0 when nothing is.
    pub(crate) sealed_from: u64,
    /// Seed of the key hashes.
    pub(crate) seed: [u8; 16],
}

/// Offsets of the fields.
mod at {
    pub(super) const VERSIONS: usize = 8;
    pub(super) const FEATURES: usize = 16;
    pub(super) const OPTIONAL_FEATURES: usize = 24;
    pub(super) const STORE_ID: usize = 32;
    pub(super) const GENERATION: usize = 48;
    pub(super) const SESSION: usize = 56;
    pub(super) const SIZES: usize = 64;
    pub(super) const CHECKPOINT: usize = 72;
    pub(super) const CLEAN_END: usize = 120;
    pub(super) const SYNCED: usize = 128;
    pub(super) const FLAGS: usize = 136;
    pub(super) const FLOOR: usize = 144;
    pub(super) const CLOCK: usize = 152;
    pub(super) const ACTIVE: usize = 160;
    pub(super) const HEADERS: usize = 184;
    pub(super) const KEY_PAGE: usize = 192;
    pub(super) const SEALED_FROM: usize = 200;
    pub(super) const SEED: usize = 208;
}

/// Reads numbers of a superblock.
struct Fields<'a>(&'a [u8; SECTOR]);

impl Fields<'_> {
    fn word(&self, at: usize) -> u64 {
        self.0.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn pair(&self, at: usize) -> (u32, u32) {
        let word = self.word(at);
        (word as u32, (word >> 32) as u32)
    }

    fn bytes(&self, at: usize) -> [u8; 16] {
        self.0.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default()
    }
}

impl Superblock {
    pub(crate) fn geometry(&self) -> Geometry {
        Geometry::new(self.segment_size, self.first_extent)
    }

    /// The first superblock of a new store.
    pub(crate) fn first(segment_size: u32, store_id: [u8; 16], seed: [u8; 16]) -> Self {
        Self {
            write_version: FORMAT_VERSION,
            optional_features: 0,
            store_id,
            generation: 1,
            session: 0,
            segment_size,
            first_extent: Geometry::first_of(segment_size),
            checkpoint: None,
            clean_end: None,
            synced: 0,
            torn_end: false,
            floor: 0,
            clock: 0,
            active: ActivePlace::default(),
            headers: 0,
            key_page: 0,
            sealed_from: 0,
            seed,
        }
    }

    /// A superblock for a store of which only the full size of its extents is known.
    #[cfg(feature = "salvage")]
    pub(crate) fn unknown(segment_size: u32) -> Self {
        Self { generation: 0, ..Self::first(segment_size, [0; 16], [0; 16]) }
    }

    pub(super) fn encode(&self, slot: SuperblockSlot) -> [u8; SECTOR] {
        let mut out = [0; SECTOR];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = out.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        let pair = |low: u32, high: u32| (u64::from(low) | u64::from(high) << 32).to_le_bytes();
        put(0, &MAGIC);
        put(at::VERSIONS, &pair(FORMAT_VERSION, self.write_version));
        if self.key_page != 0 {
            put(at::FEATURES, &FEATURE_SEALED.to_le_bytes());
        }
        put(at::OPTIONAL_FEATURES, &self.optional_features.to_le_bytes());
        put(at::STORE_ID, &self.store_id);
        put(at::GENERATION, &self.generation.to_le_bytes());
        put(at::SESSION, &self.session.to_le_bytes());
        put(at::SIZES, &pair(self.segment_size, self.first_extent));
        let place = self.checkpoint.unwrap_or_default();
        let directory = place.directory.unwrap_or_default();
        let words = [place.base, place.salt, place.offset, directory.offset, directory.len, directory.salt];
        (at::CHECKPOINT..).step_by(8).zip(words).for_each(|(at, word)| put(at, &word.to_le_bytes()));
        put(at::CLEAN_END, &self.clean_end.unwrap_or(u64::MAX).to_le_bytes());
        put(at::SYNCED, &self.synced.to_le_bytes());
        put(at::FLAGS, &u64::from(self.torn_end).to_le_bytes());
        put(at::FLOOR, &self.floor.to_le_bytes());
        put(at::CLOCK, &self.clock.to_le_bytes());
        put(at::ACTIVE, &self.active.base.to_le_bytes());
        put(at::ACTIVE + 8, &self.active.salt.to_le_bytes());
        put(at::ACTIVE + 16, &pair(self.active.extent, self.active.extents));
        put(at::HEADERS, &self.headers.to_le_bytes());
        put(at::KEY_PAGE, &self.key_page.to_le_bytes());
        put(at::SEALED_FROM, &self.sealed_from.to_le_bytes());
        put(at::SEED, &self.seed);
        let (body, crc) = out.split_at_mut(SECTOR - 4);
        let sum = crc32c(body) ^ bind(0, slot.offset());
        crc.copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Generation and session of the superblock in these bytes of `slot`; `None` without a valid one.
    pub(super) fn generation_and_session_of(bytes: &[u8; SECTOR], slot: SuperblockSlot) -> Option<(u64, u64)> {
        if let Decoded::Good(found) = Self::decode(bytes, slot) { Some((found.generation, found.session)) } else { None }
    }

    fn decode(bytes: &[u8; SECTOR], slot: SuperblockSlot) -> Decoded {
        let fields = Fields(bytes);
        if fields.word(0) != u64::from_le_bytes(MAGIC) {
            return Decoded::Foreign;
        }
        if !Self::is_summed(bytes, slot) {
            return Decoded::Damaged;
        }
        let (version, write_version) = fields.pair(at::VERSIONS);
        if version > FORMAT_VERSION || fields.word(at::FEATURES) & !FEATURES_KNOWN != 0 {
            return Decoded::Newer(version.max(FORMAT_VERSION + 1));
        }
        let (segment_size, first_extent) = fields.pair(at::SIZES);
        let is_size = |size: u32| size.is_power_of_two() && (SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(&size);
        if version == 0 || write_version == 0 || !is_size(segment_size) || !is_size(first_extent) || first_extent > segment_size {
            return Decoded::Damaged;
        }
        let is_sealed = fields.word(at::FEATURES) & FEATURE_SEALED != 0;
        if !is_within_limits(&fields) || is_sealed != (fields.word(at::KEY_PAGE) != 0) {
            return Decoded::Damaged;
        }
        let word = |index: usize| fields.word(at::CHECKPOINT + 8 * index);
        let directory = DirectoryPlace { offset: word(3), len: word(4), salt: word(5) };
        let checkpoint = CheckpointPlace {
            base: word(0),
            salt: word(1),
            offset: word(2),
            directory: (directory.offset != 0).then_some(directory),
        };
        let clean_end = Some(fields.word(at::CLEAN_END)).filter(|&end| end != u64::MAX);
        let (extent, extents) = fields.pair(at::ACTIVE + 16);
        let superblock = Self {
            write_version,
            optional_features: fields.word(at::OPTIONAL_FEATURES),
            store_id: fields.bytes(at::STORE_ID),
            generation: fields.word(at::GENERATION),
            session: fields.word(at::SESSION),
            segment_size,
            first_extent,
            checkpoint: (checkpoint.base != 0).then_some(checkpoint),
            clean_end,
            synced: fields.word(at::SYNCED),
            torn_end: fields.word(at::FLAGS) & 1 != 0,
            floor: fields.word(at::FLOOR),
            clock: fields.word(at::CLOCK),
            active: ActivePlace { base: fields.word(at::ACTIVE), salt: fields.word(at::ACTIVE + 8), extent, extents },
            headers: fields.word(at::HEADERS),
            key_page: fields.word(at::KEY_PAGE),
            sealed_from: fields.word(at::SEALED_FROM),
            seed: fields.bytes(at::SEED),
        };
        Decoded::Good(superblock)
    }

    /// Writes it to `slot`; durable only after a sync.
    pub(crate) fn write(&self, storage: &dyn Storage, slot: SuperblockSlot) -> Result<()> {
        self.write_for(storage, storage, slot)
    }

    /// As [`Self::write`], for a copy of the store in `store`.
    pub(crate) fn write_for(&self, store: &dyn Storage, target: &dyn Storage, slot: SuperblockSlot) -> Result<()> {
        Ok(target.write_at(slot.offset(), &[&self.stored(store, slot)?])?)
    }

    /// Its bytes in `slot` of the store in `store`: with a tag, if that is sealed.
    pub(crate) fn stored(&self, store: &dyn Storage, slot: SuperblockSlot) -> Result<[u8; SECTOR]> {
        #[cfg(feature = "encrypt")]
        return self.encode_sealed(store, slot);
        #[cfg(not(feature = "encrypt"))]
        {
            let _ = store;
            Ok(self.encode(slot))
        }
    }

    /// True if the checksum fits.
    fn is_summed(bytes: &[u8; SECTOR], slot: SuperblockSlot) -> bool {
        let Some((body, crc)) = bytes.split_last_chunk::<4>() else { return false };
        u32::from_le_bytes(*crc) == crc32c(body) ^ bind(0, slot.offset())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "two are made at each open, and live for a moment")]
enum Decoded {
    /// No magic: not a superblock, or nothing but zeros.
    Foreign,
    /// The magic, but a wrong checksum or an invalid field.
    Damaged,
    Newer(u32),
    Good(Superblock),
}

/// The current superblock and what is known of the other slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuperblockPair {
    pub(crate) current: Superblock,
    pub(crate) slot: SuperblockSlot,
    /// The other slot is damaged. Its generation may have been higher, so the log is treated as unclean.
    pub(crate) other_damaged: bool,
}

/// What the front of a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one is made at each open, and lives for a moment")]
pub(crate) enum Front {
    /// Nothing, or a creation that was interrupted before anything could be stored.
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
        let decoded = Superblock::decode(&bytes, slot);
        #[cfg(feature = "encrypt")]
        let decoded = Superblock::authentic(decoded, storage, &bytes, slot)?;
        Ok(decoded)
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
            #[cfg(feature = "encrypt")]
            sealed::check_key_page(storage, &current, slot)?;
            Ok(Front::Store(SuperblockPair { current, slot, other_damaged: false }))
        }
        (Decoded::Good(current), _) => one_of(storage, current, SuperblockSlot::A),
        (_, Decoded::Good(current)) => one_of(storage, current, SuperblockSlot::B),
        _ if len <= DATA_START && is_cut_short(storage, len, a)? => Ok(Front::Blank),
        (Decoded::Foreign, Decoded::Foreign) => {
            Err(Error::NotAStore { detail: "it does not begin like one, and it is not empty" })
        }
        _ => Err(Error::corrupt(0, "both superblocks")),
    }
}

/// The front of a store that has lost its other superblock.
fn one_of(storage: &dyn Storage, current: Superblock, slot: SuperblockSlot) -> Result<Front> {
    #[cfg(feature = "encrypt")]
    sealed::check_key_page(storage, &current, slot)?;
    #[cfg(not(feature = "encrypt"))]
    let _ = storage;
    Ok(Front::Store(SuperblockPair { current, slot, other_damaged: true }))
}

/// True for a creation that a crash interrupted. A new file gets its first superblock before anything else and is synced, so such a crash
/// leaves nothing but (part of) that superblock, and zeros.
fn is_cut_short(storage: &dyn Storage, len: u64, a: Decoded) -> Result<bool> {
    if len < SECTOR as u64 {
        return Ok(len == 0);
    }
    let mut front = alloc::vec![0; len as usize];
    storage.read_at(0, &mut front)?;
    let (first, rest) = front.split_at(front.len().min(SECTOR));
    // An interrupted creation leaves only the first generations: a higher one was a store.
    let generation = first.get(at::GENERATION..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if generation > 2 {
        return Ok(false);
    }
    let torn_magic = first.iter().zip(MAGIC).all(|(&byte, magic)| byte == 0 || byte == magic);
    let ours =
        a == Decoded::Damaged || (torn_magic && first.iter().any(|&byte| byte != 0)) || first.iter().all(|&byte| byte == 0);
    Ok(ours && rest.iter().all(|&byte| byte == 0))
}

/// False if a number is larger than any store reaches. Sums of numbers that pass this check do not overflow.
fn is_within_limits(fields: &Fields<'_>) -> bool {
    let checkpoint = |index: usize| fields.word(at::CHECKPOINT + 8 * index);
    let clean_end = Some(fields.word(at::CLEAN_END)).filter(|&end| end != u64::MAX);
    let named = [at::GENERATION, at::SESSION, at::SYNCED, at::FLOOR, at::HEADERS, at::SEALED_FROM].map(|at| fields.word(at));
    let mut positions = named.into_iter().chain([checkpoint(0), clean_end.unwrap_or(0)]);
    let offsets = [checkpoint(2), checkpoint(3), checkpoint(4)];
    positions.all(|position| position <= LOG_POSITION_MAX) && offsets.iter().all(|&offset| offset <= FILE_LEN_MAX)
}

#[cfg(test)]
mod tests;
