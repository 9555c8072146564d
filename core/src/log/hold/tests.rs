use super::*;

#[test]
fn an_extent_is_held_until_the_last_value_in_it_is_dropped() {
    let holds = ExtentHolds::default();
    holds.hold(5);
    holds.hold(5);
    holds.hold(8);
    assert_eq!(holds.count(), 3);
    assert_eq!(
        [(4, 1), (4, 2), (5, 1), (6, 2), (6, 3), (0, u32::MAX)].map(|(extent, extents)| holds.is_held(extent, extents)),
        [false, true, true, false, true, true]
    );
    holds.release(5);
    assert!(holds.is_held(5, 1));
    holds.release(5);
    holds.release(5);
    assert_eq!((holds.is_held(5, 1), holds.count()), (false, 1));
}
