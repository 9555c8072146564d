//! Messages of transactions: that come twice, that come to another leader, that meet a full medium.

use core::ops::Bound;
use std::sync::Arc;

use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::{Cursor, Db, Storage, Ttl};
use wasm_bindgen_test::wasm_bindgen_test;

use crate::failure::Code;
use crate::run;
use crate::run_tests::outcomes;
use crate::shared::Open;
use crate::wire::{Answer, Op, Range, Request, decode};

const TAB: [u8; 16] = [7; 16];
/// The number of a transaction.
const TX: f64 = 5.0;

fn open() -> Open {
    Open::new(Db::builder().entropy([3; 32]).in_memory().unwrap(), None)
}

/// Another leader of the same store: it has no transaction of the first.
fn next_leader(open: &Open) -> Open {
    Open::new(open.db.clone(), None)
}

fn run(open: &Open, ops: &[Op<'_>], number: Option<u64>) -> Vec<Answer> {
    run::run(open, &Request { durable: false, origin: number.map(|number| (TAB, number)), ops: ops.to_vec() })
}

fn set<'a>(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::In(TX, Box::new(Op::WriteManyFor(vec![((key, Some(value)), Ttl::Default)])))
}

fn has(key: &[u8]) -> Op<'_> {
    Op::In(TX, Box::new(Op::Has(key)))
}

#[wasm_bindgen_test]
fn a_commit_that_comes_again_to_the_next_leader_is_known_and_written_once() {
    let first = open();
    first.transactions.begin(&first.db, TX).unwrap();
    assert_eq!(outcomes(&run(&first, &[has(b"n"), set(b"n", b"1"), has(b"n")], Some(1))), [Ok(0), Ok(0), Ok(1)]);
    assert_eq!(first.db.get("n").unwrap(), None);
    // Nothing behind it: a write there would say of the commit, too, that it was carried out.
    let message = [Op::Delete(b"before"), Op::Commit(TX)];
    assert_eq!(outcomes(&run(&first, &message, Some(2))), [Ok(0), Ok(1)]);
    // Its answer was lost with its leader, and somebody else has written since.
    first.db.insert("n", "2").unwrap();
    let next = next_leader(&first);
    assert_eq!(outcomes(&run(&next, &message, Some(2))), [Ok(0), Ok(1)]);
    assert_eq!(next.db.get("n").unwrap(), Some(b"2".to_vec()));
    // The keys in order know of it, too.
    let range = Range { bounds: (Bound::Unbounded, Bound::Unbounded), values: false, reverse: false };
    assert!(matches!(run(&next, &[Op::Range(range)], None)[..], [Answer::Page { count: 1, .. }]));
}

#[wasm_bindgen_test]
fn a_commit_that_no_leader_has_carried_out_conflicts_at_the_next_one_however_often_it_comes() {
    let first = open();
    first.transactions.begin(&first.db, TX).unwrap();
    run(&first, &[set(b"n", b"1")], Some(1));
    let next = next_leader(&first);
    for _ in 0..2 {
        let answers = run(&next, &[set(b"n", b"2"), Op::Commit(TX), Op::Write((b"other", Some(b"1")))], Some(2));
        assert_eq!(outcomes(&answers), [Err(Code::Conflict), Err(Code::Conflict), Ok(0)]);
    }
    assert_eq!((next.db.get("n").unwrap(), next.db.get("other").unwrap()), (None, Some(b"1".to_vec())));
}

