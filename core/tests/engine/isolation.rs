//! The anomalies that isolation levels are defined by, one test each, after the list of Hermitage (Martin Kleppmann) and its definitions
//! (Adya; Berenson and others): none of them occurs. Two transactions of one thread go on in turns, so that each test is one interleaving.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use pipkin::{Conflict, Db, Error, Result, Transaction};

/// A store with the records 1 -> 10 and 2 -> 20.
fn store() -> Db {
    let db = Db::builder().ordered(true).segment_size(4096).in_memory().unwrap();
    db.insert_many([("1", "10"), ("2", "20")]).unwrap();
    db
}

fn text(value: Option<Vec<u8>>) -> String {
    value.map_or_else(|| "none".into(), |value| String::from_utf8(value).unwrap())
}

/// What a transaction reads for both keys.
fn both(tx: &Transaction) -> [String; 2] {
    ["1", "2"].map(|key| text(tx.get(key).unwrap()))
}

/// What the store holds for both keys.
fn stored(db: &Db) -> [String; 2] {
    ["1", "2"].map(|key| text(db.get(key).unwrap()))
}

/// The keys whose values are divisible by three.
fn thirds(tx: &Transaction) -> Vec<String> {
    let number = |value: Vec<u8>| String::from_utf8(value).unwrap().parse::<u32>().unwrap();
    let records = tx.range(..).unwrap().map(Result::unwrap);
    records.filter(|(_, value)| number(value.clone()) % 3 == 0).map(|(key, _)| String::from_utf8(key).unwrap()).collect()
}

fn conflict(result: Result<()>) -> Conflict {
    match result {
        Err(Error::Conflict(conflict)) => conflict,
        other => panic!("expected a conflict, not {other:?}"),
    }
}

#[test]
fn g0_writes_of_two_transactions_do_not_mix() {
    let db = store();
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    one.insert("1", "11").unwrap();
    two.insert("1", "12").unwrap();
    one.insert("2", "21").unwrap();
    one.commit().unwrap();
    assert_eq!(stored(&db), ["11", "21"]);
    two.insert("2", "22").unwrap();
    // Neither has read anything: the later one counts as a whole.
    two.commit().unwrap();
    assert_eq!(stored(&db), ["12", "22"]);
}

#[test]
fn g1a_what_was_given_up_is_never_read() {
    let db = store();
    let mut one = db.begin().unwrap();
    let two = db.begin().unwrap();
    one.insert("1", "101").unwrap();
    assert_eq!(both(&two), ["10", "20"]);
    one.rollback();
    assert_eq!(both(&two), ["10", "20"]);
    assert_eq!(stored(&db), ["10", "20"]);
    two.commit().unwrap();
}

#[test]
fn g1b_what_was_overwritten_before_its_commit_is_never_read() {
    let db = store();
    let mut one = db.begin().unwrap();
    let two = db.begin().unwrap();
    one.insert("1", "101").unwrap();
    assert_eq!(both(&two), ["10", "20"]);
    one.insert("1", "11").unwrap();
    one.commit().unwrap();
    assert_eq!(both(&two), ["10", "20"]);
    two.commit().unwrap();
    assert_eq!(stored(&db), ["11", "20"]);
}

#[test]
fn g1c_two_transactions_do_not_depend_on_each_other() {
    let db = store();
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    one.insert("1", "11").unwrap();
    two.insert("2", "22").unwrap();
    assert_eq!(text(one.get("2").unwrap()), "20");
    assert_eq!(text(two.get("1").unwrap()), "10");
    one.commit().unwrap();
    assert_eq!(conflict(two.commit()), Conflict::Key);
    assert_eq!(stored(&db), ["11", "20"]);
}

/// Observed transaction vanishes: a reader that saw one of the writers sees none of another that was before it.
#[test]
fn otv_a_transaction_that_was_seen_does_not_vanish() {
    let db = store();
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    one.insert("1", "11").unwrap();
    one.insert("2", "19").unwrap();
    two.insert("1", "12").unwrap();
    one.commit().unwrap();
    let three = db.begin().unwrap();
    assert_eq!(text(three.get("1").unwrap()), "11");
    two.insert("2", "18").unwrap();
    assert_eq!(text(three.get("2").unwrap()), "19");
    two.commit().unwrap();
    assert_eq!(both(&three), ["11", "19"]);
    three.commit().unwrap();
    assert_eq!(stored(&db), ["12", "18"]);
}

