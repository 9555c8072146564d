//! What is removed, and what stays.

use super::{open, read};
use pipkin::storage::MemoryStorage;
use pipkin::testing::TestClock;
use pipkin::{Condition, Db, Durability, Event, Events, Expected, NewEvent, Retention, Storage, StorageError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

fn numbers(log: &Events) -> Vec<u64> {
    read(&log.all()).iter().map(Event::number).collect()
}

#[test]
fn a_log_keeps_what_its_retention_says_over_sessions_and_beside_other_logs() {
    let (file, clock) = (MemoryStorage::new(), TestClock::new(1_000_000));
    let open = || Db::builder().segment_size(64 * 1024).clock(clock.clone()).open_storage(Box::new(file.clone())).unwrap();
    let db = open();
    let (log, other) = (db.events("log").unwrap(), db.events("other").unwrap());
    let append =
        |log: &Events, index: u64| log.append(&format!("s{}", index % 3), Expected::Any, [NewEvent::new("T", "")]).unwrap();
    for index in 0..300 {
        append(&log, index);
        append(&other, index);
        clock.advance(Duration::from_millis(1000));
    }
    assert_eq!((log.retention(), log.retain().unwrap()), (Retention::new(), 0));
    log.set_retention(Retention::new().max_events(100)).unwrap();
    assert_eq!((log.retain().unwrap(), log.retain().unwrap(), other.retain().unwrap()), (200, 0, 0));
    assert_eq!(numbers(&log), (401..600).step_by(2).collect::<Vec<_>>());
    assert_eq!((numbers(&other).len(), log.version("s0").unwrap(), db.stats().unwrap().events_removed), (300, 100, 200));

    // The younger ones of what is left: 50 s are the time of the last 50.
    log.set_retention(Retention::new().max_events(100).max_age(Duration::from_millis(50_500))).unwrap();
    drop((log, other));
    db.close().unwrap();
    let db = open();
    let log = db.events("log").unwrap();
    assert_eq!(log.retention(), Retention::new().max_events(100).max_age(Duration::from_millis(50_500)));
    assert_eq!(log.retain().unwrap(), 50);
    assert_eq!(numbers(&log), (501..600).step_by(2).collect::<Vec<_>>());
    clock.advance(Duration::from_millis(30_000));
    assert_eq!((log.retain().unwrap(), numbers(&log).len()), (30, 20));
    clock.advance(Duration::from_millis(1_000_000));
    assert_eq!((log.retain().unwrap(), numbers(&log).len(), log.version("s2").unwrap()), (20, 0, 100));
    assert_eq!(append(&log, 2).version, 101);
    log.set_retention(Retention::new()).unwrap();
    clock.advance(Duration::from_millis(1_000_000));
    assert_eq!((log.retain().unwrap(), log.retention()), (0, Retention::new()));
    assert_eq!(numbers(&db.events("other").unwrap()).len(), 300);
}

#[test]
fn maintenance_removes_by_itself_what_need_not_be_kept_and_the_file_stays_small() {
    let file = MemoryStorage::new();
    let db = open(&file);
    let log = db.events("log").unwrap();
    log.set_retention(Retention::new().max_events(1000)).unwrap();
    for _ in 0..60 {
        log.append("s", Expected::Any, (0..500).map(|_| NewEvent::new("T", vec![7; 200]))).unwrap();
        // Without a thread the writes do it, as soon as an eighth is too many.
        assert!(numbers(&log).len() <= 1125, "{}", numbers(&log).len());
    }
    let (kept, stats) = (numbers(&log).len(), db.stats().unwrap());
    assert!(stats.events_removed as usize == 30_000 - kept, "{kept} {stats:?}");
    log.retain().unwrap();
    assert_eq!(numbers(&log), (29_001..=30_000).collect::<Vec<_>>());
    db.compact().unwrap();
    assert!(db.stats().unwrap().file_bytes < 1024 * 1024, "{:?}", db.stats());
    assert_eq!(log.version("s").unwrap(), 30_000);
}

#[test]
fn a_limit_that_is_raised_keeps_what_the_one_before_let_go_and_a_lower_one_counts_at_once() {
    let file = MemoryStorage::new();
    let db = open(&file);
    let log = db.events("log").unwrap();
    let append = |count: usize| log.append("s", Expected::Any, (0..count).map(|_| NewEvent::new("T", vec![7; 200]))).unwrap();
    // Maintenance has the turn with the writes, and knows from before what it may keep.
    let with_maintenance = || {
        for number in 0..600_u32 {
            db.insert(number.to_le_bytes(), vec![1; 1000]).unwrap();
        }
    };
    append(1000);
    log.set_retention(Retention::new().max_events(400)).unwrap();
    with_maintenance();
    assert_eq!(numbers(&log).len(), 400);
    log.set_retention(Retention::new().max_events(100)).unwrap();
    with_maintenance();
    assert_eq!(numbers(&log).len(), 100);
    log.set_retention(Retention::new().max_events(1000)).unwrap();
    append(90);
    with_maintenance();
    assert_eq!(numbers(&log).len(), 190);
}

#[test]
fn an_event_that_is_damaged_stays_and_keeps_no_other() {
    let file = MemoryStorage::new();
    let db = open(&file);
    let log = db.events("log").unwrap();
    for index in 0..10 {
        log.append("s", Expected::Any, [NewEvent::new("T", format!("payload {index}"))]).unwrap();
    }
    db.checkpoint().unwrap();
    db.close().unwrap();
    let mut bytes = file.to_vec();
    let place = bytes.windows(9).position(|bytes| bytes == b"payload 3").unwrap();
    bytes[place] ^= 1;
    let db = open(&MemoryStorage::from_vec(bytes));
    let log = db.events("log").unwrap();
    log.set_retention(Retention::new().max_events(2)).unwrap();
    assert_eq!(log.retain().unwrap(), 7);
    assert_eq!(log.get_by_number(9).unwrap().unwrap().payload(), b"payload 8");
    assert!(log.get_by_number(4).is_err());
}

#[test]
fn a_damaged_stub_is_told_as_damage() {
    for is_checkpointed in [false, true] {
        let file = MemoryStorage::new();
        let db = open(&file);
        let log = db.events("log").unwrap();
        log.append("s", Expected::Any, (0..5).map(|index| NewEvent::new(format!("kind {index}"), "payload"))).unwrap();
        assert_eq!(log.truncate("s", 4).unwrap(), 3);
        log.append("s", Expected::Any, [NewEvent::new("last", "payload")]).unwrap();
        db.flush().unwrap();
        if is_checkpointed {
            db.checkpoint().unwrap();
        }
        let mut bytes = file.to_vec();
        // The event, and behind it its stub.
        let places: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(b"kind 1")).collect();
        assert_eq!(places.len(), 2);
        bytes[places[1]] ^= 1;
        let near = |error: &pipkin::Error| {
            assert!(
                matches!(error, pipkin::Error::Corrupt { offset, .. } if (places[1] as u64 - 100..=places[1] as u64).contains(offset)),
                "{error}"
            );
        };
        match Db::builder().open_storage(Box::new(MemoryStorage::from_vec(bytes))) {
            Err(error) => {
                assert!(!is_checkpointed);
                near(&error)
            }
            Ok(db) => {
                assert!(is_checkpointed);
                let log = db.events("log").unwrap();
                assert_eq!(db.verify().unwrap().damage.len(), 1);
                near(&log.get_by_number(2).unwrap_err());
                assert_eq!(log.get_by_number(4).unwrap().unwrap().version(), 4);
            }
        }
    }
}

