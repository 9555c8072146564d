//! Which runs of earlier sessions a session leaves alone.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
use super::*;
use crate::Db;

const NOW: u64 = 1_000_000;

/// What a session that begins now leaves alone of these.
fn left(claims: &[Barred]) -> Vec<Barred> {
    let db = Db::builder().segment_size(4096).background(false).in_memory().unwrap();
    let claims = claims.iter().map(|&run| (run, 0)).collect();
    db.store().engine.log.remembered(&Standing { claims, ..Standing::default() }, NOW)
}

#[test]
fn a_run_is_left_alone_for_four_sessions_and_for_as_long_as_its_session_may_sleep() {
    let run = |sessions, since| Barred { extent: 8, extents: 1, sessions, since };
    assert_eq!(left(&[run(0, 7)]), [run(1, NOW)], "its time begins with the first session behind it");
    let cases = [
        ("the fourth session, at an unknown time", 3, 0, true),
        ("the fifth", 4, 0, false),
        ("the fifth within ten seconds", 4, NOW - 9_999, true),
        ("the fifth behind them", 4, NOW - 10_000, false),
        ("the fifth, after the clock was set back", 4, NOW + 5, true),
        ("the last of a crowd", 62, NOW - 1, true),
        ("the one behind it", 63, NOW - 1, false),
    ];
    for (what, sessions, since, is_left) in cases {
        let expected: Vec<Barred> = is_left.then(|| run(sessions + 1, since)).into_iter().collect();
        assert_eq!(left(&[run(sessions, since)]), expected, "{what}");
    }
}

/// Of sessions that may sleep those that began last come first, and the others once there is no room.
#[test]
fn no_more_than_two_megabytes_are_left_to_sessions_that_may_sleep() {
    let run = |sessions, bytes: u32| Barred { extent: 8, extents: bytes / 4096, sessions, since: NOW };
    let (half, all) = (1 << 20, 2 << 20);
    assert_eq!(left(&[run(10, half), run(5, half)]), [run(6, half), run(11, half)]);
    assert_eq!(left(&[run(10, 4096), run(5, all)]), [run(6, all)]);
    assert_eq!(left(&[run(5, 4096), run(2, all + 4096)]), [run(3, all + 4096)], "of the last four sessions all");
}
