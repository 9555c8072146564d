//! Transactions through `pipkin:kv`: `trader VERB STORE ..`. Shows how, and holds every verb to what it promises, alone (`all`) and beside other
//! programs: `off` takes one of two doctors off call if the other stays, `move` moves coins between accounts, `careless` begins and writes without
//! end, `heavy` only writes, `put` commits once.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]
#![allow(clippy::indexing_slicing, reason = "an account has one byte")]

wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/client" });

use pipkin::kv::store::{Db, Namespace, Options, Transaction};
use pipkin::kv::types::{Conflict, Durability, Error, Packed, Position, PositionState, Reason, Ttl};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, String>;

const ACCOUNTS: u8 = 5;
const COINS: u8 = 40;
/// So many programs move coins at the same time.
const GUESTS: u64 = 3;

/// The example of the README.
fn example(db: &Db) -> Result<Position, Error> {
    let accounts = db.namespace(Some("accounts"))?; // before the transaction begins
    loop {
        let tx = db.begin()?;
        let coins = |who: &[u8]| Ok::<u8, Error>(tx.get(&accounts, who)?.map_or(0, |coins| coins[0]));
        tx.put(&accounts, b"ada", &[coins(b"ada")? - 1])?;
        tx.put(&accounts, b"bob", &[coins(b"bob")? + 1])?; // nobody else sees it yet
        match Transaction::commit(tx) {
            Err(Error { reason: Reason::Conflict(_), .. }) => {} // somebody was faster: nothing was written
            committed => return committed,
        }
    }
}

fn words(error: Error) -> String {
    format!("{:?}: {}", error.reason, error.message)
}

fn check(holds: bool, what: &str) -> Outcome<()> {
    if holds { Ok(()) } else { Err(format!("it does not hold that {what}")) }
}

fn said<T>(answer: Result<T, Error>) -> String {
    answer.map_or_else(|error| format!("{:?}", error.reason), |_| "an answer".to_owned())
}

fn open_as(name: &str, read_only: bool) -> Outcome<Db> {
    let options = Options {
        create: !read_only,
        read_only,
        durability: Durability::Written,
        cache_bytes: 1 << 20,
        segment_bytes: 0,
        exclusive: true,
        follow: false,
    };
    Db::open(name, options).map_err(words)
}

fn open(name: &str) -> Outcome<Db> {
    open_as(name, false)
}

/// The keys of a walk in pages of 3, of a transaction that `between` may write in meanwhile.
fn walked(tx: &Transaction, records: &Namespace, between: &mut dyn FnMut() -> Result<(), Error>) -> Outcome<Vec<Vec<u8>>> {
    let scan = tx.scan(records, b"w/").map_err(words)?;
    let mut keys = Vec::new();
    loop {
        let page = scan.next(3, u32::MAX).map_err(words)?;
        if page.is_empty() {
            keys.sort();
            return Ok(keys);
        }
        keys.extend(page.into_iter().map(|entry| entry.key));
        between().map_err(words)?;
    }
}

/// Every way to read shows a transaction's own writes over the moment at which it began, and to nobody else.
fn reads(db: &Db) -> Outcome<()> {
    let (records, other) = (db.namespace(None).map_err(words)?, db.namespace(Some("other")).map_err(words)?);
    (0..20_u8).try_for_each(|n| records.put(&[b'w', b'/', n], b"stored")).map_err(words)?;
    let tx = db.begin().map_err(words)?;
    records.put(b"w/later", b"").map_err(words)?;
    tx.put(&records, b"w/own", b"mine").map_err(words)?;
    tx.put(&other, b"w/own", b"there").map_err(words)?;
    check(tx.delete(&records, &[b'w', b'/', 0]).map_err(words)?, "a removal says that there was a record")?;
    check(!tx.delete(&records, b"w/later").map_err(words)?, "what others wrote later is not there to remove")?;
    check(tx.get(&records, b"w/own").map_err(words)?.as_deref() == Some(b"mine"), "an own write is read")?;
    check(tx.get(&other, b"w/own").map_err(words)?.as_deref() == Some(b"there"), "namespaces are kept apart")?;
    check(!records.contains(b"w/own").map_err(words)?, "nobody else sees it")?;
    check(!tx.contains(&records, b"w/later").map_err(words)?, "what others write is not seen")?;
    let keys = [b"w/own".to_vec(), vec![b'w', b'/', 0], vec![b'w', b'/', 1]];
    let many = tx.get_many(&records, &keys).map_err(words)?;
    check(many == [Some(b"mine".to_vec()), None, Some(b"stored".to_vec())], "many values are its own and the moment's")?;
    let packed = tx.get_packed(&records, &Packed { lengths: vec![5, 3, 3], bytes: keys.concat() }).map_err(words)?;
    check(packed.lengths == [Some(4), None, Some(6)] && packed.bytes == b"minestored", "packed values are the same")?;
    let mut expected: Vec<Vec<u8>> = (1..20_u8).map(|n| vec![b'w', b'/', n]).chain([b"w/own".to_vec()]).collect();
    expected.sort();
    let again = walked(&tx, &records, &mut || tx.put(&records, b"w/own", b"again"))?;
    check(again == expected, "a walk shows each record once, whatever is written meanwhile")?;
    Transaction::rollback(tx);
    check(!other.contains(b"w/own").map_err(words)?, "what is rolled back is not there")
}

