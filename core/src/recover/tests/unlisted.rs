//! Files with a damaged list and without a snapshot, drawn by hand: the list is made again from the headers, where these are certain.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::drawn::*;
use crate::frame::{FrameSpec, Header, Kind, Meta};
use crate::log::{FEATURE_EXPIRY, Figures, Segment, SegmentHeader, SegmentKind};
use alloc::vec;

/// Two segments and the list in the second one.
struct Listed {
    file: Drawn,
    segments: [Segment; 2],
    list: u64,
    /// Where the frames go on behind it.
    behind: u64,
}

/// The first segment as it is, and the second one with this header and `front` in front of the list, which is damaged.
fn listed(mut file: Drawn, first: Segment, extent: u32, header: SegmentHeader, front: &[FrameSpec<'_>]) -> Listed {
    let second = file.segment(extent, header);
    let mut segments = [first, second];
    for spec in front {
        file.append(&mut segments[1], spec);
    }
    let list = segments[1].end;
    file.checkpoint(&mut segments, |_| ());
    file.bytes[list as usize] ^= 1;
    Listed { file, segments, list, behind: segments[1].end }
}

fn plain() -> Listed {
    let (file, first) = first_of(&[record("a")]);
    let header = header(BASE + 4096, 2, Some(&first));
    listed(file, first, 1, header, &[record("b")])
}

impl Listed {
    fn opens(&self) -> bool {
        let chain = self.file.chain();
        if chain.is_err() {
            assert_eq!(self.file.corrupt_at(), Some(self.list));
        }
        chain.is_ok_and(|chain| chain.damaged_list)
    }
}

#[test]
fn a_list_is_made_again_from_the_headers() {
    let Listed { mut file, segments: [first, mut second], list, .. } = plain();
    file.append(&mut second, &record("c"));
    let chain = file.chain().unwrap();
    assert!(chain.damaged_list);
    assert_eq!(chain.listed.segments, [first, Segment { end: list, ..second }]);
    assert_eq!(chain.listed.figures, [Figures::default(); 2]);
    assert_eq!((chain.tail.len(), chain.ops.len(), chain.end), (1, 1, second.lsn(GEOMETRY, second.end)));
    assert_eq!(chain.stale, (0..8).collect::<vec::Vec<u32>>(), "no snapshot knows any segment");
}

#[test]
fn a_list_is_not_made_again_where_it_had_more_than_the_headers_have() {
    let opens = |change: &dyn Fn(&mut Drawn)| {
        let mut listed = plain();
        change(&mut listed.file);
        listed.opens()
    };
    assert!(opens(&|_| ()));
    assert!(opens(&|file| file.pair.current.optional_features = FEATURE_EXPIRY));
    assert!(!opens(&|file| file.pair.current.optional_features = FEATURE_EXPIRY << 1));
    assert!(!opens(&|file| file.pair.current.floor = 1));
    assert!(!opens(&|file| file.pair.other_damaged = true));
}

#[test]
fn the_segment_of_a_damaged_list_is_found_by_its_header() {
    let right = header(BASE + 4096, 2, Some(&first_of(&[record("a")]).1));
    let opens = |change: &dyn Fn(&mut Drawn)| {
        let mut listed = plain();
        change(&mut listed.file);
        listed.opens()
    };
    let with = |header: SegmentHeader| opens(&|file| _ = file.segment(1, header));
    assert!(with(right));
    assert!(!with(SegmentHeader { kind: SegmentKind::Events, ..right }));
    assert!(!with(SegmentHeader { base: right.base + 1, ..right }));
    assert!(!with(SegmentHeader { salt: 3, ..right }));
    assert!(!opens(&|file| _ = file.segment(4, SegmentHeader { number: 2, ..right })), "two of them");
    // The list lies in another extent than the header, which begins behind it, or reaches less far.
    assert!(!opens(&|file| {
        file.put(GEOMETRY.start(1), &[0; 704]);
        file.segment(2, right);
    }));
    assert!(!opens(&|file| {
        file.put(GEOMETRY.start(1), &[0; 704]);
        file.segment(0, right);
    }));
}

#[test]
fn a_damaged_list_ends_where_its_length_says_and_was_synced() {
    let Listed { file, segments: [_, second], behind, .. } = plain();
    let synced = second.lsn(GEOMETRY, behind);
    assert_eq!(file.pair.current.synced, synced);
    for (more, opens) in [(0, true), (1, false), (-1, false)] {
        let mut listed = plain();
        listed.file.pair.current.synced = synced.checked_add_signed(more).unwrap();
        assert_eq!(listed.opens(), opens, "{more}");
    }
    let mut other = plain();
    other.file.bytes[other.list as usize + 4] = Kind::Pad.code();
    assert!(!other.opens());
    let mut sealed = plain();
    sealed.file.bytes[sealed.list as usize + 4] |= 0x80;
    assert!(!sealed.opens());
    // With another length the next frame does not follow.
    for change in [1, 0xff] {
        let mut shorter = plain();
        let mut end = Segment { end: shorter.behind, ..shorter.segments[1] };
        shorter.file.append(&mut end, &record("c"));
        assert!(shorter.opens());
        let len = &mut shorter.file.bytes[shorter.list as usize + 6];
        *len = len.wrapping_add(change);
        shorter.file.pair.current.synced = synced - 8;
        assert!(!shorter.opens(), "{change}");
    }
}

/// A list that ends so many bytes in front of the end of its segment.
fn at_the_end(room: u64) -> Listed {
    let list_len = {
        let listed = plain();
        listed.behind - listed.list
    };
    let (file, first) = first_of(&[record("a")]);
    let header = header(BASE + 4096, 2, Some(&first));
    let segment = header.segment(GEOMETRY, 1);
    // A list is one byte shorter where fewer than 128 bytes of its segment are unused.
    let front = segment.limit(GEOMETRY) - room - (list_len - 1) - segment.first_frame(GEOMETRY);
    let value = vec![0; front as usize - 8];
    let fill = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: &[], value: &value };
    let listed = listed(file, first, 1, header, &[fill]);
    assert_eq!(listed.behind + room, segment.limit(GEOMETRY));
    listed
}

