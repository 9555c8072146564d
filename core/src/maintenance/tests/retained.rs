//! When the events of a log are counted again, and which of them go at once.

use crate::Db;
use crate::events::{EVENTS_PREFIX, In};
use crate::maintenance::retention::{Exactly, REMOVED_TOGETHER};
use crate::{Events, Expected, NewEvent, Retention};

fn store() -> Db {
    Db::builder().segment_size(64 * 1024).background(false).in_memory().unwrap()
}

fn append(log: &Events, count: u64) {
    log.append("stream", Expected::Any, (0..count).map(|_| NewEvent::new("T", ""))).unwrap();
}

/// The log of this name.
fn number_of(db: &Db, name: &str) -> In {
    let store = db.store();
    let number = store.names.read().get(&[EVENTS_PREFIX, name].concat()).unwrap().number().unwrap();
    store.engine.events_of(number)
}

/// How many are removed in one commit where the last `events` are kept.
fn removed(db: &Db, of: In, events: u64, exactly: Exactly) -> u64 {
    db.store().retain_some(of, Retention::new().max_events(events), exactly).unwrap()
}

/// The first event that is there, the first that counts, and the last one when they were counted.
fn kept(db: &Db, of: In) -> (u64, u64, u64) {
    let kept = db.store().engine.events().unwrap().kept(of.namespace);
    (kept.from, kept.limit, kept.counted)
}

#[test]
fn maintenance_counts_the_events_of_a_log_again_once_an_eighth_of_them_has_come() {
    let db = store();
    let log = db.events("log").unwrap();
    let of = number_of(&db, "log");
    append(&log, 100);
    assert_eq!((removed(&db, of, 80, Exactly::Nearly), kept(&db, of)), (20, (21, 21, 100)));
    append(&log, 9);
    assert_eq!((removed(&db, of, 80, Exactly::Nearly), kept(&db, of)), (0, (21, 21, 100)));
    append(&log, 1);
    assert_eq!((removed(&db, of, 80, Exactly::Nearly), kept(&db, of)), (10, (31, 31, 110)));
    append(&log, 5);
    assert_eq!((removed(&db, of, 80, Exactly::Nearly), kept(&db, of)), (0, (31, 31, 110)));
    assert_eq!((removed(&db, of, 80, Exactly::Yes), kept(&db, of)), (5, (36, 36, 115)));
    assert_eq!(db.stats().unwrap().events_removed, 35);
}

#[test]
fn a_log_of_no_more_events_than_may_be_keeps_all_and_remembers_that() {
    let db = store();
    let log = db.events("log").unwrap();
    let of = number_of(&db, "log");
    assert_eq!((removed(&db, of, 80, Exactly::Yes), kept(&db, of)), (0, (1, 1, 0)));
    append(&log, 79);
    assert_eq!((removed(&db, of, 80, Exactly::Nearly), kept(&db, of)), (0, (1, 1, 79)));
    append(&log, 1);
    assert_eq!((removed(&db, of, 80, Exactly::Yes), kept(&db, of)), (0, (1, 1, 80)));
    append(&log, 1);
    assert_eq!((removed(&db, of, 80, Exactly::Yes), kept(&db, of)), (1, (2, 2, 81)));
}

/// Between them stand more events of another log than are looked at under one pin.
#[test]
fn events_that_stand_far_apart_are_counted_and_removed_as_many_together_as_may_be() {
    let db = store();
    let [log, other] = ["log", "other"].map(|name| db.events(name).unwrap());
    let of = number_of(&db, "log");
    append(&log, 300);
    append(&other, 2_500);
    append(&log, 30);
    let together = REMOVED_TOGETHER as u64;
    assert_eq!((removed(&db, of, 40, Exactly::Yes), kept(&db, of)), (together, (together + 1, 291, 2_830)));
    assert_eq!((removed(&db, of, 40, Exactly::Yes), kept(&db, of)), (290 - together, (291, 291, 2_830)));
    assert_eq!(removed(&db, of, 40, Exactly::Yes), 0);
    // In front of the other log ten, and behind it twenty.
    assert_eq!((removed(&db, of, 10, Exactly::Yes), kept(&db, of)), (30, (2_821, 2_821, 2_830)));
    assert_eq!(other.version("stream").unwrap(), 2_500);
    assert_eq!(removed(&db, number_of(&db, "other"), 2_500, Exactly::Yes), 0);
}

#[test]
fn a_store_retains_events_while_a_log_of_it_need_not_keep_all() {
    let db = store();
    let [log, _other] = ["log", "other"].map(|name| db.events(name).unwrap());
    assert!(!db.store().retains_events());
    log.set_retention(Retention::new().max_events(7)).unwrap();
    assert!(db.store().retains_events());
    append(&log, 900);
    db.store().maintain().unwrap();
    assert_eq!((db.stats().unwrap().events_removed, kept(&db, number_of(&db, "log"))), (893, (894, 894, 900)));
    log.set_retention(Retention::new()).unwrap();
    assert!(!db.store().retains_events());
}
