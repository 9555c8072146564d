//! Messages about records that expire, by a clock of the test.

use core::ops::Bound;
use core::time::Duration;

use pipkin::testing::TestClock;
use pipkin::{Db, Ttl};
use wasm_bindgen_test::wasm_bindgen_test;

use crate::run;
use crate::shared::Open;
use crate::wire::{Answer, Op, Range, Request, Write, decode};

const NOW: u64 = 1_000_000;
const TAB: [u8; 16] = [7; 16];
const MINUTE: Ttl = Ttl::After(Duration::from_secs(60));

fn open() -> (Open, TestClock) {
    let clock = TestClock::new(NOW);
    let db = Db::builder().entropy([3; 32]).clock(clock.clone()).in_memory().unwrap();
    (Open::new(db, None), clock)
}

fn run<'a>(open: &Open, ops: &[Op<'a>], number: Option<u64>) -> Vec<Answer> {
    run::run(open, &Request { durable: false, origin: number.map(|number| (TAB, number)), ops: ops.to_vec() })
}

/// The number that an answer has: an outcome, or a time.
fn number(answer: &Answer) -> Option<f64> {
    match answer {
        Answer::Written(outcome) => Some(f64::from(*outcome)),
        Answer::Value(value) => value.as_ref().map(|bytes| f64::from_le_bytes(bytes[..].try_into().unwrap())),
        other => panic!("{other:?}"),
    }
}

fn numbers(answers: &[Answer]) -> Vec<Option<f64>> {
    answers.iter().map(number).collect()
}

fn put(key: &'static [u8], ttl: Ttl) -> (Write<'static>, Ttl) {
    ((key, Some(b"v")), ttl)
}

#[wasm_bindgen_test]
fn each_write_of_a_commit_lives_as_long_as_it_says() {
    let (open, clock) = open();
    open.db.set_default_ttl(Some(Duration::from_secs(5))).unwrap();
    let writes =
        vec![put(b"a", Ttl::Default), put(b"b", MINUTE), put(b"c", Ttl::Never), ((b"d", None), Ttl::Default), put(b"e", MINUTE)];
    let asked = [&b"a"[..], b"b", b"c", b"d", b"e"].map(Op::ExpiresAt);
    let ops = [&[Op::WriteManyFor(writes)], &asked[..]].concat();
    let (five, minute) = ((NOW + 5_000) as f64, (NOW + 60_000) as f64);
    assert_eq!(numbers(&run(&open, &ops, None)), [Some(0.0), Some(five), Some(minute), None, None, Some(minute)]);
    clock.advance(Duration::from_secs(60));
    assert_eq!((open.db.len().unwrap(), open.db.contains_key("c").unwrap()), (1, true));
}

#[wasm_bindgen_test]
fn a_swap_renews_what_it_leaves_as_it_is_only_if_it_says_for_how_long() {
    let (open, clock) = open();
    open.db.insert_with_ttl("k", "v", MINUTE).unwrap();
    clock.advance(Duration::from_secs(30));
    let swap = |ttl| Op::Swap { key: b"k", expected: Some(b"v"), new: Some(b"v"), ttl };
    let expiry = |seconds: u64| Some((NOW + seconds * 1000) as f64);
    assert_eq!(numbers(&run(&open, &[swap(Ttl::Default), Op::ExpiresAt(b"k")], None)), [Some(1.0), expiry(60)]);
    assert_eq!(numbers(&run(&open, &[swap(MINUTE), Op::ExpiresAt(b"k")], None)), [Some(1.0), expiry(90)]);
    clock.advance(Duration::from_secs(60));
    assert_eq!(numbers(&run(&open, &[swap(MINUTE)], None)), [Some(0.0)], "what has expired is not there");
}

#[wasm_bindgen_test]
fn keeping_a_record_counts_once_however_often_its_request_comes() {
    let (open, clock) = open();
    let ops = [Op::WriteManyFor(vec![put(b"k", MINUTE)]), Op::Keep(b"k"), Op::Keep(b"none"), Op::ExpiresAt(b"k")];
    for _ in 0..2 {
        assert_eq!(numbers(&run(&open, &ops, Some(1))), [Some(0.0), Some(1.0), Some(0.0), None]);
    }
    assert_eq!(numbers(&run(&open, &ops[1..], Some(2))), [Some(0.0), Some(0.0), None]);
    clock.advance(Duration::from_secs(3600));
    assert_eq!(open.db.get("k").unwrap().unwrap(), b"v");
}

/// The keys that the worker keeps in order were shown for ever, whatever had become of their records.
#[wasm_bindgen_test]
fn walks_in_order_leave_out_what_has_expired() {
    let (open, clock) = open();
    let all = |values, reverse| {
        let wanted = Range { bounds: (Bound::Unbounded, Bound::Unbounded), values, reverse };
        match &run(&open, &[Op::Range(wanted)], None)[..] {
            [Answer::Page { count, .. }] => *count,
            other => panic!("{other:?}"),
        }
    };
    for round in 1..4 {
        run(&open, &[Op::WriteManyFor(vec![put(b"a", MINUTE), put(b"b", Ttl::Never), put(b"c", MINUTE)])], None);
        open.held.take(&open.db, f64::from(round));
        assert_eq!((all(false, false), all(true, true)), (3, 3));
        clock.advance(Duration::from_secs(60));
        match round {
            1 => assert_eq!((all(false, false), all(true, false)), (1, 1)),
            2 => assert_eq!((all(true, true), all(false, true)), (1, 1)),
            // The store forgets them first.
            _ => assert_eq!((open.db.sweep_expired().unwrap(), all(false, false)), (0, 1)),
        }
        let then = Range { bounds: (Bound::Unbounded, Bound::Unbounded), values: false, reverse: false };
        let answers = run(
            &open,
            &[Op::At(f64::from(round), Box::new(Op::Range(then))), Op::At(f64::from(round), Box::new(Op::ExpiresAt(b"a")))],
            None,
        );
        let [Answer::Page { count: 3, .. }, then] = &answers[..] else { panic!("{answers:?}") };
        assert!(number(then).is_some(), "a snapshot shows its moment");
    }
}

#[wasm_bindgen_test]
fn a_time_is_decoded_as_it_was_meant() {
    let write = |ms: f64| [&[0, 12, 1, 0, 0, 0, 1, 1, 0, 0, 0, b'k', 1, 0, 0, 0, b'v'], &ms.to_le_bytes()[..]].concat();
    let cases = [
        (f64::NAN, Ttl::Default),
        (f64::INFINITY, Ttl::Never),
        (1e300, Ttl::Never),
        (60_000.9, MINUTE),
        (0.1, Ttl::After(Duration::ZERO)),
    ];
    for (ms, expected) in cases {
        let bytes = write(ms);
        let request = decode(&bytes, None).unwrap();
        assert!(matches!(&request.ops[..], [Op::WriteManyFor(writes)] if writes[0].1 == expected), "{ms}: {request:?}");
    }
}