#[test]
fn a_damaged_list_lies_inside_of_its_segment() {
    for (room, more, opens) in [(1, 0, true), (0, 0, true), (1, 1, true), (0, 1, false), (1, 2, false)] {
        let mut listed = at_the_end(room);
        listed.file.bytes[listed.list as usize + 6] += more;
        listed.file.pair.current.synced += u64::from(more);
        let header = Header::decode(&listed.file.bytes[listed.list as usize..]).unwrap();
        assert_eq!(listed.list + header.frame_len() as u64, listed.behind + u64::from(more));
        assert_eq!(listed.opens(), opens, "{room} {more}");
    }
    // A file that ends with the list is whole, too.
    for (cut, opens) in [(0, true), (1, false)] {
        let mut listed = plain();
        listed.file.bytes.truncate(listed.behind as usize - cut);
        assert_eq!(listed.opens(), opens, "{cut}");
    }
}

#[test]
fn segments_of_a_list_that_is_made_again_lie_apart_and_inside_of_the_file() {
    let opens = |extents: u32, extent: u32, second_extents: u32| {
        let mut file = Drawn::new(8);
        let mut first = file.segment(0, SegmentHeader { extents, ..header(BASE, 1, None) });
        file.append(&mut first, &record("a"));
        let second = header(BASE + 4096 * u64::from(extents), 2, Some(&first));
        listed(file, first, extent, SegmentHeader { extents: second_extents, ..second }, &[]).opens()
    };
    assert!(opens(2, 2, 1));
    assert!(!opens(2, 1, 1));
    assert!(opens(1, 1, 7));
    assert!(!opens(1, 1, 8));
}

