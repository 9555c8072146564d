//! Records that expire, through `pipkin:kv`: `sessions STORE`. Shows how, and holds every verb to what it promises. It leaves a session of an hour,
//! and a default of an hour for those that follow.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/client" });

use pipkin::kv::store::{Db, Namespace, Options};
use pipkin::kv::types::{Durability, Error, Op, Packed, Ttl};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

type Outcome<T> = Result<T, String>;

const HOUR: u64 = 3_600_000;
/// Clocks of the program and of the store may be read so far apart.
const SLACK: u64 = 60_000;

/// The example of the README.
fn example(db: &Db) -> Result<(), Error> {
    let sessions = db.namespace(Some("sessions"))?;
    sessions.set_default_ttl(Some(3_600_000))?; // an hour for every write that does not say; kept in the file
    sessions.put(b"7", b"ada")?;
    sessions.put_with_ttl(b"code", b"1234", Ttl::After(60_000))?; // a minute for this one
    assert!(sessions.expires_at(b"code")? < sessions.expires_at(b"7")?); // milliseconds since 1970
    sessions.persist(b"code")?; // it stays

    let locks = db.namespace(Some("locks"))?.with_ttl(Some(Ttl::After(30_000))); // for whichever call writes
    assert!(locks.compare_and_swap(b"printer", None, Some(b"ada"))?); // ada's for half a minute
    assert!(!locks.compare_and_swap(b"printer", None, Some(b"bob"))?);
    Ok(())
}

fn words(error: Error) -> String {
    format!("{:?}: {}", error.reason, error.message)
}

fn check(holds: bool, what: &str) -> Outcome<()> {
    if holds { Ok(()) } else { Err(format!("it does not hold that {what}")) }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64)
}

/// Whether a record expires about so many milliseconds from now; `None`: never.
fn lives(records: &Namespace, key: &[u8], ms: Option<u64>) -> Outcome<bool> {
    let expiry = records.expires_at(key).map_err(words)?;
    Ok(match (expiry, ms) {
        (Some(expiry), Some(ms)) => expiry.abs_diff(now() + ms) < SLACK,
        (expiry, ms) => expiry.is_none() && ms.is_none() && records.contains(key).map_err(words)?,
    })
}

/// What `example` has left.
fn shown(db: &Db) -> Outcome<()> {
    let sessions = db.namespace(Some("sessions")).map_err(words)?;
    check(sessions.default_ttl().map_err(words)? == Some(HOUR), "a default is what was set")?;
    check(lives(&sessions, b"7", Some(HOUR))?, "a write that does not say lives as long as the default")?;
    check(lives(&sessions, b"code", None)?, "what persists never expires")?;
    check(!sessions.persist(b"code").map_err(words)?, "what never expires has nothing to persist")?;
    check(!sessions.persist(b"none").map_err(words)?, "neither has what is not there")?;
    let locks = db.namespace(Some("locks")).map_err(words)?;
    check(lives(&locks, b"printer", Some(30_000))?, "a swap lets a record live as long as its handle says")?;
    check(locks.default_ttl().map_err(words)?.is_none(), "a handle's time is no default")
}

