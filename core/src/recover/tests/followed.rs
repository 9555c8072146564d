//! Following the log from segment to segment, and what its frames say.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::drawn::*;
use crate::frame::{FrameSpec, Kind, Mark, Meta, Next};
use crate::limits::{AHEAD_MAX, LOG_POSITION_MAX};
use crate::log::{ActivePlace, Segment, SegmentHeader, SegmentKind, SegmentList};
use crate::recover::Chain;
use alloc::vec;
use alloc::vec::Vec;

/// A segment with one record in extent 0 of eight.
fn with_one_record() -> (Drawn, Segment) {
    let mut file = Drawn::new(8);
    let mut first = file.segment(0, header(BASE, 1, None));
    file.append(&mut first, &record("a"));
    (file, first)
}

fn tail(file: &Drawn) -> Vec<u64> {
    file.chain().unwrap().tail.iter().map(|segment| segment.base).collect()
}

#[test]
fn a_session_has_gone_on_where_no_trailer_names_the_next_segment() {
    let (mut file, mut first) = with_one_record();
    let claim = |extent: u32| Next { extent, extents: 1, base: 2, salt: 3 };
    file.append(&mut first, &FrameSpec::control(Kind::Next, &claim(5).encode()));
    file.fill(&mut first);
    let mut second = file.segment(1, SegmentHeader { linked: true, ..header(BASE + 4096, 2, Some(&first)) });
    file.trailer(&first, &second);
    file.append(&mut second, &FrameSpec::control(Kind::Next, &claim(6).encode()));
    assert_eq!(file.chain().unwrap().successions, 1);
    let mut third = file.segment(2, header(BASE + 8192, 3, Some(&second)));
    file.append(&mut third, &FrameSpec::control(Kind::Next, &claim(7).encode()));
    let chain = file.chain().unwrap();
    assert_eq!(chain.successions, 2);
    assert_eq!(chain.claims, [(claim(5), 1), (claim(6), 1), (claim(7), 2)]);
}

#[test]
fn the_next_segment_names_the_last_one_and_lies_behind_it() {
    let next = |change: &dyn Fn(&mut SegmentHeader)| {
        let (mut file, first) = with_one_record();
        let mut header = header(BASE + 4096, 2, Some(&first));
        change(&mut header);
        let mut second = file.segment(1, header);
        file.append(&mut second, &record("b"));
        tail(&file).len()
    };
    assert_eq!(next(&|_| ()), 2);
    assert_eq!(next(&|header| header.base += 1), 2);
    assert_eq!(next(&|header| header.base -= 1), 1);
    assert_eq!(next(&|header| header.kind = SegmentKind::Events), 1);
    assert_eq!(next(&|header| header.previous_base -= 1), 1);
    assert_eq!(next(&|header| header.previous_salt = 9), 1);
    assert_eq!(next(&|header| header.extents = 7), 2);
    assert_eq!(next(&|header| header.extents = 8), 1);
    assert_eq!(next(&|header| header.extents = u32::MAX), 1);
}

#[test]
fn of_several_next_segments_the_youngest_counts_that_lies_apart() {
    let mut file = Drawn::new(8);
    let mut first = file.segment(1, header(BASE, 1, None));
    file.append(&mut first, &record("a"));
    file.segment(2, header(BASE + 4096, 2, Some(&first)));
    assert_eq!(tail(&file), [BASE, BASE + 4096]);
    file.segment(3, header(BASE + 8192, 3, Some(&first)));
    assert_eq!(tail(&file), [BASE, BASE + 8192]);
    file.segment(0, SegmentHeader { extents: 2, ..header(BASE + 12_288, 4, Some(&first)) });
    assert_eq!(tail(&file), [BASE, BASE + 8192]);
    file.segment(0, header(BASE + 12_288, 4, Some(&first)));
    assert_eq!(tail(&file), [BASE, BASE + 12_288]);
}