/// A transaction that has read what others change afterwards says so in its type, and has written nothing.
fn conflicts(db: &Db) -> Outcome<()> {
    let records = db.namespace(None).map_err(words)?;
    type Act<'a> = &'a dyn Fn(&Transaction) -> Result<(), Error>;
    let conflict = |read: Act<'_>, change: &dyn Fn() -> Result<(), Error>| -> Outcome<String> {
        let tx = db.begin().map_err(words)?;
        read(&tx).and_then(|()| tx.put(&records, b"result", b"")).map_err(words)?;
        change().map_err(words)?;
        let committed = Transaction::commit(tx);
        let there = records.delete(b"result").map_err(words)?;
        check(there == committed.is_ok(), "all of it is written, or nothing")?;
        Ok(said(committed))
    };
    let put = || records.put(b"w/x", b"");
    let key = conflict(&|tx| tx.get(&records, b"w/x").map(drop), &put)?;
    check(key == said::<()>(Err(because(Reason::Conflict(Conflict::Key)))), &format!("a key that was read conflicts: {key}"))?;
    let range = conflict(&|tx| tx.scan(&records, b"no such")?.next(9, 9).map(drop), &put)?;
    check(range == said::<()>(Err(because(Reason::Conflict(Conflict::Range)))), &format!("a walk conflicts: {range}"))?;
    let space = db.namespace(Some("short")).map_err(words)?;
    let dropped = conflict(&|tx| tx.get(&space, b"k").map(drop), &|| db.drop_namespace("short").map(drop))?;
    let expected = said::<()>(Err(because(Reason::Conflict(Conflict::Namespace))));
    check(dropped == expected, &format!("a namespace that was dropped conflicts: {dropped}"))?;
    let expired = conflict(
        &|tx| {
            records.put_with_ttl(b"brief", b"", Ttl::After(150))?;
            let other = db.begin()?;
            other.get(&records, b"brief")?;
            std::thread::sleep(Duration::from_millis(200));
            other.put(&records, b"x", b"")?;
            let reason = Transaction::commit(other).err().map(|error| format!("{:?}", error.reason));
            tx.put(&records, b"why", reason.unwrap_or_default().as_bytes())
        },
        &|| Ok(()),
    )?;
    check(expired == "an answer", "what was not read is no conflict")?;
    let why = records.get(b"why").map_err(words)?.unwrap_or_default();
    check(
        why == b"Reason::Conflict(Conflict::Expired)",
        &format!("what has expired conflicts: {}", String::from_utf8_lossy(&why)),
    )?;
    let blind = conflict(&|tx| tx.put(&records, b"w/x", b"mine"), &put)?;
    check(blind == "an answer", "what is written without being read is no conflict")
}

fn because(reason: Reason) -> Error {
    Error { reason, message: String::new() }
}

