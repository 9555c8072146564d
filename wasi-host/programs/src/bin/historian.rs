//! Holds snapshots and positions of `pipkin:kv` to what they promise: `historian STORE OTHER`. It leaves two records in the first store, one of
//! them under `position`, and drops nothing at its end: two snapshots, a namespace and a walk are left to whoever runs it.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/admin-client" });

use pipkin::kv::admin;
use pipkin::kv::store::{Db, Namespace, Options, Scan, Snapshot, SnapshotNamespace};
use pipkin::kv::types::{Durability, Error, Packed, Position, PositionState, Reason};

type Outcome<T> = Result<T, String>;

/// So many records are written over, and so many of them come in one page.
const RECORDS: u8 = 200;
const PAGE: u32 = 7;

fn words(error: Error) -> String {
    format!("{:?}: {}", error.reason, error.message)
}

fn check(holds: bool, what: &str) -> Outcome<()> {
    if holds { Ok(()) } else { Err(format!("it does not hold that {what}")) }
}

fn open(name: &str) -> Outcome<Db> {
    let options = Options {
        create: true,
        read_only: false,
        durability: Durability::Written,
        cache_bytes: 1 << 20,
        segment_bytes: 16 * 1024,
        exclusive: true,
        follow: false,
    };
    Db::open(name, options).map_err(words)
}

fn fill(records: &Namespace, value: u8) -> Outcome<()> {
    (0..RECORDS).try_for_each(|key| records.put(&[key], &[value; 300])).map_err(words)
}

type Records = Vec<(Vec<u8>, Vec<u8>)>;

fn page(scan: &Scan) -> Outcome<Records> {
    Ok(scan.next(PAGE, u32::MAX).map_err(words)?.into_iter().map(|entry| (entry.key, entry.value)).collect())
}

/// What is left of a walk, after what was read already.
fn walked(scan: &Scan, mut all: Records) -> Outcome<Records> {
    loop {
        let next = page(scan)?;
        if next.is_empty() {
            all.sort();
            return Ok(all);
        }
        all.extend(next);
    }
}

/// Every read of a snapshot shows its moment, whatever is done afterwards.
fn snapshots(db: &Db) -> Outcome<()> {
    let records = db.namespace(None).map_err(words)?;
    let users = db.namespace(Some("users")).map_err(words)?;
    fill(&records, 1)?;
    users.put(b"7", b"Ada").map_err(words)?;
    let before = db.snapshot().map_err(words)?;
    let then = before.namespace(None).map_err(words)?.ok_or("the records without a namespace are missing")?;
    let scan = then.scan(&[]);
    let first = page(&scan)?;
    // Too few for a compaction that nobody has asked for.
    (0..RECORDS / 10).try_for_each(|key| records.put(&[key], &[2; 300])).map_err(words)?;
    check(compacted(db)? > 0, "a segment is worth to be compacted")?;
    moment_of(&then)?;
    fill(&records, 2)?;
    records.put(b"later", b"").map_err(words)?;
    db.drop_namespace("users").map_err(words)?;
    records.delete(&[0]).map_err(words)?;
    moment(&before, &then)?;
    compacted(db)?;
    fill(&records, 3)?;
    moment(&before, &then)?;
    let expected: Records = (0..RECORDS).map(|key| (vec![key], vec![1; 300])).collect();
    check(walked(&scan, first)? == expected, "all pages of a walk are of one moment")?;
    drop(before);
    moment_of(&then)?;
    drop((then, scan));
    let now = db.snapshot().map_err(words)?;
    let now = now.namespace(None).map_err(words)?.ok_or("the records without a namespace are missing")?;
    check(now.len().map_err(words)? == u64::from(RECORDS) + 1, "a later snapshot shows a later moment")?;
    check(now.get(&[0]).map_err(words)? == Some(vec![3; 300]), "a later snapshot has the later value")
}

/// Compacts until nothing is worth it; returns the number of steps.
fn compacted(db: &Db) -> Outcome<u32> {
    let mut steps = 0;
    while admin::compact_step(db).map_err(words)?.is_some() {
        steps += 1;
    }
    Ok(steps)
}

fn moment(before: &Snapshot, then: &SnapshotNamespace) -> Outcome<()> {
    check(before.namespaces().map_err(words)? == ["users"], "a namespace that was dropped is listed")?;
    check(before.namespace(Some("none")).map_err(words)?.is_none(), "a namespace that never was is none")?;
    let users = before.namespace(Some("users")).map_err(words)?.ok_or("the namespace that was dropped is missing")?;
    check(users.get(b"7").map_err(words)?.as_deref() == Some(b"Ada"), "a dropped namespace has its records")?;
    moment_of(then)
}

fn moment_of(then: &SnapshotNamespace) -> Outcome<()> {
    check(then.len().map_err(words)? == u64::from(RECORDS), "all records are counted")?;
    check(then.contains(&[0]).map_err(words)? && !then.contains(b"later").map_err(words)?, "keys are those of the moment")?;
    let keys: Vec<Vec<u8>> = [vec![0], vec![9], b"later".to_vec()].into();
    let expected = [Some(vec![1; 300]), Some(vec![1; 300]), None];
    check(then.get_many(&keys).map_err(words)? == expected, "many values are those of the moment")?;
    let packed = Packed { lengths: vec![1, 1, 5], bytes: keys.concat() };
    let found = then.get_packed(&packed).map_err(words)?;
    check(found.lengths == [Some(300), Some(300), None] && found.bytes == [1; 600], "packed values are those of the moment")?;
    check(walked(&then.scan(&[9]), Vec::new())? == [(vec![9], vec![1; 300])], "a walk keeps to its prefix")
}

