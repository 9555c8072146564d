//! Holds snapshots and positions of `pipkin:kv` to what they promise: `historian STORE`. What it leaves is two records, one of them under `position`.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/client" });

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
    fill(&records, 2)?;
    records.put(b"later", b"").map_err(words)?;
    db.drop_namespace("users").map_err(words)?;
    records.delete(&[0]).map_err(words)?;
    moment(&before, &then)?;
    let expected: Records = (0..RECORDS).map(|key| (vec![key], vec![1; 300])).collect();
    check(walked(&scan, first)? == expected, "all pages of a walk are of one moment")?;
    drop(before);
    moment_of(&then)?;
    drop((then, scan));
    let now = db.snapshot().map_err(words)?;
    let now = now.namespace(None).map_err(words)?.ok_or("the records without a namespace are missing")?;
    check(now.len().map_err(words)? == u64::from(RECORDS), "a later snapshot shows a later moment")?;
    check(now.get(&[0]).map_err(words)?.is_none(), "a later snapshot has no record that was removed")
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

/// A position outlives the store's being open, and another copy does not know it. Returns what a snapshot answers when its store was closed.
fn positions(name: &str) -> Outcome<String> {
    let db = open(name)?;
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
    let other = Position { salt: position.salt ^ 1, ..position };
    check(state(other)? == PositionState::Unknown, "the position of another copy is unknown")?;
    check(matches!(db.flush_to(other), Err(Error { reason: Reason::UnknownPosition, .. })), "a flush to it says so in its type")?;
    records.put(b"position", &[position.place.to_le_bytes(), position.salt.to_le_bytes()].concat()).map_err(words)?;
    let snapshot = db.snapshot().map_err(words)?;
    Db::close(db).map_err(words)?;
    let closed = snapshot.namespaces();
    drop((snapshot, records));
    let again = open(name)?;
    check(
        again.state_of(position).map_err(words)? == PositionState::Durable,
        "a position stays valid when the store is opened again",
    )?;
    Ok(closed.map_or_else(|error| format!("{:?}", error.reason), |names| format!("{names:?}")))
}

fn pair(position: Position) -> (u64, u64) {
    (position.place, position.salt)
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    match open(&name).and_then(|db| snapshots(&db)).and_then(|()| positions(&name)) {
        Ok(closed) => println!("snapshots and positions hold; of a closed store: {closed}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
