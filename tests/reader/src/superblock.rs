//! The superblocks, and which of them counts.

use crate::Refusal;
use crate::bytes::{bind, crc, part};

const MAGIC: &[u8] = b"PIPKIN\x1a\n";
const VERSION: u32 = 1;
/// Of the features that may be known: records that expire.
const EXPIRY: u64 = 1;
const SLOTS: [u64; 2] = [0, 4096];
pub(crate) const FRONT_LEN: u64 = 16 * 1024;
pub(crate) const POSITION_MAX: u64 = 1 << 62;
pub(crate) const OFFSET_MAX: u64 = 1 << 42;

/// Where something stands, and the salt of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) base: u64,
    pub(crate) salt: u64,
    pub(crate) offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryPlace {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) salt: u64,
}

/// What a reader needs of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) id: [u8; 16],
    pub(crate) generation: u64,
    pub(crate) full: u32,
    pub(crate) first: u32,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) snapshot: Option<DirectoryPlace>,
    /// The log's end, of a store that was closed and of which both superblocks check.
    pub(crate) closed: Option<u64>,
    pub(crate) synced: u64,
    /// The last session, and the number of the newest header at its beginning or later.
    pub(crate) session: u64,
    pub(crate) headers: u64,
    pub(crate) seed: [u8; 16],
    /// The latest expiry that was acted on when it was written.
    pub(crate) clock: u64,
    /// Both superblocks check, no history is kept, and no capability that a reader may know has been used but that of records that expire.
    pub(crate) is_plain: bool,
}

/// The superblock that counts; `None` when creation was cut short.
pub(crate) fn read(file: &[u8]) -> Result<Option<Superblock>, Refusal> {
    let mut valid = Vec::new();
    for slot in SLOTS.into_iter().filter(|&slot| checks(file, slot)) {
        if let Some(superblock) = decode(file, slot)? {
            valid.push(superblock);
        }
    }
    let both = valid.len() == SLOTS.len();
    match valid.into_iter().max_by_key(|superblock| superblock.generation) {
        Some(newest) => {
            Ok(Some(Superblock { closed: newest.closed.filter(|_| both), is_plain: newest.is_plain && both, ..newest }))
        }
        None if is_cut_short(file) => Ok(None),
        None if SLOTS.iter().any(|&slot| part(file, slot, MAGIC.len()).is_some_and(|bytes| bytes.0 == MAGIC)) => {
            Err(Refusal::Damaged { offset: 0, what: "both superblocks" })
        }
        None => Err(Refusal::NotAStore),
    }
}

/// True when creation of the store did not come further than a part of its first superblock.
fn is_cut_short(file: &[u8]) -> bool {
    let magic_or_zero = file.iter().zip(MAGIC).all(|(&byte, &magic)| byte == magic || byte == 0);
    file.len() as u64 <= FRONT_LEN && magic_or_zero && file.iter().skip(512).all(|&byte| byte == 0)
}

fn checks(file: &[u8], slot: u64) -> bool {
    let Some(mut sum) = part(file, slot + 508, 4) else { return false };
    let covered = part(file, slot, 508).map_or(&[][..], |bytes| bytes.0);
    covered.starts_with(MAGIC) && sum.u32() == Some(crc(&[covered]) ^ bind(0, slot))
}

/// `None` when a field is out of its range.
fn decode(file: &[u8], slot: u64) -> Result<Option<Superblock>, Refusal> {
    let Some(mut bytes) = part(file, slot, 508) else { return Ok(None) };
    bytes.take(MAGIC.len());
    let (to_read, _to_write) = (bytes.u32(), bytes.u32());
    let (must_know, may_know) = (bytes.u64(), bytes.u64());
    if to_read != Some(VERSION) || must_know != Some(0) {
        return Err(Refusal::Newer);
    }
    let decoded = (|| {
        let id = bytes.take(16)?.try_into().ok()?;
        let (generation, session) = (bytes.u64()?, bytes.u64()?);
        let (full, first) = (bytes.u32()?, bytes.u32()?);
        let checkpoint = Checkpoint { base: bytes.u64()?, salt: bytes.u64()?, offset: bytes.u64()? };
        let snapshot = DirectoryPlace { offset: bytes.u64()?, len: bytes.u64()?, salt: bytes.u64()? };
        let (closed, synced, _leftovers) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let (floor, clock) = (bytes.u64()?, bytes.u64()?);
        let _active = bytes.take(24)?;
        let headers = bytes.u64()?;
        let _sealing = bytes.take(16)?;
        let seed = bytes.take(16)?.try_into().ok()?;
        let closed = (closed != u64::MAX).then_some(closed);
        let positions = [checkpoint.base, synced, floor, closed.unwrap_or(0), generation, headers];
        let sizes = [full, first].iter().all(|size| size.is_power_of_two() && (4096..=256 << 20).contains(size)) && first <= full;
        let in_range = positions.iter().all(|&position| position <= POSITION_MAX)
            && [checkpoint.offset, snapshot.offset].iter().all(|&offset| offset <= OFFSET_MAX);
        let checkpoint = (checkpoint.base != 0).then_some(checkpoint);
        let snapshot = (snapshot.offset != 0).then_some(snapshot);
        let is_plain = floor == 0 && may_know.is_some_and(|features| features & !EXPIRY == 0);
        let superblock = Superblock {
            id,
            generation,
            full,
            first,
            checkpoint,
            snapshot,
            closed,
            synced,
            session,
            headers,
            seed,
            clock,
            is_plain,
        };
        (sizes && in_range).then_some(superblock)
    })();
    Ok(decoded)
}
