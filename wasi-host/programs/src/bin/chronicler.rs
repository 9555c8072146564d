//! Events through `pipkin:kv`: `chronicler VERB STORE ..`. Shows how, and holds every verb to what it promises, alone (`all`) and beside other programs:
//! `write` appends, `project` counts what comes by a cursor, once each; `careless`, `cursors`, `logs` and `fill` want more than they may have.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit", world: "pipkin:kv/full-client" });

#[path = "chronicler/retention.rs"]
mod retention;

use pipkin::kv::events::{Event, Log, NewEvent, Page, QueryItem, Reader, Retention, Selection, Subscription, logs};
use pipkin::kv::store::{Db, Options, Transaction};
use pipkin::kv::types::{Durability, Error, Expected, FailedCheck, Reason};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, String>;

const ALL: u32 = u32::MAX;

/// The example of the README.
fn example(db: &Db) -> Result<Option<Vec<u8>>, Error> {
    let orders = Log::open(db, "orders")?; // db: &Db
    let placed = NewEvent { tags: vec!["customer:ada".into()], ..event("Placed", "3 apples") };
    orders.append("order-7", Expected::NoStream, &[placed])?;
    db.flush(Durability::Synced)?; // events come to subscriptions once they are durable
    let totals = db.namespace(Some("totals"))?;
    let counter = orders.cursor("counter", &Selection::All, 0)?; // goes on where it has acknowledged
    let page = counter.next(100, 1 << 20)?; // never waits
    let transaction = db.begin()?;
    let count = transaction.get(&totals, b"orders")?.map_or(0, |count| count.first().copied().unwrap_or(0));
    transaction.put(&totals, b"orders", &[count + page.events.len() as u8])?;
    counter.ack_in(&transaction, page.number)?; // both, or neither: each event counts once
    Transaction::commit(transaction)?;
    totals.get(b"orders")
}

fn event(kind: &str, payload: impl AsRef<[u8]>) -> NewEvent {
    let payload = payload.as_ref().to_vec();
    NewEvent { kind: kind.into(), payload, tags: Vec::new(), metadata: Vec::new(), id: None, time_ms: None }
}

