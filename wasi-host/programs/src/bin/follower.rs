//! Changes through `pipkin:kv`: `follower VERB STORE ..`. Shows how, and holds every verb to what it promises, alone (`all`, `names`) and beside other
//! programs: `write` commits pairs of records, `follow` and `consume` read them; `careless` keeps what it is given, `hold` never reads, `look` only reads.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/admin-client" });

use pipkin::kv::admin::{compact_step, get_stats};
use pipkin::kv::store::{Changes, Consumer, Db, Options};
use pipkin::kv::types::{Change, ChangesOptions, ChangesPage, Durability, Error, Op, Position, Reason, Start, Ttl};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, String>;

const ALL: u32 = u32::MAX;

/// The example of the README.
fn example(db: &Db, orders: ChangesOptions) -> Result<Vec<String>, Error> {
    let mut mails = Vec::new();
    let mailer = db.consumer("mailer", &orders)?; // goes on where it has acknowledged
    loop {
        let page = mailer.next(100, 1 << 20)?; // never waits
        for change in page.commits.iter().flat_map(|commit| &commit.changes) {
            if let Change::Put(order) = change {
                mails.push(format!("{} is {}", text(&order.key), text(&order.value)));
            }
        }
        mailer.ack(page.position)?; // does not come again
        if page.at_end {
            return Ok(mails); // sleep, and ask again
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn words(error: Error) -> String {
    format!("{:?}: {}", error.reason, error.message)
}

fn check(holds: bool, what: &str) -> Outcome<()> {
    if holds { Ok(()) } else { Err(format!("it does not hold that {what}")) }
}

fn said<T>(answer: Result<T, Error>) -> String {
    match answer {
        Ok(_) => "an answer".to_owned(),
        Err(Error { reason: Reason::Compacted(_), .. }) => "Reason::Compacted".to_owned(),
        Err(error) => format!("{:?}", error.reason),
    }
}

fn open_as(name: &str, read_only: bool, segment_bytes: u32) -> Outcome<Db> {
    let options = Options {
        create: !read_only,
        read_only,
        durability: Durability::Written,
        cache_bytes: 1 << 20,
        segment_bytes,
        exclusive: true,
        follow: false,
    };
    Db::open(name, options).map_err(words)
}

fn open(name: &str) -> Outcome<Db> {
    open_as(name, false, 0)
}

/// Everything from a place on, durable or not.
fn early(start: Start) -> ChangesOptions {
    ChangesOptions { start, namespace: None, prefix: Vec::new(), retain_bytes: None, appended: true, coalesced: false }
}

fn durable(start: Start) -> ChangesOptions {
    ChangesOptions { appended: false, ..early(start) }
}

fn shown_change(change: &Change) -> String {
    let named = |name: &Option<String>| name.as_ref().map_or(String::new(), |name| format!("{name}/"));
    match change {
        Change::Put(put) => {
            let brief = if put.expires_at.is_some() { " for a while" } else { "" };
            let value = if put.value.len() > 99 { put.value.len().to_string() } else { text(&put.value) };
            format!("{}{}={value}{brief}", named(&put.namespace), text(&put.key))
        }
        Change::Delete(gone) => format!("-{}{}", named(&gone.namespace), text(&gone.key)),
        Change::Clear(name) => format!("clear {}", named(name)),
        Change::Drop(name) => format!("drop {name}"),
    }
}

fn shown(page: &ChangesPage) -> String {
    let commit = |changes: &[Change]| changes.iter().map(shown_change).collect::<Vec<_>>().join(", ");
    page.commits.iter().map(|one| commit(&one.changes)).collect::<Vec<_>>().join(" | ")
}

fn expect(page: Result<ChangesPage, Error>, expected: &str, at_end: bool) -> Outcome<Position> {
    let page = page.map_err(words)?;
    let found = shown(&page);
    check(
        found == expected && page.at_end == at_end,
        &format!("{expected:?} comes (end: {at_end}), not {found:?} (end: {})", page.at_end),
    )?;
    Ok(page.position)
}

fn op(namespace: Option<&str>, key: &str, value: Option<&str>) -> Op {
    let value = value.map(|value| value.as_bytes().to_vec());
    Op { namespace: namespace.map(str::to_owned), key: key.as_bytes().to_vec(), value, ttl: None }
}

/// Every kind of change comes, in the order of the log, each commit whole.
fn kinds(db: &Db) -> Outcome<()> {
    let records = db.namespace(None).map_err(words)?;
    let changes = db.changes(&early(Start::Now)).map_err(words)?;
    expect(changes.next(ALL, ALL), "", true)?;
    let run = || {
        records.put(b"a", b"1")?;
        db.write(&[op(None, "b", Some("2")), op(Some("x"), "c", Some("3")), op(None, "a", None)], Durability::Written)?;
        records.put_with_ttl(b"t", b"4", Ttl::After(3_600_000))?;
        records.delete(b"b")?;
        records.delete(b"b")?;
        let space = db.namespace(Some("x"))?;
        space.clear()?;
        space.put(b"d", b"5")?;
        db.drop_namespace("x").map(drop)
    };
    run().map_err(words)?;
    let expected = "a=1 | clear x/ | b=2, x/c=3, -a | t=4 for a while | -b | clear x/ | x/d=5 | drop x";
    let position = expect(changes.next(ALL, ALL), expected, true)?;
    let now = changes.position();
    check((now.place, now.salt) == (position.place, position.salt), "a page says where the reader is")?;
    records.put_with_ttl(b"brief", b"", Ttl::After(60)).map_err(words)?;
    expect(changes.next(ALL, ALL), "brief= for a while", true)?;
    std::thread::sleep(Duration::from_millis(120));
    check(!records.contains(b"brief").map_err(words)?, "what has expired is gone")?;
    expect(changes.next(ALL, ALL), "", true).map(drop)
}

/// Pages end where they are told to, and commits are never cut.
fn pages(db: &Db) -> Outcome<()> {
    let records = db.namespace(None).map_err(words)?;
    let changes = db.changes(&early(Start::Now)).map_err(words)?;
    let long = "x".repeat(300_000);
    let run = || {
        records.put(b"1", b"")?;
        db.write(&["p", "q", "r"].map(|key| op(None, key, Some(&long))), Durability::Written)?;
        records.put(b"2", b"")?;
        records.put(b"3", b"")
    };
    run().map_err(words)?;
    let whole = "p=300000, q=300000, r=300000";
    let first = expect(changes.next(0, 0), "1=", false)?;
    expect(changes.next(ALL, 1), whole, false)?;
    expect(changes.next(2, ALL), "2= | 3=", false)?;
    expect(changes.next(ALL, ALL), "", true)?;
    let again =
        |max_commits, max_bytes| db.changes(&early(Start::After(first))).and_then(|changes| changes.next(max_commits, max_bytes));
    expect(again(1, ALL), whole, false)?;
    expect(again(ALL, 300_000), whole, false)?;
    expect(again(ALL, 1_000_000), &format!("{whole} | 2= | 3="), true)?;
    // 64 bytes a change count, or a page of empty records would take any memory.
    let many: Vec<Op> = (0..200).map(|n| op(None, &format!("{n:03}"), None)).collect();
    let stores: Vec<Op> =
        many.iter().map(|op| Op { key: op.key.clone(), namespace: None, value: Some(Vec::new()), ttl: None }).collect();
    stores.into_iter().try_for_each(|op| db.write(&[op], Durability::Written)).map_err(words)?;
    let page = changes.next(ALL, 67 * 50).map_err(words)?;
    check(page.commits.len() == 50, &format!("a page has 50 of them, not {}", page.commits.len()))
}

/// What is asked for, and how.
fn choices(db: &Db) -> Outcome<()> {
    let (records, other) = (db.namespace(None).map_err(words)?, db.namespace(Some("o")).map_err(words)?);
    let start = db.position().map_err(words)?;
    let run = || {
        ["k/1", "k/2", "l/1"].iter().try_for_each(|key| records.put(key.as_bytes(), b"1"))?;
        records.put(b"k/1", b"2")?;
        other.put(b"k/1", b"3")
    };
    run().map_err(words)?;
    let from = || early(Start::After(start));
    let asked = |options: ChangesOptions| db.changes(&options).and_then(|changes| changes.next(ALL, ALL));
    let unnamed = || Some(String::new());
    expect(asked(ChangesOptions { namespace: unnamed(), ..from() }), "k/1=1 | k/2=1 | l/1=1 | k/1=2", true)?;
    expect(asked(ChangesOptions { namespace: Some("o".into()), ..from() }), "o/k/1=3", true)?;
    expect(asked(ChangesOptions { namespace: Some("none such".into()), ..from() }), "", true)?;
    expect(asked(ChangesOptions { prefix: b"k/".into(), ..from() }), "k/1=1 | k/2=1 | k/1=2 | o/k/1=3", true)?;
    expect(asked(ChangesOptions { prefix: vec![b'k'; 70_000], ..from() }), "", true)?;
    expect(asked(ChangesOptions { coalesced: true, namespace: unnamed(), ..from() }), "k/2=1, l/1=1, k/1=2", true)?;
    let late = db.changes(&durable(Start::After(start))).map_err(words)?;
    expect(late.next(1, ALL), "", true)?;
    db.flush(Durability::Synced).map_err(words)?;
    expect(late.next(1, ALL), "k/1=1", false)?;
    check(said(asked(early(Start::Beginning))) == "an answer", "there is a beginning while nothing was compacted")
}

/// The present state, and everything after it.
fn state(db: &Db) -> Outcome<()> {
    let records = db.namespace(None).map_err(words)?;
    let (before, changes) = db.changes_with_state(&early(Start::Now)).map_err(words)?;
    records.put(b"k/1", b"later").map_err(words)?;
    let then = before.namespace(None).map_err(words)?.ok_or("the namespace was there")?;
    check(then.get(b"k/1").map_err(words)?.as_deref() == Some(b"2"), "the state is the one of before")?;
    expect(changes.next(ALL, ALL), "k/1=later", true)?;
    let (before, mirror) = db.consumer_with_state("mirror", &durable(Start::Beginning)).map_err(words)?;
    let then = before.namespace(None).map_err(words)?.ok_or("the namespace was there")?;
    check(then.get(b"k/1").map_err(words)?.as_deref() == Some(b"later"), "the state is the present one")?;
    expect(mirror.next(ALL, ALL), "", true)?;
    check(db.remove_consumer("mirror").map_err(words)?, "there was a consumer to remove")
}

/// A consumer goes on where it has acknowledged, also when the store was closed in between.
fn consumers(name: &str, db: Db, other: &str) -> Outcome<Db> {
    let records = db.namespace(Some("orders")).map_err(words)?;
    let orders = || ChangesOptions { namespace: Some("orders".into()), ..durable(Start::Now) };
    let mailer = db.consumer("mailer", &orders()).map_err(words)?;
    let run = || {
        ["1", "2", "3"].iter().try_for_each(|key| records.put(key.as_bytes(), b"paid"))?;
        db.flush(Durability::Synced)
    };
    run().map_err(words)?;
    let page = mailer.next(2, ALL).map_err(words)?;
    check(shown(&page) == "orders/1=paid | orders/2=paid", "two orders come")?;
    let first = page.commits.first().ok_or("there is a first one")?.position;
    let bad = |position| said(mailer.ack(position));
    check(bad(Position { place: first.place - 1, ..first }) == "Reason::UnknownPosition", "no commit ends there")?;
    check(bad(Position { salt: first.salt ^ 1, ..first }) == "Reason::UnknownPosition", "no segment has that salt")?;
    check(bad(Position { place: u64::MAX, salt: u64::MAX }) == "Reason::UnknownPosition", "no log is that long")?;
    let other = open(other)?;
    // Without a record, its position would be the one before everything, which every store has.
    other.namespace(None).and_then(|records| records.put(b"k", b"")).map_err(words)?;
    let elsewhere = other.position().map_err(words)?;
    // The log may have freed the place at which it would be.
    check(["Reason::UnknownPosition", "an answer"].contains(&&*bad(elsewhere)), "the position is another store's")?;
    let follow = |position| said(db.changes(&early(Start::After(position))));
    check(["Reason::UnknownPosition", "Reason::Compacted"].contains(&&*follow(elsewhere)), "nothing follows it")?;
    check(follow(Position { place: u64::MAX, salt: 1 }) == "Reason::UnknownPosition", "nothing follows a forged one")?;
    mailer.ack(first).map_err(words)?;
    mailer.ack(Position { place: 0, salt: 0 }).map_err(words)?;
    let known = db.consumers().map_err(words)?;
    let cursor = known.iter().find(|known| known.name == "mailer").ok_or("it is listed")?;
    check((cursor.cursor.place, cursor.retain_bytes) == (first.place, 64 << 20), "the cursor never moves back")?;
    drop((mailer, records));
    Db::close(db).map_err(words)?;
    let db = open(name)?;
    let mails = example(&db, orders()).map_err(words)?;
    check(mails == ["2 is paid", "3 is paid"], &format!("it goes on where it was: {mails:?}"))?;
    check(example(&db, orders()).map_err(words)?.is_empty(), "nothing comes again")?;
    let refused = [("", durable(Start::Now)), ("x", early(Start::Now))];
    for (name, options) in refused.iter().chain([&("x".repeat(256).as_str(), durable(Start::Now))]) {
        check(said(db.consumer(name, options)) == "Reason::InvalidArgument", "a bad name is refused, and `appended`")?;
    }
    let (one, two) = (db.consumer("mailer", &orders()).map_err(words)?, db.consumer("mailer", &orders()).map_err(words)?);
    check(db.remove_consumer("mailer").map_err(words)? && !db.remove_consumer("mailer").map_err(words)?, "it is removed once")?;
    check(said(one.ack(two.position())) == "Reason::InvalidArgument", "one that was removed acknowledges nothing")?;
    expect(two.next(ALL, ALL), "", true)?;
    db.consumer("stays", &durable(Start::Now)).map_err(words)?;
    drop((one, two));
    Ok(db)
}

/// A store of short segments, written over until what came before is compacted.
fn compacted(name: &str) -> Outcome<()> {
    let db = open_as(name, false, 16 << 10)?;
    let records = db.namespace(None).map_err(words)?;
    let start = db.position().map_err(words)?;
    let none = || ChangesOptions { retain_bytes: Some(0), ..early(Start::After(start)) };
    let (held, loose) = (db.changes(&early(Start::After(start))).map_err(words)?, db.changes(&none()).map_err(words)?);
    let consumer = db.consumer("late", &ChangesOptions { retain_bytes: Some(1), ..durable(Start::Now) }).map_err(words)?;
    let write = |round: u8| (0..40_u8).try_for_each(|key| records.put(&[key], &[round; 1000]));
    let compact = || {
        db.flush(Durability::Synced)?;
        while compact_step(&db)?.is_some() {}
        Ok(())
    };
    (0..5).try_for_each(write).map_err(words)?;
    check(loose.next(1, ALL).map_err(words)?.commits.len() == 1, "the log begins there")?;
    compact().map_err(words)?;
    let mut commits = 0;
    loop {
        let page = held.next(ALL, 50_000).map_err(words)?;
        commits += page.commits.len();
        if page.at_end {
            break;
        }
    }
    check(commits == 5 * 40, &format!("whoever holds it misses nothing: {commits}"))?;
    drop(held);
    (5..9).try_for_each(write).and_then(|()| compact()).map_err(words)?;
    let told = std::iter::repeat_with(|| loose.next(ALL, ALL)).find(|page| page.as_ref().map_or(true, |page| page.at_end));
    let Some(Err(Error { reason: Reason::Compacted(oldest), .. })) = told else { return Err("nothing was compacted".to_owned()) };
    check(said(loose.next(ALL, ALL)) == "Reason::Compacted", "it says so again")?;
    let late = said(consumer.next(ALL, ALL));
    check(late == "Reason::Compacted", &format!("a consumer that was too far behind is told so: {late}"))?;
    let late = said(db.consumer("late", &durable(Start::Now)).and_then(|late| late.next(ALL, ALL)));
    check(late == "Reason::Compacted", &format!("and again when it comes back: {late}"))?;
    check(db.consumers().map_err(words)?.iter().any(|known| known.is_too_far_behind), "the list of consumers says it, too")?;
    let (_, again) = db.consumer_with_state("late", &durable(Start::Now)).map_err(words)?;
    expect(again.next(ALL, ALL), "", true)?;
    let rest = db.changes(&early(Start::After(oldest))).map_err(words)?;
    check(said(rest.next(ALL, ALL)) == "an answer", "from the oldest position on it goes on")?;
    let first = said(db.changes(&none()).and_then(|changes| changes.next(ALL, ALL)));
    check(first == "Reason::Compacted", "from the first one it does not")
}

/// A store that was opened for reading is followed, and takes no consumers.
fn reading(name: &str) -> Outcome<()> {
    let db = open_as(name, true, 0)?;
    let changes = db.changes(&durable(Start::Beginning)).map_err(words)?;
    check(changes.next(1, ALL).map_err(words)?.commits.len() == 1, "a reader follows")?;
    let refused = [
        said(db.consumer("x", &durable(Start::Now))),
        said(db.consumer("stays", &durable(Start::Now))),
        said(db.consumer_with_state("stays", &durable(Start::Now))),
        said(db.remove_consumer("stays")),
    ];
    check(refused.iter().all(|reason| reason == "Reason::ReadOnly"), &format!("a reader registers nothing: {refused:?}"))?;
    let known = db.consumers().map_err(words)?;
    check(known.iter().map(|known| &*known.name).collect::<Vec<_>>() == ["stays"], "a reader sees who is registered")
}

/// Closes the store under its readers. Returns what each call on them answers then.
fn closed(db: Db, name: &str) -> Outcome<String> {
    let changes = db.changes(&early(Start::Now)).map_err(words)?;
    let consumer = db.consumer("stays", &durable(Start::Now)).map_err(words)?;
    let position = consumer.position();
    Db::close(db).map_err(words)?;
    let again = open(name)?;
    again.namespace(None).and_then(|records| records.put(b"after", b"")).map_err(words)?;
    let mut answers = vec![said(changes.next(1, 1)), said(consumer.next(1, 1)), said(consumer.ack(position))];
    changes.position();
    answers.dedup();
    Ok(answers.join(", "))
}

fn all(name: &str, other: &str, third: &str) -> Outcome<String> {
    let db = open(name)?;
    kinds(&db)?;
    pages(&db)?;
    choices(&db)?;
    state(&db)?;
    let db = consumers(name, db, other)?;
    compacted(third)?;
    let closed = closed(db, name)?;
    reading(name)?;
    let left = open(name)?;
    core::mem::forget((left.changes(&early(Start::Now)).map_err(words)?, left));
    Ok(format!("changes hold; of a closed store: {closed}"))
}

/// Registers consumers without end. Returns how many there are, and what stops it.
fn names(name: &str) -> Outcome<String> {
    let db = open(name)?;
    let stopped = (0..100_000_u32).find_map(|n| db.consumer(&format!("n{n}"), &durable(Start::Now)).err());
    check(said(db.consumer("n7", &durable(Start::Now))) == "an answer", "those that are registered go on")?;
    db.remove_consumer("n8").map_err(words)?;
    check(said(db.consumer("another", &durable(Start::Now))) == "an answer", "a removed one makes room")?;
    Ok(format!("{}, {}", db.consumers().map_err(words)?.len(), said::<()>(stopped.map_or(Ok(()), Err))))
}

/// Two records in each commit, which belong together.
fn write(name: &str, count: u32) -> Outcome<String> {
    let db = open(name)?;
    for n in 0..count {
        let value = n.to_string();
        let durability = if n % 10 == 9 || n + 1 == count { Durability::Synced } else { Durability::Written };
        db.write(&[op(Some("pairs"), "one", Some(&value)), op(Some("pairs"), "two", Some(&value))], durability).map_err(words)?;
    }
    Ok(count.to_string())
}

/// Reads pairs until there were so many. Returns how many pages were empty.
fn pairs(count: u32, next: &mut dyn FnMut() -> Result<ChangesPage, Error>) -> Outcome<String> {
    let begun = Instant::now();
    let (mut seen, mut empty) = (0, 0_u32);
    while seen < count {
        let page = next().map_err(words)?;
        for commit in page.commits.iter().filter(|commit| commit.changes.iter().any(|change| matches!(change, Change::Put(_)))) {
            let [Change::Put(one), Change::Put(two)] = &*commit.changes else { return Err("a commit is whole".to_owned()) };
            check(one.value == two.value && text(&one.value) == seen.to_string(), "pairs come in their order, none twice")?;
            seen += 1;
        }
        if page.commits.is_empty() {
            empty += 1;
            check(begun.elapsed() < Duration::from_secs(60), "the other program writes")?;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(format!("{empty} empty pages"))
}

fn in_pairs(start: Start) -> ChangesOptions {
    ChangesOptions { namespace: Some("pairs".into()), ..durable(start) }
}

fn consume(name: &str, consumer: &str, count: u32) -> Outcome<String> {
    let db = open(name)?;
    let consumer = db.consumer(consumer, &in_pairs(Start::Beginning)).map_err(words)?;
    pairs(count, &mut || {
        let page = consumer.next(7, ALL)?;
        consumer.ack(page.position)?;
        Ok(page)
    })
}

fn follow(name: &str, count: u32) -> Outcome<String> {
    let changes = open(name)?.changes(&ChangesOptions { appended: true, ..in_pairs(Start::Beginning) }).map_err(words)?;
    pairs(count, &mut || changes.next(7, ALL))
}

/// Leaves long commits in readers that it keeps, and makes readers without end. Returns what stops either.
fn careless(name: &str) -> Outcome<String> {
    let db = open(name)?;
    let records = db.namespace(None).map_err(words)?;
    let start = db.position().map_err(words)?;
    let long = vec![7; 1 << 20];
    (0..2_u8).try_for_each(|key| records.put(&[key], b"").and_then(|()| records.put(b"long", &long))).map_err(words)?;
    let from = || early(Start::After(start));
    let mut readers: Vec<Changes> = Vec::new();
    // Each has a MiB in its memory after the short commit in front of it.
    let heavy = (0..1000).find_map(|_| {
        let read = |changes: &Changes| changes.next(1, ALL);
        db.changes(&from()).and_then(|changes| read(&changes).map(|_| readers.push(changes))).err()
    });
    check(readers.len() < 10, &format!("they were not {}", readers.len()))?;
    let drained = readers.first().ok_or("there is one")?;
    check(drained.next(1, ALL).map_err(words)?.commits.len() == 1, "what was read already is handed out")?;
    readers.clear();
    let prefix = db.changes(&ChangesOptions { prefix: vec![1; 5 << 20], ..from() }).err();
    let many = (0..1_000_000).find_map(|_| db.changes(&from()).map(|changes| readers.push(changes)).err());
    check(said(db.changes(&from()).map(drop)) == "Reason::Quota", "it stays so")?;
    readers.clear();
    check(said(db.changes(&from())) == "an answer", "those that were dropped make room")?;
    let mut consumers: Vec<Consumer> = Vec::new();
    let named =
        (0..1_000_000).find_map(|_| db.consumer("one", &durable(Start::Now)).map(|consumer| consumers.push(consumer)).err());
    core::mem::forget((readers, consumers));
    let reasons = [heavy, prefix, many, named].map(|stopped| said::<()>(stopped.map_or(Ok(()), Err)));
    Ok(reasons.join(", "))
}

/// Follows without reading, or registers a consumer that never acknowledges, and writes over one record so many times. Returns what the reader is
/// told then.
fn hold(name: &str, how: &str, count: u32) -> Outcome<String> {
    let db = open(name)?;
    let forever = || ChangesOptions { retain_bytes: Some(u64::MAX), ..durable(Start::Now) };
    let consumer = if how == "named" { Some(db.consumer("never", &forever()).map_err(words)?) } else { None };
    let changes = if how == "unnamed" { Some(db.changes(&forever()).map_err(words)?) } else { None };
    let records = db.namespace(None).map_err(words)?;
    for n in 0..count {
        records.put(b"k", &vec![n as u8; 100_000]).map_err(|error| format!("the write {n}: {}", words(error)))?;
    }
    db.flush(Durability::Synced).map_err(words)?;
    let named = consumer.map(|consumer| said(consumer.next(1, ALL)));
    Ok(named.or_else(|| changes.map(|changes| said(changes.next(1, ALL)))).unwrap_or_default())
}

/// Follows a store that it may only read, without reading; others write until it has that file. Returns what it is told.
fn look(name: &str) -> Outcome<String> {
    let db = open_as(name, true, 0)?;
    let changes = db.changes(&ChangesOptions { retain_bytes: Some(u64::MAX), ..durable(Start::Now) }).map_err(words)?;
    let writing = said(open(name).map_err(|message| Error { reason: Reason::AccessDenied, message }));
    while !db.namespace(Some("done")).is_ok_and(|done| done.contains(b"").unwrap_or(false)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(format!("{writing}, {}, {}", said(changes.next(1, ALL)), get_stats(&db).map_err(words)?.records))
}

/// One look at what there is, from inside a change of the host's own.
fn inside(name: &str) -> Outcome<String> {
    let db = open(name)?;
    Ok(said(db.changes(&early(Start::Beginning)).and_then(|changes| changes.next(1, ALL))))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().unwrap_or(0);
    let ended = match *args.as_slice() {
        ["all", name, other, third] => all(name, other, third),
        ["names", name] => names(name),
        ["write", name, count] => write(name, number(count)),
        ["consume", name, consumer, count] => consume(name, consumer, number(count)),
        ["follow", name, count] => follow(name, number(count)),
        ["careless", name] => careless(name),
        ["hold", name, how, count] => hold(name, how, number(count)),
        ["look", name] => look(name),
        ["inside", name] => inside(name),
        _ => Err("follower VERB STORE ..".to_owned()),
    };
    match ended {
        Ok(said) => println!("{said}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
