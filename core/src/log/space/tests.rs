use super::*;

fn space(total: u32) -> Space {
    Space { total, ..Space::new(Geometry::new(4096, 4096)) }
}

#[test]
fn runs_are_found_in_the_middle_and_at_the_end() {
    let mut space = space(4);
    space.release(1, 1, true);
    assert_eq!(space.take(8192), None);
    space.grown(true);
    space.grown(true);
    assert_eq!(space.take(4097), Some(Run { extent: 4, extents: 2, fresh: true, backed: true }));
    assert_eq!(space.take(4096), Some(Run { extent: 1, extents: 1, fresh: false, backed: true }));
    assert_eq!(space.take(1), None);
    space.release(4, 2, false);
    assert_eq!((space.free_count(), space.backed_bytes(), space.first_unbacked()), (2, 0, Some(4)));
    space.set_backed(5);
    assert!(space.has_reserve());
    assert_eq!(space.take_backed(1), Some(Run { extent: 5, extents: 1, fresh: false, backed: true }));
    assert_eq!(space.take_backed(1), None);
    space.release(5, 1, true);
    assert_eq!((space.take_last_backed(4096), space.free_count(), space.backed_bytes()), (Some(4), 1, 4096));
    space.give_back(4);
    assert_eq!((space.take_last_backed(4096), space.free_count(), space.backed_bytes()), (None, 2, 4096));
    assert_eq!((space.free_at_end(), space.total), (2, 6));
    space.shrink(2);
    assert_eq!((space.free_at_end(), space.total), (0, 4));
}

#[test]
fn barred_runs_never_become_free_and_what_lies_before_them_does() {
    let mut space = space(2);
    space.release(0, 2, false);
    space.bar(Barred { extent: 5, extents: 2, sessions: 3, since: 0 });
    assert_eq!((space.free_count(), space.total, space.free_at_end()), (5, 7, 0));
    space.bar(Barred { extent: 1, extents: 1, sessions: 2, since: 0 });
    assert_eq!((space.free_count(), space.is_free(1), space.is_free(4)), (4, false, true));
    space.release(0, 7, true);
    assert_eq!(space.all_free(), [(0, true), (2, true), (3, true), (4, true)]);
    space.bar(Barred { extent: 5, extents: 2, sessions: 1, since: 0 });
    space.bar(Barred { extent: 1, extents: 1, sessions: 9, since: 0 });
    assert_eq!(space.barred.iter().map(|run| run.sessions).collect::<Vec<_>>(), [1, 2], "the fewer sessions count");
}

/// Extents of 4, 8, 16, 16, ... KiB.
#[test]
fn full_extents_that_may_have_their_blocks_are_backed_first() {
    let mut space = Space::new(Geometry::new(16_384, 4096));
    space.release(0, 2, false);
    assert_eq!((space.first_unbacked(), space.unbacked_short_ones()), (Some(0), [0, 1].to_vec()));
    assert!(space.has_holes(0) && !space.has_holes(0), "known from the first time on");
    assert_eq!(space.first_unbacked(), Some(1));
    space.release(0, 5, false);
    space.give_back(0);
    space.give_back(2);
    assert_eq!((space.first_unbacked(), space.unbacked_short_ones()), (Some(3), [0, 1].to_vec()));
    assert!(!space.has_holes(2));
    space.set_backed(3);
    space.set_backed(4);
    assert_eq!(space.first_unbacked(), Some(2), "blocks given back come last");
    space.set_backed(2);
    assert_eq!((space.first_unbacked(), space.backed_bytes()), (None, 3 * 16_384), "short ones are no reserve");
    space.set_backed(0);
    assert_eq!((space.unbacked_short_ones(), space.backed_bytes()), ([1].to_vec(), 3 * 16_384 + 4096));
    assert_eq!((space.free_bytes(), space.backed_beyond(5000)), (12_288 + 3 * 16_384, 3 * (16_384 - 5000)));
}

#[test]
fn runs_before_an_extent_and_at_the_end_are_measured() {
    let mut space = space(8);
    for extent in [0, 2, 3, 6, 7] {
        space.release(extent, 1, true);
    }
    assert!(space.has_run_below(8192, 4) && !space.has_run_below(8192, 3) && !space.has_run_below(8193, 6));
    assert_eq!((space.free_at_end(), space.free_bytes_at_end(), space.surplus()), (2, 8192, 2));
    space.listed = 7;
    assert_eq!(space.surplus(), 1);
    space.listed = 9;
    assert_eq!(space.surplus(), 0);
}

#[test]
fn the_last_run_is_backed_and_no_longer_than_needed() {
    let mut space = space(12);
    for (extent, extents, backed) in [(1, 3, true), (5, 4, true), (9, 1, false), (11, 1, true)] {
        space.release(extent, extents, backed);
    }
    assert_eq!(space.take_last_run(8193), Some(Run { extent: 6, extents: 3, fresh: false, backed: true }));
    assert_eq!(space.take_last_run(8192), Some(Run { extent: 2, extents: 2, fresh: false, backed: true }));
    assert_eq!(space.take_last_run(8192), None);
    assert_eq!(space.take_last_run(1), Some(Run { extent: 11, extents: 1, fresh: false, backed: true }));
    space.grown(true);
    space.grown(true);
    assert_eq!(space.take_last_run(4096).map(|run| (run.extent, run.fresh)), Some((13, true)));
}

/// Extents of 4, 8, 16, 16, ... KiB.
#[test]
fn while_extents_grow_bytes_count_and_afterwards_full_ones() {
    let mut space = Space::new(Geometry::new(16_384, 4096));
    assert!(!space.has_grown());
    space.grown(true);
    assert!(space.has_reserve() && space.has_grown());
    space.grown(true);
    assert!(space.has_reserve(), "12 KiB in short ones are a reserve while no extent is longer");
    assert_eq!(space.take(4096).map(|run| run.extent), Some(0));
    assert_eq!((space.free_at_end(), space.free_bytes_at_end()), (1, 8192));
    space.release(0, 1, true);
    assert_eq!(space.take(5000), Some(Run { extent: 1, extents: 1, fresh: true, backed: true }));
    assert!(!space.has_reserve(), "4 KiB are less than the longest extent");
    space.grown(true);
    assert!(space.has_reserve());
    assert_eq!(space.take(10_000).map(|run| run.extent), Some(2));
    space.release(1, 1, true);
    assert!(!space.has_reserve(), "12 KiB in short ones are no full extent");
    assert_eq!(space.first_unbacked(), None);
    space.grown(true);
    assert!(space.has_reserve());
    assert_eq!((space.backed_bytes(), space.take_last_backed(16_384)), (28 << 10, Some(1)));
}
#[test]
fn what_is_kept_of_backed_extents_is_no_more_than_was_asked_for() {
    let mut space = space(3);
    space.release(0, 3, true);
    assert_eq!(
        (space.take_last_backed(4097), space.take_last_backed(4096), space.take_last_backed(4096)),
        (Some(2), Some(1), None)
    );
    assert_eq!((space.take_last_backed(0), space.take_last_backed(0)), (Some(0), None));
}

#[test]
fn a_file_with_nothing_in_use_is_free_to_its_first_extent_and_shrinks_to_nothing() {
    let mut space = space(3);
    space.release(0, 3, false);
    assert_eq!((space.free_at_end(), space.free_bytes_at_end(), space.surplus()), (3, 3 * 4096, 3));
    space.shrink(9);
    assert_eq!((space.total, space.free_count(), space.free_at_end()), (0, 0, 0));
}