fn tagged(kind: &str, tags: &[&str]) -> NewEvent {
    NewEvent { tags: tags.iter().map(|&tag| tag.into()).collect(), ..event(kind, "") }
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

fn expect<T>(answer: Result<T, Error>, expected: &str) -> Outcome<()> {
    let found = said(answer);
    check(found == expected, &format!("it answers {expected:?}, not {found:?}"))
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

fn item(kinds: &[&str], tags: &[&str]) -> QueryItem {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    QueryItem { kinds: texts(kinds), tags: texts(tags) }
}

fn shown(events: &[Event]) -> String {
    let one = |event: &Event| format!("{}@{}:{}", event.stream, event.version, event.kind);
    events.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// All that a reader has, in pages of `many`.
fn whole(reader: Result<Reader, Error>, many: u32) -> Outcome<String> {
    let reader = reader.map_err(words)?;
    let mut found = Vec::new();
    loop {
        let page = reader.next(many, ALL).map_err(words)?;
        if page.is_empty() {
            check(reader.next(many, ALL).map_err(words)?.is_empty(), "the end stays")?;
            return Ok(shown(&found));
        }
        check(page.len() <= many as usize, "pages end where they are told to")?;
        found.extend(page);
    }
}

fn reads(log: &Log, selection: &Selection, from: u64, backwards: bool, expected: &str) -> Outcome<()> {
    for many in [1, 2, ALL] {
        let found = whole(log.read(selection, from, backwards), many)?;
        check(found == expected, &format!("{expected:?} comes, not {found:?}"))?;
    }
    Ok(())
}

/// Every field comes back, and appends answer what they have got.
fn appends(log: &Log) -> Outcome<()> {
    check(log.version("a").map_err(words)? == 0, "a stream without an event is at version 0")?;
    let full = NewEvent { metadata: vec![1, 0, 255], id: Some((7, 8)), time_ms: Some(9), ..tagged("one", &["t", "u", "t"]) };
    let full = || NewEvent { payload: vec![0, 255], ..full.clone() };
    let got = log.append("a", Expected::NoStream, &[full(), event("two", "x")]).map_err(words)?;
    check((got.last_number, got.version, got.repeated) == (got.first_number + 1, 2, false), "an append says what it has got")?;
    let found = log.get("a", 1).map_err(words)?.ok_or("it is there")?;
    check(
        found.number == got.first_number && found.stream == "a" && found.version == 1 && found.kind == "one",
        "places come back",
    )?;
    check(found.payload == [0, 255] && found.metadata == [1, 0, 255] && found.tags == ["t", "u"], "bytes and tags come back")?;
    check(found.id == (7, 8) && found.time_ms == 9, "id and time come back")?;
    let same = log.get_by_number(got.first_number).map_err(words)?.ok_or("it is there")?;
    check(shown(&[same]) == shown(&[found]) && log.last_number().map_err(words)? == got.last_number, "numbers find events")?;
    let again = || NewEvent { id: Some((1, 1)), ..event("three", "") };
    log.append("a", Expected::Version(2), &[again()]).map_err(words)?;
    let repeated = log.append("a", Expected::Version(2), &[again()]).map_err(words)?;
    check(repeated.repeated && repeated.version == 3, "an append whose answer was lost can be repeated")?;
    let refused = [
        log.append("a", Expected::Version(2), &[event("x", "")]),
        log.append("a", Expected::NoStream, &[event("x", "")]),
        log.append("none", Expected::Exists, &[event("x", "")]),
    ];
    for (refused, at) in refused.into_iter().zip([3, 3, 0]) {
        let Err(Error { reason: Reason::AppendRefused(failed), message }) = refused else { return Err("it is refused".into()) };
        let [FailedCheck::Version(failed)] = &*failed else { return Err("for its version".into()) };
        check(failed.current == at && message.contains("nothing was appended"), "it says at which version the stream is")?;
    }
    check(log.version("a").map_err(words)? == 3 && log.version("none").map_err(words)? == 0, "what is refused is not there")
}

/// A decision holds until it is written.
fn conditions(log: &Log) -> Outcome<()> {
    let seat = || [tagged("Sat", &["course", "ada"])];
    let query = || [item(&["Sat", "Stood"], &["course"]), item(&["Never"], &[])];
    let first = log.append_if(&query(), 0, "seats", &seat()).map_err(words)?;
    let Err(Error { reason: Reason::AppendRefused(failed), .. }) = log.append_if(&query(), 0, "seats", &seat()) else {
        return Err("a decision on what has changed is refused".into());
    };
    check(matches!(&*failed, [FailedCheck::Query(number)] if *number == first.first_number), "it says which event has come")?;
    log.append_if(&query(), first.last_number, "seats", &seat()).map_err(words)?;
    log.append_if(&[item(&[], &["course", "bob"])], 0, "other", &[event("Left", "")]).map(drop).map_err(words)
}

/// By stream, kind, tag and query, from either end, and what retention leaves.
fn selections(log: &Log) -> Outcome<()> {
    let all = "a@1:one a@2:two a@3:three seats@1:Sat seats@2:Sat other@1:Left";
    let back: Vec<&str> = all.split(' ').rev().collect();
    reads(log, &Selection::All, 0, false, all)?;
    reads(log, &Selection::All, 0, true, &back.join(" "))?;
    reads(log, &Selection::InStream("a".into()), 2, false, "a@2:two a@3:three")?;
    reads(log, &Selection::InStream("a".into()), 2, true, "a@3:three a@2:two")?;
    reads(log, &Selection::OfKind("Sat".into()), 0, false, "seats@1:Sat seats@2:Sat")?;
    reads(log, &Selection::Tagged("t".into()), 0, true, "a@1:one")?;
    let query = Selection::Matching(vec![item(&["Left", "two"], &[]), item(&["Sat"], &["ada", "course"])]);
    reads(log, &query, 0, false, "a@2:two seats@1:Sat seats@2:Sat other@1:Left")?;
    reads(log, &query, u64::MAX, true, "")?;
    reads(log, &Selection::Matching(vec![item(&[], &[])]), 0, false, all)?;
    for none in [Selection::InStream("none".into()), Selection::OfKind("none".into()), Selection::Tagged("none".into())] {
        reads(log, &none, 0, false, "")?;
        reads(log, &none, 0, true, "")?;
    }
    let reader = log.read(&Selection::All, 0, false).map_err(words)?;
    check(reader.next(ALL, 1).map_err(words)?.len() == 1 && reader.next(0, 0).map_err(words)?.len() == 1, "a page has an event")?;
    check(log.truncate("a", 2).map_err(words)? == 1, "one is removed")?;
    check(log.get("a", 1).map_err(words)?.is_none(), "it is read no more")?;
    reads(log, &Selection::InStream("a".into()), 0, false, "a@2:two a@3:three")?;
    check(log.keep_last("a", 1).map_err(words)? == 1 && log.delete_stream("seats").map_err(words)? == 2, "so are others")?;
    check(log.append("seats", Expected::Version(2), &[event("Sat", "")]).map_err(words)?.version == 3, "versions go on")?;
    check(log.append("seats", Expected::Anew, &[event("Sat", "")]).is_err(), "not where an event is left")?;
    check(log.delete_stream("seats").map_err(words)? == 1, "it is removed")?;
    check(log.append("seats", Expected::Anew, &[event("Sat", "")]).map_err(words)?.version == 1, "unless it is asked for")?;
    check(log.remove_before(1).map_err(words)? == 0 && log.delete_stream("none").map_err(words)? == 0, "nothing is that old")?;
    check(log.remove_before(u64::MAX).map_err(words)? == 3, "all of it goes")?;
    reads(log, &Selection::All, 0, true, "")
}

fn page(subscription: &Subscription, expected: &str, at_end: bool) -> Outcome<Page> {
    let page = subscription.next(2, ALL).map_err(words)?;
    let found = shown(&page.events);
    check(
        (&*found, page.at_end) == (expected, at_end) && subscription.number() == page.number,
        &format!("{expected:?} comes (end: {at_end}), not {found:?} (end: {})", page.at_end),
    )?;
    Ok(page)
}

/// Cursors go on where they have acknowledged, once each, and one consumer has them.
fn cursors(db: &Db, name: &str) -> Outcome<()> {
    let log = Log::open(db, name).map_err(words)?;
    let append = |stream: &str, kinds: &[&str]| {
        let events: Vec<NewEvent> = kinds.iter().map(|kind| event(kind, "")).collect();
        log.append(stream, Expected::Any, &events)
    };
    append("s", &["1", "2", "3"]).map_err(words)?;
    let follow = log.follow(&Selection::All, 0).map_err(words)?;
    page(&follow, "", true)?;
    db.flush(Durability::Synced).map_err(words)?;
    page(&follow, "s@1:1 s@2:2", false)?;
    page(&follow, "s@3:3", true)?;
    expect(follow.ack(1), "Reason::InvalidArgument")?;
    let mails = log.cursor("mails", &Selection::InStream("s".into()), 0).map_err(words)?;
    expect(mails.ack(follow.number()), "Reason::InvalidArgument")?;
    let first = page(&mails, "s@1:1 s@2:2", false)?;
    let last = first.events.first().ok_or("it has two")?.number;
    mails.ack(last).map_err(words)?;
    let other = log.cursor("mails", &Selection::All, 99).map_err(words)?;
    expect(mails.ack(first.number), "Reason::CursorTaken")?;
    let two = page(&other, "s@2:2 s@3:3", false)?;
    in_transactions(db, &log, (&mails, first.number), (&other, two.number))?;
    let known = log.cursors().map_err(words)?;
    check(matches!(&*known, [one] if one.name == "mails" && one.number == two.number), "the list says where it is")?;
    check(log.remove_cursor("mails").map_err(words)? && !log.remove_cursor("mails").map_err(words)?, "it is forgotten")?;
    expect(other.ack(two.number), "Reason::CursorTaken")
}

/// Records, events and acknowledgements in one commit, or none of them.
fn in_transactions(db: &Db, log: &Log, taken: (&Subscription, u64), own: (&Subscription, u64)) -> Outcome<()> {
    let records = db.namespace(None).map_err(words)?;
    let begin = || db.begin().map_err(words);
    let dropped = begin()?;
    expect(taken.0.ack_in(&dropped, taken.1), "Reason::CursorTaken")?;
    own.0.ack_in(&dropped, own.1).map_err(words)?;
    log.append_in(&dropped, "t", Expected::NoStream, &[event("lost", "")]).map_err(words)?;
    drop(dropped);
    let refused = begin()?;
    refused.put(&records, b"k", b"lost").map_err(words)?;
    own.0.ack_in(&refused, own.1).map_err(words)?;
    log.append_in(&refused, "t", Expected::Exists, &[event("lost", "")]).map_err(words)?;
    log.append_in(&refused, "s", Expected::Version(9), &[event("lost", "")]).map_err(words)?;
    let Err(Error { reason: Reason::AppendRefused(failed), .. }) = Transaction::commit(refused) else {
        return Err("the commit is refused".into());
    };
    check(failed.len() == 2, "it says all that failed")?;
    check(records.get(b"k").map_err(words)?.is_none() && log.version("t").map_err(words)? == 0, "nothing of it is there")?;
    check(log.cursors().map_err(words)?.iter().all(|known| known.number < own.1), "the cursor neither")?;
    let good = begin()?;
    good.put(&records, b"k", b"v").map_err(words)?;
    log.append_in(&good, "t", Expected::NoStream, &[event("there", "")]).map_err(words)?;
    own.0.ack_in(&good, own.1).map_err(words)?;
    Transaction::commit_durably(good).map_err(words)?;
    check(records.contains(b"k").map_err(words)? && log.version("t").map_err(words)? == 1, "all of it is there")?;
    let overtaken = begin()?;
    own.0.ack_in(&overtaken, own.1).map_err(words)?;
    own.0.ack(own.1).map_err(words)?;
    expect(Transaction::commit(overtaken), "Reason::Conflict(Conflict::Key)")
}

/// What no caller of good will asks for is answered, and changes nothing.
fn hostile(db: &Db, other: &Db) -> Outcome<()> {
    let log = Log::open(db, "hostile").map_err(words)?;
    let wrong = "Reason::InvalidArgument";
    let long = "x".repeat(1025);
    for text in ["", "\0meta", &long] {
        expect(log.append(text, Expected::Any, &[event("k", "")]), wrong)?;
        expect(log.append("s", Expected::Any, &[event(text, "")]), wrong)?;
        expect(log.append("s", Expected::Any, &[tagged("k", &[text])]), wrong)?;
        expect(log.append_if(&[item(&[], &[text])], 0, "s", &[event("k", "")]), wrong)?;
        expect(log.read(&Selection::Tagged(text.into()), 0, false), wrong)?;
        expect(log.read(&Selection::InStream(text.into()), 0, true), wrong)?;
        expect(log.follow(&Selection::OfKind(text.into()), 0), wrong)?;
        expect(log.truncate(text, 1), wrong)?;
    }
    let many: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    expect(log.append("s", Expected::Any, &[]), wrong)?;
    expect(log.append("s", Expected::Any, &[NewEvent { tags: many.clone(), ..event("k", "") }]), wrong)?;
    expect(log.append("s", Expected::Any, &[NewEvent { metadata: vec![0; 70_000], ..event("k", "") }]), wrong)?;
    let big = QueryItem { kinds: many, tags: Vec::new() };
    for query in [vec![], vec![item(&[], &[]); 65], vec![big]] {
        expect(log.append_if(&query, 0, "s", &[event("k", "")]), wrong)?;
        expect(log.read(&Selection::Matching(query.clone()), 0, false), wrong)?;
        expect(log.cursor("c", &Selection::Matching(query), 0), wrong)?;
    }
    expect(log.follow(&Selection::InStream("s".into()), 1), wrong)?;
    expect(log.cursor("", &Selection::All, 0), wrong)?;
    expect(log.cursor(&"c".repeat(256), &Selection::All, 0), wrong)?;
    expect(log.append("s", Expected::Version(u64::MAX), &[event("k", "")]).map_err(without_checks), "Reason::AppendRefused([])")?;
    check(log.get("s", 0).map_err(words)?.is_none() && log.get("s", u64::MAX).map_err(words)?.is_none(), "none has them")?;
    check(log.get_by_number(0).map_err(words)?.is_none() && log.get_by_number(u64::MAX).map_err(words)?.is_none(), "nor these")?;
    let end = log.cursor("end", &Selection::All, u64::MAX).map_err(words)?;
    page(&end, "", true)?;
    check(log.keep_last("s", u64::MAX).map_err(words)? == 0 && log.truncate("s", u64::MAX).map_err(words)? == 0, "none goes")?;
    expect(log.append_in(&other.begin().map_err(words)?, "s", Expected::Any, &[event("k", "")]), wrong)?;
    expect(Log::open(db, "").map(drop), "Reason::NamespaceName(Length { given: 0, limit: 1024 })")?;
    expect(db.namespace(Some("\0events\0hostile")).map(drop), wrong)?;
    check(log.version("s").map_err(words)? == 0, "nothing was appended")
}

fn without_checks(error: Error) -> Error {
    let reason = if let Reason::AppendRefused(_) = error.reason { Reason::AppendRefused(Vec::new()) } else { error.reason };
    Error { reason, ..error }
}

/// A store that was opened for reading reads events, and takes none.
fn reading(name: &str) -> Outcome<()> {
    let db = open_as(name, true)?;
    let log = Log::open(&db, "cursors").map_err(words)?;
    check(whole(log.read(&Selection::All, 0, false), 1)? == "s@1:1 s@2:2 s@3:3 t@1:there", "a reader reads")?;
    let denied = "Reason::ReadOnly";
    expect(log.append("s", Expected::Any, &[event("k", "")]), denied)?;
    expect(log.cursor("c", &Selection::All, 0), denied)?;
    expect(log.delete_stream("s"), denied)?;
    expect(log.remove_cursor("c"), denied)?;
    expect(log.set_retention(Retention { max_age_ms: None, max_events: Some(1) }), denied)?;
    expect(log.retain(), denied)?;
    expect(Log::open(&db, "new").map(drop), denied)
}

fn all(name: &str, other: &str) -> Outcome<String> {
    let db = open(name)?;
    check(example(&db).map_err(words)? == Some(vec![1]), "the example counts its event")?;
    let log = Log::open(&db, "log").map_err(words)?;
    appends(&log)?;
    conditions(&log)?;
    selections(&log)?;
    cursors(&db, "cursors")?;
    hostile(&db, &open(other)?)?;
    retention::holds(&db, "retained")?;
    check(logs(&db).map_err(words)? == ["cursors", "hostile", "log", "orders", "retained"], "the list has them")?;
    let reader = log.read(&Selection::All, 0, false).map_err(words)?;
    let follow = log.follow(&Selection::All, 0).map_err(words)?;
    Db::close(db).map_err(words)?;
    let again = open(name)?;
    let mut answers = vec![said(log.version("a")), said(reader.next(1, 1)), said(follow.next(1, 1)), said(log.last_number())];
    answers.dedup();
    drop((log, reader, follow, again));
    reading(name)?;
    Ok(format!("events hold; of a closed store: {}", answers.join(", ")))
}

/// Appends so many events to one stream, each behind the one before.
fn write(name: &str, count: u64) -> Outcome<String> {
    let db = open(name)?;
    let log = Log::open(&db, "work").map_err(words)?;
    for n in 0..count {
        log.append("jobs", Expected::Version(n), &[event("Job", n.to_string())]).map_err(words)?;
        if n % 10 == 9 || n + 1 == count {
            db.flush(Durability::Synced).map_err(words)?;
        }
    }
    Ok(count.to_string())
}

/// Counts the jobs that come by a cursor in a record, in the commit that acknowledges them, until that has counted so many; dies in the middle of a
/// commit after `patience` of its own. Returns how often somebody else had the cursor or was faster.
fn project(name: &str, count: u64, patience: u64) -> Outcome<String> {
    let db = open(name)?;
    let log = Log::open(&db, "work").map_err(words)?;
    let sums = db.namespace(Some("sums")).map_err(words)?;
    let begun = Instant::now();
    let (mut others, mut own) = (0_u32, 0);
    'cursor: loop {
        let jobs = log.cursor("worker", &Selection::All, 0).map_err(words)?;
        loop {
            let page = jobs.next(3, ALL).map_err(words)?;
            let transaction = db.begin().map_err(words)?;
            let known = transaction.get(&sums, b"jobs").map_err(words)?.unwrap_or_default();
            let known = String::from_utf8_lossy(&known).parse().unwrap_or(0_u64);
            if known >= count {
                return Ok(format!("{known} {others}"));
            }
            check(begun.elapsed() < Duration::from_secs(60), "the other program writes")?;
            if page.events.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let next = known + page.events.len() as u64;
            let done = transaction.put(&sums, b"jobs", next.to_string().as_bytes());
            let done = done.and_then(|()| jobs.ack_in(&transaction, page.number));
            own += 1;
            if own > patience {
                return Err("it dies between the work and its acknowledgement".into());
            }
            match done.and_then(|()| Transaction::commit(transaction)) {
                Ok(_) => {}
                Err(Error { reason: Reason::CursorTaken | Reason::Conflict(_), .. }) => {
                    others += 1;
                    // Somebody else has the cursor: let it work a while.
                    std::thread::sleep(Duration::from_millis(u64::from(others % 7)));
                    continue 'cursor;
                }
                Err(error) => return Err(words(error)),
            }
        }
    }
}

/// Keeps readers of many events, subscriptions without end, and events in transactions. Returns what stops each.
fn careless(name: &str) -> Outcome<String> {
    let db = open(name)?;
    let log = Log::open(&db, "log").map_err(words)?;
    let hundred: Vec<NewEvent> = (0..100).map(|_| event("same", "")).collect();
    for _ in 0..100 {
        log.append("s", Expected::Any, &hundred).map_err(words)?;
    }
    let same = || Selection::OfKind("same".into());
    let mut readers = Vec::new();
    let found = (0..1000).find_map(|_| log.read(&same(), 0, false).map(|reader| readers.push(reader)).err());
    check((1..150).contains(&readers.len()), &format!("they were not {}", readers.len()))?;
    check(readers.first().ok_or("one")?.next(ALL, ALL).map_err(words)?.len() == 10_000, "a page may have them all")?;
    readers.clear();
    let mut followers = Vec::new();
    let many = (0..1_000_000).find_map(|_| log.follow(&same(), 0).map(|one| followers.push(one)).err());
    followers.clear();
    let transaction = db.begin().map_err(words)?;
    let long = [event("long", vec![7; 1 << 20])];
    let held = (0..100).find_map(|_| log.append_in(&transaction, "t", Expected::Any, &long).err());
    drop(transaction);
    expect(log.append("t", Expected::NoStream, &long), "an answer")?;
    let reasons = [found, many, held].map(|stopped| said::<()>(stopped.map_or(Ok(()), Err)));
    Ok(reasons.join(", "))
}

/// Takes cursors, or makes logs, without end. Returns how many there are, and what stops it.
fn endless(name: &str, logs_of: bool) -> Outcome<String> {
    let db = open(name)?;
    let log = Log::open(&db, "log").map_err(words)?;
    let stopped = (0..100_000_u32).find_map(|n| {
        let name = format!("n{n}");
        if logs_of { Log::open(&db, &name).map(drop).err() } else { log.cursor(&name, &Selection::All, 0).map(drop).err() }
    });
    let count = if logs_of { logs(&db).map_err(words)?.len() } else { log.cursors().map_err(words)?.len() };
    if !logs_of {
        expect(log.cursor("n7", &Selection::All, 0), "an answer")?;
    }
    Ok(format!("{count}, {}", said::<()>(stopped.map_or(Ok(()), Err))))
}

/// Appends events, each with tags of its own, until it may not; then keeps the last ten, and goes on.
fn fill(name: &str, bytes: u64) -> Outcome<String> {
    let db = open(name)?;
    let log = Log::open(&db, "log").map_err(words)?;
    let append = |n: u32| {
        let tags: Vec<String> = (0..8).map(|tag| format!("{n}-{tag}")).collect();
        log.append("s", Expected::Any, &[NewEvent { payload: vec![7; bytes as usize], tags, ..event("k", "") }])
    };
    let stopped = (0..200_000).find_map(|n| append(n).err());
    let stopped = said::<()>(stopped.map_or(Ok(()), Err));
    log.keep_last("s", 10).map_err(words)?;
    check(whole(log.read(&Selection::All, 0, false), 3)?.split(' ').count() == 10, "ten are left")?;
    // Compaction frees it, in the background, too: that may have it in its hands just now.
    let again = || {
        std::thread::sleep(Duration::from_millis(10));
        db.flush(Durability::Synced).and_then(|_| append(u32::MAX))
    };
    let found = (0..100).find_map(|_| again().ok()).map_or_else(again, Ok);
    Ok(format!("{stopped}; {}", said(found)))
}

/// Notes what has come, appends an event of its own behind it, and acknowledges, in one commit. Returns the note. `cargo xtask demo` sends a log from host to
/// host that way.
fn relay(name: &str, who: &str) -> Outcome<String> {
    let db = open(name)?;
    let log = Log::open(&db, "journey").map_err(words)?;
    let records = db.namespace(None).map_err(words)?;
    let traveller = log.cursor("traveller", &Selection::All, 0).map_err(words)?;
    let page = traveller.next(ALL, ALL).map_err(words)?;
    let last = page.events.last().ok_or("nothing has come")?;
    let transaction = db.begin().map_err(words)?;
    let mut note = transaction.get(&records, b"journey").map_err(words)?.unwrap_or_default();
    page.events.iter().for_each(|event| note.extend([&event.payload[..], b" "].concat()));
    transaction.put(&records, b"journey", &note).map_err(words)?;
    log.append_in(&transaction, "letters", Expected::Version(last.version), &[event("Passed", who)]).map_err(words)?;
    traveller.ack_in(&transaction, page.number).map_err(words)?;
    Transaction::commit_durably(transaction).map_err(words)?;
    Ok(String::from_utf8_lossy(&note).into_owned())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().unwrap_or(0);
    let ended = match *args.as_slice() {
        ["all", name, other] => all(name, other),
        ["write", name, count] => write(name, number(count)),
        ["project", name, count, patience] => project(name, number(count), number(patience)),
        ["relay", name, who] => relay(name, who),
        ["careless", name] => careless(name),
        ["cursors", name] => endless(name, false),
        ["logs", name] => endless(name, true),
        ["fill", name, bytes] => fill(name, number(bytes)),
        _ => Err("chronicler VERB STORE ..".to_owned()),
    };
    match ended {
        Ok(said) => println!("{said}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
