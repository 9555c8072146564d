//! A follower behind a writer that uses the space of compacted segments again: what it shows, and that it need not read the whole store for that.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::error::Error;
use crate::index::SHARDS;
use crate::log::Segment;
use crate::storage::{MemoryStorage, Storage, StorageError, StorageErrorKind, as_its_file};
use crate::testing::TestClock;
use crate::{Builder, Db, Namespace};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A key of one of the namespaces of a test.
type Key = (&'static str, u32);

/// Writes an old key, and a new one.
type Write<'a> = &'a dyn Fn(&mut Pair, Key, Key);

/// A writer, its follower, and what both must show.
struct Pair {
    clock: TestClock,
    db: Db,
    reader: Db,
    /// Reads of the follower until one fails.
    left: Arc<AtomicU64>,
    model: BTreeMap<Key, u8>,
    written: u32,
}

/// A file of which reads fail once some are done.
struct Reads {
    file: MemoryStorage,
    left: Arc<AtomicU64>,
}

impl Storage for Reads {
    as_its_file!(len, set_len, write_at, sync);
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(StorageError::new(StorageErrorKind::Other, "read", "the cable was pulled")),
            _ => self.file.read_at(offset, out),
        }
    }
}

/// Bytes of a value: some twenty records fill a segment.
const VALUE_LEN: usize = 150;
/// Of the keys that are written again and again, so that there are segments to compact.
const FILLING: u32 = 1 << 31;

fn small(clock: &TestClock) -> Builder {
    let builder = Db::builder().segment_size(4096).background(false).auto_compact_dead_share(2.0);
    builder.replay_debt_max(u64::MAX).clock(clock.clone())
}

impl Pair {
    fn new(is_ordered: bool) -> Self {
        let (file, clock) = (MemoryStorage::new(), TestClock::new(1_000_000));
        let db = small(&clock).open_storage(Box::new(file.clone())).unwrap();
        let reads = Reads { file, left: Arc::new(AtomicU64::new(u64::MAX)) };
        let left = reads.left.clone();
        let reader = small(&clock).ordered(is_ordered).follow(true).open_storage(Box::new(reads)).unwrap();
        Self { clock, db, reader, left, model: BTreeMap::new(), written: 0 }
    }

    fn space(&self, name: &str) -> Namespace {
        self.db.namespace(name).unwrap()
    }

    fn put(&mut self, key: Key, value: u8) {
        self.space(key.0).insert(key.1.to_be_bytes(), [value; VALUE_LEN]).unwrap();
        self.model.insert(key, value);
    }

    fn remove(&mut self, key: Key) {
        self.space(key.0).remove(key.1.to_be_bytes()).unwrap();
        self.model.remove(&key);
    }

    /// Writes records that stay for `segments` segments, so that compaction leaves them alone.
    fn fill(&mut self, segments: u32) {
        for _ in 0..segments * 24 {
            self.written += 1;
            self.put(("filling", FILLING + self.written), 1);
        }
    }

    /// From here on the follower is behind. Its place is behind a checkpoint: [`Self::reuse`] leaves it alone.
    fn leave_behind(&mut self) {
        self.fill(1);
        self.db.checkpoint().unwrap();
        self.fill(1);
        self.compare();
    }

    /// Empties the segments in front of the checkpoint, and uses their space again.
    fn reuse(&mut self) {
        let log = &self.db.store.engine.log;
        let checkpoint = log.newest_checkpoint().unwrap().base;
        let old: Vec<Segment> = log.segments().into_iter().filter(|segment| segment.base < checkpoint).collect();
        old.iter().for_each(|segment| self.db.store.compact_one(segment, &mut |_| {}).map(drop).unwrap());
        self.db.flush().unwrap();
        log.reclaim(&self.db.store.engine.pins);
        let free = log.usage().free_extents;
        assert!(free > 1, "{free}");
        self.fill(free + 1);
    }

