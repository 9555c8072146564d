//! Messages that meet a full medium, that come twice, or that make no sense.

use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::{Cursor, Db, StorageErrorKind, Ttl};
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use wasm_bindgen_test::wasm_bindgen_test;

use crate::failure::Code;
use crate::requests;
use crate::run;
use crate::shared::Open;
use crate::wire::{Answer, Op, Range, Request, decode};

const TAB: [u8; 16] = [7; 16];
const OTHER: [u8; 16] = [8; 16];

fn memory() -> Db {
    Db::builder().entropy([3; 32]).in_memory().unwrap()
}

fn run(db: &Db, request: &Request<'_>) -> Vec<Answer> {
    run::run(&Open::new(db.clone(), None), request)
}

fn request<'a>(origin: Option<([u8; 16], u64)>, ops: &[Op<'a>]) -> Request<'a> {
    Request { durable: false, origin, ops: ops.to_vec() }
}

/// Answers in short: the outcome of a write, the code of a failure.
pub(crate) fn outcomes(answers: &[Answer]) -> Vec<Result<u8, Code>> {
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
    let db = Db::builder().entropy([4; 32]).segment_size(64 * 1024).open_storage(Box::new(storage.clone())).unwrap();
    db.insert("old", "1").unwrap();
    storage.set_capacity(Some(256 * 1024));
    let large = vec![0; 300 * 1024];
    let ops = [
        Op::Write((b"large", Some(&large))),
        Op::Delete(b"old"),
        Op::Swap { key: b"large", expected: None, new: Some(&large), ttl: Ttl::Default },
        Op::Write((b"small", Some(b"2"))),
    ];
    let message = request(Some((TAB, 1)), &ops);
    let expected = [Err(Code::Quota), Ok(1), Err(Code::Quota), Ok(0)];
    assert_eq!(outcomes(&run(&db, &message)), expected);
    assert_eq!((db.get("old").unwrap(), db.get("small").unwrap()), (None, Some(b"2".to_vec())));
    // Its answer was lost, so the tab sends the same request again.
    assert_eq!(outcomes(&run(&db, &message)), expected);
    assert!(db.verify().unwrap().is_ok());
}

/// When space ran out in the middle of a write, the page used to get `OutcomeUnknown`. The outcome is known: the commit lacks its end.
#[wasm_bindgen_test]
fn a_write_that_runs_out_of_space_half_way_is_refused_for_the_quota_and_a_flush_is_of_unknown_outcome() {
    let storage = MemoryStorage::new();
    let faults = Arc::new(FaultStorage::new(storage.clone()));
    let open = |storage| Db::builder().entropy([4; 32]).open_storage(storage).unwrap();
    let db = open(Box::new(faults.clone()));
    db.insert("before", "1").unwrap();
    faults.arm(Fault::nth(1, Io::Write, Effect::Error(StorageErrorKind::NoSpace)));
    let write = request(None, &[Op::Write((b"a", Some(b"2")))]);
    assert_eq!(outcomes(&run(&db, &write)), [Err(Code::Quota)]);
    assert!(db.is_poisoned());
    drop(db);

    let db = open(Box::new(faults.clone()));
    assert_eq!((db.get("before").unwrap(), db.get("a").unwrap()), (Some(b"1".to_vec()), None));
    // The first write of a session syncs by itself.
    db.insert("before", "2").unwrap();
    faults.arm(Fault::nth(1, Io::Sync, Effect::Error(StorageErrorKind::NoSpace)));
    assert_eq!(outcomes(&run(&db, &Request { durable: true, ..write })), [Err(Code::OutcomeUnknown)]);
}

