//! Reading on where a follower's log ends.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::drawn::*;
use crate::Error;
use crate::frame::{FrameSpec, Kind, Mark, Meta};
use crate::log::{ActivePlace, CheckpointPlace, Segment, SegmentHeader, SegmentKind};
use crate::recover::{Advanced, News, Place, advance, is_gone};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// What a follower that ends at a place has read.
#[derive(Debug, Default, PartialEq)]
struct Read {
    news: Vec<String>,
    /// Base and offset.
    place: Option<(u64, u64)>,
    changed: Option<(u64, u64)>,
    more: bool,
}

#[derive(Debug, PartialEq)]
enum Found {
    Read(Read),
    Gone,
    Shorter,
    Corrupt(u64),
}

fn place(segment: &Segment, offset: u64) -> Place {
    Place { segment: Segment { end: offset, ..*segment }, offset }
}

fn read_on(file: &Drawn, from: Option<Place>, most: u64) -> Found {
    let read = match advance(&file.storage(), &file.pair.current, from, most) {
        Ok(Advanced::Read(read)) => read,
        Ok(Advanced::Gone) => return Found::Gone,
        Ok(Advanced::Shorter) => return Found::Shorter,
        Err(Error::Corrupt { offset, .. }) => return Found::Corrupt(offset),
        Err(other) => return Found::Read(Read { news: vec![format!("{other:?}")], ..Read::default() }),
    };
    let text = |range: &core::ops::Range<usize>| String::from_utf8(read.bytes[range.clone()].to_vec()).unwrap();
    let say = |news: &News| match news {
        News::Record { key, value, .. } => format!("{}{}", text(key), text(value)),
        News::Mark(mark) => format!("mark {}", mark.synced),
        News::Retire(base) => format!("retire {base}"),
        News::Floor(floor) => format!("floor {floor}"),
        News::Enter(segment, end) => format!("enter {} from {end}", segment.base),
    };
    let news = read.news.iter().map(say).collect();
    let place = read.place.map(|place| (place.segment.base, place.offset));
    Found::Read(Read { news, place, changed: read.changed, more: read.more })
}

fn news(file: &Drawn, from: Place) -> Vec<String> {
    match read_on(file, Some(from), u64::MAX) {
        Found::Read(read) => read.news,
        other => vec![format!("{other:?}")],
    }
}

/// The first segment names the second one in its trailer; in extent 4 is a younger one that names the first one.
fn forked() -> (Drawn, Segment, Segment) {
    let (mut file, first) = first_of(&[record("a")]);
    let mut second = file.segment(1, SegmentHeader { linked: true, ..header(BASE + 4096, 2, Some(&first)) });
    file.append(&mut second, &record("b"));
    let mut other = file.segment(4, header(BASE + 8192, 3, Some(&first)));
    file.append(&mut other, &record("c"));
    file.trailer(&first, &second);
    (file, first, second)
}

#[test]
fn the_log_goes_on_by_trailers_unless_a_newer_session_has_begun_elsewhere() {
    let (mut file, first, _) = forked();
    let entered = |base: u64, key: &str| vec![format!("enter {base} from {}", first.end), String::from(key)];
    let (by_trailer, by_header) = (entered(BASE + 4096, "b"), entered(BASE + 8192, "c"));
    let from = place(&first, first.end);
    let resumed = ActivePlace { base: BASE, salt: 1, extent: 0, extents: 1 };
    let active = [
        (ActivePlace::default(), false),
        (resumed, true),
        (ActivePlace { base: BASE + 1, ..resumed }, false),
        (ActivePlace { salt: 2, ..resumed }, false),
    ];
    for (active, is_resumed) in active {
        for (newest, is_newer) in [(0, false), (1, false), (2, true)] {
            (file.pair.current.active, file.pair.current.session) = (active, newest);
            let expected = if is_newer && !is_resumed { &by_header } else { &by_trailer };
            assert_eq!(news(&file, from), *expected, "{active:?}, session {newest}");
        }
    }
}