    /// Refreshes, and compares all that can be read; returns how often the whole store was read.
    fn compare(&self) -> u64 {
        let before = self.reader.stats().unwrap();
        self.reader.refresh().unwrap();
        for name in self.db.list_namespaces() {
            let (mine, theirs) = (self.space(&name), self.reader.namespace(&name).unwrap());
            let expected: BTreeMap<Vec<u8>, Vec<u8>> = self
                .model
                .iter()
                .filter(|((space, _), _)| *space == name)
                .map(|((_, key), value)| (key.to_be_bytes().to_vec(), vec![*value; VALUE_LEN]))
                .collect();
            let walked: Vec<_> = theirs.iter().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value)).collect();
            assert_eq!(walked.len(), expected.len(), "{name}: a key twice, or none");
            assert_eq!(walked.into_iter().collect::<BTreeMap<_, _>>(), expected, "{name}");
            assert_eq!((mine.len().unwrap(), theirs.len().unwrap()), (expected.len() as u64, expected.len() as u64), "{name}");
            for (key, value) in &expected {
                assert_eq!(theirs.get(key).unwrap().as_ref(), Some(value), "{name} {key:?}");
            }
            if let Ok(range) = theirs.range(..) {
                let range: BTreeMap<_, _> = range.map(Result::unwrap).map(|(key, value)| (key.to_vec(), value)).collect();
                assert_eq!(range, expected, "{name} in order");
            }
        }
        self.compare_slots();
        let after = self.reader.stats().unwrap();
        assert_eq!(after.refreshes, before.refreshes + 1, "a read has met space that is used again");
        after.rebuilds - before.rebuilds
    }

    /// The slots of the follower's index are counted by the segments that they point into.
    fn compare_slots(&self) {
        let engine = &self.reader.store.engine;
        let mut found: BTreeMap<u32, u64> = BTreeMap::new();
        for slot in (0..SHARDS).flat_map(|shard| engine.index.lock_shard(shard).slots(engine.medium()).unwrap()) {
            let extent = engine.log.segment_stats.head(engine.log.geometry.extent_of(slot.offset()));
            *found.entry(extent).or_default() += 1;
        }
        for segment in engine.log.segments() {
            let expected = found.remove(&segment.extent).unwrap_or(0);
            assert_eq!(engine.log.segment_stats.slots(segment.extent), expected, "{segment:?}");
        }
        assert!(found.is_empty(), "slots that point into no segment: {found:?}");
    }

    /// Two keys whose slots cannot be told apart, each of one of these namespaces.
    fn alike(&self, one: &'static str, other: &'static str) -> (Key, Key) {
        let number = |name: &str| self.space(name).name.number().unwrap();
        let (first, second) = (number(one), number(other));
        let mut seen = HashMap::new();
        for key in 0.. {
            let place_in = |number| {
                let hash = self.db.store.engine.full_key(number, &u32::to_be_bytes(key)).hash;
                (hash.shard(), hash.tag())
            };
            if let Some(&found) = seen.get(&place_in(second)) {
                return ((one, found), (other, key));
            }
            seen.insert(place_in(first), key);
        }
        unreachable!()
    }
}

/// Old records of 80 keys, and a follower that has read them.
fn with_old_records(is_ordered: bool) -> Pair {
    let mut pair = Pair::new(is_ordered);
    (0..60).for_each(|key| pair.put(("a", key), 1));
    (0..20).for_each(|key| pair.put(("b", key), 1));
    pair.leave_behind();
    pair
}

#[test]
fn what_was_copied_replaced_and_removed_before_its_space_is_used_again_is_shown_without_reading_the_whole_store() {
    for is_ordered in [false, true] {
        let mut pair = with_old_records(is_ordered);
        for round in 0..5_u8 {
            // A third stays and is copied, a third is replaced, a third removed; some are written twice, or removed and written.
            for key in 0..20 {
                pair.put(("a", key), round + 100);
                pair.remove(("a", key + 20));
            }
            (0..5).for_each(|key| pair.put(("a", key), round + 150));
            (20..25).for_each(|key| pair.put(("a", key), round + 200));
            (0..5).for_each(|key| pair.remove(("b", key)));
            pair.reuse();
            pair.put(("a", 7), round + 210);
            assert_eq!(pair.compare(), 0, "round {round}, ordered: {is_ordered}");
            (0..60).for_each(|key| pair.put(("a", key), round));
            (0..20).for_each(|key| pair.put(("b", key), round));
            pair.leave_behind();
        }
    }
}