#[test]
fn a_header_inside_of_a_run_with_the_same_predecessor_is_of_a_later_session_or_part_of_a_value() {
    let (run, inner) = (BASE + 4096, BASE + 4 * 4096);
    let next = |extent: u32, sessions: (u64, u64), newest: u64, other_damaged: bool| {
        let (mut file, first) = with_one_record();
        (file.pair.current.session, file.pair.other_damaged) = (newest, other_damaged);
        file.segment(2, SegmentHeader { extents: 3, session: sessions.0, ..header(run, 2, Some(&first)) });
        file.segment(extent, SegmentHeader { session: sessions.1, ..header(inner, 3, Some(&first)) });
        tail(&file)[1]
    };
    assert_eq!(next(3, (1, 2), 2, false), inner);
    assert_eq!(next(3, (2, 2), 2, false), run, "the same session");
    assert_eq!(next(3, (2, 1), 2, false), run, "an earlier one");
    assert_eq!(next(3, (1, 3), 2, false), run, "one that was not announced");
    assert_eq!(next(3, (1, 3), 2, true), inner, "nobody knows whether it was announced");
    assert_eq!(next(4, (2, 2), 2, false), run, "in the last extent of the run");
    assert_eq!(next(5, (2, 2), 2, false), inner, "behind the run");
    assert_eq!(next(1, (2, 2), 2, false), inner, "in front of the run");
}

#[test]
fn a_segment_ends_where_the_next_one_says() {
    let (mut file, mut first) = with_one_record();
    let (begin, behind) = (first.first_frame(GEOMETRY), first.end);
    file.append(&mut first, &record("b"));
    let mut ends = |previous_end: u64| {
        file.segment(1, SegmentHeader { previous_end, ..header(BASE + 4096, 2, Some(&first)) });
        let chain = file.chain();
        chain.map(|chain| (chain.tail[0].end, chain.ops.len())).map_err(|_| file.corrupt_at().unwrap())
    };
    assert_eq!(ends(begin), Ok((begin, 0)));
    assert_eq!(ends(begin - 1), Err(begin));
    assert_eq!(ends(behind), Ok((behind, 1)));
    assert_eq!(ends(behind + RECORD), Ok((behind + RECORD, 2)));
}

#[test]
fn a_closed_log_ends_where_the_superblock_says() {
    let (mut file, mut first) = with_one_record();
    let begin = first.first_frame(GEOMETRY);
    file.append(&mut first, &record("b"));
    let mut opened = |end: u64| {
        file.pair.current.clean_end = Some(first.lsn(GEOMETRY, end));
        let chain = file.chain();
        chain.map(|chain| (chain.tail[0].end, chain.ops.len(), chain.clean)).map_err(|_| file.corrupt_at().unwrap())
    };
    assert_eq!(opened(begin), Ok((begin, 0, true)));
    assert_eq!(opened(begin - 1), Err(begin));
    assert_eq!(opened(begin + RECORD), Ok((begin + RECORD, 1, true)));
    assert_eq!(opened(begin + 2 * RECORD), Ok((begin + 2 * RECORD, 2, true)));
    assert_eq!(opened(begin + 2 * RECORD + 1), Err(begin + 2 * RECORD));
    assert_eq!(opened(begin + RECORD + 1), Err(begin + RECORD));
    // It is not known to be closed if the other superblock may be newer.
    file.pair.current.clean_end = Some(first.lsn(GEOMETRY, begin + RECORD));
    file.pair.other_damaged = true;
    let chain = file.chain().unwrap();
    assert_eq!((chain.ops.len(), chain.clean), (2, false));
}

/// What a late session has begun does not count, but no position or number of it is used again.
#[test]
fn a_header_that_an_earlier_session_has_written_late_is_no_part_of_the_log() {
    let opened = |extents: u32, extent: u32, number: u64, session: u64| {
        let mut file = Drawn::new(8);
        let mut first = file.segment(0, SegmentHeader { extents, ..header(BASE, 1, None) });
        file.append(&mut first, &record("a"));
        (file.pair.current.session, file.pair.current.headers) = (2, 5);
        let late = SegmentHeader { number, session, ..header(BASE + 12_288, 2, Some(&first)) };
        file.segment(extent, late);
        let chain = file.chain().unwrap();
        (chain.tail.len(), chain.headers, chain.next_header, chain.next_base)
    };
    let behind = BASE + 16_384;
    assert_eq!(opened(1, 3, 7, 1), (1, 5, 8, behind), "late");
    assert_eq!(opened(1, 3, 6, 1), (1, 5, 7, behind), "late");
    assert_eq!(opened(1, 3, 5, 1), (2, 5, 6, behind), "its number was counted");
    assert_eq!(opened(1, 3, 7, 2), (2, 7, 8, behind), "of the newest session");
    assert_eq!(opened(3, 3, 7, 1), (1, 5, 8, behind), "late, behind a run");
    assert_eq!(opened(3, 2, 7, 1), (1, 5, 6, BASE + 12_288), "inside of a run of the log");
}

