//! Which headers count, and which are parts of values.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::drawn::*;
use crate::log::{Segment, SegmentHeader, SegmentKind, SegmentList};
use crate::recover::headers::{are_apart, drop_inside, drop_within, find_headers, headers_along, is_inside_a_record};
use crate::sorted::Map;
use crate::storage::MemoryStorage;
use alloc::vec;
use alloc::vec::Vec;

fn run(extent: u32, extents: u32) -> Segment {
    Segment { base: BASE, extent, extents, end: 0, salt: 7, linked: false }
}

/// A header at each of these extents.
fn headers(extents: core::ops::Range<u32>) -> Map<u32, SegmentHeader> {
    let mut headers = Map::default();
    extents.for_each(|extent| headers.insert(extent, header(BASE, 1, None)));
    headers
}

fn extents(headers: &Map<u32, SegmentHeader>) -> Vec<u32> {
    headers.iter().map(|(extent, _)| extent).collect()
}

#[test]
fn runs_are_apart_that_have_no_extent_in_common() {
    let cases = [
        ((2, 3), (5, 1), true),
        ((2, 3), (4, 1), false),
        ((2, 3), (3, 1), false),
        ((2, 3), (2, 3), false),
        ((2, 3), (1, 1), true),
        ((2, 3), (1, 2), false),
        ((4, u32::MAX), (1, 3), true),
        ((4, u32::MAX), (9, 1), false),
        ((4, u32::MAX), (9, u32::MAX), false),
    ];
    for (one, other, expected) in cases {
        let (one, other) = (run(one.0, one.1), run(other.0, other.1));
        assert_eq!((are_apart(&one, &other), are_apart(&other, &one)), (expected, expected), "{one:?} {other:?}");
    }
}

#[test]
fn no_header_behind_the_first_one_of_a_run_of_the_tail_counts() {
    let mut all = headers(0..8);
    drop_within(&mut all, &run(2, 3));
    assert_eq!(extents(&all), [0, 1, 2, 5, 6, 7]);
}

/// A run of eight extents from extent 1 on: a record ends where extent 3 begins; and another one, if asked for, in the middle of extent 4.
fn with_records(second: bool) -> (Drawn, Segment) {
    let mut file = Drawn::new(9);
    let mut segment = Segment { end: run(1, 8).first_frame(GEOMETRY), ..run(1, 8) };
    file.cover(&mut segment, GEOMETRY.start(3), false);
    if second {
        file.cover(&mut segment, GEOMETRY.start(4) + 100, false);
    }
    (file, segment)
}

#[test]
fn headers_inside_of_records_are_dropped_and_those_behind_the_last_record_are_not() {
    for (second, left) in [(true, vec![0, 1, 5, 6, 7, 8, 9]), (false, vec![0, 1, 3, 4, 5, 6, 7, 8, 9])] {
        let (file, segment) = with_records(second);
        let mut all = headers(0..10);
        drop_inside(&file.storage(), GEOMETRY, &mut all, &segment).unwrap();
        assert_eq!(extents(&all), left);
        for extent in 1..9 {
            let is_inside = is_inside_a_record(&file.storage(), GEOMETRY, &segment, extent).unwrap();
            assert_eq!(is_inside, extent > 1 && !left.contains(&extent), "extent {extent}");
        }
        assert!(!is_inside_a_record(&file.storage(), GEOMETRY, &segment, 0).unwrap());
    }
}

#[test]
fn a_run_that_a_crash_has_shortened_is_read_up_to_the_end_of_the_file() {
    let (mut file, segment) = with_records(true);
    file.bytes.truncate(GEOMETRY.start(4) as usize + 100);
    let mut all = headers(0..10);
    drop_inside(&file.storage(), GEOMETRY, &mut all, &segment).unwrap();
    assert_eq!(extents(&all), [0, 1, 5, 6, 7, 8, 9]);
    assert!(is_inside_a_record(&file.storage(), GEOMETRY, &segment, 4).unwrap());
    assert!(!is_inside_a_record(&file.storage(), GEOMETRY, &segment, 5).unwrap());
}

/// Extent 1 has, inside of a record of the run at extent 0, the header of another run, one of whose records spans extent 3.
#[test]
fn a_run_inside_of_a_value_drops_nothing() {
    let mut file = Drawn::new(6);
    file.segment(3, header(BASE, 3, None));
    let mut inner = file.segment(1, SegmentHeader { extents: 4, ..header(BASE, 2, None) });
    file.cover(&mut inner, GEOMETRY.start(3) + 800, false);
    let outer = SegmentHeader { extents: 4, ..header(BASE, 1, None) };
    let found = |file: &Drawn, listed: &[Segment]| {
        let listed = SegmentList { segments: listed.to_vec(), ..SegmentList::default() };
        extents(&find_headers(&file.storage(), GEOMETRY, ID, &listed).unwrap())
    };
    assert_eq!(found(&file, &[]), [1]);
    let mut outer = file.segment(0, outer);
    file.cover(&mut outer, GEOMETRY.start(2) + 100, false);
    assert_eq!(found(&file, &[]), [0, 3]);
    // Where the header of the outer one is lost, the list knows it.
    file.put(GEOMETRY.start(0), &[0; 704]);
    assert_eq!(found(&file, &[]), [1]);
    assert_eq!(found(&file, &[outer]), [3]);
}

