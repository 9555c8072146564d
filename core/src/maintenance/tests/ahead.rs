//! The thread that reads ahead: in which groups it hands records over, and what comes of damage and of failures.

use crate::Db;
use crate::error::{Error, Result};
use crate::log::Segment;
use crate::maintenance::ahead;
use crate::maintenance::sift::{Prior, Record};
use crate::storage::{MemoryStorage, Storage};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A segment with so many records of one byte each and as many values of this length.
fn records(storage: &MemoryStorage, count: u16, len: usize) -> (Db, Segment) {
    let builder = Db::builder().segment_size(1 << 20).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
    let db = builder.open_storage(Box::new(storage.clone())).unwrap();
    db.insert_many((0..count).map(|key| (key.to_be_bytes(), alloc::vec![7; len]))).unwrap();
    let [segment] = db.store().engine.log.segments()[..] else { panic!("one segment") };
    (db, segment)
}

fn frame_len(db: &Db, segment: &Segment) -> usize {
    let log = &db.store().engine.log;
    log.header(segment.first_frame(log.geometry)).unwrap().frame_len()
}

fn sift(db: &Db, segment: &Segment, wanted: bool, copy: &mut dyn FnMut(&[Record<'_>]) -> Result<()>) -> Result<Option<usize>> {
    let prior = Prior { oldest: false, pointed: None };
    ahead::sift(&db.store().engine, segment, prior, wanted, copy).map(|damage| damage.map(|damage| damage.len()))
}

/// How many records are in each group, and how many places are damaged.
fn groups(db: &Db, segment: &Segment) -> (Vec<usize>, usize) {
    let mut groups = Vec::new();
    let copy = &mut |records: &[Record<'_>]| {
        groups.push(records.len());
        Ok(())
    };
    let damaged = sift(db, segment, true, copy).unwrap().unwrap();
    (groups, damaged)
}

#[test]
fn groups_end_with_the_256th_record_and_parcels_of_them_with_the_512th() {
    for (count, expected) in [(256, &[256][..]), (257, &[256, 1]), (512, &[256, 256]), (700, &[256, 256, 188])] {
        let (db, segment) = records(&MemoryStorage::new(), count, 1);
        assert_eq!(groups(&db, &segment), (expected.to_vec(), 0), "{count} records");
    }
}

#[test]
fn damage_is_left_out_and_returned_and_a_failure_ends_it() {
    let storage = MemoryStorage::new();
    let (db, segment) = records(&storage, 600, 1);
    let mut calls = 0;
    let failed = sift(&db, &segment, true, &mut |_| {
        calls += 1;
        Err(Error::NoSpace)
    });
    assert!(matches!(failed, Err(Error::NoSpace)) && calls == 1, "{failed:?}");
    let first = segment.first_frame(db.store().engine.log.geometry);
    storage.write_at(first + frame_len(&db, &segment) as u64 - 1, &[&[8]]).unwrap();
    assert_eq!(groups(&db, &segment), ([256, 256, 87].to_vec(), 1));
}

#[test]
fn where_it_is_not_wanted_nothing_is_done() {
    let (db, segment) = records(&MemoryStorage::new(), 3, 1);
    let nothing = sift(&db, &segment, false, &mut |_| panic!("nothing is to be copied"));
    assert_eq!(nothing.unwrap(), None);
}
