//! What the log says about other sessions of a shared file.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::drawn::*;
use crate::frame::Next;
use crate::limits::LOG_POSITION_MAX;
use crate::log::{ActivePlace, Barred, CheckpointPlace, DirectoryPlace, REMEMBERED_MOST, Segment, Standing};
use crate::recover::Chain;
use crate::sorted::Set;
use alloc::vec;
use alloc::vec::Vec;

fn claim(extent: u32, extents: u32, base: u64, salt: u64) -> Next {
    Next { extent, extents, base, salt }
}

/// A run that sessions have left: how many have begun since, and when.
fn old(extent: u32, extents: u32, sessions: u64, since: u64) -> (Barred, u64) {
    (Barred { extent, extents, sessions, since }, 0)
}

/// A run of a session that may still write, with the log position behind it.
fn new(extent: u32, extents: u32, behind: u64) -> (Barred, u64) {
    (Barred { extent, extents, sessions: 0, since: 0 }, behind)
}

fn segment(extent: u32, base: u64) -> Segment {
    Segment { base, extent, extents: 1, end: GEOMETRY.start(extent) + 800, salt: base + 1, linked: false }
}

fn linked(extent: u32, base: u64) -> Segment {
    Segment { linked: true, ..segment(extent, base) }
}

/// A chain whose tail names these runs, all before any session went on.
fn naming(claims: &[Next]) -> Chain {
    Chain { claims: claims.iter().map(|&claim| (claim, 0)).collect(), ..Chain::default() }
}

fn standing(file: &Drawn, chain: &Chain) -> Standing {
    chain.standing(&file.storage(), &file.pair.current).unwrap()
}

fn claims(chain: &Chain) -> Vec<(Barred, u64)> {
    standing(&Drawn::new(8), chain).claims
}

#[test]
fn of_the_claims_of_a_run_the_last_counts_and_the_sessions_since() {
    let mut chain = Chain { successions: 4, ..Chain::default() };
    chain.claims = vec![(claim(2, 1, 3, 77), 1), (claim(2, 1, 5, 78), 2), (claim(2, 2, 1, 79), 3), (claim(3, 1, 1, 80), 4)];
    assert_eq!(claims(&chain), [old(2, 2, 2, 79), old(2, 1, 7, 78), old(3, 1, 1, 80)]);
    // A claim of a session that may still write has a log position, to which none are added.
    chain.claims = vec![(claim(2, 1, BASE, 77), 1)];
    assert_eq!(claims(&chain), [new(2, 1, BASE + 4096)]);
}

#[test]
fn a_claim_has_a_number_of_sessions_or_a_log_position() {
    let cases = [
        (0, Some(old(2, 1, 0, 5))),
        (REMEMBERED_MOST - 1, Some(old(2, 1, REMEMBERED_MOST - 1, 5))),
        (REMEMBERED_MOST, None),
        (BASE - 1, None),
        (BASE, Some(new(2, 1, BASE + 4096))),
        (LOG_POSITION_MAX - 4096, Some(new(2, 1, LOG_POSITION_MAX))),
        (LOG_POSITION_MAX - 1, Some(new(2, 1, LOG_POSITION_MAX))),
        (u64::MAX - 1, Some(new(2, 1, LOG_POSITION_MAX))),
    ];
    for (base, expected) in cases {
        assert_eq!(claims(&naming(&[claim(2, 1, base, 5)])), Vec::from_iter(expected), "{base}");
    }
}

#[test]
fn a_claim_of_what_is_part_of_the_log_is_none() {
    let mut chain = naming(&[claim(2, 1, BASE, 5), claim(3, 1, BASE, 5), claim(4, 1, BASE + 4096, 5)]);
    chain.tail = vec![linked(2, BASE), linked(4, BASE)];
    assert_eq!(claims(&chain), [new(3, 1, BASE + 4096), new(4, 1, BASE + 8192)]);
}

#[test]
fn the_segment_that_the_superblock_names_is_claimed() {
    let mut file = Drawn::new(8);
    let place = ActivePlace { base: BASE, salt: 9, extent: 2, extents: 3 };
    let none = Vec::new();
    for (active, expected) in [
        (place, vec![new(2, 3, BASE + 3 * 4096)]),
        (ActivePlace { base: 0, ..place }, none.clone()),
        (ActivePlace { base: 1, ..place }, vec![old(2, 3, 1, 9)]),
        (ActivePlace { extents: 0, ..place }, none.clone()),
    ] {
        file.pair.current.active = active;
        assert_eq!(standing(&file, &Chain::default()).claims, expected, "{active:?}");
    }
    // Unless that session has published a snapshot there.
    let directory = DirectoryPlace { salt: 9, ..DirectoryPlace::default() };
    let checkpoint = |directory| Some(CheckpointPlace { directory, ..CheckpointPlace::default() });
    for (base, directory, expected) in [
        (BASE, None, vec![new(2, 3, BASE + 3 * 4096)]),
        (BASE, Some(DirectoryPlace { salt: 8, ..directory }), vec![new(2, 3, BASE + 3 * 4096)]),
        (BASE, Some(directory), none),
        (5, Some(directory), vec![old(2, 3, 5, 9)]),
    ] {
        file.pair.current.active = ActivePlace { base, ..place };
        file.pair.current.checkpoint = checkpoint(directory);
        assert_eq!(standing(&file, &Chain::default()).claims, expected, "{base} {directory:?}");
    }
}