#[test]
fn headers_that_make_a_list_form_one_chain_from_the_first_segment_on() {
    let right = header(BASE + 4096, 2, Some(&first_of(&[record("a")]).1));
    let opens = |first: SegmentHeader, second: SegmentHeader| {
        let mut file = Drawn::new(8);
        let mut begun = file.segment(0, first);
        file.append(&mut begun, &record("a"));
        listed(file, begun, 1, second, &[]).opens()
    };
    let first = header(BASE, 1, None);
    assert!(opens(first, right));
    assert!(!opens(SegmentHeader { previous_base: 1, ..first }, right));
    assert!(!opens(first, SegmentHeader { previous_base: BASE + 1, ..right }));
    assert!(!opens(first, SegmentHeader { previous_salt: 7, ..right }));
    // Positions of the two overlap.
    assert!(!opens(first, SegmentHeader { base: right.base - 1, ..right }));
    assert!(opens(first, SegmentHeader { base: right.base + 1, ..right }));
    // Another segment in front of the list, which no other names.
    let mut stray = plain();
    stray.file.segment(4, SegmentHeader { previous_base: 7, ..header(BASE + 1, 3, None) });
    assert!(!stray.opens());
    let mut behind = plain();
    behind.file.segment(4, SegmentHeader { previous_base: 7, ..header(BASE + 8192, 3, None) });
    assert!(behind.opens());
}

#[test]
fn every_segment_of_a_list_that_is_made_again_ends_where_the_next_one_says() {
    let begin = GEOMETRY.start(0) + 704;
    let limit = GEOMETRY.start(1) - 31;
    let opens = |previous_end: u64| {
        let (file, first) = first_of(&[record("a"), record("b")]);
        let second = SegmentHeader { previous_end, ..header(BASE + 4096, 2, Some(&first)) };
        listed(file, first, 1, second, &[]).opens()
    };
    for (end, expected) in [(begin - 1, false), (begin, true), (begin + 8, true), (begin + 16, true), (limit + 1, false)] {
        assert_eq!(opens(end), expected, "{end}");
    }
    assert!(!opens(begin + 12), "in the middle of a record");
    assert!(!opens(limit), "zeros are no records");
    let full = |previous_end: u64| {
        let (mut file, mut first) = first_of(&[record("a")]);
        file.fill(&mut first);
        let second = SegmentHeader { previous_end, ..header(BASE + 4096, 2, Some(&first)) };
        listed(file, first, 1, second, &[]).opens()
    };
    assert!(full(limit) && !full(limit + 1));
}

#[test]
fn what_a_list_that_is_made_again_cannot_tell_is_not_guessed() {
    let opens = |first: &[FrameSpec<'_>], second: &[FrameSpec<'_>]| {
        let (file, first) = first_of(first);
        let header = header(BASE + 4096, 2, Some(&first));
        listed(file, first, 1, header, second).opens()
    };
    let event = FrameSpec { kind: Kind::Event, continues: false, meta: Meta::plain(1), key: b"e", value: &[1; 8] };
    let mark = FrameSpec::control(Kind::Mark, &[0; 16]);
    assert!(opens(&[record("a"), mark], &[record("b"), mark]));
    assert!(!opens(&[event], &[]));
    assert!(!opens(&[], &[event]));
    // A commit may go on in the next segment, and no commit goes on behind a list.
    assert!(opens(&[open("a")], &[record("b")]));
    assert!(opens(&[open("a")], &[open("b"), record("c")]));
    assert!(!opens(&[record("a")], &[open("b")]));
    assert!(!opens(&[record("a")], &[open("b"), mark]));
}

#[test]
fn a_segment_of_a_list_that_is_made_again_is_linked_by_its_trailer() {
    let linked = |in_header: bool, names: Option<u64>| {
        let (mut file, first) = first_of(&[record("a")]);
        let second = SegmentHeader { linked: in_header, ..header(BASE + 4096, 2, Some(&first)) };
        if let Some(salt) = names {
            file.trailer(&first, &Segment { salt, ..second.segment(GEOMETRY, 1) });
        }
        let chain = listed(file, first, 1, second, &[]).file.chain().unwrap();
        [chain.listed.segments[0].linked, chain.listed.segments[1].linked]
    };
    assert_eq!(linked(true, Some(2)), [true, false]);
    assert_eq!(linked(true, Some(3)), [false, false]);
    assert_eq!(linked(true, None), [false, false]);
    assert_eq!(linked(false, Some(2)), [false, false]);
}
