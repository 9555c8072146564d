//! Ranges that go on later and elsewhere, and the records at the ends of an ordered store.
#![cfg(feature = "ordered")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{find, flipped, opened};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error};

type Record = Option<Result<(Vec<u8>, Vec<u8>), Error>>;

fn key(record: Record) -> u8 {
    record.unwrap().unwrap().0[0]
}

/// What is left of a range after any number of steps at both ends, resumed, is what was not returned.
#[test]
fn a_range_goes_on_in_another_thread_and_after_a_pause() {
    fn is_sendable<T: Send>(_: &T) {}
    let db = Db::builder().ordered(true).in_memory().unwrap();
    db.insert_many((0..70_u8).map(|number| ([number], [number]))).unwrap();
    for (front, back) in [(0, 0), (1, 0), (0, 1), (3, 2), (4, 40), (40, 4), (35, 34), (1, 68), (68, 1), (0, 69), (69, 0)] {
        let mut range = db.range([0]..[70]).unwrap();
        is_sendable(&range);
        for step in 0..front {
            assert_eq!(key(range.next()), step);
        }
        std::thread::scope(|scope| {
            let range = &mut range;
            scope.spawn(move || (0..back).for_each(|step| assert_eq!(key(range.next_back()), 69 - step))).join().unwrap();
        });
        let left: Vec<u8> = db.range(range.rest()).unwrap().map(|record| record.unwrap().0[0]).collect();
        assert_eq!(left, (front..70 - back).collect::<Vec<_>>(), "{front} steps and {back} back");
        assert_eq!(range.map(|record| record.unwrap().0[0]).collect::<Vec<_>>(), left);
    }
    let mut all = db.range(..).unwrap();
    assert_eq!(all.by_ref().count(), 70);
    db.insert([200], "later").unwrap();
    assert_eq!(db.range(all.rest()).unwrap().map(|record| record.unwrap().0[0]).collect::<Vec<_>>(), [200]);
    let mut keys = db.range_keys([60]..).unwrap();
    assert_eq!((keys.next().unwrap().unwrap(), db.range_keys(keys.rest()).unwrap().count()), (vec![60], 10));
}

#[test]
fn a_range_that_meets_damage_goes_on_there_and_behind_it() {
    let file = MemoryStorage::new();
    let db = opened(file.clone(), 64 * 1024);
    db.insert_many((0..30_u8).map(|number| ([number], format!("value {number:02}")))).unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let bytes = file.to_vec();
    let damaged = flipped(&bytes, find(&bytes, b"value 13"));
    let db = Db::builder().ordered(true).background(false).open_storage(Box::new(damaged)).unwrap();
    let mut range = db.range(..).unwrap();
    for step in 0..13 {
        assert_eq!(key(range.next()), step);
    }
    // Before the error was returned, it is a part of what is left.
    let resumed = db.range(range.rest()).unwrap();
    assert_eq!(resumed.map(|record| record.is_ok()).collect::<Vec<_>>(), [&[false][..], &[true; 16]].concat());
    assert_eq!(range.next().unwrap().unwrap_err().damaged_key(), Some(&[13][..]));
    assert_eq!(
        db.range(range.rest()).unwrap().map(|record| record.unwrap().0[0]).collect::<Vec<_>>(),
        (14..30).collect::<Vec<_>>()
    );
    for _ in 0..13 {
        db.pop_first().unwrap();
    }
    assert_eq!(db.pop_first().unwrap_err().damaged_key(), Some(&[13][..]), "a damaged record is not taken away unseen");
    assert!(db.remove([13]).unwrap());
    assert_eq!(db.pop_first().unwrap().unwrap().0, [14]);
}

#[test]
fn the_ends_can_be_read_and_taken_and_every_record_is_taken_once() {
    let db = Db::builder().ordered(true).in_memory().unwrap();
    assert_eq!((db.first_key_value().unwrap(), db.pop_last().unwrap()), (None, None));
    db.insert_many((0..400_u16).map(|number| (number.to_be_bytes(), "job"))).unwrap();
    let group = db.focus([7]);
    group.insert("only", "1").unwrap();
    let only = Some((b"only".to_vec(), b"1".to_vec()));
    assert_eq!((group.first_key_value().unwrap(), group.last_key_value().unwrap()), (only.clone(), only.clone()));
    assert_eq!((group.pop_first().unwrap(), group.pop_last().unwrap(), db.len().unwrap()), (only, None, 400));
    assert_eq!(db.first_key_value().unwrap().unwrap().0, [0, 0]);
    assert_eq!(db.last_key_value().unwrap().unwrap().0, 399_u16.to_be_bytes());
    let mut taken: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let db = &db;
        let pops = |first: bool| {
            let pop = move || if first { db.pop_first() } else { db.pop_last() };
            move || std::iter::from_fn(|| pop().unwrap()).map(|(key, _)| key).collect::<Vec<_>>()
        };
        let threads: Vec<_> = [true, false, true].into_iter().map(|first| scope.spawn(pops(first))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    taken.sort();
    assert_eq!(taken, (0..400_u16).map(|number| number.to_be_bytes().to_vec()).collect::<Vec<_>>());
    assert!(db.is_empty().unwrap());
    let plain = Db::open_in_memory().unwrap();
    assert!(matches!(plain.pop_first(), Err(Error::NotOrdered)) && matches!(plain.last_key_value(), Err(Error::NotOrdered)));
}