/// Each way to write, with each kind of time.
fn ways(db: &Db) -> Outcome<()> {
    let sessions = db.namespace(Some("sessions")).map_err(words)?;
    sessions.put_with_ttl(b"never", b"v", Ttl::Never).map_err(words)?;
    check(lives(&sessions, b"never", None)?, "one record may live for ever whatever the default")?;
    let end = now() + 7 * HOUR;
    sessions.put_with_ttl(b"at", b"v", Ttl::At(end)).map_err(words)?;
    check(sessions.expires_at(b"at").map_err(words)? == Some(end), "a time is kept to the millisecond")?;
    sessions.put_with_ttl(b"at", b"v", Ttl::At(1)).map_err(words)?;
    check(!sessions.contains(b"at").map_err(words)?, "a time that has passed removes the key")?;
    sessions.put_with_ttl(b"long", b"v", Ttl::After(u64::MAX)).map_err(words)?;
    check(sessions.contains(b"long").map_err(words)?, "a time beyond all clocks does not overflow")?;

    let day = sessions.with_ttl(Some(Ttl::After(24 * HOUR)));
    let packed = Packed { lengths: vec![1, 1, 1, 1], bytes: b"pvqv".to_vec() };
    day.put_packed(&packed, Durability::Written).map_err(words)?;
    day.put(b"r", b"v").map_err(words)?;
    let versioned = day.get_versioned(b"r").map_err(words)?.ok_or("what was put is not there")?;
    check(day.compare_version_and_swap(b"r", Some(versioned.version), Some(b"w")).map_err(words)?, "a version fits")?;
    for key in [b"p", b"q", b"r"] {
        check(lives(&sessions, key, Some(24 * HOUR))?, "every call of a handle writes for its time")?;
    }
    day.with_ttl(None).put(b"r", b"v").map_err(words)?;
    check(lives(&sessions, b"r", Some(HOUR))?, "without a time the default counts again")?;

    let op = |key: &[u8], ttl| Op { namespace: Some("sessions".to_owned()), key: key.to_vec(), value: Some(b"v".to_vec()), ttl };
    let ops = [op(b"p", None), op(b"q", Some(Ttl::Never)), op(b"s", Some(Ttl::After(2 * HOUR)))];
    db.write(&ops, Durability::Written).map_err(words)?;
    for (key, ms) in [(b"p", Some(HOUR)), (b"q", None), (b"s", Some(2 * HOUR))] {
        check(lives(&sessions, key, ms)?, "each change of a commit has its own time")?;
    }
    sessions.set_default_ttl(None).map_err(words)?;
    check(sessions.default_ttl().map_err(words)?.is_none(), "a default can be taken back")?;
    sessions.put(b"p", b"v").map_err(words)?;
    check(lives(&sessions, b"p", None)?, "without a default records live for ever")?;
    sessions.set_default_ttl(Some(HOUR)).map_err(words)
}

/// A record that has expired is in no read, and a snapshot shows it for as long as it is held.
fn gone(db: &Db) -> Outcome<()> {
    let short = db.namespace(Some("short")).map_err(words)?;
    short.put(b"stays", b"v").map_err(words)?;
    short.put_with_ttl(b"goes", b"v", Ttl::After(300)).map_err(words)?;
    let before = db.snapshot().map_err(words)?;
    let then = before.namespace(Some("short")).map_err(words)?.ok_or("the namespace is missing")?;
    let expiry = then.expires_at(b"goes").map_err(words)?.ok_or("it has no expiry")?;
    while now() <= expiry {
        std::thread::sleep(Duration::from_millis(20));
    }
    check(short.get(b"goes").map_err(words)?.is_none() && !short.contains(b"goes").map_err(words)?, "what has expired is gone")?;
    check(short.expires_at(b"goes").map_err(words)?.is_none(), "and expires no more")?;
    check(short.len().map_err(words)? == 1, "it does not count")?;
    let page = short.scan(&[]).next(10, u32::MAX).map_err(words)?;
    check(page.iter().all(|entry| entry.key == b"stays") && page.len() == 1, "a walk does not meet it")?;
    check(then.get(b"goes").map_err(words)?.is_some() && then.len().map_err(words)? == 2, "a snapshot shows it still")?;
    check(!short.persist(b"goes").map_err(words)? && !short.delete(b"goes").map_err(words)?, "it cannot be kept or removed")?;
    check(short.compare_and_swap(b"goes", None, Some(b"w")).map_err(words)?, "a swap takes it for absent")?;
    check(lives(&short, b"goes", None)?, "what is written again does not expire")
}

fn all(name: &str) -> Outcome<()> {
    let options = Options {
        create: true,
        read_only: false,
        durability: Durability::Written,
        cache_bytes: 1 << 20,
        segment_bytes: 16 * 1024,
        exclusive: false,
        follow: false,
    };
    let db = Db::open(name, options).map_err(words)?;
    example(&db).map_err(words)?;
    shown(&db)?;
    ways(&db)?;
    gone(&db)?;
    db.namespace(Some("sessions")).and_then(|sessions| sessions.put(b"7", b"ada")).map_err(words)?;
    Db::close(db).map_err(words)
}

fn main() {
    match all(&std::env::args().nth(1).unwrap_or_default()) {
        Ok(()) => println!("what expires goes, and what is kept stays"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
