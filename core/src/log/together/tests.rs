//! Which copies go together, and where they are put.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use crate::frame::{FrameSpec, Kind, Meta};

fn store() -> Db {
    let db = Db::builder().segment_size(256 * 1024).entropy([7; 32]).background(false).in_memory().unwrap();
    db.insert("a key", "value").unwrap();
    // A segment of the full length.
    db.insert("long", alloc::vec![1; 200 * 1024]).unwrap();
    db
}

fn spec(value: &[u8]) -> FrameSpec<'_> {
    FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: b"key", value }
}

/// Appends a record with a value of this length.
fn written(log: &Log, len: usize) -> u64 {
    log.append_one(&spec(&alloc::vec![len as u8; len]), Purpose::Store).unwrap().offset
}

fn gathered(log: &Log, offsets: &[u64]) -> Copies {
    let mut copies = Copies::default();
    offsets.iter().for_each(|&offset| copies.push(&log.frame(offset).unwrap()));
    copies
}

#[test]
fn copies_go_together_unless_one_of_them_is_long_or_has_an_origin() {
    let db = store();
    let log = &db.store().engine.log;
    let [short, longest, long] = [10, DIRECT - 1, DIRECT].map(|len| written(log, len));
    let dated = log.append_with_origin(&spec(b"value"), 5, Purpose::Store).unwrap().offset;
    let together = |offsets: &[u64]| gathered(log, offsets).go_together();
    assert!(!together(&[]) && together(&[short]) && together(&[longest]) && together(&[short, longest, short]));
    assert!(!together(&[long]) && !together(&[dated]));
    assert!(!together(&[long, short]) && !together(&[short, long]) && !together(&[short, dated, short]));
    let mut copies = gathered(log, &[long]);
    assert!(log.append_copies(&mut copies, Purpose::Store).unwrap().is_none());
    copies.clear();
    copies.push(&log.frame(short).unwrap());
    assert!(copies.go_together(), "what was gathered is gone");
}

#[cfg(feature = "compress")]
#[test]
fn copies_that_are_made_anew_go_together_unless_one_of_them_is_long() {
    let db = store();
    let log = &db.store().engine.log;
    let made = |lens: &[usize]| {
        let mut copies = Copies::default();
        lens.iter().for_each(|&len| copies.push_new(&spec(&alloc::vec![1; len])));
        copies
    };
    assert!(made(&[10]).go_together() && made(&[DIRECT - 1]).go_together());
    assert!(!made(&[DIRECT]).go_together() && !made(&[DIRECT, 10]).go_together() && !made(&[10, DIRECT]).go_together());
    let places = log.append_copies(&mut made(&[10, 20]), Purpose::Store).unwrap().unwrap();
    for (place, len) in places.iter().zip([10, 20]) {
        let frame = log.frame(place.offset).unwrap();
        assert!(frame.check().is_ok());
        assert_eq!((frame.value().len(), frame.header.frame_len() as u64), (len, place.len));
    }
}

#[test]
fn copies_are_put_one_behind_the_other_at_the_end_of_the_log() {
    let db = store();
    let log = &db.store().engine.log;
    let offsets = [10, 300, 2000].map(|len| written(log, len));
    let mut copies = gathered(log, &offsets);
    // The first one was appended by itself.
    copies.drop_first();
    let (end, records) = (log.end(), log.tail.lock().active.unwrap().records);
    let places = log.append_copies(&mut copies, Purpose::Store).unwrap().unwrap();
    let mut lsn = end;
    for (place, len) in places.iter().zip([300, 2000]) {
        let frame = log.frame(place.offset).unwrap();
        assert!(frame.check().is_ok() && frame.header.copied);
        assert_eq!((frame.key(), frame.value()), (b"key".as_slice(), &*alloc::vec![len as u8; len]));
        assert_eq!((log.lsn(place.offset), place.len), (lsn, frame.header.frame_len() as u64));
        lsn += place.len;
    }
    assert_eq!((places.len(), log.end(), log.position()), (2, lsn, lsn));
    if cfg!(feature = "followers") {
        assert_eq!(log.tail.lock().active.unwrap().records, records + 2);
    }
    copies.drop_first();
    copies.drop_first();
    copies.drop_first();
    assert!(!copies.go_together(), "nothing is left");
}