#[test]
fn headers_too_far_ahead_are_dropped() {
    let opened = |base: u64, number: u64, change: &dyn Fn(&mut Drawn)| {
        let (mut file, _) = with_one_record();
        file.segment(5, SegmentHeader { number, previous_base: 7, ..header(base, 2, None) });
        change(&mut file);
        let chain = file.chain().unwrap();
        (chain.next_base, chain.next_header)
    };
    let (near, far) = (AHEAD_MAX - 4097, AHEAD_MAX - 4096);
    let dropped = (BASE + 4096, 2);
    assert_eq!(opened(near, 1, &|_| ()), (AHEAD_MAX - 1, 2));
    assert_eq!(opened(far, 1, &|_| ()), dropped);
    assert_eq!(opened(BASE + 4096, AHEAD_MAX, &|_| ()), (BASE + 8192, AHEAD_MAX + 1));
    assert_eq!(opened(BASE + 4096, AHEAD_MAX + 1, &|_| ()), dropped);
    // Ahead of what any field of the superblock knows.
    let active = ActivePlace { base: 1, ..ActivePlace::default() };
    assert_eq!(opened(far, 1, &|file| file.pair.current.active = active), (AHEAD_MAX, 2));
    assert_eq!(opened(far, 1, &|file| file.pair.current.synced = 1), (AHEAD_MAX, 2));
    assert_eq!(opened(far + 1, 1, &|file| file.pair.current.synced = 1), dropped);
    assert_eq!(opened(BASE + 4096, AHEAD_MAX + 1, &|file| file.pair.current.headers = 2), (BASE + 8192, AHEAD_MAX + 2));
}

#[test]
fn a_listed_header_counts_however_far_ahead_it_is() {
    for salt in [1, 9] {
        let mut file = Drawn::new(8);
        let header = SegmentHeader { number: 2 * AHEAD_MAX, ..header(BASE, 1, None) };
        let first = file.segment(0, header);
        file.segment(5, SegmentHeader { salt, previous_base: 7, ..header });
        file.checkpoint(&mut [first], |_| ());
        assert_eq!(file.chain().unwrap().headers, 2 * AHEAD_MAX);
        file.put(GEOMETRY.start(0), &[0; 704]);
        assert_eq!(file.chain().unwrap().headers, if salt == 1 { 2 * AHEAD_MAX } else { 1 }, "salt {salt}");
    }
}

/// Three listed segments; frames follow the list, which `change` may change.
fn listed(change: impl Fn(&mut SegmentList), frames: &[(Kind, u64)]) -> Chain {
    let mut file = Drawn::new(8);
    let first = file.segment(0, header(BASE, 1, None));
    let second = file.segment(1, header(BASE + 4096, 2, Some(&first)));
    let third = file.segment(2, header(BASE + 8192, 3, Some(&second)));
    let mut segments = [first, second, third];
    file.checkpoint(&mut segments, change);
    for &(kind, word) in frames {
        file.append(&mut segments[2], &FrameSpec::control(kind, &word.to_le_bytes()));
    }
    file.chain().unwrap()
}

fn bases(segments: &[Segment]) -> Vec<u64> {
    segments.iter().map(|segment| segment.base).collect()
}

#[test]
fn a_retired_segment_is_history_where_the_floor_holds_it() {
    let second = BASE + 4096;
    for (floor, history) in [(0, vec![]), (BASE, vec![BASE]), (second - 1, vec![BASE]), (second, vec![])] {
        let chain = listed(|list| list.floor = floor, &[(Kind::Retire, BASE), (Kind::Retire, BASE)]);
        assert_eq!((bases(&chain.history()), chain.floor), (history.clone(), floor));
        assert_eq!(bases(&chain.gone()), if history.is_empty() { vec![BASE] } else { vec![] });
        assert_eq!(bases(&chain.counting_segments()), [second, BASE + 8192]);
        assert_eq!(bases(&chain.live_segments()), [second, BASE + 8192]);
        assert_eq!(chain.retired.iter().collect::<Vec<_>>(), [BASE]);
    }
    // A base that no listed segment has.
    let chain = listed(|list| list.floor = 1, &[(Kind::Retire, BASE + 1)]);
    assert_eq!((chain.history(), chain.gone(), chain.counting_segments().len()), (vec![], vec![], 3));
}

