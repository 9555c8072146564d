//! Where the log ends, what proves that it went on, and what is left behind the end.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::drawn::*;
use crate::log::{Segment, SegmentHeader, SegmentKind};
use crate::recover::Chain;
use alloc::vec;
use alloc::vec::Vec;

fn bases(segments: &[Segment]) -> Vec<u64> {
    segments.iter().map(|segment| segment.base).collect()
}

/// The offset of a record that is not valid, behind one that is.
fn with_torn_record() -> (Drawn, Segment, u64) {
    let mut file = Drawn::new(8);
    let mut first = file.segment(0, header(BASE, 1, None));
    file.append(&mut first, &record("a"));
    let torn = file.append(&mut first, &record("b"));
    file.bytes[torn as usize + 7] ^= 1;
    (file, first, torn)
}

#[test]
fn a_torn_record_is_damage_where_anything_says_that_more_than_it_was_synced() {
    let (_, first, torn) = with_torn_record();
    let lsn = first.lsn(GEOMETRY, torn);
    let opened = |change: &dyn Fn(&mut Drawn, &mut Segment)| {
        let (mut file, mut first, _) = with_torn_record();
        change(&mut file, &mut first);
        match file.chain() {
            Ok(chain) => Ok((chain.end, chain.ops.len(), chain.tail[0].end)),
            Err(_) => Err(file.corrupt_at()),
        }
    };
    let (good, bad) = (Ok((lsn, 1, torn)), Err(Some(torn)));
    for (more, expected) in [(0, good), (1, bad)] {
        assert_eq!(opened(&|file, _| file.pair.current.synced = lsn + more), expected, "the superblock");
        assert_eq!(opened(&|file, first| file.mark(first, lsn + more)), expected, "a mark");
        assert_eq!(
            opened(&|file, first| {
                let second = header(first.base + 4096, 2, None);
                file.segment(1, SegmentHeader { previous_base: 7, synced: lsn + more, ..second });
            }),
            expected,
            "a header"
        );
    }
    assert_eq!(opened(&|file, _| file.pair.current.clean_end = Some(lsn + 1)), bad);
}

#[test]
fn what_is_behind_a_torn_record_is_counted() {
    let (mut file, mut first, torn) = with_torn_record();
    let behind = file.append(&mut first, &record("c"));
    file.append(&mut first, &open("d"));
    let chain = file.chain().unwrap();
    assert_eq!(chain.torn, Some((torn, 3 * RECORD)));
    assert_eq!((chain.stranded.records, chain.stranded.bytes, chain.stranded.at), (1, RECORD, Some(behind)));
    assert_eq!((chain.clean, bases(&chain.kept), chain.given_up), (false, vec![], vec![]));
}

#[test]
fn a_full_last_segment_is_the_end_unless_more_was_synced() {
    let mut file = Drawn::new(8);
    let mut first = file.segment(0, header(BASE, 1, None));
    file.fill(&mut first);
    file.pair.current.synced = first.lsn(GEOMETRY, first.end);
    let chain = file.chain().unwrap();
    assert_eq!((chain.end, chain.proven, chain.torn), (first.lsn(GEOMETRY, first.end), chain.end, None));
    file.pair.current.synced += 1;
    assert_eq!(file.corrupt_at(), Some(first.end));
}

/// A commit begins behind a whole one, at the end of the first segment, and `ends` in the second one, or does not.
fn across(ends: bool) -> (Drawn, Segment, Segment, u64) {
    let mut file = Drawn::new(8);
    let mut first = file.segment(0, header(BASE, 1, None));
    file.append(&mut first, &record("a"));
    let begun = first.end;
    let limit = first.limit(GEOMETRY);
    file.cover(&mut first, limit, true);
    let mut second = file.segment(1, SegmentHeader { linked: true, ..header(BASE + 4096, 2, Some(&first)) });
    file.append(&mut second, &if ends { record("b") } else { open("b") });
    (file, first, second, begun)
}

