//! What the header of a segment says, and the trailer in front of one that has lost it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;

fn header() -> SegmentHeader {
    SegmentHeader {
        salt: 0x1234,
        kind: SegmentKind::Log,
        base: 7 << 20,
        extents: 3,
        carried_over: 9,
        previous_base: 6 << 20,
        previous_salt: 0x4321,
        previous_end: 99,
        synced: 55,
        session: 4,
        number: 17,
        fresh: true,
        linked: true,
        #[cfg(feature = "encrypt")]
        seal: None,
    }
}

#[test]
fn one_damaged_copy_is_survived_and_a_moved_header_is_refused() {
    let header = header();
    let good = header.encode([1; 16], 16_384);
    let both = SegmentHeader::decode_both(&good, [1; 16], 16_384);
    assert!(both.is_whole() && both.header() == Some(header));
    assert_eq!(SegmentHeader::decode_both(&good, [1; 16], 20_480).header(), None);
    assert_eq!(SegmentHeader::decode_both(&good, [2; 16], 16_384).header(), None);
    for bit in 0..good.len() * 8 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        let copies = SegmentHeader::decode_both(&bad, [1; 16], 16_384);
        assert_eq!(copies.header(), Some(header));
        assert!(!copies.is_whole(), "bit {bit} is not covered");
    }
}

/// A checksum alone proves nothing: anybody can compute one.
#[test]
fn fields_beyond_what_a_store_can_reach_are_no_header() {
    let forged = |at: usize, word: u64| {
        let mut bytes = header().encode([1; 16], 16_384);
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        let sum = crc32c(&bytes[..COPY_LEN - 4]) ^ SegmentHeader::binding([1; 16], 16_384);
        bytes[COPY_LEN - 4..COPY_LEN].copy_from_slice(&sum.to_le_bytes());
        SegmentHeader::decode_both(&bytes, [1; 16], 16_384).first
    };
    // Its base, that of the segment before, what was synced, the session and the number.
    for at in [1, 4, 7, 8, 9].map(|index| 8 * index) {
        assert!(forged(at, LOG_POSITION_MAX).is_some(), "at {at}");
        assert_eq!(forged(at, LOG_POSITION_MAX + 1), None, "at {at}");
    }
    let (previous_end, extents, what, unused) = (48, 24, 16, COPY_LEN - 12);
    assert!(forged(previous_end, FILE_LEN_MAX).is_some());
    assert_eq!(forged(previous_end, FILE_LEN_MAX + 1), None);
    assert!(forged(extents, u64::MAX).is_some_and(|header| (header.extents, header.carried_over) == (u32::MAX, u32::MAX)));
    assert_eq!(forged(extents, u64::from(u32::MAX) << 32), None);
    let magic = u64::from(u32::from_le_bytes(MAGIC));
    assert!(forged(what, magic | 1 << 32).is_some());
    for other in [magic ^ 1 | 1 << 32, magic, magic | 4 << 32, magic | 1 << 32 | 4 << 40, magic | 1 << 32 | 1 << 63] {
        assert_eq!(forged(what, other), None, "{other:x}");
    }
    assert_eq!(forged(unused, 1), None);
}

#[test]
fn a_header_reads_back_as_it_was_written_whatever_its_kind_and_flags() {
    for kind in [SegmentKind::Log, SegmentKind::Snapshot, SegmentKind::Events] {
        for (fresh, linked) in [(false, false), (false, true), (true, false), (true, true)] {
            let header = SegmentHeader { kind, fresh, linked, ..header() };
            let bytes = header.encode([1; 16], 16_384);
            assert_eq!(SegmentHeader::decode_both(&bytes, [1; 16], 16_384).header(), Some(header));
        }
    }
}

/// A power cut during the reuse of an extent left one copy of each header, and the older one was believed.
#[test]
fn of_two_copies_that_differ_the_younger_counts() {
    let old = header().encode([1; 16], 16_384);
    let younger = SegmentHeader { number: 18, base: 8 << 20, ..header() };
    let new = younger.encode([1; 16], 16_384);
    for cut in 0..new.len() {
        let mut front = old;
        front[..cut].copy_from_slice(&new[..cut]);
        let mut back = new;
        back[..cut].copy_from_slice(&old[..cut]);
        for mixed in [front, back] {
            let copies = SegmentHeader::decode_both(&mixed, [1; 16], 16_384);
            let either = copies.header();
            assert!(either == Some(header()) || either == Some(younger), "cut at {cut}: {copies:?}");
            if copies.first != copies.second && copies.first.is_some() && copies.second.is_some() {
                assert_eq!(either, Some(younger));
            }
        }
    }
}

mod named {
    use super::*;
    use crate::frame::FrameSpec;
    use crate::storage::MemoryStorage;

    const BASE: u64 = 1 << 20;
    const BEHIND: u64 = BASE + 4096;
    const ONE: Segment = Segment { base: BASE, extent: 2, extents: 1, end: 0, salt: 5, linked: true };

    const fn geometry() -> Geometry {
        Geometry::new(4096, 4096)
    }

    /// A file of six extents, in which the trailer of a segment names what follows it.
    fn naming(next: &Next, segment: &Segment) -> MemoryStorage {
        let storage = MemoryStorage::new();
        storage.set_len(geometry().start(6)).unwrap();
        let (at, value) = (segment.limit(geometry()), next.encode());
        let frame = FrameSpec::control(Kind::Next, &value).header(segment.salt, at);
        storage.write_at(at, &[frame.as_slice(), &value]).unwrap();
        storage
    }

