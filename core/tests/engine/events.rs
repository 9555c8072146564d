//! Event streams: appending and reading, over reopening, checkpoints and compaction, beside a model.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::{Condition, Db, Error, Event, EventReader, Events, Expected, FailedCheck, NewEvent};
use std::collections::{BTreeMap, BTreeSet};

fn open(file: &MemoryStorage) -> Db {
    Db::builder().segment_size(64 * 1024).open_storage(Box::new(file.clone())).unwrap()
}

fn read(reader: &EventReader) -> Vec<Event> {
    reader.iter().unwrap().collect::<pipkin::Result<_>>().unwrap()
}

fn refused(result: pipkin::Result<pipkin::Appended>) -> Vec<FailedCheck> {
    match result {
        Err(Error::AppendRefused { failed }) => failed.into_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_event_reads_back_with_all_that_it_was_given() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    let event = NewEvent::new("Placed", "3 apples").tag("a").tag("b").tag("a").metadata("m").id([9; 16]).time_ms(77);
    let got = log.append("one", Expected::NoStream, [event, NewEvent::new("Paid", vec![1, 2])]).unwrap();
    assert_eq!((got.first_number, got.last_number, got.version, got.repeated), (1, 2, 2, false));
    let events = read(&log.stream("one"));
    let first = &events[0];
    assert_eq!((first.number(), first.version(), first.stream(), first.kind()), (1, 1, "one", "Placed"));
    assert_eq!((first.payload(), first.metadata(), first.id(), first.time_ms()), (&b"3 apples"[..], &b"m"[..], [9; 16], 77));
    assert_eq!(first.tags().collect::<Vec<_>>(), ["a", "b"]);
    let second = &events[1];
    assert_eq!((second.tags().count(), second.metadata(), second.payload()), (0, &b""[..], &[1, 2][..]));
    assert!(second.time_ms() > 1_700_000_000_000, "the clock of the host");
    assert_ne!(second.id(), first.id());
    assert_eq!((log.version("one").unwrap(), log.version("two").unwrap(), log.last_number().unwrap()), (2, 0, 2));
}

#[test]
fn what_an_append_expects_is_checked_and_all_that_fails_is_told() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    let one = || [NewEvent::new("T", "")];
    assert_eq!(
        refused(log.append("a", Expected::Exists, one())),
        [FailedCheck::Version { stream: "a".into(), expected: Expected::Exists, current: 0 }]
    );
    log.append("a", Expected::Version(0), one()).unwrap();
    log.append("a", Expected::Exists, one()).unwrap();
    log.append("a", Expected::Any, one()).unwrap();
    assert_eq!(refused(log.append("a", Expected::NoStream, one())).len(), 1);
    let failed = refused(log.append("a", Expected::Version(2), one()));
    assert_eq!(failed, [FailedCheck::Version { stream: "a".into(), expected: Expected::Version(2), current: 3 }]);
    let batch = db.batch().append(&log, "a", Expected::NoStream, one()).append(&log, "b", Expected::Exists, one());
    let condition = Condition::of_types(["T"]).after(2);
    match batch.insert("k", "v").only_if_none(&log, condition).commit() {
        Err(error @ Error::AppendRefused { .. }) => {
            let words = error.to_string();
            for part in
                ["\"a\" should have no event, and is at version 3", "\"b\" should have an event", "event 3 matches condition 0"]
            {
                assert!(words.contains(part), "{words}");
            }
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((db.len().unwrap(), log.last_number().unwrap()), (0, 3), "nothing was written");
}

#[test]
fn names_and_sizes_that_cannot_be_are_refused() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    let is_refused = |stream: &str, event: NewEvent<'_>| {
        matches!(log.append(stream, Expected::Any, [event]), Err(Error::InvalidArgument(_) | Error::ValueTooLong { .. }))
    };
    assert!(is_refused("", NewEvent::new("T", "")));
    assert!(is_refused(&"x".repeat(1025), NewEvent::new("T", "")));
    assert!(is_refused("\0s", NewEvent::new("T", "")));
    assert!(is_refused("s", NewEvent::new("", "")));
    assert!(is_refused("s", NewEvent::new("T", "").tag("\0")));
    assert!(is_refused("s", NewEvent::new("T", "").tag("")));
    assert!(is_refused("s", NewEvent::new("T", "").metadata(vec![0; 70_000])));
    assert!(is_refused("s", (0..65).fold(NewEvent::new("T", ""), |event, tag| event.tag(format!("tag {tag}")))));
    assert!(matches!(log.append("s", Expected::Any, []), Err(Error::InvalidArgument(_))));
    assert!(matches!(db.events(""), Err(Error::NamespaceName { .. })));
    let full = (0..64).fold(NewEvent::new("T".repeat(1024), ""), |event, tag| event.tag(format!("{tag}{}", "x".repeat(1000))));
    log.append(&"s".repeat(1024), Expected::Any, [full.metadata(vec![7; 60 * 1024])]).unwrap();
    assert_eq!(read(&log.all())[0].tags().count(), 64);
    let other = Db::open_in_memory().unwrap();
    assert!(matches!(
        other.batch().append(&log, "s", Expected::Any, [NewEvent::new("T", "")]).commit(),
        Err(Error::InvalidArgument(_))
    ));
    assert!(matches!(
        other.begin().unwrap().append(&log, "s", Expected::Any, [NewEvent::new("T", "")]),
        Err(Error::InvalidArgument(_))
    ));
    assert_eq!(log.last_number().unwrap(), 1);
}

