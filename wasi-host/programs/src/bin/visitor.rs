//! Groups of keys, and keys in their order, through `pipkin:kv`: `visitor all STORE` holds the verbs to what they promise; `visitor relay STORE FROM TO`
//! takes over what FROM has left (a group with a record that stays, one that lives for an hour and one that has expired), deletes it, and leaves
//! the same for whoever comes next.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/client" });

use pipkin::kv::store::{Db, Namespace, Options, Scan, Transaction};
use pipkin::kv::types::{Bound, Durability, Error, KeyRange, Packed, Reason, Ttl};
use std::ops;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, String>;

const HOUR: u64 = 3_600_000;
/// What is to expire at the next host has this long to live.
const MOMENT: u64 = 500;
const PATIENCE: Duration = Duration::from_secs(20);
/// Keys of the store whose ranges are read.
const KEYS: usize = 500;

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

fn key(number: usize) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

/// All pages of a walk.
fn walked(scan: &Scan, max_entries: u32) -> Outcome<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    loop {
        let page = scan.next(max_entries, u32::MAX).map_err(words)?;
        if page.is_empty() {
            return Ok(keys);
        }
        for entry in page {
            check(entry.value == [b"v", &entry.key[..]].concat(), "each key comes with its own value")?;
            keys.push(entry.key);
        }
    }
}

fn between(start: Bound, end: Bound, reverse: bool) -> KeyRange {
    KeyRange { start, end, reverse }
}

fn keys(numbers: ops::Range<usize>, reverse: bool) -> Vec<Vec<u8>> {
    let keys = numbers.map(key);
    if reverse { keys.rev().collect() } else { keys.collect() }
}

fn filled(db: &Db) -> Outcome<Namespace> {
    let records = db.namespace(Some("ranges")).map_err(words)?;
    let mut packed = Packed { lengths: Vec::new(), bytes: Vec::new() };
    for number in 0..KEYS {
        // In no order.
        let name = key(number * 7 % KEYS);
        packed.lengths.extend([name.len() as u32, name.len() as u32 + 1]);
        packed.bytes.extend([&name[..], b"v", &name].concat());
    }
    records.put_packed(&packed, Durability::Written).map_err(words)?;
    Ok(records)
}

/// Every kind of bound, from either end, in pages of every size.
fn ranges(records: &Namespace) -> Outcome<()> {
    let bounds = |from: usize, to: usize| {
        [
            (Bound::Included(key(from)), Bound::Excluded(key(to)), from..to),
            (Bound::Excluded(key(from)), Bound::Included(key(to)), from + 1..to + 1),
            (Bound::Unbounded, Bound::Excluded(key(to)), 0..to),
            (Bound::Included(key(from)), Bound::Unbounded, from..KEYS),
            (Bound::Unbounded, Bound::Unbounded, 0..KEYS),
            (Bound::Included(key(to)), Bound::Included(key(from)), 0..0),
        ]
    };
    for (start, end, expected) in bounds(100, 200).into_iter().chain(bounds(0, 499)) {
        for reverse in [false, true] {
            for entries in [1, 7, 1000] {
                let scan = records.range(&between(start.clone(), end.clone(), reverse)).map_err(words)?;
                let found = walked(&scan, entries)?;
                check(found == keys(expected.clone(), reverse), &format!("{start:?} to {end:?} has {expected:?}, {reverse}"))?;
            }
        }
    }
    let long = records.range(&between(Bound::Included(vec![b'x'; 100_000]), Bound::Unbounded, false)).map_err(words)?;
    check(walked(&long, 10)?.is_empty(), "a bound may be longer than any key")
}