fn savepoints(db: &Db) -> Outcome<()> {
    let records = db.namespace(None).map_err(words)?;
    let (tx, other) = (db.begin().map_err(words)?, db.begin().map_err(words)?);
    let put = |value: &[u8]| tx.put(&records, b"s", value).map_err(words);
    put(b"1")?;
    let first = tx.savepoint().map_err(words)?;
    put(b"2")?;
    let second = tx.savepoint().map_err(words)?;
    put(b"3")?;
    tx.rollback_to(&second).map_err(words)?;
    check(tx.get(&records, b"s").map_err(words)?.as_deref() == Some(b"2"), "it goes back to the later savepoint")?;
    tx.rollback_to(&first).map_err(words)?;
    tx.rollback_to(&first).map_err(words)?;
    check(said(tx.rollback_to(&second)) == "Reason::InvalidArgument", "a savepoint of a time that was taken back has ended")?;
    check(said(other.rollback_to(&first)) == "Reason::InvalidArgument", "another transaction does not take it")?;
    Transaction::commit(tx).map_err(words)?;
    check(records.get(b"s").map_err(words)?.as_deref() == Some(b"1"), "what was taken back is not written")?;
    check(said(other.rollback_to(&first)) == "Reason::InvalidArgument", "nor is it taken after the end of its own")
}

/// Positions, durability and times that records live.
fn commits(db: &Db) -> Outcome<()> {
    let records = db.namespace(None).map_err(words)?;
    let tx = db.begin().map_err(words)?;
    tx.put_with_ttl(&records, b"hour", b"", Ttl::After(3_600_000)).map_err(words)?;
    tx.put(&records.with_ttl(Some(Ttl::After(3_600_000))), b"hour too", b"").map_err(words)?;
    tx.put(&records, b"ever", b"").map_err(words)?;
    let position = Transaction::commit(tx).map_err(words)?;
    check(db.state_of(position).map_err(words)? == PositionState::Appended, "a commit has a position")?;
    let expires = |key: &[u8]| records.expires_at(key).map(|time| time.is_some()).map_err(words);
    check(expires(b"hour")? && expires(b"hour too")? && !expires(b"ever")?, "records live as long as was said")?;
    let tx = db.begin().map_err(words)?;
    tx.put(&records, b"ever", b"durably").map_err(words)?;
    check(Transaction::commit_durably(tx).map_err(words)? == Durability::Synced, "a durable commit syncs")?;
    check(db.state_of(position).map_err(words)? == PositionState::Durable, "what came before is durable, too")?;
    let nothing = Transaction::commit(db.begin().map_err(words)?).map_err(words)?;
    check(nothing.place >= position.place, "nothing to write has the position of the store")?;
    let long = db.begin().map_err(words)?;
    check(said(long.put(&records, &[0; 70_000], b"")).starts_with("Reason::KeyTooLong"), "a key that is too long is refused")?;
    long.put(&records, b"short", b"").map_err(words)?;
    Transaction::commit(long).map(drop).map_err(words)
}

/// Handles of another store, of a transaction that has ended, and of a store that is only read.
fn foreign(db: &Db, other: &str) -> Outcome<()> {
    let records = db.namespace(None).map_err(words)?;
    let theirs = open(other)?.namespace(None).map_err(words)?;
    let tx = db.begin().map_err(words)?;
    let refused = [
        said(tx.get(&theirs, b"k")),
        said(tx.get_many(&theirs, &[b"k".to_vec()])),
        said(tx.get_packed(&theirs, &Packed { lengths: vec![1], bytes: b"k".to_vec() })),
        said(tx.contains(&theirs, b"k")),
        said(tx.put(&theirs, b"k", b"")),
        said(tx.put_with_ttl(&theirs, b"k", b"", Ttl::Never)),
        said(tx.delete(&theirs, b"k")),
        said(tx.scan(&theirs, b"")),
        said(tx.get_packed(&records, &Packed { lengths: vec![9], bytes: b"k".to_vec() })),
    ];
    check(refused.iter().all(|reason| reason == "Reason::InvalidArgument"), &format!("they are refused: {refused:?}"))?;
    let scan = tx.scan(&records, b"").map_err(words)?;
    check(!scan.next(1, 1).map_err(words)?.is_empty(), "a walk has records")?;
    drop(tx);
    check(said(scan.next(1, 1)) == "Reason::InvalidArgument", "a walk ends with its transaction")?;
    let gone = db.namespace(Some("gone")).map_err(words)?;
    db.drop_namespace("gone").map_err(words)?;
    let tx = db.begin().map_err(words)?;
    check(said(tx.put(&gone, b"k", b"")) == "Reason::NamespaceDropped", "a namespace that is gone takes no writes")?;
    drop((tx, theirs));
    Ok(())
}

