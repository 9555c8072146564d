//! Messages that meet a full medium, that come twice, or that make no sense.

use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::FaultStorage;
use pipkin::{Cursor, Db};
use std::sync::Arc;
use wasm_bindgen_test::wasm_bindgen_test;

use crate::failure::Code;
use crate::requests;
use crate::run::run;
use crate::wire::{Answer, Op, Request, decode};

const TAB: [u8; 16] = [7; 16];
const OTHER: [u8; 16] = [8; 16];

fn memory() -> Db {
    Db::builder().entropy([3; 16]).in_memory().unwrap()
}

fn request<'a>(origin: Option<([u8; 16], u64)>, ops: &[Op<'a>]) -> Request<'a> {
    Request { durable: false, origin, ops: ops.to_vec() }
}

/// Answers in short: the outcome of a write, the code of a failure.
fn outcomes(answers: &[Answer]) -> Vec<Result<u8, Code>> {
    let short = |answer: &Answer| match answer {
        Answer::Written(outcome) => Ok(*outcome),
        Answer::Failed(failure) => Err(failure.code),
        other => panic!("no write: {other:?}"),
    };
    answers.iter().map(short).collect()
}

#[wasm_bindgen_test]
fn at_a_full_quota_what_stores_fails_and_what_removes_goes_through() {
    let storage = Arc::new(FaultStorage::new(MemoryStorage::new()));
    let db = Db::builder().entropy([4; 16]).segment_size(64 * 1024).open_storage(Box::new(storage.clone())).unwrap();
    db.insert("old", "1").unwrap();
    storage.set_capacity(Some(256 * 1024));
    let large = vec![0; 300 * 1024];
    let ops = [
        Op::Write((b"large", Some(&large))),
        Op::Delete(b"old"),
        Op::Swap { key: b"large", expected: None, new: Some(&large) },
        Op::Write((b"small", Some(b"2"))),
    ];
    let message = request(Some((TAB, 1)), &ops);
    let expected = [Err(Code::Quota), Ok(1), Err(Code::Quota), Ok(0)];
    assert_eq!(outcomes(&run(&db, &message)), expected);
    assert_eq!((db.get("old").unwrap(), db.get("small").unwrap()), (None, Some(b"2".to_vec())));
    // Its answer was lost: it says the same again.
    assert_eq!(outcomes(&run(&db, &message)), expected);
    assert!(db.verify().unwrap().is_ok());
}

#[wasm_bindgen_test]
fn a_request_that_comes_twice_is_carried_out_once() {
    let db = memory();
    db.insert("count", "1").unwrap();
    let ops = [Op::Swap { key: b"count", expected: Some(b"1"), new: Some(b"2") }, Op::Delete(b"never"), Op::Get(b"count")];
    for _ in 0..2 {
        let answers = run(&db, &request(Some((TAB, 1)), &ops));
        assert_eq!(outcomes(&answers[..2]), [Ok(1), Ok(0)]);
        assert!(matches!(&answers[2], Answer::Value(Some(value)) if value == b"2"));
        // Another tab has come in between; its requests are its own.
        db.insert("count", "2").unwrap();
        assert_eq!(outcomes(&run(&db, &request(Some((OTHER, 1)), &ops[..2]))), [Ok(0), Ok(0)]);
    }
    // The next request of the tab is another one, and without a sender none is known.
    assert_eq!(outcomes(&run(&db, &request(Some((TAB, 2)), &ops[..1]))), [Ok(0)]);
    let add = request(None, &[Op::Delete(b"count")]);
    assert_eq!((outcomes(&run(&db, &add)), outcomes(&run(&db, &add))), (vec![Ok(1)], vec![Ok(0)]));
}

#[wasm_bindgen_test]
fn what_was_carried_out_is_known_after_a_reopen_and_forgotten_when_the_tab_has_gone() {
    let storage = MemoryStorage::new();
    let open = || Db::builder().entropy([5; 16]).open_storage(Box::new(storage.clone())).unwrap();
    let message = request(Some((TAB, 9)), &[Op::Delete(b"a")]);
    let db = open();
    db.insert("a", "1").unwrap();
    assert_eq!(outcomes(&run(&db, &message)), [Ok(1)]);
    run(&db, &request(Some((OTHER, 1)), &[Op::Write((b"b", Some(b"2")))]));
    drop(db);

    let db = open();
    assert_eq!(outcomes(&run(&db, &message)), [Ok(1)]);
    requests::forget_all_but(&db, &[TAB]).unwrap();
    assert_eq!(outcomes(&run(&db, &message)), [Ok(1)]);
    assert!(requests::outcomes(&db, (OTHER, 1)).unwrap().is_empty());
    requests::forget_all_but(&db, &[]).unwrap();
    assert_eq!(db.list_namespaces(), Vec::<String>::new());
    assert_eq!(outcomes(&run(&db, &message)), [Ok(0)]);
}

#[wasm_bindgen_test]
fn a_page_shows_the_writes_in_front_of_it() {
    let db = memory();
    let page = Op::Page { from: Cursor::default(), values: true, prefix: b"k" };
    let write = |key: &'static [u8]| Op::Write((key, Some(b"v")));
    let answers = run(&db, &request(None, &[write(b"k1"), page.clone(), write(b"k2"), write(b"other"), page]));
    let counts = answers.iter().filter_map(|answer| match answer {
        Answer::Page { next, count, .. } => Some((*next, *count)),
        _ => None,
    });
    assert_eq!(counts.collect::<Vec<_>>(), [(None, 1), (None, 2)]);
}

#[wasm_bindgen_test]
fn bytes_that_are_no_request_are_refused() {
    let header = [0; 25];
    let with = |rest: &[u8]| [&header, rest].concat();
    assert!(decode(&header).is_some_and(|request| request.ops.is_empty()));
    assert!(decode(&with(&[1, 1, 0, 0, 0, b'k'])).is_some_and(|request| request.ops.len() == 1));
    let wrong: [&[u8]; 6] =
        [&[0], &[10], &[1, 2, 0, 0, 0, b'k'], &[3, 2, 0, 0, 0, 0], &[5, 255, 255, 255, 255, 0], &[7, 255, 255, 255, 255]];
    assert!(wrong.iter().all(|rest| decode(&with(rest)).is_none()));
    assert!(decode(&header[..24]).is_none());
}