#[test]
fn what_was_removed_meets_no_condition_before_compaction_and_behind_it() {
    let file = MemoryStorage::new();
    let db = open(&file);
    let log = db.events("log").unwrap();
    for index in 1..=20_u32 {
        let (kind, stream) = (format!("T{}", index % 4), format!("s{}", index % 2));
        log.append(&stream, Expected::Any, [NewEvent::new(kind, vec![7; 500]).tag("t").tag(format!("n{index}"))]).unwrap();
    }
    // Of one stream all, which are those with odd numbers; of the other one the first.
    assert_eq!((log.delete_stream("s1").unwrap(), log.truncate("s0", 3).unwrap()), (10, 2));
    // What is looked for, behind which number, and what is met.
    let all = || Condition::new([""; 0], [""; 0]);
    let asked = [
        (Condition::of_types(["T1"]), None),
        (Condition::of_types(["T1", "T3"]), None),
        (Condition::of_types(["T1", "T0"]), Some(20)),
        (Condition::of_types(["T2"]).after(18), None),
        (Condition::of_types(["T2"]), Some(18)),
        (Condition::tagged(["t"]), Some(20)),
        (Condition::tagged(["t", "n19"]), None),
        (Condition::tagged(["n4"]), None),
        (Condition::tagged(["n6", "t"]), Some(6)),
        (Condition::new(["T3"], ["t"]), None),
        (Condition::new(["T3"], ["t"]).or(["T2"], ["n6"]), Some(6)),
        (all().after(19), Some(20)),
        (all(), Some(20)),
    ];
    let ask = |round: &str| {
        for (condition, met) in &asked {
            let refused = db
                .batch()
                .append(&log, "refused", Expected::Exists, [NewEvent::new("T", "")])
                .only_if_none(&log, condition.clone());
            let Err(pipkin::Error::AppendRefused { failed }) = refused.commit() else { panic!("{condition:?} {round}") };
            let found = failed.iter().find_map(|failed| match failed {
                pipkin::FailedCheck::Condition { number, .. } => Some(*number),
                _ => None,
            });
            assert_eq!(found, *met, "{condition:?} {round}");
        }
    };
    ask("as removed");
    db.compact().unwrap();
    ask("behind compaction");
    drop((log, db));
    let db = open(&MemoryStorage::from_vec(file.to_vec()));
    let log = db.events("log").unwrap();
    let answer = |condition: Condition| log.append_if(&condition, "new", [NewEvent::new("New", "")]);
    assert!(answer(Condition::tagged(["t", "n6"])).is_err());
    assert_eq!(answer(Condition::tagged(["n19"])).unwrap().first_number, 21);
}