#[test]
fn a_repeated_append_succeeds_and_writes_nothing() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    let three = |ids: [u8; 3]| ids.map(|id| NewEvent::new("T", vec![id]).id([id; 16]));
    log.append("s", Expected::NoStream, three([1, 2, 3])).unwrap();
    let got = log.append("s", Expected::Version(3), three([4, 5, 6])).unwrap();
    log.append("s", Expected::Version(6), three([7, 8, 9])).unwrap();
    let again = log.append("s", Expected::Version(3), three([4, 5, 6])).unwrap();
    assert_eq!(
        (again.first_number, again.last_number, again.version, again.repeated),
        (got.first_number, got.last_number, 6, true)
    );
    assert!(log.append("s", Expected::NoStream, three([1, 2, 3])).unwrap().repeated);
    assert_eq!(refused(log.append("s", Expected::Version(3), three([4, 5, 7]))).len(), 1);
    assert_eq!(refused(log.append("s", Expected::Version(2), three([4, 5, 6]))).len(), 1);
    assert_eq!(refused(log.append("s", Expected::Version(3), [NewEvent::new("T", vec![4])])).len(), 1, "without an id");
    assert_eq!(log.last_number().unwrap(), 9);
}

#[test]
fn conditions_hold_over_types_and_tags() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    let event =
        |kind: &'static str, tags: &[&'static str]| tags.iter().fold(NewEvent::new(kind, ""), |event, tag| event.tag(*tag));
    log.append("s", Expected::Any, [event("A", &["x"]), event("B", &["x", "y"]), event("A", &["y"])]).unwrap();
    let number = |condition: &Condition| match log.append_if(condition, "t", [event("C", &[])]) {
        Err(Error::AppendRefused { failed }) => match failed[0] {
            FailedCheck::Condition { number, .. } => number,
            ref other => panic!("{other:?}"),
        },
        Ok(_) => 0,
        other => panic!("{other:?}"),
    };
    assert_eq!(number(&Condition::tagged(["x", "y"])), 2);
    assert_eq!(number(&Condition::new(["A"], ["x"])), 1);
    assert_eq!(number(&Condition::of_types(["A", "B"])), 3);
    assert_eq!(number(&Condition::new(["A"], ["z"]).or(["B"], ["y"])), 2);
    assert_eq!(number(&Condition::tagged(["x"]).after(1)), 2);
    assert_eq!(number(&Condition::tagged(["x"]).after(2)), 0, "event 4");
    assert_eq!(number(&Condition::new(["A"], ["x", "y"])), 0);
    assert_eq!(number(&Condition::of_types(["A"]).after(3)), 0);
    assert_eq!(number(&Condition::tagged(Vec::<String>::new()).after(5)), 6, "anything");
    assert_eq!(number(&Condition::tagged(Vec::<String>::new()).after(6)), 0);
    let kinds = |condition: &Condition| read(&log.matching(condition)).iter().map(Event::number).collect::<Vec<_>>();
    assert_eq!(kinds(&Condition::tagged(["x"]).or(["A"], Vec::<String>::new())), [1, 2, 3]);
    assert_eq!(kinds(&Condition::of_types(["A", "B"]).after(1)), [2, 3]);
    assert_eq!(kinds(&Condition::tagged(Vec::<String>::new()).after(4)), [5, 6, 7]);
}