/// Three segments, each with its trailer; the last one ends with a record.
fn closed() -> (Drawn, [Segment; 3]) {
    let mut file = Drawn::new(4);
    let mut first = file.segment(0, header(BASE, 1, None));
    file.fill(&mut first);
    let mut second = file.segment(2, SegmentHeader { linked: true, ..header(BASE + 4096, 2, Some(&first)) });
    file.fill(&mut second);
    let mut third = file.segment(1, SegmentHeader { linked: true, ..header(BASE + 8192, 3, Some(&second)) });
    file.append(&mut third, &record("k"));
    file.trailer(&first, &second);
    file.trailer(&second, &third);
    file.pair.current.clean_end = Some(third.lsn(GEOMETRY, third.end));
    (file, [first, second, third])
}

fn along(file: &Drawn, listed: &[Segment]) -> Option<Vec<u32>> {
    let listed = SegmentList { segments: listed.to_vec(), ..SegmentList::default() };
    let storage: MemoryStorage = file.storage();
    headers_along(&storage, GEOMETRY, &file.pair, &listed).unwrap().map(|headers| extents(&headers))
}

#[test]
fn the_headers_of_a_closed_log_are_found_along_its_trailers() {
    let (file, [first, second, third]) = closed();
    assert_eq!(along(&file, &[first]), Some(vec![0, 1, 2]));
    assert_eq!(along(&file, &[first, second]), Some(vec![1, 2]));
    assert_eq!(along(&file, &[first, second, third]), Some(vec![1]));
    assert_eq!(along(&file, &[]), None);
    let changed = |change: &dyn Fn(&mut Drawn)| {
        let (mut file, segments) = closed();
        change(&mut file);
        along(&file, &segments[..1])
    };
    assert_eq!(changed(&|file| file.pair.current.clean_end = None), None);
    assert_eq!(changed(&|file| file.pair.other_damaged = true), None);
    assert_eq!(changed(&|file| file.pair.current.torn_end = true), None);
    for (extent, what) in [(0, "the first header"), (1, "the last header"), (2, "a header in the middle")] {
        assert_eq!(changed(&|file| file.put(GEOMETRY.start(extent), &[0; 704])), None, "{what}");
    }
    assert_eq!(changed(&|file| file.put(second.limit(GEOMETRY), &[0; 31])), None, "a trailer");
}

#[test]
fn trailers_lead_only_to_the_segments_that_they_name() {
    let (_, [_, second, third]) = closed();
    let right = SegmentHeader { linked: true, ..header(third.base, third.salt, Some(&second)) };
    let wrong = [
        SegmentHeader { kind: SegmentKind::Events, ..right },
        SegmentHeader { base: right.base + 4096, ..right },
        SegmentHeader { salt: 9, ..right },
        SegmentHeader { extents: 2, ..right },
    ];
    for (header, found) in wrong.into_iter().map(|header| (header, None)).chain([(right, Some(vec![0, 1, 2]))]) {
        let (mut file, [first, ..]) = closed();
        file.segment(1, header);
        assert_eq!(along(&file, &[first]), found, "{header:?}");
    }
    // In a circle.
    let (mut file, [first, second, _]) = closed();
    file.trailer(&second, &first);
    assert_eq!(along(&file, &[first]), None);
}

#[test]
fn the_end_of_a_closed_log_lies_in_the_last_of_its_segments() {
    let (mut file, [first, second, third]) = closed();
    let limit = third.lsn(GEOMETRY, third.limit(GEOMETRY));
    // The last one has no trailer, so nothing can be behind it.
    for (end, found) in [
        (third.base - 1, None),
        (third.base, Some(vec![0, 1, 2])),
        (limit - 1, Some(vec![0, 1, 2])),
        (limit, Some(vec![0, 1, 2])),
        (limit + 1, None),
    ] {
        file.pair.current.clean_end = Some(end);
        assert_eq!(along(&file, &[first]), found, "{end}");
    }
    // One that ends with its last frame, although a trailer follows, goes on behind that.
    file.pair.current.clean_end = Some(second.lsn(GEOMETRY, second.limit(GEOMETRY)));
    assert_eq!(along(&file, &[second]), None);
    file.pair.current.clean_end = Some(second.lsn(GEOMETRY, second.limit(GEOMETRY)) - 1);
    assert_eq!(along(&file, &[second]), Some(vec![2]));
}