/// Whose slot it was is unknown if a key with the same tag is written first; a count by namespace may need to be read then.
#[test]
fn a_key_with_the_tag_of_one_whose_record_is_gone_is_not_taken_for_it() {
    for (one, other) in [("a", "a"), ("a", "b")] {
        let rebuilds = u64::from(one != other);
        let what: [(&str, u64, Write<'_>); 4] = [
            ("copied", 0, &|pair, _, new| pair.put(new, 2)),
            ("replaced", rebuilds, &|pair, old, new| {
                pair.put(new, 2);
                pair.put(old, 3);
            }),
            ("removed", rebuilds, &|pair, old, new| {
                pair.put(new, 2);
                pair.remove(old);
            }),
            ("alone", 0, &|pair, old, _| pair.put(old, 2)),
        ];
        for (name, rebuilds, write) in what {
            let mut pair = with_old_records(true);
            let (old, new) = pair.alike(one, other);
            pair.put(old, 1);
            pair.put(("a", 3), 4);
            pair.leave_behind();
            write(&mut pair, old, new);
            pair.reuse();
            assert_eq!(pair.compare(), rebuilds, "{name}: {one} and {other}");
        }
        // Both are old: one is removed, the other copied.
        let mut pair = with_old_records(true);
        let (old, new) = pair.alike(one, other);
        pair.put(old, 1);
        pair.put(new, 1);
        pair.put(("a", 3), 4);
        pair.leave_behind();
        pair.remove(new);
        pair.reuse();
        assert_eq!(pair.compare(), rebuilds, "both: {one} and {other}");
    }
}

#[test]
fn records_that_expire_and_those_of_cleared_namespaces_are_gone_however_their_space_is_used() {
    for is_ordered in [false, true] {
        let mut pair = with_old_records(is_ordered);
        for key in 100..120 {
            pair.space("a").insert_with_ttl(u32::to_be_bytes(key), "short", Duration::from_secs(1)).unwrap();
            pair.put(("c", key), 1);
        }
        pair.put(("a", 5), 9);
        pair.clock.advance(Duration::from_secs(2));
        pair.leave_behind();
        pair.space("c").clear().unwrap();
        pair.model.retain(|(space, _), _| *space != "c");
        (0..30).for_each(|key| pair.put(("a", key), 2));
        pair.reuse();
        pair.compare();
        // None of those that are left expires.
        pair.leave_behind();
        (0..30).for_each(|key| pair.put(("a", key), 3));
        pair.reuse();
        assert!(is_ordered || pair.compare() == 0);
    }
}

#[test]
fn a_snapshot_shows_its_moment_or_is_too_old_once_the_space_of_its_records_is_used() {
    let mut pair = with_old_records(true);
    let snapshot = pair.reader.snapshot();
    let (a, old) = (snapshot.namespace("a").unwrap().unwrap(), [1; VALUE_LEN]);
    (0..30).for_each(|key| pair.put(("a", key), 2));
    pair.remove(("a", 40));
    assert_eq!(pair.compare(), 0);
    assert_eq!((a.get(7_u32.to_be_bytes()).unwrap().as_deref(), a.len().unwrap()), (Some(&old[..]), 60));
    pair.reuse();
    (10..40).for_each(|key| pair.put(("a", key), 3));
    assert_eq!(pair.compare(), 0);
    let answers = [a.get(7_u32.to_be_bytes()).map(drop), a.get(55_u32.to_be_bytes()).map(drop), a.len().map(drop)];
    assert!(answers.iter().all(|answer| matches!(answer, Err(Error::SnapshotTooOld))), "{answers:?}");
}

#[test]
fn a_refresh_that_fails_at_any_read_leaves_no_count_that_is_wrong() {
    let mut pair = with_old_records(false);
    (0..30).for_each(|key| pair.put(("a", key), 2));
    (30..40).for_each(|key| pair.remove(("a", key)));
    pair.reuse();
    let (mut failures, before) = (0, pair.reader.stats().unwrap().rebuilds);
    for reads in 1.. {
        pair.left.store(reads, Ordering::Relaxed);
        let answer = pair.reader.refresh();
        pair.left.store(0, Ordering::Relaxed);
        let len = pair.reader.namespace("a").unwrap().len();
        pair.left.store(u64::MAX, Ordering::Relaxed);
        match answer {
            Ok(_) => break,
            Err(Error::Storage(_)) => assert!(matches!(len, Ok(60 | 50) | Err(Error::Storage(_))), "{reads}: {len:?}"),
            Err(error) => panic!("{reads}: {error:?}"),
        }
        failures += 1;
    }
    assert!(failures > 50, "{failures}");
    assert_eq!(pair.compare(), 0);
    assert_eq!(pair.reader.stats().unwrap().rebuilds - before, 1, "what was applied in part is read again");
}

/// Only values change: whoever counts beside a refresh, or between two pieces of it, finds the same number.
#[test]
fn nobody_sees_an_index_with_slots_whose_records_cannot_be_read() {
    let mut pair = with_old_records(false);
    for round in 2..6 {
        (0..60).for_each(|key| pair.put(("a", key), round));
        pair.reuse();
        let (reader, is_done) = (pair.reader.namespace("a").unwrap(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let counting = scope.spawn(|| {
                while is_done.load(Ordering::Relaxed) == 0 {
                    assert_eq!(reader.len().unwrap(), 60, "round {round}");
                }
            });
            pair.reader.refresh().unwrap();
            is_done.store(1, Ordering::Relaxed);
            counting.join().unwrap();
        });
        assert_eq!(pair.compare(), 0);
        (0..20).for_each(|key| pair.put(("b", key), round));
        pair.leave_behind();
    }
}