#[test]
fn logs_with_one_store_do_not_see_each_other() {
    let db = Db::open_in_memory().unwrap();
    let (one, other) = (db.events("one").unwrap(), db.events("other").unwrap());
    for round in 0..10_u8 {
        one.append("s", Expected::Version(round.into()), [NewEvent::new("T", vec![1]).tag("t")]).unwrap();
        other.append("s", Expected::Version(round.into()), [NewEvent::new("T", vec![2]).tag("t")]).unwrap();
    }
    for (log, mark) in [(&one, 1_u8), (&other, 2)] {
        for reader in [log.all(), log.stream("s"), log.of_type("T"), log.tagged("t")] {
            assert!(read(&reader).iter().all(|event| event.payload() == [mark]));
            assert_eq!((read(&reader).len(), read(&reader.clone().backwards(true)).len()), (10, 10));
        }
    }
    assert_eq!(db.list_events(), ["one", "other"]);
    assert!(db.list_namespaces().is_empty());
    assert_eq!(db.stats().unwrap().records, 0);
}

#[test]
fn records_and_events_of_one_commit_are_both_there_or_neither() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    db.insert("count", [0]).unwrap();
    for round in 0..5_u8 {
        db.transaction(|tx| {
            let count = tx.get("count")?.unwrap()[0];
            tx.insert("count", [count + 1])?;
            let before = tx.savepoint();
            tx.append(&log, "dropped", Expected::Any, [NewEvent::new("T", "")])?;
            tx.rollback_to(&before)?;
            tx.append(&log, "s", Expected::Version(round.into()), [NewEvent::new("T", vec![count])])
        })
        .unwrap();
    }
    let late = db.transaction(|tx| {
        tx.insert("count", [99])?;
        tx.append(&log, "s", Expected::Version(2), [NewEvent::new("T", "")])
    });
    assert!(matches!(late, Err(Error::AppendRefused { .. })));
    assert_eq!((db.get("count").unwrap(), log.version("s").unwrap(), log.version("dropped").unwrap()), (Some(vec![5]), 5, 0));
    let mut tx = db.begin().unwrap();
    tx.append(&log, "s", Expected::Any, [NewEvent::new("T", vec![7; 10_000])]).unwrap();
    assert!(tx.memory_bytes() > 10_000);
    tx.commit().unwrap();
    assert_eq!(log.version("s").unwrap(), 6, "a transaction of events alone");
}

/// Streams, types, tags and numbers, as plain maps know them.
#[derive(Default)]
struct Model {
    events: Vec<(String, String, Vec<String>, Vec<u8>)>,
    /// Numbers of those that were removed.
    removed: BTreeSet<u64>,
}

impl Model {
    fn numbers(&self, wanted: impl Fn(&(String, String, Vec<String>, Vec<u8>)) -> bool) -> Vec<u64> {
        let all = (1..).zip(&self.events).filter(|(number, event)| !self.removed.contains(number) && wanted(event));
        all.map(|(number, _)| number).collect()
    }