/// A position outlives the store's being open, and neither another copy nor another store knows it.
fn positions(db: &Db, other: &str) -> Outcome<Position> {
    let records = db.namespace(None).map_err(words)?;
    records.clear().map_err(words)?;
    records.put(b"k", b"v").map_err(words)?;
    let position = db.position().map_err(words)?;
    let state = |position| db.state_of(position).map_err(words);
    check(
        db.snapshot().map_err(words)?.position().map(pair) == Some(pair(position)),
        "a snapshot has the position of its moment",
    )?;
    check(state(position)? == PositionState::Appended, "a commit is appended before it is flushed")?;
    check(db.flush_to(position).map_err(words)? == Durability::Synced, "a flush to a position syncs")?;
    check(state(position)? == PositionState::Durable, "it is durable then")?;
    let copy = Position { salt: position.salt ^ 1, ..position };
    check(state(copy)? == PositionState::Unknown, "the position of another copy is unknown")?;
    check(is_unknown(db.flush_to(copy)), "a flush to it says so in its type")?;
    let other = open(other)?;
    other.namespace(None).and_then(|records| records.put(b"k", b"v")).map_err(words)?;
    check(other.state_of(position).map_err(words)? == PositionState::Unknown, "another store does not know it")?;
    check(is_unknown(other.flush_to(position)), "a flush of another store to it says so, too")?;
    // Where this one has compacted what it had at that place, it cannot tell.
    let there = state(other.position().map_err(words)?)?;
    check(matches!(there, PositionState::Unknown | PositionState::Compacted), "nor does this one know the other's")?;
    records.put(b"position", b"").map_err(words)?;
    Ok(position)
}

fn is_unknown(answer: Result<Durability, Error>) -> bool {
    matches!(answer, Err(Error { reason: Reason::UnknownPosition, .. }))
}

/// Closes the store under a snapshot. Returns what each call on it answers then, once the store was opened again and written over.
fn closed(db: Db, name: &str, position: Position) -> Outcome<String> {
    let snapshot = db.snapshot().map_err(words)?;
    let then = snapshot.namespace(None).map_err(words)?.ok_or("the records without a namespace are missing")?;
    let scan = then.scan(&[]);
    Db::close(db).map_err(words)?;
    let again = open(name)?;
    check(
        again.state_of(position).map_err(words)? == PositionState::Durable,
        "a position stays valid when the store is opened again",
    )?;
    let records = again.namespace(Some("scratch")).map_err(words)?;
    (1..4).try_for_each(|value| fill(&records, value))?;
    again.drop_namespace("scratch").map_err(words)?;
    compacted(&again)?;
    let answers = [
        said(snapshot.namespace(None)),
        said(snapshot.namespaces()),
        said(then.get(b"k")),
        said(then.get_many(&[b"k".to_vec()])),
        said(then.get_packed(&Packed { lengths: vec![1], bytes: b"k".to_vec() })),
        said(then.contains(b"k")),
        said(then.len()),
        said(scan.next(PAGE, u32::MAX)),
    ];
    drop((snapshot, then, scan));
    let records = again.namespace(None).map_err(words)?;
    check(records.get(b"k").map_err(words)?.as_deref() == Some(b"v"), "the end of an old snapshot leaves the store alone")?;
    let mut answers = answers.to_vec();
    answers.dedup();
    Ok(answers.join(", "))
}

fn said<T>(answer: Result<T, Error>) -> String {
    answer.map_or_else(|error| format!("{:?}", error.reason), |_| "an answer".to_owned())
}

/// A store that was opened for reading shows snapshots and positions, whatever durability its handle has.
fn reading(name: &str) -> Outcome<()> {
    let options = Options {
        create: false,
        read_only: true,
        durability: Durability::Synced,
        cache_bytes: 0,
        segment_bytes: 0,
        exclusive: false,
        follow: false,
    };
    let db = Db::open(name, options).map_err(words)?;
    let snapshot = db.snapshot().map_err(words)?;
    let then = snapshot.namespace(None).map_err(words)?.ok_or("the records without a namespace are missing")?;
    check(then.len().map_err(words)? == 2, "a reader takes snapshots")?;
    let position = db.position().map_err(words)?;
    check(db.state_of(position).map_err(words)? != PositionState::Unknown, "a reader has positions")
}

/// Leaves handles that nobody drops, and the position of the last flush.
fn leak(name: &str) -> Outcome<()> {
    let db = open(name)?;
    let snapshot = db.snapshot().map_err(words)?;
    let then = snapshot.namespace(None).map_err(words)?.ok_or("the records without a namespace are missing")?;
    core::mem::forget((then.scan(&[]), then, db.snapshot().map_err(words)?, snapshot));
    let records = db.namespace(None).map_err(words)?;
    records.put(b"k", b"w").map_err(words)?;
    let position = db.position().map_err(words)?;
    db.flush_to(position).map_err(words)?;
    records.put(b"position", &[position.place.to_le_bytes(), position.salt.to_le_bytes()].concat()).map_err(words)
}

fn pair(position: Position) -> (u64, u64) {
    (position.place, position.salt)
}

fn all(name: &str, other: &str) -> Outcome<String> {
    let db = open(name)?;
    snapshots(&db)?;
    let position = positions(&db, other)?;
    let closed = closed(db, name, position)?;
    reading(name)?;
    leak(name)?;
    Ok(closed)
}

fn main() {
    let mut names = std::env::args().skip(1);
    match all(&names.next().unwrap_or_default(), &names.next().unwrap_or_default()) {
        Ok(closed) => println!("snapshots and positions hold; of a closed store: {closed}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
