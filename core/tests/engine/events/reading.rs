//! Reading, over reopening, checkpoints and compaction, beside a model.

use super::{open, read};
use pipkin::storage::MemoryStorage;
use pipkin::{Condition, Db, Durability, Error, Event, EventReader, Events, Expected, NewEvent, Storage, StorageError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Records that reach from one extent into the next, and a walk under which the store changes.
#[test]
fn events_longer_than_an_extent_are_read_in_order_while_the_visitor_truncates_and_compacts() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::builder().segment_size(4096).path(folder.path().join("events.pip")).open().unwrap();
    let log = db.events("log").unwrap();
    let payload = |number: u64| vec![number as u8; (number * number * 37 % 20_000) as usize];
    (1..=300).for_each(|number| {
        log.append("s", Expected::Any, [NewEvent::new("T", payload(number))]).unwrap();
        db.insert([number as u8], payload(number / 3)).unwrap();
    });
    for round in 0..2 {
        let mut next = 1 + round * 149;
        log.all()
            .for_each(|event| {
                assert_eq!((event.number(), event.payload()), (next, &payload(next)[..]));
                match next {
                    200 if round == 0 => drop(log.truncate("s", 150).unwrap()),
                    100 | 201 | 250 => drop(db.compact().unwrap()),
                    _ => {}
                }
                next += 1;
            })
            .unwrap();
        assert_eq!(next, 301);
    }
    (150..=300).for_each(|number| assert_eq!(log.get_by_number(number).unwrap().unwrap().payload(), payload(number)));
    assert!(log.get_by_number(149).unwrap().is_none());
}

/// A visitor that moves what its walk has found: of streams whose events follow each other in part, from any version on.
#[test]
fn a_stream_is_read_whole_while_the_visitor_writes_truncates_and_compacts() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::builder().segment_size(64 * 1024).path(folder.path().join("events.pip")).open().unwrap();
    let log = db.events("log").unwrap();
    let payload = |version: u64| vec![version as u8; (version * 97 % 1500) as usize];
    (1..=400).for_each(|version| {
        log.append("s", Expected::Any, [NewEvent::new("T", payload(version))]).unwrap();
        if version % 60 < 20 {
            log.append("other", Expected::Any, [NewEvent::new("T", payload(version))]).unwrap();
        }
    });
    for from in [1, 15, 41, 333] {
        let mut next = from;
        let read = log.stream("s").from(from).for_each(|event| {
            assert_eq!((event.stream(), event.version(), event.payload()), ("s", next, &payload(next)[..]));
            match next % 50 {
                11 => drop(db.compact().unwrap()),
                23 => drop(log.append("other", Expected::Any, [NewEvent::new("T", payload(next))]).unwrap()),
                37 => drop(log.truncate("other", next / 4).unwrap()),
                _ => {}
            }
            next += 1;
        });
        read.unwrap();
        assert_eq!(next, 401);
    }
}

/// Where a store is: in memory, which nothing can map, or in a file.
enum Home {
    Memory(MemoryStorage),
    File(tempfile::TempDir),
}

