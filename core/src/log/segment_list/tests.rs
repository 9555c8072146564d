#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;

fn segment(base: u64, extent: u32, extents: u32) -> Segment {
    Segment { base, extent, extents, end: 16_384 + u64::from(extent) * 4096 + 800, salt: base * 3, linked: extent == 0 }
}

#[test]
fn a_segment_list_reads_back_and_a_nonsensical_one_is_refused() {
    [false, true].into_iter().for_each(read_back);
}

fn read_back(sealed: bool) {
    let geometry = Geometry::new(4096, 4096);
    let decode = |segments: &[Segment]| {
        let figures = Figures { history: false, live: 90, tombstones: 7, records: 3, expiries: (5, 9) };
        let figures = alloc::vec![figures; segments.len()];
        let list = SegmentList {
            segments: segments.to_vec(),
            figures,
            next_namespace: 9,
            floor: 77,
            next_event: 5,
            #[cfg(feature = "encrypt")]
            seals: segments.iter().filter(|_| sealed).map(|segment| [segment.extent as u8 + 1; LISTED_LEN]).collect(),
        };
        let bytes = list.encode(geometry);
        assert!(bytes.len() as u64 <= 64 + segments.len() as u64 * (LIST_ENTRY_LEN_MAX + LIST_SEAL_LEN));
        assert_eq!(bytes[0], if cfg!(feature = "encrypt") && sealed { 2 } else { 1 });
        for cut in 0..bytes.len() {
            assert_eq!(SegmentList::decode(&bytes[..cut], geometry, 8), None, "cut at {cut}");
        }
        let back = SegmentList::decode(&bytes, geometry, 8);
        assert!(back.is_none() || back.as_ref() == Some(&list));
        back
    };
    let good = [segment(16_384, 3, 1), segment(20_480, 0, 2), segment(40_960, 7, 1)];
    assert_eq!(decode(&good).unwrap().segments, good);
    assert_eq!(decode(&[segment(20_480, 3, 1), segment(16_384, 4, 1)]), None, "positions fall");
    assert_eq!(decode(&[segment(16_384, 0, 2), segment(20_480, 4, 1)]), None, "positions overlap");
    assert_eq!(decode(&[segment(16_384, 3, 2), segment(40_960, 4, 1)]), None, "two at one place");
    assert_eq!(decode(&[segment(16_384, 8, 1)]), None, "outside of the file");
}

const GEOMETRY: fn() -> Geometry = || Geometry::new(4096, 4096);

fn list(segments: &[(Segment, Figures)]) -> SegmentList {
    SegmentList {
        segments: segments.iter().map(|(segment, _)| *segment).collect(),
        figures: segments.iter().map(|(_, figures)| *figures).collect(),
        next_namespace: 9,
        floor: 77,
        next_event: 5,
        #[cfg(feature = "encrypt")]
        seals: Vec::new(),
    }
}

/// Whether a list reads back, in a file of eight extents.
fn reads_back(segments: &[(Segment, Figures)]) -> bool {
    let list = list(segments);
    let back = SegmentList::decode(&list.encode(GEOMETRY()), GEOMETRY(), 8);
    assert!(back.is_none() || back.as_ref() == Some(&list));
    back.is_some()
}

#[test]
fn the_records_of_a_listed_segment_are_known_by_its_salt_if_they_were_counted() {
    let counted = |records: u64| Figures { records, ..Figures::default() };
    let (one, two, three) = (segment(16_384, 0, 1), segment(20_480, 1, 1), segment(24_576, 2, 1));
    let list = list(&[(one, counted(1)), (two, counted(0)), (three, counted(7))]);
    assert_eq!([one, two, three].map(|one| list.records_of(one.salt)), [Some(1), None, Some(7)]);
    assert_eq!(list.records_of(one.salt + 1), None);
}

