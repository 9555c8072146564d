//! Appending: what is expected, what is refused, what is one commit.

use super::{open, read, refused};
use pipkin::storage::MemoryStorage;
use pipkin::{Condition, Db, Error, Event, Expected, FailedCheck, NewEvent};

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
fn no_two_events_have_one_id_unless_their_writer_gave_it() {
    let mut seen = std::collections::HashSet::new();
    for file in [MemoryStorage::new(), MemoryStorage::new()] {
        for session in 0..3_u64 {
            let db = open(&file);
            let log = db.events("log").unwrap();
            for number in 0..4 {
                log.append(
                    ["a", "b"][number % 2],
                    Expected::Any,
                    [NewEvent::new("T", "the same"), NewEvent::new("T", "the same")],
                )
                .unwrap();
            }
            let ids: Vec<_> =
                ["a", "b"].into_iter().flat_map(|stream| read(&log.stream(stream))).map(|event| event.id()).collect();
            assert_eq!(ids.len() as u64, 8 * (session + 1));
            let before = seen.len();
            seen.extend(ids);
            assert_eq!(seen.len(), before + 8, "session {session}");
        }
    }
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
    assert!(is_refused("s", NewEvent::new("T", "").time_ms(1 << 48)));
    assert!(matches!(log.append("s", Expected::Any, []), Err(Error::InvalidArgument(_))));
    assert!(matches!(db.events(""), Err(Error::NamespaceName { .. })));
    let full = (0..64).fold(NewEvent::new("T".repeat(1024), ""), |event, tag| event.tag(format!("{tag}{}", "x".repeat(1000))));
    log.append(&"s".repeat(1024), Expected::Any, [full.metadata(vec![7; 60 * 1024]).time_ms((1 << 48) - 1)]).unwrap();
    let kept = &read(&log.all())[0];
    assert_eq!((kept.tags().count(), kept.time_ms()), (64, (1 << 48) - 1));
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