impl Home {
    fn open(&mut self) -> Db {
        match self {
            Self::Memory(file) => open(file),
            Self::File(folder) => Db::builder().segment_size(64 * 1024).path(folder.path().join("events.pip")).open().unwrap(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Memory(file) => file.to_vec(),
            Self::File(folder) => std::fs::read(folder.path().join("events.pip")).unwrap(),
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
        let mut file = if seed % 2 == 0 { Home::File(tempfile::tempdir().unwrap()) } else { Home::Memory(MemoryStorage::new()) };
        let (mut random, mut model) = (Random(seed), Model::default());
        let mut db = file.open();
        for round in 0..400 {
            let log = db.events("log").unwrap();
            match random.below(40) {
                0 => db.checkpoint().unwrap(),
                1 => drop(db.compact().unwrap()),
                2 => {
                    drop(log);
                    db.close().unwrap();
                    db = file.open();
                }
                3 => {
                    model.check(&log);
                    // An unclean end: the copy is of the bytes that a process has written when it is killed.
                    db.flush().unwrap();
                    let copy = MemoryStorage::from_vec(file.bytes());
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
        model.check(&file.open().events("log").unwrap());
    }
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
        let kind = if number == 0 { "First" } else { "T" };
        log.append("s", Expected::Any, [NewEvent::new(kind, vec![0xa0 + number; 40]).tag("t")]).unwrap();
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
    // Along the chains, too, from either end.
    for (reader, expected) in
        [(log.stream("s"), vec![1, 2, 4, 5]), (log.of_type("T"), vec![2, 4, 5]), (log.tagged("t"), vec![1, 2, 4, 5])]
    {
        assert_eq!(numbers(reader.clone()), expected);
        assert_eq!(numbers(reader.backwards(true)), expected.into_iter().rev().collect::<Vec<_>>());
    }
    let number = |version| log.get("s", version).unwrap().map(|event| event.number());
    assert_eq!([1, 2, 3, 4].map(number), [Some(1), Some(2), None, Some(4)]);
    // A condition finds what stands in front of the gap.
    let refused = log.append_if(&Condition::new(["First"], ["t"]), "s", [NewEvent::new("T", "")]);
    assert!(matches!(refused, Err(Error::AppendRefused { .. })), "{refused:?}");
    assert_eq!(log.append("s", Expected::Version(5), [NewEvent::new("T", "")]).unwrap().first_number, 6);
    let mut all = log.all().follow().unwrap();
    db.flush().unwrap();
    let heard: Vec<u64> = std::iter::from_fn(|| all.try_next().unwrap()).map(|event| event.number()).collect();
    assert_eq!(heard, [1, 2, 4, 5, 6]);
}

#[test]
fn a_walk_says_what_memory_it_takes() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    for _ in 0..10 {
        log.append("one", Expected::Any, (0..100).map(|_| NewEvent::new("T", vec![7; 100]).tag("t"))).unwrap();
    }
    let least = log.all().backwards(true).iter().unwrap().memory_bytes();
    let mut found = log.of_type("T").iter().unwrap();
    assert!(found.memory_bytes() >= least + 1000 * 8, "the numbers of all that are still to come");
    assert_eq!(found.by_ref().count(), 1000);
    let mut all = log.all().iter().unwrap();
    assert!(all.by_ref().take(5).count() == 5 && all.memory_bytes() >= least + 7 * 100, "what it has read ahead");
    assert!(log.tagged("t").backwards(true).iter().unwrap().memory_bytes() < least + 200);
}

#[test]
fn versions_that_no_stream_has_are_not_there() {
    let db = Db::open_in_memory().unwrap();
    let log = db.events("log").unwrap();
    log.append("one", Expected::Any, [NewEvent::new("T", "")]).unwrap();
    for version in [0, 2, u64::MAX - 62, u64::MAX] {
        assert_eq!(log.get("one", version).unwrap(), None, "{version}");
    }
}

/// A medium that counts reads. It cannot be mapped.
#[derive(Clone)]
struct Counting {
    bytes: Arc<MemoryStorage>,
    reads: Arc<AtomicU64>,
}

impl Storage for Counting {
    fn len(&self) -> Result<u64, StorageError> {
        self.bytes.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.bytes.set_len(len)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.bytes.write_at(offset, parts)
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.bytes.sync()
    }
}

#[test]
fn one_event_is_read_from_the_medium_in_at_most_two_reads() {
    let storage = Counting { bytes: Arc::new(MemoryStorage::new()), reads: Arc::default() };
    let open = || Db::builder().segment_size(64 * 1024).open_storage(Box::new(storage.clone())).unwrap();
    let db = open();
    for number in 0..5000_u32 {
        let stream = format!("stream {}", number % 50);
        db.events("log").unwrap().append(&stream, Expected::Any, [NewEvent::new("T", [7; 150])]).unwrap();
        db.insert(number.to_le_bytes(), [1; 100]).unwrap();
    }
    db.close().unwrap();
    let db = open();
    let log = db.events("log").unwrap();
    assert_eq!(log.last_number().unwrap(), 5000);
    let mut random = Random(1);
    for _ in 0..1000 {
        let before = storage.reads.load(Ordering::Relaxed);
        assert!(log.get_by_number(1 + random.below(5000)).unwrap().is_some());
        let reads = storage.reads.load(Ordering::Relaxed) - before;
        assert!(reads <= 2, "{reads}");
    }
}