#[test]
fn runs_count_that_begin_not_far_behind_the_file_or_another_one() {
    // The file has eight extents.
    assert_eq!(claims(&naming(&[claim(12, 1, 1, 0)])), [old(12, 1, 1, 0)]);
    assert_eq!(claims(&naming(&[claim(13, 1, 1, 0)])), []);
    let both = [old(12, 2, 1, 0), old(18, 1, 1, 0)];
    assert_eq!(claims(&naming(&[claim(18, 1, 1, 0), claim(12, 2, 1, 0)])), both);
    assert_eq!(claims(&naming(&[claim(19, 1, 1, 0), claim(12, 2, 1, 0)])), both[..1]);
    // One inside of the file takes nothing back.
    assert_eq!(claims(&naming(&[claim(12, 1, 1, 0), claim(2, 1, 1, 0)])), [old(2, 1, 1, 0), old(12, 1, 1, 0)]);
}

#[test]
fn no_run_is_longer_than_the_longest_record_needs() {
    let longest = ((1 << 30) + (1 << 29)) / 4096;
    assert_eq!(claims(&naming(&[claim(2, longest, 1, 0)])), [old(2, longest, 1, 0)]);
    for extents in [longest + 1, 1 << 19, (1 << 19) + 1, u32::MAX] {
        assert_eq!(claims(&naming(&[claim(2, extents, 1, 0)])), [], "{extents}");
    }
}

#[test]
fn the_last_claims_count() {
    let all: Vec<Next> = (0..257).map(|extent| claim(extent, 1, 1, 0)).collect();
    let found = claims(&naming(&all));
    assert_eq!((found.len(), found[0]), (256, old(1, 1, 1, 0)));
}

#[test]
fn a_trailer_claims_what_did_not_become_the_next_segment() {
    let (first, second) = (segment(0, BASE), segment(1, BASE + 4096));
    let other = Segment { salt: 99, ..segment(5, BASE + 4096) };
    let found = |tail: &[Segment], next: &Segment| {
        let mut file = Drawn::new(8);
        file.trailer(&tail[0], next);
        let mut claims = standing(&file, &Chain { tail: tail.to_vec(), ..Chain::default() }).claims;
        // Those of earlier ends.
        claims.retain(|(run, _)| run.extent != 0);
        claims
    };
    let claimed = [new(5, 1, BASE + 8192)];
    assert_eq!(found(&[first, second], &other), claimed);
    assert_eq!(found(&[first], &other), claimed);
    assert_eq!(found(&[Segment { linked: true, ..first }, second], &other), []);
    // The same salt: it is the next segment, wherever it is said to be.
    assert_eq!(found(&[first, second], &Segment { salt: second.salt, ..other }), []);
}

#[test]
fn segments_in_which_earlier_sessions_have_ended_are_claimed_too() {
    let tail = [segment(0, BASE), linked(1, BASE + 4096), segment(2, BASE + 8192), segment(3, BASE + 12_288)];
    let chain = Chain { tail: tail.to_vec(), ..Chain::default() };
    assert_eq!(claims(&chain), [old(2, 1, 1, 0), old(0, 1, 2, 0)]);
    // What is claimed anyway is not claimed again, but counts.
    let named = Chain { claims: vec![(claim(2, 1, 9, 4), 0)], tail: tail.to_vec(), ..Chain::default() };
    assert_eq!(claims(&named), [old(2, 1, 9, 4), old(0, 1, 2, 0)]);
    let longer = Chain { claims: vec![(claim(2, 2, 9, 4), 0)], tail: tail.to_vec(), ..Chain::default() };
    assert_eq!(claims(&longer), [old(2, 2, 9, 4), old(2, 1, 1, 0), old(0, 1, 2, 0)]);
    let many = (0..70).map(|number| segment(number, BASE + u64::from(number) * 4096)).collect();
    let found = claims(&Chain { tail: many, ..Chain::default() });
    assert_eq!((found.len(), found[62]), (63, old(6, 1, 63, 0)));
}

#[test]
fn the_standing_is_that_of_the_chain() {
    let chain = Chain {
        tail: vec![linked(4, BASE), segment(5, BASE + 4096)],
        unproven: vec![segment(6, BASE), Segment { extents: 3, ..segment(9, BASE) }],
        retired: Set::collect([3, 4, 5].into_iter()),
        end: 7,
        clean: true,
        next_base: 11,
        next_header: 13,
        headers: 12,
        ..Chain::default()
    };
    let found = standing(&Drawn::new(8), &chain);
    assert_eq!((found.end, found.records, found.retired, found.is_clean), (7, 0, 3, true));
    assert_eq!((found.next_base, found.next_header, found.headers), (11, 13, 12));
    assert_eq!(found.unsettled, [(5, 1), (6, 1), (9, 3)]);
    assert!(!standing(&Drawn::new(8), &Chain { clean: false, ..chain }).is_clean);
}