#[test]
fn segments_behind_the_last_whole_commit_are_given_up() {
    let (file, ..) = across(true);
    let chain = file.chain().unwrap();
    assert_eq!((chain.tail.len(), chain.ops.len(), chain.torn, chain.given_up), (2, 3, None, vec![]));
    let (mut file, first, _, begun) = across(false);
    // Nothing names it, and it names the first one.
    file.segment(5, header(BASE + 8192, 5, Some(&first)));
    file.segment(6, SegmentHeader { previous_salt: 9, ..header(BASE + 8192, 6, Some(&first)) });
    file.segment(7, SegmentHeader { previous_base: 9, ..header(BASE + 8192, 7, Some(&first)) });
    let given_up = vec![1, 5];
    // The youngest with that predecessor would be the next one.
    file.segment(1, SegmentHeader { linked: true, ..header(BASE + 12_288, 2, Some(&first)) });
    let chain = file.chain().unwrap();
    assert_eq!((bases(&chain.tail), chain.ops.len(), chain.given_up), (vec![BASE], 1, given_up));
    assert_eq!((chain.end, chain.tail[0].end, chain.tail[0].linked), (first.lsn(GEOMETRY, begun), begun, false));
    // Eight bytes of a record whose value is zeros, and a header with a record.
    assert_eq!(chain.torn, Some((begun, 8 + 704 + RECORD)));
    assert_eq!((bases(&chain.kept), chain.stranded.records), (vec![], 0));
}

#[test]
fn segments_that_are_not_proven_to_be_synced_are_named() {
    let (mut file, first, second, _) = across(true);
    for (synced, unproven) in [
        (first.base, vec![first.base, second.base]),
        (second.base - 1, vec![first.base, second.base]),
        (second.base, vec![second.base]),
        (second.lsn(GEOMETRY, second.end), vec![second.base]),
    ] {
        file.pair.current.synced = synced;
        assert_eq!(bases(&file.chain().unwrap().unproven), unproven, "{synced}");
    }
}

#[test]
fn a_trailer_is_lost_unless_it_was_synced() {
    let lost = |file: &Drawn| {
        let chain = file.chain().unwrap();
        let lost: Vec<_> = chain.lost_trailers.iter().map(|(segment, next)| (segment.base, next.base)).collect();
        (lost, chain.tail[0].linked, chain.tail.len())
    };
    let (mut file, first, second, _) = across(true);
    let trailer = first.lsn(GEOMETRY, first.limit(GEOMETRY));
    file.pair.current.synced = trailer;
    assert_eq!(lost(&file), (vec![(first.base, second.base)], false, 2));
    file.pair.current.synced = trailer + 1;
    assert_eq!(lost(&file), (vec![], true, 2), "it is damaged");
    file.trailer(&first, &second);
    file.pair.current.synced = 0;
    assert_eq!(lost(&file), (vec![], true, 2), "it is there");
    // Of a segment that is given up.
    let (file, ..) = across(false);
    assert_eq!(lost(&file), (vec![], false, 1));
    // No trailer ever named the next segment.
    let (mut file, first, second, _) = across(true);
    file.segment(1, header(second.base, second.salt, Some(&first)));
    assert_eq!(lost(&file), (vec![], false, 2));
    // Behind a close nothing is lost.
    let (mut file, _, second, _) = across(true);
    file.pair.current.clean_end = Some(second.lsn(GEOMETRY, second.end));
    assert_eq!(lost(&file), (vec![], true, 2));
}

#[test]
fn a_header_is_torn_unless_it_was_synced() {
    let (mut file, first, second, _) = across(true);
    let torn = |file: &Drawn| file.chain().unwrap().torn_headers.iter().map(|(offset, _)| *offset).collect::<Vec<_>>();
    assert_eq!(torn(&file), [0_u64; 0]);
    file.tear_header(&first);
    file.tear_header(&second);
    for (synced, expected) in [
        (first.base, vec![GEOMETRY.start(0), GEOMETRY.start(1)]),
        (first.base + 1, vec![GEOMETRY.start(1)]),
        (second.base, vec![GEOMETRY.start(1)]),
        (second.base + 1, vec![]),
    ] {
        file.pair.current.synced = synced;
        assert_eq!(torn(&file), expected, "{synced}");
    }
}

/// A header that nothing names, and that names nothing, with a record.
fn stray(file: &mut Drawn, extent: u32, header: SegmentHeader) -> Segment {
    let mut segment = file.segment(extent, SegmentHeader { previous_base: 7, previous_salt: 7, ..header });
    file.append(&mut segment, &record("s"));
    segment
}

/// Where the bytes in use end, behind the start of the extent.
fn used(segment: &Segment) -> u64 {
    segment.end - GEOMETRY.start(segment.extent)
}

/// One segment with one record, in extent 0 of ten.
fn with_one_record() -> (Drawn, Segment) {
    let mut file = Drawn::new(10);
    let mut first = file.segment(0, header(BASE, 1, None));
    file.append(&mut first, &record("a"));
    (file, first)
}