#[test]
fn a_trailer_leads_to_a_segment_behind_the_one_that_it_ends() {
    let (_, first, _) = forked();
    let right = SegmentHeader { linked: true, ..header(BASE + 4096, 2, Some(&first)) };
    let entered = |header: SegmentHeader, named: Segment| {
        let (mut file, first, _) = forked();
        file.segment(1, header);
        file.trailer(&first, &named);
        news(&file, place(&first, first.end)).len()
    };
    let with = |header: SegmentHeader| entered(header, header.segment(GEOMETRY, 1));
    assert_eq!(with(right), 2);
    assert_eq!(with(SegmentHeader { base: right.base + 1, ..right }), 2);
    assert_eq!(with(SegmentHeader { base: right.base - 1, ..right }), 0);
    assert_eq!(with(SegmentHeader { previous_base: BASE - 1, ..right }), 0);
    assert_eq!(with(SegmentHeader { previous_salt: 7, ..right }), 0);
    assert_eq!(with(SegmentHeader { extents: 7, ..right }), 2);
    assert_eq!(with(SegmentHeader { extents: 8, ..right }), 0);
    let named = right.segment(GEOMETRY, 1);
    for wrong in [
        Segment { base: named.base + 1, ..named },
        Segment { salt: 9, ..named },
        Segment { extents: 2, ..named },
        Segment { extent: 2, ..named },
        Segment { extent: u32::MAX, ..named },
    ] {
        assert_eq!(entered(right, wrong), 0, "{wrong:?}");
    }
    assert_eq!(entered(SegmentHeader { kind: SegmentKind::Events, ..right }, named), 0);
}

#[test]
fn behind_a_newer_session_the_youngest_header_counts_that_names_the_segment() {
    let (_, first, _) = forked();
    let right = header(BASE + 8192, 3, Some(&first));
    let entered = |header: SegmentHeader| {
        let (mut file, first, _) = forked();
        file.pair.current.session = 2;
        file.put(GEOMETRY.start(1), &[0; 704]);
        file.segment(4, header);
        news(&file, place(&first, first.end)).len()
    };
    let begins = |base: u64| SegmentHeader { base, ..right };
    assert_eq!((entered(right), entered(begins(BASE + 4096)), entered(begins(BASE + 4095))), (2, 2, 0));
    assert_eq!(entered(SegmentHeader { kind: SegmentKind::Events, ..right }), 0);
    assert_eq!(entered(SegmentHeader { previous_base: BASE + 1, ..right }), 0);
    assert_eq!(entered(SegmentHeader { previous_salt: 2, ..right }), 0);
    assert_eq!((entered(SegmentHeader { extents: 4, ..right }), entered(SegmentHeader { extents: 5, ..right })), (2, 0));
}

#[test]
fn a_follower_of_nothing_begins_with_the_first_segment() {
    let mut blank = Drawn::new(2);
    assert_eq!(read_on(&blank, None, 9), Found::Read(Read::default()));
    assert!(!is_gone(&blank.storage(), &blank.pair.current, None).unwrap());
    let (mut file, first) = first_of(&[record("a")]);
    let changed = Some((first.lsn(GEOMETRY, first.end), first.salt));
    let read = Read {
        news: vec![format!("enter {BASE} from 0"), String::from("a")],
        place: Some((BASE, first.end)),
        changed,
        more: false,
    };
    assert_eq!(read_on(&file, None, 9), Found::Read(read));
    // Behind a checkpoint it may be gone.
    for file in [&mut file, &mut blank] {
        file.pair.current.checkpoint = Some(CheckpointPlace::default());
        assert_eq!(read_on(file, None, 9), Found::Gone);
        assert!(is_gone(&file.storage(), &file.pair.current, None).unwrap());
    }
}