/// A store that was opened for reading has transactions that read, and refuse to write.
fn reading(name: &str) -> Outcome<()> {
    let db = open_as(name, true)?;
    let records = db.namespace(None).map_err(words)?;
    let tx = db.begin().map_err(words)?;
    check(tx.contains(&records, b"ever").map_err(words)?, "a reader reads")?;
    check(said(tx.put(&records, b"k", b"")) == "Reason::ReadOnly", "a reader writes nothing")?;
    check(said(tx.delete(&records, b"ever")) == "Reason::ReadOnly", "nor does it remove")?;
    Transaction::commit(tx).map(drop).map_err(words)
}

/// Closes the store under a transaction. Returns what each call on it answers then.
fn closed(db: Db, name: &str) -> Outcome<String> {
    let records = db.namespace(None).map_err(words)?;
    let (tx, other) = (db.begin().map_err(words)?, db.begin().map_err(words)?);
    tx.put(&records, b"never", b"").map_err(words)?;
    let savepoint = tx.savepoint().map_err(words)?;
    let scan = tx.scan(&records, b"").map_err(words)?;
    Db::close(db).map_err(words)?;
    let again = open(name)?;
    let now = again.namespace(None).map_err(words)?;
    let mut answers = vec![
        said(tx.get(&records, b"ever")),
        said(tx.get_many(&records, &[b"ever".to_vec()])),
        said(tx.contains(&records, b"ever")),
        said(tx.put(&records, b"never", b"")),
        said(tx.delete(&records, b"ever")),
        said(tx.scan(&records, b"")),
        said(tx.savepoint()),
        said(tx.rollback_to(&savepoint)),
        said(scan.next(1, 1)),
        said(Transaction::commit(other)),
    ];
    drop((tx, scan, savepoint));
    check(!now.contains(b"never").map_err(words)?, "nothing of it is written")?;
    answers.dedup();
    Ok(answers.join(", "))
}

fn all(name: &str, other: &str) -> Outcome<String> {
    let db = open(name)?;
    db.namespace(Some("accounts")).and_then(|accounts| accounts.put(b"ada", &[3])).map_err(words)?;
    let position = example(&db).map_err(words)?;
    check(db.state_of(position).map_err(words)? == PositionState::Appended, "the example has written")?;
    reads(&db)?;
    conflicts(&db)?;
    savepoints(&db)?;
    commits(&db)?;
    foreign(&db, other)?;
    let closed = closed(db, name)?;
    reading(name)?;
    let left = open(name)?;
    let records = left.namespace(None).map_err(words)?;
    let tx = left.begin().map_err(words)?;
    tx.put(&records, b"never", b"").map_err(words)?;
    core::mem::forget((tx.scan(&records, b"").map_err(words)?, tx.savepoint().map_err(words)?, tx, left));
    Ok(format!("transactions hold; of a closed store: {closed}"))
}