#[test]
fn a_floor_frees_what_ends_in_front_of_it() {
    let second = BASE + 4096;
    let history = |frames: &[u64]| {
        let frames: Vec<_> = frames.iter().map(|&floor| (Kind::Floor, floor)).collect();
        let chain = listed(
            |list| {
                list.floor = 1;
                list.figures[0].history = true;
                list.figures[1].history = true;
            },
            &frames,
        );
        assert_eq!(bases(&chain.counting_segments()), [BASE + 8192]);
        assert_eq!(chain.gone().len() + chain.history().len(), 2);
        (bases(&chain.history()), chain.floor)
    };
    assert_eq!(history(&[]), (vec![BASE, second], 1));
    assert_eq!(history(&[second - 1]), (vec![BASE, second], second - 1));
    assert_eq!(history(&[second]), (vec![second], second));
    assert_eq!(history(&[BASE + 8192]), (vec![], BASE + 8192));
    assert_eq!(history(&[0]), (vec![], 0));
    assert_eq!(history(&[second, 5]), (vec![second], 5), "it fell");
    assert_eq!(history(&[u64::MAX]), (vec![], LOG_POSITION_MAX));
    let floor = |floor: u64| listed(|list| list.floor = floor, &[]).floor;
    assert_eq!((floor(LOG_POSITION_MAX), floor(LOG_POSITION_MAX + 1)), (LOG_POSITION_MAX, LOG_POSITION_MAX));
}

#[test]
fn a_segment_may_lie_where_one_that_is_gone_was_and_nowhere_else() {
    let opened = |retired: &[u64], floor: u64| {
        let mut file = Drawn::new(8);
        let first = file.segment(0, SegmentHeader { extents: 2, ..header(BASE, 1, None) });
        let second = file.segment(2, header(BASE + 8192, 2, Some(&first)));
        let mut segments = [first, second];
        file.checkpoint(&mut segments, |list| list.floor = floor);
        for base in retired {
            file.append(&mut segments[1], &FrameSpec::control(Kind::Retire, &base.to_le_bytes()));
        }
        let mut third = file.segment(1, header(BASE + 12_288, 3, Some(&segments[1])));
        file.append(&mut third, &record("c"));
        file.chain().map(|chain| chain.ops.len()).map_err(|_| file.corrupt_at().unwrap())
    };
    assert_eq!(opened(&[BASE], 0), Ok(1));
    assert_eq!(opened(&[], 0), Err(GEOMETRY.start(1)));
    assert_eq!(opened(&[BASE], 1), Err(GEOMETRY.start(1)), "history");
}

fn event(number: u64, continues: bool, out: &mut Vec<u8>) -> FrameSpec<'_> {
    out.extend_from_slice(&number.to_le_bytes());
    FrameSpec { kind: Kind::Event, continues, meta: Meta::plain(3), key: b"e", value: out }
}

#[test]
fn the_next_event_is_behind_those_of_whole_commits() {
    let opened = |events: &[(u64, bool)]| {
        let (mut file, mut first) = with_one_record();
        for &(number, continues) in events {
            file.append(&mut first, &event(number, continues, &mut Vec::new()));
        }
        let chain = file.chain().unwrap();
        let carried: Vec<_> = chain.ops.iter().map(|op| (op.namespace, op.carried)).collect();
        assert_eq!(carried[0], (0, None));
        assert!(carried[1..].iter().all(|&op| op == (3, Some(7 + 2 + 1 + 8))), "{carried:?}");
        (chain.next_event, carried.len() - 1)
    };
    assert_eq!(opened(&[]), (0, 0));
    assert_eq!(opened(&[(0, false)]), (1, 1));
    assert_eq!(opened(&[(41, false), (7, false)]), (42, 2));
    assert_eq!(opened(&[(41, false), (50, true)]), (42, 1));
    assert_eq!(opened(&[(41, true), (50, false)]), (51, 2));
    assert_eq!(opened(&[(u64::MAX, false)]), ((1 << 62) + 1, 1), "no session comes so far");
    assert_eq!(listed(|list| list.next_event = 6, &[]).next_event, 6);
}

#[test]
fn marks_move_the_clock_and_what_is_proven_forward_only() {
    let (mut file, mut first) = with_one_record();
    (file.pair.current.clock, file.pair.current.synced) = (5, BASE);
    let clock = |file: &Drawn| file.chain().map(|chain| (chain.clock, chain.proven, chain.tail_bytes)).unwrap();
    assert_eq!(clock(&file), (5, BASE, RECORD));
    for (synced, clock_ms, expected) in [
        (BASE + 700, 3, (5, BASE + 700, RECORD + 23)),
        (BASE + 600, 9, (9, BASE + 700, RECORD + 46)),
        (BASE + 701, 8, (9, BASE + 701, RECORD + 69)),
    ] {
        file.append(&mut first, &FrameSpec::control(Kind::Mark, &Mark { synced, clock: clock_ms }.encode()));
        assert_eq!(clock(&file), expected);
    }
}