#[test]
fn a_place_is_gone_where_another_header_stands() {
    let right = header(BASE, 1, None);
    for (header, gone) in [
        (right, false),
        (SegmentHeader { number: 2, synced: 1, ..right }, false),
        (SegmentHeader { kind: SegmentKind::Snapshot, ..right }, true),
        (SegmentHeader { base: BASE + 1, ..right }, true),
        (SegmentHeader { salt: 2, ..right }, true),
        (SegmentHeader { extents: 2, ..right }, true),
    ] {
        let (mut file, first) = first_of(&[record("a")]);
        let from = Some(place(&first, first.end));
        file.segment(0, header);
        assert_eq!(is_gone(&file.storage(), &file.pair.current, from).unwrap(), gone, "{header:?}");
        assert_eq!(read_on(&file, from, 9) == Found::Gone, gone, "{header:?}");
    }
}

#[test]
fn a_follower_reads_about_as_much_as_it_is_asked_to() {
    let (file, first) = first_of(&[record("a"), open("b"), record("c"), record("d")]);
    let from = Some(place(&first, first.first_frame(GEOMETRY)));
    for (most, keys, more) in [
        (0, "a", true),
        (RECORD, "a", true),
        (RECORD + 1, "abc", true),
        (2 * RECORD, "abc", true),
        (3 * RECORD, "abc", true),
        (3 * RECORD + 1, "abcd", true),
        (4 * RECORD, "abcd", true),
        (4 * RECORD + 1, "abcd", false),
    ] {
        let Found::Read(read) = read_on(&file, from, most) else { unreachable!() };
        assert_eq!((read.news.concat(), read.more), (String::from(keys), more), "{most}");
        let end = first.first_frame(GEOMETRY) + RECORD * keys.len() as u64;
        assert_eq!((read.place, read.changed), (Some((BASE, end)), Some((first.lsn(GEOMETRY, end), 1))), "{most}");
    }
}

#[test]
fn a_follower_shows_whole_commits_and_knows_which_of_them_change_something() {
    let copy = |key: &'static str| FrameSpec { meta: Meta::plain(0).copied(), ..record(key) };
    let (file, first) = first_of(&[record("a"), copy("b"), open("c")]);
    let begin = first.first_frame(GEOMETRY);
    let end = begin + 2 * RECORD;
    let read = |from: u64| read_on(&file, Some(place(&first, from)), 99);
    let expected = |news: &[&str], changed: Option<u64>| {
        let news = news.iter().map(|key| String::from(*key)).collect();
        let changed = changed.map(|offset| (first.lsn(GEOMETRY, offset), 1));
        Found::Read(Read { news, place: Some((BASE, end)), changed, more: false })
    };
    assert_eq!(read(begin), expected(&["a", "b"], Some(begin + RECORD)));
    assert_eq!(read(begin + RECORD), expected(&["b"], None), "a copy");
    assert_eq!(read(end), expected(&[], None), "half a commit");
    // One record of a commit that is no copy is enough.
    let (file, first) = first_of(&[open("a"), copy("b")]);
    let Found::Read(read) = read_on(&file, Some(place(&first, begin)), 99) else { unreachable!() };
    assert_eq!(read.changed, Some((first.lsn(GEOMETRY, first.end), 1)));
}

#[test]
fn a_follower_reads_what_frames_of_the_log_itself_say() {
    let mark = Mark { synced: 7, clock: 0 }.encode();
    let (base, floor) = (BASE.to_le_bytes(), [9, 0, 0, 0, 0, 0, 0, 0, 1]);
    let name = FrameSpec { meta: Meta::plain(crate::frame::NAMESPACE_OF_NAMES), value: b"=1", ..record("n") };
    let (mut file, mut first) = first_of(&[
        FrameSpec::control(Kind::Mark, &mark),
        FrameSpec::control(Kind::Retire, &base),
        FrameSpec::control(Kind::Floor, &floor),
        FrameSpec::control(Kind::Pad, &[0; 3]),
        name,
        FrameSpec { value: b"unread", ..record("k") },
    ]);
    let from = place(&first, first.first_frame(GEOMETRY));
    assert_eq!(news(&file, from), ["mark 7", "retire 16384", "floor 9", "n=1", "k"]);
    file.append(&mut first, &FrameSpec::control(Kind::Adopt, &[0; 40]));
    assert!(news(&file, from)[0].contains("beside the log"), "{:?}", news(&file, from));
}