/// Waits for what other programs do.
fn wait_until(mut holds: impl FnMut() -> Result<bool, Error>) -> Outcome<()> {
    let begun = Instant::now();
    while !holds().map_err(words)? {
        check(begun.elapsed() < Duration::from_secs(60), "the other programs come, too")?;
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Takes `who` off call if both are on call, after the other program has looked as well.
fn off(name: &str, who: &str, other: &str) -> Outcome<String> {
    let db = open(name)?;
    let (doctors, looked) = (db.namespace(Some("on call")).map_err(words)?, db.namespace(Some("looked")).map_err(words)?);
    let tx = db.begin().map_err(words)?;
    let both = tx.get_many(&doctors, &[who.into(), other.into()]).map_err(words)?;
    check(both == [Some(b"yes".to_vec()), Some(b"yes".to_vec())], "both are on call")?;
    looked.put(who.as_bytes(), b"").map_err(words)?;
    wait_until(|| looked.contains(other.as_bytes()))?;
    tx.put(&doctors, who.as_bytes(), b"no").map_err(words)?;
    Ok(said(Transaction::commit(tx)))
}

/// Moves coins between accounts until all have had their turn; returns how often others were faster.
fn moves(name: &str, seed: u8) -> Outcome<String> {
    let db = open(name)?;
    let accounts = db.namespace(Some("accounts")).map_err(words)?;
    let ready = db.namespace(Some("ready")).map_err(words)?;
    ready.put(&[seed], b"").map_err(words)?;
    wait_until(|| ready.len().map(|guests| guests == GUESTS))?;
    let mut conflicts = 0;
    for turn in 0..COINS {
        let (from, to) = ((turn.wrapping_mul(7) + seed) % ACCOUNTS, (turn + seed * 3) % ACCOUNTS);
        loop {
            let tx = db.begin().map_err(words)?;
            let coins = |of: u8| Ok::<u8, String>(tx.get(&accounts, &[of]).map_err(words)?.map_or(COINS, |coins| coins[0]));
            if coins(from)? > 0 {
                tx.put(&accounts, &[from], &[coins(from)? - 1]).map_err(words)?;
                tx.put(&accounts, &[to], &[coins(to)? + 1]).map_err(words)?;
            }
            std::thread::sleep(Duration::from_millis(1));
            match Transaction::commit(tx) {
                Err(Error { reason: Reason::Conflict(_), .. }) => conflicts += 1,
                committed => break committed.map(drop).map_err(words)?,
            }
        }
    }
    Ok(conflicts.to_string())
}

/// Writes up to 10 GB into one transaction; returns what stops it, and commits a little afterwards.
fn heavy(name: &str) -> Outcome<String> {
    let db = open(name)?;
    let records = db.namespace(None).map_err(words)?;
    let tx = db.begin().map_err(words)?;
    let value = vec![7; 1 << 20];
    let stopped = (0..10_240_u32).find_map(|n| tx.put(&records, &n.to_le_bytes(), &value).err());
    let reads = (0..10_240_u32).map(u32::to_le_bytes).find_map(|key| tx.get(&records, &key).err());
    check(reads.is_none(), "what was read fits")?;
    drop(tx);
    let tx = db.begin().map_err(words)?;
    tx.put(&records, b"after", &value).map_err(words)?;
    Transaction::commit(tx).map_err(words)?;
    Ok(stopped.map_or("nothing".to_owned(), |error| format!("{:?}", error.reason)))
}

/// Commits records in one transaction: so many short ones, or one that is long. Returns what that says.
fn put(name: &str, what: &str) -> Outcome<String> {
    let db = open(name)?;
    let records = db.namespace(None).map_err(words)?;
    let tx = match db.begin() {
        Err(Error { reason: Reason::Nested, .. }) => return Ok("Reason::Nested".to_owned()),
        tx => tx.map_err(words)?,
    };
    let many = match what {
        "large" => {
            tx.put(&records, b"one", &vec![7; 200 << 10]).map_err(words)?;
            0
        }
        "one" => 1,
        "two" => 2,
        _ => 4,
    };
    let keys = ["one", "two", "three", "four"];
    keys.iter().take(many).try_for_each(|key| tx.put(&records, key.as_bytes(), b"")).map_err(words)?;
    Ok(said(Transaction::commit(tx)))
}

/// Begins without end, makes savepoints without end, and reads without end; leaves all of it.
fn careless(name: &str) -> Outcome<String> {
    let db = open(name)?;
    let records = db.namespace(None).map_err(words)?;
    let heavy = heavy(name)?;
    let tx = db.begin().map_err(words)?;
    let reads = (0..50_000_000_u32).find_map(|n| tx.contains(&records, &n.to_be_bytes()).err());
    drop(tx);
    let tx = db.begin().map_err(words)?;
    let places = (0..50_000_000_u32).find_map(|_| tx.savepoint().map(drop).err());
    drop(tx);
    let mut open = Vec::new();
    let begun = (0..1_000_000_u32).find_map(|_| db.begin().map(|tx| open.push(tx)).err());
    core::mem::forget(open);
    let reason = |error: Option<Error>| error.map_or("nothing".to_owned(), |error| format!("{:?}", error.reason));
    Ok(format!("{heavy}, {}, {}, {}", reason(reads), reason(places), reason(begun)))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ended = match *args.as_slice() {
        ["all", name, other] => all(name, other),
        ["off", name, who, other] => off(name, who, other),
        ["move", name, seed] => moves(name, seed.parse().unwrap_or(0)),
        ["put", name, what] => put(name, what),
        ["careless", name] => careless(name),
        ["heavy", name] => heavy(name),
        _ => {
            Err("trader all STORE OTHER | off STORE WHO OTHER | move STORE SEED | put STORE WHAT | careless STORE | heavy STORE"
                .to_owned())
        }
    };
    match ended {
        Ok(said) => println!("{said}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
