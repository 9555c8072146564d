#![allow(clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::storage::MemoryStorage;
use alloc::vec::Vec;

/// Every field has a value of its own.
fn superblock() -> Superblock {
    Superblock {
        write_version: 3,
        optional_features: 1 << 40,
        store_id: *b"identity of this",
        generation: 11,
        session: 12,
        segment_size: 1 << 16,
        first_extent: 1 << 14,
        checkpoint: Some(CheckpointPlace {
            base: 13,
            salt: u64::MAX,
            offset: 14,
            directory: Some(DirectoryPlace { offset: 15, len: 16, salt: u64::MAX - 1 }),
        }),
        clean_end: Some(17),
        synced: 18,
        torn_end: true,
        floor: 19,
        clock: 20,
        active: ActivePlace { base: 21, salt: u64::MAX - 2, extent: 22, extents: 23 },
        headers: 24,
        // A build without sealed stores has none of these.
        key_page: if cfg!(feature = "encrypt") { 25 } else { 0 },
        sealed_from: 26,
        seed: *b"seed of the hash",
    }
}

#[test]
fn a_superblock_reads_back_as_it_was_written_and_only_in_its_slot() {
    let all = superblock();
    let place = all.checkpoint.map(|place| CheckpointPlace { directory: None, ..place });
    let no_directory = Superblock { checkpoint: place, torn_end: false, ..all };
    let none = Superblock { checkpoint: None, clean_end: None, ..all };
    let first = Superblock::first(4096, [7; 16], [8; 16]);
    for superblock in [all, no_directory, none, first] {
        for slot in [SuperblockSlot::A, SuperblockSlot::B] {
            let bytes = superblock.encode(slot);
            assert_eq!(Superblock::decode(&bytes, slot), Decoded::Good(superblock));
            assert_eq!(Superblock::decode(&bytes, slot.other()), Decoded::Damaged);
        }
    }
}

/// A checksum alone proves nothing: anybody can compute one.
#[test]
fn fields_beyond_what_a_store_can_reach_are_damage_and_newer_formats_are_named() {
    let slot = SuperblockSlot::A;
    let forged = |at: usize, word: u64| {
        let mut bytes = superblock().encode(slot);
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        let sum = crc32c(&bytes[..SECTOR - 4]) ^ bind(0, slot.offset());
        bytes[SECTOR - 4..].copy_from_slice(&sum.to_le_bytes());
        Superblock::decode(&bytes, slot)
    };
    let is_good = |decoded: Decoded| matches!(decoded, Decoded::Good(_));
    let positions =
        [at::GENERATION, at::SESSION, at::SYNCED, at::FLOOR, at::HEADERS, at::SEALED_FROM, at::CHECKPOINT, at::CLEAN_END];
    for at in positions {
        assert!(is_good(forged(at, LOG_POSITION_MAX)), "at {at}");
        assert_eq!(forged(at, LOG_POSITION_MAX + 1), Decoded::Damaged, "at {at}");
    }
    for at in [2, 3, 4].map(|index| at::CHECKPOINT + 8 * index) {
        assert!(is_good(forged(at, FILE_LEN_MAX)), "at {at}");
        assert_eq!(forged(at, FILE_LEN_MAX + 1), Decoded::Damaged, "at {at}");
    }
    let sizes = |full: u32, first: u32| forged(at::SIZES, u64::from(full) | u64::from(first) << 32);
    assert!(
        [(SEGMENT_SIZE_MIN, SEGMENT_SIZE_MIN), (SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN)].iter().all(|&(a, b)| is_good(sizes(a, b)))
    );
    let bad = [
        (SEGMENT_SIZE_MAX * 2, SEGMENT_SIZE_MIN),
        (SEGMENT_SIZE_MIN / 2, SEGMENT_SIZE_MIN / 2),
        (1 << 16, SEGMENT_SIZE_MIN / 2),
        (1 << 16, 1 << 17),
        ((1 << 16) + 1, 1 << 14),
        (1 << 16, (1 << 14) + 1),
    ];
    assert!(bad.iter().all(|&(full, first)| sizes(full, first) == Decoded::Damaged));
    let versions = |read: u32, write: u32| forged(at::VERSIONS, u64::from(read) | u64::from(write) << 32);
    assert_eq!((versions(0, 1), versions(1, 0)), (Decoded::Damaged, Decoded::Damaged));
    assert_eq!(
        (versions(FORMAT_VERSION + 4, 9), forged(at::FEATURES, 2)),
        (Decoded::Newer(FORMAT_VERSION + 4), Decoded::Newer(FORMAT_VERSION + 1))
    );
    // This one has a page of keys, as sealed stores do, and no others.
    if cfg!(feature = "encrypt") {
        assert_eq!(forged(at::FEATURES, 0), Decoded::Damaged);
    }
}