#[wasm_bindgen_test]
fn a_walk_of_a_transaction_is_checked_at_its_commit_and_the_order_of_the_store_learns_of_it() {
    let open = open();
    open.db.insert_many([("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
    let range = Op::Range(Range { bounds: (Bound::Included(&b"b"[..]), Bound::Unbounded), values: true, reverse: true });
    let count = |answers: Vec<Answer>| match &answers[..] {
        [Answer::Page { count, next, .. }] => (*count, *next),
        other => panic!("{other:?}"),
    };
    assert_eq!(count(run(&open, core::slice::from_ref(&range), None)), (2, -1.0));
    for (between, expected) in [(None, Ok(1)), (Some("bb"), Err(Code::Conflict))] {
        open.transactions.begin(&open.db, TX).unwrap();
        let own = [set(b"d", b"4"), Op::In(TX, Box::new(Op::Delete(b"b")))];
        run(&open, &own, None);
        assert_eq!(count(run(&open, &[Op::In(TX, Box::new(range.clone()))], None)), (2, -1.0));
        let page = Op::Page { from: Cursor::default(), values: false, prefix: b"" };
        assert_eq!(count(run(&open, &[Op::In(TX, Box::new(page))], None)).0, 3);
        if let Some(key) = between {
            open.db.insert(key, "other").unwrap();
        }
        assert_eq!(outcomes(&run(&open, &[Op::Commit(TX)], None)), [expected]);
        assert_eq!(count(run(&open, core::slice::from_ref(&range), None)), (2, -1.0), "c and d");
    }
}

#[wasm_bindgen_test]
fn at_a_full_quota_a_transaction_is_refused_whole() {
    let storage = Arc::new(FaultStorage::new(MemoryStorage::new()));
    let db = Db::builder().entropy([4; 32]).segment_size(64 * 1024).open_storage(Box::new(storage.clone())).unwrap();
    db.insert("old", "1").unwrap();
    storage.set_capacity(Some(256 * 1024));
    let open = Open::new(db, None);
    let large = vec![0; 300 * 1024];
    open.transactions.begin(&open.db, TX).unwrap();
    let ops = [set(b"large", &large), set(b"small", b"1"), Op::In(TX, Box::new(Op::Delete(b"old"))), Op::Commit(TX)];
    assert_eq!(outcomes(&run(&open, &ops, Some(1))), [Ok(0), Ok(0), Ok(1), Err(Code::Quota)]);
    assert_eq!((open.db.get("old").unwrap(), open.db.get("small").unwrap()), (Some(b"1".to_vec()), None));
    assert!(open.transactions.take(TX).is_none());
    assert!(open.db.verify().unwrap().is_ok());
}

#[wasm_bindgen_test]
fn what_cannot_be_in_a_transaction_makes_no_sense() {
    let in_transaction = [&[0, 16][..], &TX.to_le_bytes()].concat();
    for (inner, may) in [
        (&[2, 1, 0, 0, 0, 7][..], true),
        (&[4, 1, 0, 0, 0, 7], true),
        (&[12, 0, 0, 0, 0], true),
        (&[3, 0, 1, 0, 0, 0, 7], false),
        (&[6, 1, 0, 0, 0, 7, 0, 0], false),
        (&[9], false),
        (&[14, 1, 0, 0, 0, 7], false),
        (&[16, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 7], false),
        (&[17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], false),
        (&[], false),
    ] {
        assert_eq!(decode(&[&*in_transaction, inner].concat(), None).is_some(), may, "{inner:?}");
    }
    // A count of keys that the message cannot hold.
    assert!(decode(&[&[0, 17][..], &TX.to_le_bytes(), &[0xff; 4]].concat(), None).is_none());
}

/// Its tab asks the next leader, who has opened the file again: what the file has of it decides, all or nothing, and once.
#[wasm_bindgen_test]
fn a_commit_whose_flush_or_write_fails_is_whole_or_absent_and_never_counts_twice() {
    let faults = [
        (Io::Sync, Effect::LostSync),
        (Io::Sync, Effect::Late),
        (Io::Write, Effect::Torn { bytes: 30 }),
        (Io::Write, Effect::Late),
    ];
    for (on, effect) in faults {
        let medium = MemoryStorage::new();
        let storage = Arc::new(FaultStorage::new(medium.clone()));
        let db = Db::builder().entropy([4; 32]).segment_size(64 * 1024).open_storage(Box::new(storage.clone())).unwrap();
        db.insert_many([("from", "5"), ("to", "0")]).unwrap();
        db.flush().unwrap();
        let first = Open::new(db, None);
        first.transactions.begin(&first.db, TX).unwrap();
        run(&first, &[set(b"from", b"4"), set(b"to", b"1")], None);
        storage.arm(Fault::nth(1, on, effect));
        let request = Request { durable: true, origin: Some((TAB, 7)), ops: vec![Op::Commit(TX)] };
        assert_eq!(outcomes(&run::run(&first, &request)), [Err(Code::OutcomeUnknown)], "{on:?} {effect:?}");
        storage.disarm();
        assert!(first.db.is_poisoned());
        first.transactions.begin(&first.db, 6.0).unwrap();
        let other = Op::In(6.0, Box::new(Op::WriteManyFor(vec![((b"to", Some(b"9")), Ttl::Default)])));
        assert!(outcomes(&run(&first, &[other], None))[0].is_err(), "the store takes no more writes");
        core::mem::forget(first);
        if on == Io::Sync {
            storage.lose_unsynced().unwrap();
        }
        let next = Open::new(Db::builder().entropy([5; 32]).open_storage(Box::new(medium.clone())).unwrap(), None);
        let both = || [next.db.get("from").unwrap().unwrap(), next.db.get("to").unwrap().unwrap()].concat();
        let found = both();
        assert!(found == b"41" || found == b"50", "{on:?} {effect:?}: {found:?}");
        let expected = if found == b"41" { Ok(1) } else { Err(Code::Conflict) };
        assert_eq!(outcomes(&run::run(&next, &request)), [expected], "{on:?} {effect:?}");
        assert_eq!(both(), found);
    }
}

#[wasm_bindgen_test]
fn a_rotten_record_fails_the_read_of_it_and_no_other_write_of_the_transaction() {
    let medium = MemoryStorage::new();
    let db = Db::builder().entropy([4; 32]).open_storage(Box::new(medium.clone())).unwrap();
    db.insert_many([("good", "1"), ("rotten", "a value that is looked for")]).unwrap();
    let at = medium.to_vec().windows(9).position(|bytes| bytes == b"looked fo").unwrap();
    medium.write_at(at as u64, &[b"L"]).unwrap();
    let open = Open::new(db, None);
    open.transactions.begin(&open.db, TX).unwrap();
    let get = |key: &'static [u8]| Op::In(TX, Box::new(Op::Get(key)));
    match &run(&open, &[get(b"good"), get(b"rotten"), set(b"good", b"2"), Op::Commit(TX)], None)[..] {
        [Answer::Value(Some(good)), Answer::Failed(failure), Answer::Written(0), Answer::Written(1)] => {
            assert_eq!((&good[..], failure.code), (&b"1"[..], Code::Corrupt));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(open.db.get("good").unwrap(), Some(b"2".to_vec()));
}

#[wasm_bindgen_test]
fn behind_its_commit_a_transaction_takes_nothing_also_in_the_same_message() {
    let open = open();
    open.transactions.begin(&open.db, TX).unwrap();
    let ops = [set(b"a", b"1"), Op::Commit(TX), Op::Commit(TX), set(b"a", b"2"), has(b"a"), Op::Commit(TX)];
    let conflict = Err(Code::Conflict);
    assert_eq!(outcomes(&run(&open, &ops, Some(1))), [Ok(0), Ok(1), conflict, conflict, conflict, conflict]);
    assert_eq!(open.db.get("a").unwrap(), Some(b"1".to_vec()));
    // Come again, to this leader and to the next: what was carried out stays so, and nothing is carried out behind it.
    for leader in [&open, &next_leader(&open)] {
        let again = outcomes(&run(leader, &ops[1..], Some(1)));
        assert_eq!(again[0], Ok(1));
        assert!(again[1..].iter().all(Result::is_err), "{again:?}");
    }
    assert_eq!(open.db.get("a").unwrap(), Some(b"1".to_vec()));
}
