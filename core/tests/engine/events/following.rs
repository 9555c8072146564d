//! Subscriptions and their cursors.

use super::open;
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Expected, NewEvent};

/// Beside the process that appends: what it has written, once it looks, and what it has removed no more.
#[test]
fn a_follower_reads_events_and_hears_of_new_ones() {
    let file = MemoryStorage::new();
    let db = open(&file);
    let follow = || Db::builder().follow(true).open_storage(Box::new(file.clone())).unwrap();
    let early = follow();
    assert!(matches!(early.events("log"), Err(Error::ReadOnly)), "there is none");
    let log = db.events("log").unwrap();
    let append = |kind: &'static str| log.append("s", Expected::Any, [NewEvent::new(kind, "").tag("t")]).unwrap();
    append("A");
    let (late, _) = (follow(), early.refresh().unwrap());
    for follower in [&early, &late] {
        let followed = follower.events("log").unwrap();
        assert!(matches!(followed.append("s", Expected::Any, [NewEvent::new("B", "")]), Err(Error::ReadOnly)));
        assert!(matches!(followed.all().cursor("c"), Err(Error::ReadOnly)));
        let mut all = followed.all().follow().unwrap();
        db.flush().unwrap();
        while all.try_next().unwrap().is_some() {}
        let before = append("C").last_number;
        db.flush().unwrap();
        assert_eq!(all.next_timeout(std::time::Duration::from_secs(9)).unwrap().map(|event| event.number()), Some(before));
        let numbers = |reader: pipkin::EventReader| super::read(&reader).iter().map(pipkin::Event::number).collect::<Vec<_>>();
        assert_eq!(numbers(followed.tagged("t").backwards(true)), numbers(log.tagged("t").backwards(true)));
        assert_eq!(numbers(followed.stream("s")), numbers(log.stream("s")));
        assert_eq!(followed.version("s").unwrap(), before);
        log.truncate("s", before).unwrap();
        db.compact().unwrap();
        assert_eq!(numbers(followed.all()).last(), Some(&before));
        follower.refresh().unwrap();
        assert_eq!((numbers(followed.all()), followed.get("s", before - 1).unwrap()), (vec![before], None));
        assert_eq!(followed.get_by_number(before).unwrap().map(|event| event.version()), Some(before));
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
fn a_cursor_that_is_taken_while_it_moves_does_not_move_back() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    log.append("s", Expected::Any, (0..3000).map(|_| NewEvent::new("T", ""))).unwrap();
    db.flush().unwrap();
    let acknowledged = std::sync::atomic::AtomicU64::new(0);
    let consume = || {
        loop {
            let before = acknowledged.load(std::sync::atomic::Ordering::SeqCst);
            let mut own = log.all().cursor("c").unwrap();
            loop {
                let Some(event) = own.try_next().unwrap() else { return };
                let number = event.number();
                assert!(number > before, "event {number} comes again, though {before} was acknowledged");
                match db.transaction(|tx| tx.ack(&own, number)) {
                    Ok(()) => drop(acknowledged.fetch_max(number, std::sync::atomic::Ordering::SeqCst)),
                    Err(Error::CursorTaken) => break,
                    Err(error) => panic!("{error}"),
                }
                if number % 7 == 0 {
                    std::thread::yield_now();
                }
            }
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(consume))));
    assert_eq!(log.cursors().unwrap(), [("c".into(), 3000)]);
}

#[test]
fn cursors_do_not_expire_where_records_do() {
    let clock = pipkin::testing::TestClock::new(1_000_000);
    let second = std::time::Duration::from_secs(1);
    let db = Db::builder().default_ttl(second).clock(clock.clone()).in_memory().unwrap();
    let log = db.events("log").unwrap();
    log.append("s", Expected::Any, [NewEvent::new("T", "1"), NewEvent::new("T", "2")]).unwrap();
    db.flush().unwrap();
    let mut all = log.all().cursor("c").unwrap();
    for number in 1..=2 {
        clock.advance(second * 2);
        assert_eq!(all.try_next().unwrap().unwrap().number(), number);
        if number == 1 { all.ack(number).unwrap() } else { db.transaction(|tx| tx.ack(&all, number)).unwrap() }
    }
    clock.advance(second * 2);
    assert_eq!(log.cursors().unwrap(), [("c".into(), 2)]);
}