/// Predicate-many-preceders: what a condition holds for does not change within a transaction.
#[test]
fn pmp_a_condition_that_was_read_stays_as_it_was() {
    let db = store();
    let one = db.begin().unwrap();
    assert_eq!(thirds(&one), [""; 0]);
    let mut two = db.begin().unwrap();
    two.insert("3", "30").unwrap();
    two.commit().unwrap();
    assert_eq!(thirds(&one), [""; 0]);
    assert_eq!(one.iter().unwrap().count(), 2);
    one.commit().unwrap();
    // The same for a condition of a write: remove what has the value 20, while another changes it to that.
    let db = store();
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    for key in ["1", "2"] {
        let value: u32 = text(one.get(key).unwrap()).parse().unwrap();
        one.insert(key, (value + 10).to_string()).unwrap();
    }
    let found: Vec<_> = two.range(..).unwrap().map(Result::unwrap).filter(|(_, value)| value == b"20").collect();
    for (key, _) in found {
        assert!(two.remove(key).unwrap());
    }
    one.commit().unwrap();
    assert!(matches!(two.commit(), Err(Error::Conflict(_))));
    assert_eq!(stored(&db), ["20", "30"]);
}

#[test]
fn p4_no_update_is_lost() {
    let db = store();
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!((text(one.get("1").unwrap()), text(two.get("1").unwrap())), ("10".into(), "10".into()));
    one.insert("1", "11").unwrap();
    two.insert("1", "11").unwrap();
    one.commit().unwrap();
    // Though both write the same.
    assert_eq!(conflict(two.commit()), Conflict::Key);
    // Nor is one against a write without a transaction, that puts the same value back.
    let mut three = db.begin().unwrap();
    assert_eq!(text(three.get("1").unwrap()), "11");
    db.insert("1", "12").unwrap();
    db.insert("1", "11").unwrap();
    three.insert("1", "13").unwrap();
    assert_eq!(conflict(three.commit()), Conflict::Key);
    assert_eq!(stored(&db), ["11", "20"]);
}

/// Read skew: both records are read as they were at one moment, in each way of reading, and a write that depends on an old one conflicts.
#[test]
fn g_single_all_reads_are_of_one_moment() {
    let db = store();
    let one = db.begin().unwrap();
    assert_eq!(text(one.get("1").unwrap()), "10");
    let mut two = db.begin().unwrap();
    assert_eq!(both(&two), ["10", "20"]);
    two.insert("1", "12").unwrap();
    two.insert("2", "18").unwrap();
    two.commit().unwrap();
    assert_eq!(text(one.get("2").unwrap()), "20");
    assert_eq!(one.range("2"..).unwrap().next().unwrap().unwrap().1, b"20");
    assert_eq!(one.get_many(["2", "1"]).unwrap(), [Some(b"20".to_vec()), Some(b"10".to_vec())]);
    one.commit().unwrap();
    let db = store();
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!(thirds(&one), [""; 0]);
    two.insert("1", "12").unwrap();
    two.commit().unwrap();
    assert!(one.remove("2").unwrap());
    assert!(matches!(one.commit(), Err(Error::Conflict(_))));
    assert_eq!(stored(&db), ["12", "20"]);
}

#[test]
fn g2_item_two_that_have_read_both_do_not_write_one_each() {
    let db = store();
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!((both(&one), both(&two)), (["10", "20"].map(String::from), ["10", "20"].map(String::from)));
    one.insert("1", "11").unwrap();
    two.insert("2", "21").unwrap();
    one.commit().unwrap();
    assert_eq!(conflict(two.commit()), Conflict::Key);
    assert_eq!(stored(&db), ["11", "20"]);
}

#[test]
fn g2_two_that_have_read_a_range_do_not_write_into_that_of_the_other() {
    let db = store();
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!((thirds(&one), thirds(&two)), (Vec::new(), Vec::new()));
    one.insert("3", "30").unwrap();
    two.insert("4", "42").unwrap();
    one.commit().unwrap();
    assert_eq!(conflict(two.commit()), Conflict::Range);
    assert_eq!((db.get("3").unwrap(), db.get("4").unwrap()), (Some(b"30".to_vec()), None));
}

/// Fekete, O'Neil and O'Neil's anomaly: a transaction that only reads makes two others, each serializable with the other, impossible. Here
/// it is they that conflict, whatever the reader does.
#[test]
fn g2_a_reader_does_not_see_what_no_order_explains() {
    let db = store();
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!(thirds(&one), [""; 0]);
    let value: u32 = text(two.get("2").unwrap()).parse().unwrap();
    two.insert("2", (value + 5).to_string()).unwrap();
    two.commit().unwrap();
    let three = db.begin().unwrap();
    assert_eq!(both(&three), ["10", "25"]);
    three.commit().unwrap();
    one.insert("1", "0").unwrap();
    assert!(matches!(one.commit(), Err(Error::Conflict(_))));
    assert_eq!(stored(&db), ["10", "25"]);
}