#[test]
fn of_two_superblocks_the_higher_generation_counts_and_damage_of_one_is_noted() {
    let with = |generation: u64| Superblock { generation, ..superblock() };
    let file = |a: Option<Superblock>, b: Option<Superblock>| {
        let mut bytes: Vec<u8> = alloc::vec![0; DATA_START as usize];
        for (slot, superblock) in [(SuperblockSlot::A, a), (SuperblockSlot::B, b)] {
            let at = slot.offset() as usize;
            bytes[at..at + SECTOR].copy_from_slice(&superblock.map_or([1; SECTOR], |superblock| superblock.encode(slot)));
        }
        read_superblocks(&MemoryStorage::from_vec(bytes))
    };
    let pair = |generation, slot, other_damaged| Front::Store(SuperblockPair { current: with(generation), slot, other_damaged });
    let (a, b) = (SuperblockSlot::A, SuperblockSlot::B);
    for (first, second, expected) in [
        (Some(5), Some(4), pair(5, a, false)),
        (Some(4), Some(5), pair(5, b, false)),
        (Some(5), Some(5), pair(5, a, false)),
        (Some(4), None, pair(4, a, true)),
        (None, Some(4), pair(4, b, true)),
    ] {
        assert_eq!(file(first.map(with), second.map(with)).ok(), Some(expected));
    }
    assert!(matches!(file(None, None), Err(Error::NotAStore { .. })));
}

#[test]
fn only_what_an_interrupted_creation_can_leave_is_taken_for_a_new_file() {
    let read = |bytes: &[u8]| read_superblocks(&MemoryStorage::from_vec(bytes.to_vec()));
    let file = |front: &[u8], len: usize| {
        let mut bytes: Vec<u8> = alloc::vec![0; len];
        bytes[..front.len()].copy_from_slice(front);
        bytes
    };
    let encoded = |generation: u64| Superblock { generation, ..superblock() }.encode(SuperblockSlot::A);
    let torn = |generation: u64| {
        let mut bytes = encoded(generation);
        bytes[SECTOR - 1] ^= 1;
        bytes
    };
    let is_blank = |bytes: &[u8]| matches!(read(bytes), Ok(Front::Blank));
    let is_foreign = |bytes: &[u8]| matches!(read(bytes), Err(Error::NotAStore { .. }));
    let is_corrupt = |bytes: &[u8]| matches!(read(bytes), Err(Error::Corrupt { .. }));
    // Cut short behind its first superblock: a creation, unless a store must have been there.
    assert!(matches!(read(&file(&encoded(2), 8192)), Ok(Front::Store(pair)) if pair.other_damaged));
    assert!(is_corrupt(&file(&encoded(3), 8192)));
    assert!(matches!(read(&file(&encoded(3), DATA_START as usize)), Ok(Front::Store(_))));
    assert!(is_blank(&file(&torn(2), 8192)) && is_blank(&file(&torn(2), DATA_START as usize)) && is_blank(&[]));
    assert!(is_corrupt(&file(&torn(3), 8192)) && is_corrupt(&file(&torn(2), DATA_START as usize + 1)));
    assert!(is_blank(&file(b"PIP", 600)) && is_blank(&file(&[], 600)) && is_foreign(&file(&[], DATA_START as usize + 1)));
    assert!(is_foreign(&file(b"hello", 600)) && is_foreign(b"PIP"), "that is no creation of ours");
    let mut behind = file(&torn(2), 8192);
    behind[6000] = 1;
    assert!(is_corrupt(&behind), "something was stored");
}

#[cfg(feature = "encrypt")]
#[test]
fn the_id_in_a_slot_is_known_where_its_checksum_fits_and_the_generation_in_any_case() {
    for slot in [SuperblockSlot::A, SuperblockSlot::B] {
        let mut bytes = superblock().encode(slot);
        assert_eq!(Superblock::id_of(&bytes, slot), Some(*b"identity of this"));
        assert_eq!(Superblock::id_of(&bytes, slot.other()), None);
        bytes[SECTOR - 1] ^= 1;
        assert_eq!((Superblock::id_of(&bytes, slot), Superblock::generation_in(&bytes)), (None, 11));
    }
}

#[test]
fn versions_above_this_one_are_newer_and_a_writer_may_need_to_know_more_than_a_reader() {
    let slot = SuperblockSlot::B;
    let with = |read: u32, write: u32| {
        let mut bytes = superblock().encode(slot);
        bytes[at::VERSIONS..at::VERSIONS + 4].copy_from_slice(&read.to_le_bytes());
        bytes[at::VERSIONS + 4..at::VERSIONS + 8].copy_from_slice(&write.to_le_bytes());
        let sum = crc32c(&bytes[..SECTOR - 4]) ^ bind(0, slot.offset());
        bytes[SECTOR - 4..].copy_from_slice(&sum.to_le_bytes());
        Superblock::decode(&bytes, slot)
    };
    for write in [1, FORMAT_VERSION, FORMAT_VERSION + 1, u32::MAX] {
        let expected = Decoded::Good(Superblock { write_version: write, ..superblock() });
        assert_eq!(with(FORMAT_VERSION, write), expected, "to be written by version {write}");
    }
    assert_eq!(with(FORMAT_VERSION, 0), Decoded::Damaged);
    assert_eq!(with(FORMAT_VERSION + 1, 0), Decoded::Newer(FORMAT_VERSION + 1));
    let mut foreign = superblock().encode(slot);
    foreign[0] ^= 1;
    assert_eq!(Superblock::decode(&foreign, slot), Decoded::Foreign);
    assert_eq!(Superblock::generation_and_session_of(&superblock().encode(slot), slot), Some((11, 12)));
    assert_eq!(Superblock::generation_and_session_of(&foreign, slot), None);
}