    fn check(&self, log: &Events) {
        let numbers = |reader: &EventReader| read(reader).iter().map(Event::number).collect::<Vec<_>>();
        let both = |reader: EventReader, expected: &[u64]| {
            assert_eq!(numbers(&reader), expected, "{reader:?}");
            let back: Vec<u64> = expected.iter().rev().copied().collect();
            assert_eq!(numbers(&reader.backwards(true)), back);
        };
        both(log.all(), &self.numbers(|_| true));
        let mut versions: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (number, (stream, ..)) in (1..).zip(&self.events) {
            versions.entry(stream).or_default().push(number);
        }
        for event in read(&log.all()) {
            let (stream, kind, tags, payload) = &self.events[event.number() as usize - 1];
            let version = versions[&**stream].iter().position(|number| *number == event.number()).unwrap() as u64 + 1;
            assert_eq!(
                (event.stream(), event.kind(), event.version(), event.payload()),
                (&**stream, &**kind, version, &payload[..])
            );
            assert_eq!(event.tags().collect::<Vec<_>>(), *tags);
        }
        for (stream, all) in versions {
            both(log.stream(stream), &self.numbers(|event| event.0 == stream));
            let version = all.len() as u64;
            assert_eq!(log.version(stream).unwrap(), version);
            for version in [1, 2, version / 3, version / 2, version.saturating_sub(1), version, version + 1] {
                let number = (version as usize).checked_sub(1).and_then(|place| all.get(place)).copied();
                let number = number.filter(|number| !self.removed.contains(number));
                assert_eq!(log.get(stream, version).unwrap().map(|event| event.number()), number, "{stream} {version}");
            }
            for from in [1, 2, version / 2, version, version + 1] {
                let rest = all[(from.max(1) - 1).min(version) as usize..].iter().copied();
                let rest: Vec<u64> = rest.filter(|number| !self.removed.contains(number)).collect();
                assert_eq!(numbers(&log.stream(stream).from(from)), rest, "{stream} from {from}");
            }
        }
        for index in 0..7 {
            both(log.of_type(format!("type {index}")), &self.numbers(|event| event.1 == format!("type {index}")));
            both(log.tagged(format!("tag {index}")), &self.numbers(|event| event.2.contains(&format!("tag {index}"))));
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn append(log: &Events, db: &Db, model: &mut Model, random: &mut Random) {
    let stream = format!("stream {}", random.below(1 + random.0 % 40));
    let count = if random.below(20) == 0 { 150 } else { 1 + random.below(3) };
    let events = (0..count).map(|_| {
        let kind = format!("type {}", random.below(7));
        let tags: Vec<String> = (0..random.below(3)).map(|_| format!("tag {}", random.below(7))).collect();
        let mut unique = tags.clone();
        unique.sort();
        unique.dedup();
        let payload = vec![random.below(256) as u8; random.below(if random.0.is_multiple_of(50) { 9000 } else { 200 }) as usize];
        (stream.clone(), kind, unique, payload)
    });
    let events: Vec<_> = events.collect();
    let new = |(_, kind, tags, payload): &(String, String, Vec<String>, Vec<u8>)| {
        tags.iter().fold(NewEvent::new(kind.clone(), payload.clone()).time_ms(0), |event, tag| event.tag(tag.clone()))
    };
    let new: Vec<NewEvent<'_>> = events.iter().map(new).collect();
    if random.below(3) == 0 {
        db.batch().insert(format!("k{}", random.below(50)), "v").append(log, stream, Expected::Any, new).commit().unwrap();
    } else {
        log.append(&stream, Expected::Any, new).unwrap();
    }
    model.events.extend(events);
}

#[test]
fn every_way_of_reading_agrees_with_a_model_over_sessions_checkpoints_and_compaction() {
    for seed in 1..=6 {
        let file = MemoryStorage::new();
        let (mut random, mut model) = (Random(seed), Model::default());
        let mut db = open(&file);
        for round in 0..400 {
            let log = db.events("log").unwrap();
            match random.below(40) {
                0 => db.checkpoint().unwrap(),
                1 => drop(db.compact().unwrap()),
                2 => {
                    db.close().unwrap();
                    db = open(&file);
                }
                3 => {
                    model.check(&log);
                    // An unclean end: the copy is of the bytes that a process has written when it is killed.
                    db.flush().unwrap();
                    let copy = MemoryStorage::from_vec(file.to_vec());
                    let other = open(&copy);
                    model.check(&other.events("log").unwrap());
                }
                4 | 5 => {
                    let stream = format!("stream {}", random.below(1 + random.0 % 40));
                    let all = (1..).zip(&model.events).filter(|(_, event)| event.0 == stream).map(|(number, _)| number);
                    let all: Vec<u64> = all.collect();
                    let before = random.below(all.len() as u64 + 3);
                    let gone: Vec<u64> = (1..before).zip(&all).map(|(_, number)| *number).collect();
                    let fresh = gone.iter().filter(|number| model.removed.insert(**number)).count() as u64;
                    assert_eq!(log.truncate(&stream, before).unwrap(), fresh);
                }
                6 if random.below(2) == 0 => {
                    // The oldest events of all streams.
                    let until = random.below(model.events.len() as u64 + 1);
                    let gone: Vec<u64> = (1..=until).filter(|number| model.removed.insert(*number)).collect();
                    let times = read(&log.all()).iter().take(gone.len()).map(Event::time_ms).collect::<Vec<_>>();
                    assert!(times.iter().all(|time| *time == 0), "{times:?}");
                    for stream in gone.iter().map(|number| &model.events[*number as usize - 1].0).collect::<BTreeSet<_>>() {
                        let of_stream = (1..=until).zip(&model.events).filter(|(_, event)| event.0 == *stream).count() as u64;
                        log.truncate(stream, of_stream + 1).unwrap();
                    }
                }
                7..=20 => {
                    for _ in 0..random.below(30) {
                        db.insert(format!("k{}", random.below(200)), vec![1; random.below(600) as usize]).unwrap();
                    }
                }
                _ => append(&log, &db, &mut model, &mut random),
            }
            if round % 100 == 99 {
                model.check(&db.events("log").unwrap());
            }
        }
        db.compact().unwrap();
        model.check(&db.events("log").unwrap());
        assert!(db.verify().unwrap().damage.is_empty());
        db.close().unwrap();
        model.check(&open(&file).events("log").unwrap());
    }
}

#[test]
fn subscriptions_hand_out_what_is_durable_and_go_on_behind_what_was_acknowledged() {
    let file = MemoryStorage::new();
    let db = open(&file);
    let log = db.events("log").unwrap();
    let event = |index: u8, tag: &'static str| NewEvent::new("T", vec![index]).tag(tag);
    let mut all = log.all().follow().unwrap();
    log.append("s", Expected::Any, [event(1, "a"), event(2, "b")]).unwrap();
    assert_eq!(all.try_next().unwrap(), None, "not durable");
    db.flush().unwrap();
    let next = |subscription: &mut pipkin::Subscription| subscription.try_next().unwrap().map(|event| event.payload()[0]);
    assert_eq!([next(&mut all), next(&mut all), next(&mut all)], [Some(1), Some(2), None]);
    assert!(matches!(all.ack(1), Err(Error::InvalidArgument(_))), "it has no cursor");
    let mut tagged = log.tagged("b").cursor("b").unwrap();
    let mut stream = log.stream("s").cursor("s").unwrap();
    assert!(matches!(log.stream("s").from(2).follow(), Err(Error::InvalidArgument(_))));
    assert!(matches!(log.all().cursor(""), Err(Error::InvalidArgument(_))));
    assert_eq!(next(&mut tagged), Some(2));
    assert!(matches!(tagged.ack(3), Err(Error::InvalidArgument(_))), "it has not come yet");
    tagged.ack(2).unwrap();
    assert_eq!((next(&mut stream), stream.number()), (Some(1), 1));
    let failed: pipkin::Result<()> = db.transaction(|tx| {
        tx.insert("projected", "1")?;
        tx.ack(&stream, 1)?;
        Err(Error::InvalidArgument("no"))
    });
    assert!(failed.is_err());
    assert_eq!(log.cursors().unwrap(), [("b".into(), 2), ("s".into(), 0)]);
    db.transaction(|tx| tx.ack(&stream, 1)).unwrap();
    drop((log, all, tagged, stream));
    db.close().unwrap();

    let db = open(&file);
    let log = db.events("log").unwrap();
    let mut stream = log.stream("s").cursor("s").unwrap();
    assert_eq!((next(&mut stream), next(&mut stream)), (Some(2), None));
    // Another one takes the cursor over: the first one can acknowledge nothing any more.
    let mut other = log.stream("s").cursor("s").unwrap();
    assert_eq!(next(&mut other), Some(2));
    assert!(matches!(stream.ack(2), Err(Error::CursorTaken)));
    assert!(matches!(db.transaction(|tx| tx.ack(&stream, 2)), Err(Error::CursorTaken)));
    other.ack(2).unwrap();
    assert!(log.remove_cursor("s").unwrap() && !log.remove_cursor("s").unwrap());
    assert!(matches!(other.ack(2), Err(Error::CursorTaken)));
}

#[test]
fn a_subscription_waits_for_events_and_ends_with_the_store() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    let mut all = log.all().follow().unwrap();
    let writer = {
        let (db, log) = (db.clone(), log.clone());
        std::thread::spawn(move || {
            for index in 0..100_u8 {
                log.append("s", Expected::Version(index.into()), [NewEvent::new("T", vec![index])]).unwrap();
                db.insert("k", [index]).unwrap();
                db.flush().unwrap();
            }
        })
    };
    let wait = std::time::Duration::from_secs(60);
    for index in 0..100_u8 {
        assert_eq!(all.next_timeout(wait).unwrap().unwrap().payload(), [index]);
    }
    writer.join().unwrap();
    assert_eq!(all.next_timeout(std::time::Duration::from_millis(5)).unwrap(), None);
    let closer = std::thread::spawn(move || db.close().unwrap());
    assert_eq!(all.next_timeout(wait).unwrap(), None);
    closer.join().unwrap();
    assert!(matches!(log.version("s"), Err(Error::Closed)));
}

#[test]
fn of_many_that_append_at_one_version_exactly_one_wins() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    let wins: Vec<u64> = std::thread::scope(|scope| {
        let race = |thread: u8| {
            let (db, log) = (&db, &log);
            move || {
                (0..300_u64)
                    .filter(|&version| {
                        let mine = || [NewEvent::new("T", vec![thread]).tag("t")];
                        let result = if version % 2 == 0 {
                            log.append("s", Expected::Version(version), mine()).map(drop)
                        } else {
                            db.transaction(|tx| tx.append(log, "s", Expected::Version(version), mine()))
                        };
                        while log.version("s").unwrap() <= version {
                            std::thread::yield_now();
                        }
                        match result {
                            Ok(()) => true,
                            Err(Error::AppendRefused { .. }) => false,
                            Err(error) => panic!("{error}"),
                        }
                    })
                    .count() as u64
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(race(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(wins.iter().sum::<u64>(), 300);
    let versions: Vec<u64> = read(&log.stream("s")).iter().map(Event::version).collect();
    assert_eq!(versions, (1..=300).collect::<Vec<_>>());
    assert_eq!(read(&log.tagged("t")).len(), 300);
}

#[test]
fn a_course_is_never_over_booked() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("courses").unwrap();
    std::thread::scope(|scope| {
        for student in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for attempt in 0..20 {
                    loop {
                        let seen = log.last_number().unwrap();
                        let taken = log.tagged("course:rust").iter().unwrap().count();
                        if taken >= 30 {
                            return;
                        }
                        let nobody = Condition::tagged(["course:rust"]).after(seen);
                        let event = NewEvent::new("Subscribed", "").tag("course:rust").tag(format!("student:{student}"));
                        match log.append_if(&nobody, &format!("{student}-{attempt}"), [event]) {
                            Ok(_) => break,
                            Err(Error::AppendRefused { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(log.tagged("course:rust").iter().unwrap().count(), 30);
}

#[test]
fn what_was_removed_gives_its_space_back_and_keeps_the_versions() {
    let file = MemoryStorage::new();
    let db = open(&file);
    let log = db.events("log").unwrap();
    for index in 0..2000_u32 {
        let event = NewEvent::new("T", vec![7; 1000]).tag("t").metadata("m").time_ms(index.into());
        log.append(&format!("s{}", index % 3), Expected::Any, [event]).unwrap();
    }
    let before = db.stats().unwrap();
    assert_eq!(log.remove_before_ms(1500).unwrap(), 1500);
    assert_eq!(log.keep_last("s1", 10).unwrap(), 157);
    assert_eq!(read(&log.stream("s1")).iter().map(Event::version).collect::<Vec<_>>(), (658..=667).collect::<Vec<_>>());
    assert_eq!(log.delete_stream("s2").unwrap(), 166);
    assert_eq!((log.delete_stream("s2").unwrap(), log.delete_stream("none").unwrap()), (0, 0));
    let after = db.stats().unwrap();
    assert!(after.live_bytes < before.live_bytes / 5, "{} of {}", after.live_bytes, before.live_bytes);
    for round in 0..3 {
        db.compact().unwrap();
        let stats = db.stats().unwrap();
        assert!(stats.file_bytes < before.file_bytes / 3, "{round}: {} of {}", stats.file_bytes, before.file_bytes);
        assert_eq!((log.version("s2").unwrap(), read(&log.tagged("t")).len()), (666, 177));
    }
    drop(log);
    db.close().unwrap();
    let db = open(&file);
    let log = db.events("log").unwrap();
    assert_eq!((log.version("s0").unwrap(), log.version("s1").unwrap(), log.version("s2").unwrap()), (667, 667, 666));
    assert_eq!(log.append("s2", Expected::Version(666), [NewEvent::new("T", "")]).unwrap().version, 667);
    assert_eq!(read(&log.of_type("T")).len(), 178);
}

/// A kill in the middle of a commit: the events that it had written count no more than its records do.
#[test]
fn the_numbers_of_a_commit_that_a_crash_has_cut_off_are_given_again() {
    let file = MemoryStorage::new();
    let db = open(&file);
    let log = db.events("log").unwrap();
    let new = |kind: &'static str| [(); 3].map(|()| NewEvent::new(kind, "payload"));
    log.append("s", Expected::NoStream, new("Whole")).unwrap();
    db.flush().unwrap();
    let before = file.to_vec();
    log.append("s", Expected::Version(3), new("Torn")).unwrap();
    let mut torn = file.to_vec();
    let end = (0..torn.len()).rev().find(|&at| before.get(at) != Some(&torn[at])).unwrap();
    torn[end - 10..=end].fill(0);
    let db = open(&MemoryStorage::from_vec(torn));
    let log = db.events("log").unwrap();
    assert_eq!((log.last_number().unwrap(), log.version("s").unwrap()), (3, 3));
    let got = log.append("s", Expected::Version(3), new("After")).unwrap();
    assert_eq!((got.first_number, got.version), (4, 6));
}

#[test]
fn single_events_of_long_streams_are_found_in_any_order() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    for round in 0..300_u32 {
        log.append("one", Expected::Any, (0..7).map(|_| NewEvent::new("T", ""))).unwrap();
        if round >= 150 {
            log.append("other", Expected::Any, [NewEvent::new("T", "")]).unwrap();
        }
    }
    let mut random = Random(3);
    for _ in 0..20_000 {
        let version = random.below(2110);
        let event = log.get("one", version).unwrap();
        assert_eq!(
            event.map(|event| (event.stream().to_owned(), event.version())),
            (1..=2100).contains(&version).then(|| ("one".to_owned(), version))
        );
        let version = 1 + random.below(150);
        assert_eq!(log.get("other", version).unwrap().unwrap().version(), version);
    }
    assert_eq!(
        (log.get("none", 1).unwrap(), log.get_by_number(0).unwrap(), log.get_by_number(2251).unwrap()),
        (None, None, None)
    );
    assert!(log.get_by_number(2250).unwrap().is_some());
}

/// Salvage keeps the numbers: what it leaves out is a gap.
#[test]
fn what_salvage_has_left_out_is_a_gap_that_reading_passes_over() {
    let file = MemoryStorage::new();
    let db = open(&file);
    let log = db.events("log").unwrap();
    for number in 0..5_u8 {
        log.append("s", Expected::Any, [NewEvent::new("T", vec![0xa0 + number; 40]).tag("t")]).unwrap();
    }
    db.close().unwrap();
    let mut bytes = file.to_vec();
    let at = bytes.windows(40).position(|window| window == [0xa2; 40]).unwrap();
    bytes[at] ^= 1;
    let (source, target) = (MemoryStorage::from_vec(bytes), MemoryStorage::new());
    let db = open(&target);
    pipkin::salvage(&source, &db, &mut |_, _| {}).unwrap();
    let log = db.events("log").unwrap();
    let numbers = |reader: EventReader| read(&reader).iter().map(Event::number).collect::<Vec<_>>();
    assert_eq!((numbers(log.all()), numbers(log.all().backwards(true))), (vec![1, 2, 4, 5], vec![5, 4, 2, 1]));
    assert_eq!(log.append("s", Expected::Version(5), [NewEvent::new("T", "")]).unwrap().first_number, 6);
    let mut all = log.all().follow().unwrap();
    db.flush().unwrap();
    let heard: Vec<u64> = std::iter::from_fn(|| all.try_next().unwrap()).map(|event| event.number()).collect();
    assert_eq!(heard, [1, 2, 4, 5, 6]);
}