#[test]
fn each_figure_of_a_segment_has_a_place_of_its_own() {
    let all = Figures { history: true, live: 900, tombstones: 71, records: 30, expiries: (5, 9) };
    for figures in [all, Figures { history: false, ..all }, Figures { expiries: (5, 5), ..all }, Figures::default()] {
        for linked in [false, true] {
            assert!(reads_back(&[(Segment { linked, ..segment(16_384, 2, 1) }, figures)]));
        }
    }
    // A list without figures has none for each of its segments.
    let bare = SegmentList { figures: Vec::new(), ..list(&[(segment(16_384, 0, 1), all), (segment(20_480, 1, 1), all)]) };
    let back = SegmentList::decode(&bare.encode(GEOMETRY()), GEOMETRY(), 8).unwrap();
    assert_eq!((back.segments, back.figures), (bare.segments, alloc::vec![Figures::default(); 2]));
}

#[test]
fn no_more_bytes_count_than_a_segment_has() {
    let reads = |live: u64, tombstones: u64, extents: u32| {
        reads_back(&[(segment(16_384, 1, extents), Figures { live, tombstones, ..Figures::default() })])
    };
    assert!(reads(4096, 0, 1) && reads(0, 4096, 1) && reads(4000, 96, 1) && reads(8192, 0, 2));
    assert!(!reads(4097, 0, 1) && !reads(0, 4097, 1) && !reads(4000, 97, 1) && !reads(8192, 1, 2));
    assert!(!reads(u64::MAX, 1, 1), "a sum that overflows");
}

#[test]
fn a_segment_ends_between_its_first_frame_and_its_trailer_and_lies_in_the_file() {
    let reads = |segment: Segment| reads_back(&[(segment, Figures::default())]);
    let one = segment(16_384, 2, 1);
    let (first, limit) = (one.first_frame(GEOMETRY()), one.limit(GEOMETRY()));
    assert!([first, first + 1, limit - 1, limit].into_iter().all(|end| reads(Segment { end, ..one })));
    assert!(!reads(Segment { end: first - 1, ..one }));
    assert!(reads(segment(16_384, 7, 1)) && reads(segment(16_384, 6, 2)));
    assert!(!reads(segment(16_384, 7, 2)) && !reads(segment(16_384, 8, 1)) && !reads(segment(16_384, u32::MAX, 1)));
    assert!(!reads(Segment { extents: 0, ..one }));
}

#[test]
fn log_positions_begin_above_zero_end_at_the_highest_and_leave_room_for_each_segment() {
    let reads = |segments: &[Segment]| {
        let segments: Vec<_> = segments.iter().map(|&segment| (segment, Figures::default())).collect();
        reads_back(&segments)
    };
    let at = |base: u64, extent: u32| Segment { base, salt: 5, ..segment(1, extent, 1) };
    assert!(reads(&[]) && reads(&[at(1, 0)]) && !reads(&[at(0, 0)]));
    assert!(reads(&[at(LOG_POSITION_MAX, 0)]) && !reads(&[at(LOG_POSITION_MAX + 1, 0)]));
    assert!(reads(&[at(1, 3), at(4097, 1)]) && reads(&[at(1, 3), at(4098, 4)]) && !reads(&[at(1, 3), at(4096, 1)]));
}

#[test]
fn a_list_has_a_known_version_known_flags_and_nothing_behind_its_last_entry() {
    let bytes = list(&[(segment(16_384, 0, 1), Figures::default())]).encode(GEOMETRY());
    let decode = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        SegmentList::decode(&bytes, GEOMETRY(), 8)
    };
    assert!(decode(0, 1).is_some() && decode(0, 0).is_none() && decode(0, 3).is_none());
    assert!(decode(1, 1).is_some() && decode(1, 0).is_none() && decode(1, 2).is_none(), "another number of entries");
    let more = [bytes.as_slice(), &[0]].concat();
    assert_eq!(SegmentList::decode(&more, GEOMETRY(), 8), None);
    // The flags stand in front of the five figures, each of a byte.
    let flags = bytes.len() - 6;
    let linked = |byte: u8| decode(flags, byte).map(|list| (list.segments[0].linked, list.figures[0].history));
    assert_eq!(
        [0, 1, 2, 3, 4, 7].map(linked),
        [Some((false, false)), Some((false, true)), Some((true, false)), Some((true, true)), None, None]
    );
}
