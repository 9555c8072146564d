//! Copies that are made together while a snapshot lives.

use super::opened;
use crate::frame::{FrameSpec, Kind, Meta};
use crate::log::{Dated, Purpose};
use crate::storage::MemoryStorage;
use alloc::vec::Vec;

#[test]
fn each_copy_of_many_says_when_its_record_was_first_written_wherever_it_stands() {
    let db = opened(&MemoryStorage::new());
    // Distances that take one byte, two and three.
    (0..8_u8).for_each(|key| db.insert([key], alloc::vec![key; 3_000]).unwrap());
    let log = &db.store().engine.log;
    let end = log.end();
    let begins = [None, Some(end), Some(end - 100), Some(end - 1_000), Some(end - 17_000), None, Some(1)];
    let frame = |value| FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(7), key: b"key", value };
    let copies: Vec<Dated<'_>> = begins
        .iter()
        .zip([&b"value"[..], b""].iter().cycle())
        .map(|(&begin, value)| Dated { frame: frame(value), begin })
        .collect();
    let places = log.append_dated(&copies, &mut Vec::new(), Purpose::MakeSpace).unwrap().unwrap();
    assert_eq!(places.len(), copies.len());
    assert!(places.windows(2).all(|two| two[0].offset + two[0].len == two[1].offset), "{places:?}");
    for (place, Dated { frame, begin }) in places.iter().zip(&copies) {
        assert_eq!(log.begin_of(place.offset).unwrap(), (begin.unwrap_or(0), true));
        let found = log.frame(place.offset).unwrap();
        found.check().unwrap();
        assert_eq!((found.header.namespace, found.key(), found.value()), (7, frame.key, frame.value));
        assert_eq!(found.header.frame_len() as u64, place.len);
    }
    assert_eq!(log.end(), log.lsn(places[6].offset) + places[6].len);
}

#[test]
fn what_does_not_fit_into_the_segment_is_left_to_be_copied_one_by_one() {
    let db = opened(&MemoryStorage::new());
    db.insert("key", alloc::vec![1; 3_000]).unwrap();
    let (log, value) = (&db.store().engine.log, alloc::vec![2; 900]);
    let end = log.end();
    let frame = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: b"key", value: &value };
    let copies = [Dated { frame, begin: Some(1) }, Dated { frame, begin: None }];
    assert_eq!(log.append_dated(&copies, &mut Vec::new(), Purpose::MakeSpace).unwrap(), None);
    assert_eq!(log.end(), end);
}
