//! When a sync mark fits, and what writing one changes.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
use super::super::Space;
use super::super::append::RETIRE_ROOM;
use super::*;
use crate::Db;
use core::mem::replace;

const LEN: u64 = MARK_LEN as u64;

fn store() -> Db {
    let db = Db::builder().segment_size(4096).entropy([7; 32]).background(false).in_memory().unwrap();
    db.insert("a key", "value").unwrap();
    db
}

/// Calls `run` while the active segment has so much room.
fn with_room<T>(log: &Log, room: u64, run: impl FnOnce(&mut Tail) -> T) -> T {
    let mut tail = log.tail.lock();
    let active = tail.active.as_mut().unwrap();
    let limit = active.position + room;
    let before = replace(&mut active.limit, limit);
    let result = run(&mut tail);
    tail.active.as_mut().unwrap().limit = before;
    result
}

#[test]
fn a_mark_fits_if_one_is_due_and_the_next_frame_fits_behind_it() {
    let db = store();
    let log = &db.store().engine.log;
    assert_eq!(log.mark_len(), LEN);
    let fits = |is_due: bool, room: u64, first: u64| {
        with_room(log, room, |tail| {
            tail.mark_due = is_due.then_some(5);
            log.mark_fits(tail, first)
        })
    };
    assert_eq!([LEN - 1, LEN, LEN + 1].map(|room| fits(true, room, 0)), [false, true, true]);
    assert_eq!([LEN + 99, LEN + 100].map(|room| fits(true, room, 100)), [false, true]);
    assert!(!fits(false, 1000, 0));
    let mut tail = log.tail.lock();
    tail.mark_due = Some(5);
    let active = tail.active.take();
    assert!(!log.mark_fits(&tail, 0), "there is no segment");
    (tail.active, tail.mark_due) = (active, None);
}

#[test]
fn a_mark_that_is_written_is_due_no_more_and_moves_the_place_of_the_next_frame() {
    let db = store();
    let log = &db.store().engine.log;
    let end = log.end();
    let written = |is_due: bool, first: u64| {
        with_room(log, LEN + 10, |tail| {
            tail.mark_due = is_due.then_some(5);
            let before = tail.active.unwrap().position;
            log.put_mark(tail, first).unwrap();
            log.write_gathered(tail).unwrap();
            (tail.active.unwrap().position - before, tail.mark_due.take())
        })
    };
    assert_eq!((written(false, 0), written(true, 11)), ((0, None), (0, Some(5))));
    assert_eq!(written(true, 10), (LEN, None));
    assert_eq!((log.end(), log.position()), (end, end + LEN), "no append");
    let header = log.header(log.segments().first().unwrap().end - LEN).unwrap();
    assert_eq!((header.kind, header.frame_len() as u64), (Kind::Mark, LEN));
}

#[test]
fn a_mark_leaves_room_for_retirements_where_there_is_no_reserve() {
    let db = store();
    let log = &db.store().engine.log;
    let marked = |room: u64| {
        with_room(log, room, |tail| {
            let active = tail.active;
            let marked = log.mark_now(tail).unwrap();
            tail.active = active;
            marked
        })
    };
    assert_eq!([LEN - 1, LEN].map(marked), [false, true]);
    let space = replace(&mut log.tail.lock().space, Space::new(log.geometry));
    assert_eq!([LEN + RETIRE_ROOM - 1, LEN + RETIRE_ROOM].map(marked), [false, true]);
    log.tail.lock().space = space;
    log.tail.lock().announced = false;
    assert!(!marked(1000), "who has not begun to write");
    log.tail.lock().announced = true;
    log.poison(crate::Error::Bug("a test"));
    assert!(log.mark_now(&mut log.tail.lock()).is_err());
}