/// A medium that keeps what it holds in front of each write, while it is asked to.
#[derive(Clone)]
struct Filmed {
    bytes: Arc<MemoryStorage>,
    film: Arc<Mutex<Option<Vec<Vec<u8>>>>>,
}

impl Storage for Filmed {
    fn len(&self) -> Result<u64, StorageError> {
        self.bytes.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.bytes.set_len(len)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.bytes.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        if let Some(film) = &mut *self.film.lock().unwrap() {
            film.push(self.bytes.to_vec());
        }
        self.bytes.write_at(offset, parts)
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.bytes.sync()
    }
}

/// Kills in front of every write of compactions that drop stubs and of checkpoints between them.
#[test]
fn what_was_removed_stays_away_wherever_a_compaction_is_killed() {
    let storage = Filmed { bytes: Arc::new(MemoryStorage::new()), film: Arc::default() };
    let open = |storage: Box<dyn Storage>| {
        Db::builder().segment_size(4096).replay_debt_max(4096).background(false).open_storage(storage).unwrap()
    };
    let db = open(Box::new(storage.clone()));
    let log = db.events("log").unwrap();
    for round in 0..40_u32 {
        log.append("s", Expected::Any, (0..5).map(|_| NewEvent::new("T", vec![7; 100]))).unwrap();
        db.insert(round.to_le_bytes(), vec![1; 300]).unwrap();
    }
    log.keep_last("s", 10).unwrap();
    db.flush().unwrap();
    *storage.film.lock().unwrap() = Some(Vec::new());
    for _ in 0..3 {
        db.compact().unwrap();
        db.checkpoint().unwrap();
    }
    let film = storage.film.lock().unwrap().take().unwrap();
    assert!(film.len() > 50, "{}", film.len());
    for (number, image) in film.into_iter().enumerate() {
        let db = open(Box::new(MemoryStorage::from_vec(image)));
        let log = db.events("log").unwrap();
        for round in 0..3 {
            assert_eq!(numbers(&log), (191..=200).collect::<Vec<_>>(), "in front of write {number}, round {round}");
            db.compact().unwrap();
        }
    }
}
