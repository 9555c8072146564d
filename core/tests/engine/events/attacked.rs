//! Callers that do at the wrong moment what they may do.

use super::{open, read};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Event, Expected, NewEvent, Retention};

fn numbers(db: &Db) -> Vec<u64> {
    read(&db.events("log").unwrap().all()).iter().map(Event::number).collect()
}

#[test]
fn whoever_reads_in_place_may_use_the_store_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let file = Db::builder().segment_size(64 * 1024).path(folder.path().join("events.pip"));
    for db in [open(&MemoryStorage::new()), file.open().unwrap()] {
        let log = db.events("log").unwrap();
        log.append("s", Expected::Any, (0..3000).map(|_| NewEvent::new("T", vec![7; 100]))).unwrap();
        let mut seen = 0;
        log.all()
            .try_for_each(|event| {
                seen += 1;
                assert_eq!((event.number(), event.payload()), (event.version(), &[7; 100][..]));
                match seen {
                    100 => log.append("s", Expected::Any, [NewEvent::new("T", "later")]).map(drop),
                    200 => log.truncate("s", 150).map(drop),
                    300 => db.compact().map(drop),
                    400 => db.checkpoint(),
                    500 => db.insert("key", "value"),
                    600 => log.set_retention(Retention::new().max_events(2500)).and_then(|()| log.retain().map(drop)),
                    _ => Ok(()),
                }
            })
            .unwrap();
        // What was read is not removed any more; what was appended does not come.
        assert_eq!(seen, 3000);
        assert_eq!(numbers(&db), (502..=3001).collect::<Vec<_>>());
        let mut left = 3;
        let ended = log.all().try_for_each(|_| {
            left -= 1;
            if left == 0 { db.clone().close() } else { Ok(()) }
        });
        assert!(matches!(ended, Ok(()) | Err(Error::Closed)), "{ended:?}");
    }
}

#[test]
fn a_log_of_another_store_is_refused_and_neither_store_changes() {
    let (one, other) = (open(&MemoryStorage::new()), open(&MemoryStorage::new()));
    let foreign = other.events("log").unwrap();
    foreign.append("s", Expected::Any, [NewEvent::new("T", "")]).unwrap();
    other.flush().unwrap();
    let event = || [NewEvent::new("T", "")];
    let refused = one.batch().insert("k", "v").append(&foreign, "s", Expected::Any, event()).commit();
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    let condition = pipkin::Condition::of_types(["T"]);
    let log = one.events("log").unwrap();
    let refused = one.batch().append(&log, "s", Expected::Any, event()).only_if_none(&foreign, condition).commit();
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    let mut cursor = foreign.all().cursor("c").unwrap();
    let number = cursor.try_next().unwrap().unwrap().number();
    let mut tx = one.begin().unwrap();
    assert!(matches!(tx.append(&foreign, "s", Expected::Any, event()), Err(Error::InvalidArgument(_))));
    assert!(matches!(tx.ack(&cursor, number), Err(Error::InvalidArgument(_))));
    drop(tx);
    assert_eq!((one.len().unwrap(), numbers(&one), numbers(&other)), (0, vec![], vec![1]));
}

#[test]
fn retention_goes_on_over_unclean_ends_one_after_the_other() {
    let mut bytes = MemoryStorage::new();
    for end in 1..=20_u64 {
        let db = open(&bytes);
        let log = db.events("log").unwrap();
        log.set_retention(Retention::new().max_events(30)).unwrap();
        for part in 0..5 {
            log.append(&format!("s{part}"), Expected::Any, (0..4).map(|_| NewEvent::new("T", vec![7; 900]))).unwrap();
        }
        if end % 3 != 0 {
            log.retain().unwrap();
        }
        if end % 4 == 0 {
            db.compact().unwrap();
        }
        db.flush().unwrap();
        let kept = numbers(&db);
        // The bytes as a killed process leaves them.
        bytes = MemoryStorage::from_vec(bytes.to_vec());
        let after = open(&MemoryStorage::from_vec(bytes.to_vec()));
        assert_eq!((numbers(&after), after.events("log").unwrap().version("s0").unwrap()), (kept, end * 4), "end {end}");
        assert!(after.verify().unwrap().damage.is_empty(), "end {end}");
    }
}