/// What is written between two pages, and at one moment.
fn moving(db: &Db, records: &Namespace) -> Outcome<()> {
    let snapshot = db.snapshot().map_err(words)?;
    let then = snapshot.namespace(Some("ranges")).map_err(words)?.ok_or("the namespace is missing")?;
    let all = || between(Bound::Unbounded, Bound::Unbounded, false);
    let (scan, still) = (records.range(&all()).map_err(words)?, then.range(&all()).map_err(words)?);
    check(scan.next(10, u32::MAX).map_err(words)?.len() == 10, "a page has as many records as were asked for")?;
    records.delete(&key(10)).map_err(words)?;
    records.delete(&key(11)).map_err(words)?;
    check(walked(&scan, 50)? == keys(12..KEYS, false), "what was removed between two pages does not come")?;
    check(walked(&still, 50)? == keys(0..KEYS, false), "a snapshot has it")?;

    let transaction = db.begin().map_err(words)?;
    transaction.put(records, &key(11), &[b"v", &key(11)[..]].concat()).map_err(words)?;
    transaction.delete(records, &key(499)).map_err(words)?;
    let own = transaction.range(records, &all()).map_err(words)?;
    let expected = [keys(0..10, false), keys(11..499, false)].concat();
    check(walked(&own, 64)? == expected, "a transaction has what it has written")?;
    drop(own);
    Transaction::rollback(transaction);
    let transaction = db.begin().map_err(words)?;
    walked(&transaction.range(records, &all()).map_err(words)?, 1000)?;
    transaction.put(records, b"sum", b"1").map_err(words)?;
    records.put(&key(10), &[b"v", &key(10)[..]].concat()).map_err(words)?;
    let refused = Transaction::commit(transaction).err().map(|error| error.reason);
    check(matches!(refused, Some(Reason::Conflict(_))), "a range that was read and has changed is a conflict")
}

fn groups(db: &Db) -> Outcome<()> {
    let users = db.namespace(Some("users")).map_err(words)?;
    for name in ["7.name", "7.mail.home", "7", "70.name"] {
        users.put(name.as_bytes(), b"v").map_err(words)?;
    }
    users.put_with_ttl(b"7.code", b"v", Ttl::After(1)).map_err(words)?;
    expire(&users, b"7.code")?;
    check(users.delete_group(b"7").map_err(words)? == 2, "a group has what lives of it")?;
    check(users.len().map_err(words)? == 2 && users.contains(b"70.name").map_err(words)?, "other groups stay")?;
    check(users.delete_group(b"7").map_err(words)? == 0, "it has gone")?;
    let refused = users.delete_group(b"").err().map(|error| error.reason);
    check(matches!(refused, Some(Reason::InvalidArgument)), "a group has a name")
}

/// Waits until a record has expired.
fn expire(records: &Namespace, key: &[u8]) -> Outcome<()> {
    let begun = Instant::now();
    while records.contains(key).map_err(words)? {
        check(begun.elapsed() < PATIENCE, "what has a moment to live expires")?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn relay(db: &Db, from: &str, to: &str) -> Outcome<()> {
    let visits = db.namespace(None).map_err(words)?;
    let name = |who: &str, what: &str| format!("visit.{who}.{what}").into_bytes();
    check(visits.get(&name(from, "name")).map_err(words)?.as_deref() == Some(from.as_bytes()), "what stays is there")?;
    check(visits.expires_at(&name(from, "session")).map_err(words)?.is_some(), "what lives for an hour is there")?;
    expire(&visits, &name(from, "code"))?;
    let group = format!("visit.{from}");
    check(visits.delete_group(group.as_bytes()).map_err(words)? == 2, "the group has both, and what has expired is not of it")?;
    check(visits.len().map_err(words)? == 0, "nothing else is there")?;
    visits.put(&name(to, "name"), to.as_bytes()).map_err(words)?;
    visits.put_with_ttl(&name(to, "session"), b"s", Ttl::After(HOUR)).map_err(words)?;
    visits.put_with_ttl(&name(to, "code"), b"c", Ttl::After(MOMENT)).map_err(words)
}

fn run(arguments: &[String]) -> Outcome<String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["all", store] => {
            let db = open(store)?;
            let records = filled(&db)?;
            ranges(&records)?;
            moving(&db, &records)?;
            groups(&db)?;
            drop(records);
            Db::close(db).map_err(words)?;
            Ok("groups and ranges hold".to_owned())
        }
        ["relay", store, from, to] => {
            let db = open(store)?;
            relay(&db, from, to)?;
            Db::close(db).map_err(words)?;
            Ok(format!("{to} has taken over from {from}"))
        }
        _ => Err("visitor all STORE | visitor relay STORE FROM TO".to_owned()),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(said) => println!("{said}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