#[test]
fn segments_behind_the_end_are_kept_and_counted() {
    let (mut file, first) = with_one_record();
    // The second one lies across the first, but not inside of a record.
    let run = stray(&mut file, 2, SegmentHeader { extents: 3, ..header(BASE + 4096, 2, None) });
    let inner = stray(&mut file, 3, header(BASE + 4 * 4096, 3, None));
    // Its position is that of the last segment; the others' begin where the one before ends, or too early.
    let beside = stray(&mut file, 6, header(BASE, 4, None));
    stray(&mut file, 7, header(BASE + 5 * 4096 - 1, 5, None));
    stray(&mut file, 8, SegmentHeader { kind: SegmentKind::Events, ..header(BASE + 6 * 4096, 6, None) });
    // Without a record.
    let empty = file.segment(9, SegmentHeader { previous_base: 7, ..header(BASE + 7 * 4096, 7, None) });
    file.tear_header(&inner);
    let chain = file.chain().unwrap();
    assert_eq!((bases(&chain.tail), chain.ops.len()), (vec![BASE], 1));
    let kept: Vec<_> = chain.kept.iter().map(|kept| (kept.base, kept.extent, kept.extents, kept.end)).collect();
    let at = |segment: &Segment| (segment.base, segment.extent, segment.extents, segment.first_frame(GEOMETRY));
    assert_eq!(kept, [at(&beside), at(&run), at(&inner)]);
    let stranded = chain.stranded;
    assert_eq!((stranded.records, stranded.bytes, stranded.at), (3, 3 * RECORD, Some(beside.first_frame(GEOMETRY))));
    // In the run there are the bytes of the other one, too; of the empty one there are both copies of its header.
    let copies = file.bytes[GEOMETRY.start(9) as usize..].iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1;
    assert_eq!((copies, empty.end), (704, empty.first_frame(GEOMETRY)));
    assert_eq!(chain.torn, Some((first.end, 4096 + 2 * used(&inner) + copies)));
    assert_eq!(chain.torn_headers.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [GEOMETRY.start(3)]);
}

#[test]
fn a_segment_behind_the_end_reaches_no_farther_than_the_file() {
    for (extents, kept) in [(4, 4), (5, 5), (6, 5), (1 << 20, 5), (u32::MAX, 5)] {
        let (mut file, first) = with_one_record();
        let run = stray(&mut file, 5, SegmentHeader { extents, ..header(BASE + 4096, 2, None) });
        let chain = file.chain().unwrap();
        assert_eq!(chain.kept.iter().map(|kept| kept.extents).collect::<Vec<_>>(), [kept], "{extents}");
        assert_eq!(chain.torn, Some((first.end, used(&run))), "{extents}");
    }
}

#[test]
fn segments_across_the_log_or_in_front_of_its_checkpoint_are_not_kept() {
    let at = |extent: u32, base: u64, extents: u32| {
        let mut file = Drawn::new(8);
        let mut first = file.segment(1, header(BASE, 1, None));
        file.append(&mut first, &record("a"));
        let second = file.segment(2, header(BASE + 4096, 2, Some(&first)));
        file.checkpoint(&mut [first, second], |_| ());
        stray(&mut file, extent, SegmentHeader { extents, ..header(base, 3, None) });
        bases(&file.chain().unwrap().kept)
    };
    let behind = BASE + 8192;
    assert_eq!(at(5, behind, 1), [behind]);
    assert_eq!(at(5, BASE + 4097, 1), [BASE + 4097]);
    assert_eq!(at(5, BASE + 4096, 1), [0_u64; 0], "at the same position as the last segment");
    assert_eq!(at(5, BASE, 1), [0_u64; 0], "in front of the checkpoint");
    assert_eq!(at(0, behind, 2), [behind], "across a segment that is not read");
    assert_eq!(at(0, behind, 3), [0_u64; 0], "across the last segment");
}

#[test]
fn a_file_without_its_first_segment_is_empty_unless_anything_was_synced() {
    let opened = |synced: u64| {
        let mut file = Drawn::new(8);
        let segment = stray(&mut file, 2, SegmentHeader { synced, ..header(BASE + 4096, 2, None) });
        (file, segment)
    };
    let (file, segment) = opened(0);
    let chain: Chain = file.chain().unwrap();
    assert_eq!((chain.tail.len(), bases(&chain.kept), chain.end), (0, vec![segment.base], 0));
    assert_eq!(chain.torn, Some((BASE, segment.end - GEOMETRY.start(0))));
    assert_eq!(opened(1).0.corrupt_at(), Some(BASE));
    let mut blank = Drawn::new(8);
    assert_eq!(blank.chain().unwrap().torn, None);
    blank.pair.current.synced = 1;
    assert_eq!(blank.corrupt_at(), Some(BASE));
}
