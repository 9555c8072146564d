#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use crate::Db;

type Record<'a> = (Kind, &'a [u8], &'a [u8]);

/// The namespaces after these records, each with its name and its value, or the number of the first one that is malformed.
fn names(records: &[Record<'_>]) -> core::result::Result<Names, u64> {
    let db = Db::open_in_memory().unwrap();
    let engine = &db.store().engine;
    let mut replay = Replay { engine, names: Names::default(), records: 0, damage: None, settled: Hashes::default() };
    for (&(kind, name, value), number) in records.iter().zip(0..) {
        match replay.apply_name(kind, number, name, value) {
            Ok(()) => {}
            Err(Error::Corrupt { offset, .. }) => return Err(offset),
            Err(error) => panic!("{error}"),
        }
    }
    Ok(replay.names)
}

#[test]
fn no_number_of_a_record_of_a_name_is_given_out_again() {
    let next = |records: &[Record<'_>]| names(records).map(|names| names.next);
    let [three, seven, last] = [3, 7, NAMESPACE_NUMBER_MAX].map(u32::to_le_bytes);
    assert_eq!(next(&[]), Ok(1));
    assert_eq!(next(&[(Kind::Put, b"a", &seven)]), Ok(8));
    assert_eq!(next(&[(Kind::Put, b"a", &seven), (Kind::Put, b"b", &three)]), Ok(8));
    // Also where only the removal of the name is left.
    assert_eq!(next(&[(Kind::Tombstone, b"a", &seven)]), Ok(8));
    assert_eq!(next(&[(Kind::Tombstone, b"a", &seven), (Kind::Tombstone, b"b", &three)]), Ok(8));
    assert_eq!(next(&[(Kind::Put, b"a", &last)]), Ok(NAMESPACE_NUMBER_MAX + 1));
}

#[test]
fn a_record_of_a_name_sets_its_number_and_its_options_or_takes_it_away() {
    let seven = [7, 0, 0, 0, 1, 2];
    let all = names(&[(Kind::Put, b"a", &seven), (Kind::Put, b"b", &[9, 0, 0, 0])]).unwrap();
    let number = |names: &Names, name: &str| names.get(name).and_then(|name| name.number());
    assert_eq!((number(&all, "a"), number(&all, "b"), number(&all, "")), (Some(7), Some(9), Some(0)));
    assert_eq!((all.options("a"), all.options("b")), (&[1, 2][..], &[][..]));
    let rest = names(&[(Kind::Put, b"a", &seven), (Kind::Put, b"b", &[9, 0, 0, 0]), (Kind::Tombstone, b"a", &seven)]).unwrap();
    assert_eq!((number(&rest, "a"), number(&rest, "b"), rest.options("a")), (None, Some(9), &[][..]));
    // The default namespace has options, too, and stays.
    assert_eq!(names(&[(Kind::Put, b"", &[0, 0, 0, 0, 5])]).unwrap().options(""), [5]);
}

#[test]
fn a_record_of_a_name_is_damaged_without_a_name_or_a_number() {
    let good: Record<'_> = (Kind::Put, b"a", &[7, 0, 0, 0]);
    let behind = (NAMESPACE_NUMBER_MAX + 1).to_le_bytes();
    for bad in [
        (Kind::Put, &b"\xff"[..], &[7, 0, 0, 0][..]),
        (Kind::Tombstone, b"\xff", &[7, 0, 0, 0]),
        (Kind::Put, b"b", &[7, 0, 0]),
        (Kind::Tombstone, b"b", &[]),
        (Kind::Put, b"b", &behind),
        (Kind::Tombstone, b"b", &behind),
        (Kind::Tombstone, b"", &[7, 0, 0, 0]),
    ] {
        assert_eq!(names(&[good, bad]).map(|names| names.next), Err(1), "{bad:?}");
    }
}