#[wasm_bindgen_test]
fn a_request_that_comes_twice_is_carried_out_once() {
    let db = memory();
    db.insert("count", "1").unwrap();
    let ops = [
        Op::Swap { key: b"count", expected: Some(b"1"), new: Some(b"2"), ttl: Ttl::Default },
        Op::Delete(b"never"),
        Op::Get(b"count"),
    ];
    for _ in 0..2 {
        let answers = run(&db, &request(Some((TAB, 1)), &ops));
        assert_eq!(outcomes(&answers[..2]), [Ok(1), Ok(0)]);
        assert!(matches!(&answers[2], Answer::Value(Some(value)) if value == b"2"));
        // Another tab has written meanwhile; its requests are recorded separately.
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
    let open = || Db::builder().entropy([5; 32]).open_storage(Box::new(storage.clone())).unwrap();
    let message = request(Some((TAB, 9)), &[Op::Delete(b"a")]);
    let db = open();
    db.insert("a", "1").unwrap();
    assert_eq!(outcomes(&run(&db, &message)), [Ok(1)]);
    run(&db, &request(Some((OTHER, 1)), &[Op::Write((b"b", Some(b"2")))]));
    drop(db);

    let db = open();
    assert_eq!(outcomes(&run(&db, &message)), [Ok(1)]);
    // The user's records are one, and the user's namespaces none.
    assert_eq!((db.list_namespaces(), db.stats().unwrap().records), (Vec::<String>::new(), 1));
    requests::forget_all_but(&db, &[TAB]).unwrap();
    assert_eq!(outcomes(&run(&db, &message)), [Ok(1)]);
    assert!(requests::outcomes(&db, (OTHER, 1)).unwrap().is_empty());
    requests::forget_all_but(&db, &[]).unwrap();
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
    assert_eq!(counts.collect::<Vec<_>>(), [(-1.0, 1), (-1.0, 2)]);
}

/// Together the values would not fit into the memory of the module, which used to end the module.
#[wasm_bindgen_test]
fn who_asks_for_too_much_at_once_is_told_to_ask_for_less() {
    let db = memory();
    db.insert("large", vec![0; 48 << 20]).unwrap();
    let reads =
        |request: &Request<'_>| run(&db, request).iter().map(|answer| !matches!(answer, Answer::Failed(_))).collect::<Vec<_>>();
    let many = |count| Op::GetMany(vec![&b"large"[..]; count]);
    assert_eq!(reads(&request(None, &[many(3)])), [true]);
    assert_eq!(outcomes(&run(&db, &request(None, &[many(4)]))), [Err(Code::Usage)]);
    assert_eq!(reads(&request(None, &vec![Op::Get(b"large"); 4])), [true, true, true, false]);
}

/// The keys of a range, page by page as a page of the web asks for it.
fn range(open: &Open, (values, reverse): (bool, bool), mut bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        let now = (bounds.0.as_ref().map(|key| &key[..]), bounds.1.as_ref().map(|key| &key[..]));
        let ops = [Op::Range(Range { values, reverse, bounds: now })];
        let answers = run::run(open, &request(None, &ops));
        let [Answer::Page { next, count, records, .. }] = &answers[..] else { panic!("{answers:?}") };
        let mut rest = &records[..];
        let mut bytes = || {
            let (len, behind) = rest.split_first_chunk().unwrap();
            let (bytes, behind) = behind.split_at(u32::from_le_bytes(*len) as usize);
            rest = behind;
            bytes.to_vec()
        };
        all.extend((0..*count).map(|_| (bytes(), if values { bytes() } else { Vec::new() })));
        if *next < 0.0 {
            return all;
        }
        let rest = if reverse { &mut bounds.1 } else { &mut bounds.0 };
        *rest = Bound::Excluded(all.last().unwrap().0.clone());
    }
}