    fn found(storage: &MemoryStorage, segment: &Segment) -> Option<Segment> {
        named_without_header(storage, geometry(), [1; 16], segment).unwrap()
    }

    #[test]
    fn a_segment_without_a_header_is_the_one_that_the_trailer_names() {
        let next = Next { extent: 4, extents: 2, base: BEHIND, salt: 77 };
        let storage = naming(&next, &ONE);
        assert_eq!(read_next(&storage, geometry(), &ONE).unwrap().map(|next| next.encode()), Some(next.encode()));
        let end = geometry().start(4) + SEGMENT_HEADER_LEN as u64;
        let expected = Segment { base: BEHIND, extent: 4, extents: 2, end, salt: 77, linked: false };
        assert_eq!(found(&storage, &ONE), Some(expected));
        assert_eq!(found(&storage, &Segment { salt: 6, ..ONE }), None, "another segment's trailer");
        let start = geometry().start(4);
        storage.write_at(start, &[&header().encode([1; 16], start)]).unwrap();
        assert_eq!(found(&storage, &ONE), None, "it has a header");
    }

    #[test]
    fn what_a_trailer_names_lies_behind_its_segment_in_the_log() {
        let is_found = |base: u64| found(&naming(&Next { extent: 4, extents: 2, base, salt: 77 }, &ONE), &ONE).is_some();
        assert_eq!([0, BEHIND - 1, BEHIND, BEHIND + 1].map(is_found), [false, false, true, true]);
        assert_eq!([LOG_POSITION_MAX, LOG_POSITION_MAX + 1].map(is_found), [true, false]);
    }

    #[test]
    fn what_a_trailer_names_lies_in_the_file_and_beside_its_segment() {
        let place = |extent: u32, extents: u32| Next { extent, extents, base: BEHIND, salt: 77 };
        let is_found = |(extent, extents): (u32, u32)| found(&naming(&place(extent, extents), &ONE), &ONE).is_some();
        assert_eq!([(3, 0), (3, 3), (3, 4), (u32::MAX, 1)].map(is_found), [false, true, false, false]);
        assert_eq!([(0, 2), (0, 3), (1, 1), (1, 2), (2, 1), (3, 1)].map(is_found), [true, false, true, false, false, true]);
        let storage = naming(&place(3, 3), &ONE);
        storage.set_len(geometry().start(6) - 1).unwrap();
        assert_eq!(found(&storage, &ONE), None, "the file was cut");
    }

    #[test]
    fn a_segment_of_no_extents_and_a_file_that_ends_in_front_of_a_trailer_name_nothing() {
        let next = Next { extent: 4, extents: 1, base: BEHIND, salt: 77 };
        let none = Segment { extents: 0, ..ONE };
        assert_eq!(found(&naming(&next, &none), &none), None);
        let last = Segment { extent: 5, ..ONE };
        let storage = naming(&Next { extent: 3, ..next }, &last);
        assert!(found(&storage, &last).is_some(), "its trailer ends the file");
        storage.set_len(geometry().start(6) - 1).unwrap();
        assert_eq!(found(&storage, &last), None);
        assert!(read_next(&storage, geometry(), &last).unwrap().is_none());
    }
}

#[cfg(all(feature = "encrypt", feature = "salvage"))]
mod forged {
    use super::*;
    use crate::seal::{Cipher, PlainSide, Ring, Secret};
    use crate::storage::MemoryStorage;
    use crate::unlock::enabled;
    use alloc::sync::Arc;

    const START: u64 = 16_384;

    fn keys(plain: PlainSide) -> Keys {
        let cipher = Cipher::default();
        let secret = Secret::Key([8; 32].into());
        let (set, page) = enabled(&MemoryStorage::new(), &[1; 16], cipher, &secret).unwrap();
        Keys::new([1; 16], cipher, Ring { current: Arc::new(set), previous: None, border: 0, plain }, page).unwrap()
    }

    fn is_forged(bytes: &[u8], keys: &Keys) -> bool {
        let storage = MemoryStorage::new();
        storage.write_at(START, &[bytes]).unwrap();
        SegmentHeader::is_forged_at(&storage, keys, [1; 16], START).unwrap()
    }

    #[test]
    fn either_copy_of_a_plain_header_in_a_sealed_store_is_forged_if_the_file_has_both() {
        let (keys, good) = (keys(PlainSide::Nowhere), header().encode([1; 16], START));
        assert!(is_forged(&good, &keys), "the file ends with it");
        assert!(!is_forged(&good[..SEGMENT_HEADER_LEN - 1], &keys));
        let damaged = |places: &[usize]| {
            let mut bytes = good;
            places.iter().for_each(|&at| bytes[at] ^= 1);
            is_forged(&bytes, &keys)
        };
        assert_eq!([damaged(&[9]), damaged(&[SECOND_COPY + 9]), damaged(&[9, SECOND_COPY + 9])], [true, true, false]);
        assert!(!is_forged(&[0; SEGMENT_HEADER_LEN], &keys));
    }

    #[test]
    fn where_some_segments_are_plain_no_header_is_forged() {
        let good = header().encode([1; 16], START);
        assert_eq!([PlainSide::Before, PlainSide::Behind].map(|side| is_forged(&good, &keys(side))), [false, false]);
    }
}