/// Two records, of which a recovery has counted the first `kept` ones, and a next segment with a record.
fn cut(frames: &[FrameSpec<'_>], kept: u64) -> (Drawn, Segment) {
    let (mut file, first) = first_of(frames);
    let previous_end = first.first_frame(GEOMETRY) + kept * RECORD;
    file.pair.current.session = 2;
    let second = header(BASE + 4096, 2, Some(&first));
    let mut second = file.segment(1, SegmentHeader { previous_end, session: 2, ..second });
    file.append(&mut second, &record("c"));
    (file, first)
}

#[test]
fn what_a_recovery_has_cut_off_is_not_shown_and_must_not_have_been() {
    let begin = GEOMETRY.start(0) + 704;
    let entered = |kept: u64| format!("enter {} from {}", BASE + 4096, begin + kept * RECORD);
    let (file, first) = cut(&[record("a"), record("b")], 1);
    assert_eq!(read_on(&file, Some(place(&first, begin + RECORD)), 99), Found::Shorter);
    assert_eq!(read_on(&file, Some(place(&first, first.end)), 99), Found::Shorter);
    let (file, first) = cut(&[record("a"), record("b")], 2);
    assert_eq!(news(&file, place(&first, first.end)), [entered(2), String::from("c")]);
    let (file, first) = cut(&[record("a"), open("b")], 1);
    let expected = [String::from("a"), entered(1), String::from("c")];
    assert_eq!(news(&file, place(&first, begin)), expected);
    assert_eq!(news(&file, place(&first, begin + RECORD)), expected[1..]);
    assert_eq!(read_on(&file, Some(place(&first, first.end)), 99), Found::Shorter);
}

#[test]
fn a_damaged_record_in_front_of_the_next_segment_is_damage_unless_the_log_has_moved_on() {
    let begin = GEOMETRY.start(0) + 704;
    let (mut file, first) = cut(&[record("a"), record("b")], 2);
    file.bytes[begin as usize + 15] ^= 1;
    let read = |file: &Drawn, from: u64| read_on(file, Some(place(&first, from)), 99);
    let a = Read {
        news: vec![String::from("a")],
        place: Some((BASE, begin + RECORD)),
        changed: Some((first.lsn(GEOMETRY, begin + RECORD), 1)),
        more: false,
    };
    assert_eq!(read(&file, begin), Found::Corrupt(begin + RECORD));
    // A newer session than that of the next segment may have found the end there.
    file.pair.current.session = 3;
    assert_eq!(read(&file, begin), Found::Read(Read { news: a.news.clone(), ..a }));
    file.pair.current.session = 2;
    for (base, moved_on) in [(BASE - 1, false), (BASE, false), (BASE + 1, true)] {
        file.pair.current.checkpoint = Some(CheckpointPlace { base, ..CheckpointPlace::default() });
        let Found::Read(read_a) = read(&file, begin) else {
            assert!(!moved_on);
            continue;
        };
        assert!(moved_on && read_a.more && read_a.news == ["a"]);
        assert_eq!(read(&file, begin + RECORD), Found::Gone, "nothing is read");
    }
}

#[test]
fn the_end_of_the_log_is_not_gone_unless_a_later_segment_has_the_checkpoint() {
    let (mut file, first) = first_of(&[record("a")]);
    let from = Some(place(&first, first.end));
    let begin = Some(place(&first, first.first_frame(GEOMETRY)));
    let more = |found: Found| if let Found::Read(read) = found { Some(read.more) } else { None };
    for (base, gone) in [(BASE, false), (BASE + 1, true)] {
        file.pair.current.checkpoint = Some(CheckpointPlace { base, ..CheckpointPlace::default() });
        assert_eq!(read_on(&file, from, 99) == Found::Gone, gone);
        assert_eq!(more(read_on(&file, begin, 99)), Some(gone));
    }
}