#[wasm_bindgen_test]
fn ranges_are_those_of_a_sorted_map_whatever_is_written_between_them() {
    let open = Open::new(memory(), None);
    let mut model = BTreeMap::new();
    let mut random = 1_u32;
    let mut draw = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    for round in 0..300 {
        let writes: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..draw(100))
            .map(|_| (draw(4000).to_string().into_bytes(), (draw(3) > 0).then(|| vec![round as u8; draw(500) as usize])))
            .collect();
        let ops = [Op::WriteMany(writes.iter().map(|(key, value)| (&key[..], value.as_deref())).collect())];
        assert_eq!(outcomes(&run::run(&open, &request(None, &ops))), [Ok(0)]);
        for (key, value) in writes {
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
        let bound = |kind: u32, key: u32| match (kind, key.to_string().into_bytes()) {
            (0, _) => Bound::Unbounded,
            (1, key) => Bound::Included(key),
            (_, key) => Bound::Excluded(key),
        };
        let (start, end) = (bound(draw(3), draw(4000)), bound(draw(3), draw(4000)));
        let inside = |key: &Vec<u8>| (start.clone(), end.clone()).contains(key);
        let expected: Vec<_> =
            model.iter().filter(|(key, _)| inside(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
        assert_eq!(range(&open, (true, false), (start.clone(), end.clone())), expected, "round {round}: {start:?} {end:?}");
        let keys = range(&open, (false, false), (start.clone(), end.clone()));
        assert!(keys.iter().map(|(key, _)| key).eq(expected.iter().map(|(key, _)| key)));
        let back = range(&open, (true, true), (start, end));
        assert!(back.iter().eq(expected.iter().rev()), "round {round}, the last key first");
    }
    assert!(model.len() > 1500, "{} keys are too few to fill blocks", model.len());
}

#[wasm_bindgen_test]
fn after_a_write_that_failed_a_range_shows_what_is_there() {
    let storage = Arc::new(FaultStorage::new(MemoryStorage::new()));
    let open = Open::new(Db::builder().entropy([6; 32]).open_storage(Box::new(storage.clone())).unwrap(), None);
    let write = |key: &'static [u8]| outcomes(&run::run(&open, &request(None, &[Op::Write((key, Some(b"1")))])));
    let keys =
        || range(&open, (true, false), (Bound::Unbounded, Bound::Unbounded)).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!((write(b"a"), keys()), (vec![Ok(0)], vec![b"a".to_vec()]));
    storage.arm(Fault::nth(1, Io::Write, Effect::Late));
    assert_eq!((write(b"b"), keys()), (vec![Err(Code::OutcomeUnknown)], vec![b"a".to_vec()]));
}

#[wasm_bindgen_test]
fn reads_of_a_snapshot_see_no_write_of_their_message_and_are_refused_once_it_was_given_up() {
    let open = Open::new(memory(), None);
    open.db.insert("k", "then").unwrap();
    open.held.take(&open.db, 7.0);
    let at = || Op::At(7.0, Box::new(Op::Get(b"k")));
    let message = request(None, &[Op::Write((b"k", Some(b"now"))), at(), Op::Get(b"k")]);
    for _ in 0..2 {
        let answers = run::run(&open, &message);
        let [Answer::Written(_), Answer::Value(Some(then)), Answer::Value(Some(now))] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!((&then[..], &now[..]), (&b"then"[..], &b"now"[..]));
        // Asked for again, it is the same one.
        open.held.take(&open.db, 7.0);
    }
    assert_eq!(open.db.stats().unwrap().snapshots, 1);
    open.held.give_up(7.0);
    assert_eq!(outcomes(&run::run(&open, &request(None, &[at()]))), [Err(Code::SnapshotTooOld)]);
    assert_eq!(open.db.stats().unwrap().snapshots, 0);
}

#[wasm_bindgen_test]
fn bytes_that_are_no_request_are_refused() {
    let with = |rest: &[u8]| [&[0], rest].concat();
    assert!(decode(&[0], None).is_some_and(|request| request.ops.is_empty()));
    assert!(decode(&with(&[1, 1, 0, 0, 0, b'k']), None).is_some_and(|request| request.ops.len() == 1));
    assert!(
        decode(&with(&[11, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, b'k']), None).is_some_and(|request| request.ops.len() == 1)
    );
    assert!(decode(&with(&[10, 1, 0, 2, 1, 0, 0, 0, b'k']), None).is_some_and(|request| request.ops.len() == 1));
    let wrong: [&[u8]; 15] = [
        &[0],
        &[11],
        &[12],
        &[12, 1, 0, 0, 0, 1, 1, 0, 0, 0, b'k', 1, 0, 0, 0, b'v', 0, 0],
        &[13, 0, 0, 0, 0, 0, 0, 0],
        &[14, 2, 0, 0, 0, b'k'],
        // To keep what a snapshot shows.
        &[11, 0, 0, 0, 0, 0, 0, 0, 0, 15, 1, 0, 0, 0, b'k'],
        // A write of a snapshot, and a snapshot of a snapshot.
        &[11, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, b'k'],
        &[11, 0, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, b'k'],
        &[1, 2, 0, 0, 0, b'k'],
        &[3, 2, 0, 0, 0, 0],
        &[5, 255, 255, 255, 255, 0],
        &[7, 255, 255, 255, 255],
        &[10, 1, 0],
        &[10, 1, 3, 0],
    ];
    assert!(wrong.iter().all(|rest| decode(&with(rest), None).is_none()));
    assert!(decode(&[], None).is_none());
}
