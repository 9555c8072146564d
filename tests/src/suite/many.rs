//! `get_many` beside writers: batches, transactions, groups, clears, single writes and expiries in threads of their own, compaction, and a store
//! that is opened again, whose index is built while it is read. A follower reads the same file.
//!
//! Each writer has keys of its own, and its commits are known beforehand: the model is the list of the states that its keys go through, no two
//! of which are the same. What a read has found of a writer's keys must be one of these states. And of any two reads one is the later one, for
//! all writers: each shows a beginning of one log.

use crate::parallel::{Failure, Outcome, Team};
use crate::quota::Quota;
use crate::rng::{Rng, derive};
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::testing::TestClock;
use pipkin::{Batch, Db, Namespace, Ttl};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Threads that write to keys of their own.
const WRITERS: usize = 3;
/// Keys of each: all of them are one moment's.
const KEYS: u8 = 42;
/// Sessions of a history.
const SESSIONS: usize = 3;
/// Keys that are always written together, in one commit.
const TWINS: u8 = 8;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Histories.
    pub histories: u64,
    /// Commits of each writer in a session.
    pub commits: usize,
    /// Seed of the first history.
    pub seed: u64,
}

/// Numbers of trials.
#[derive(Debug)]
pub struct Counts {
    /// Reads of several keys that the model explains.
    pub reads: Quota,
    /// Those of a follower.
    pub followed: Quota,
}

impl Counts {
    /// With these quotas.
    pub fn new(reads: u64, followed: u64) -> Self {
        Self { reads: Quota::new("many", reads), followed: Quota::new("many (follower)", followed) }
    }
}

/// One commit of a writer.
enum Op {
    /// A batch; `true`: as a transaction.
    Several(Vec<(u8, Option<u32>)>, bool),
    Single(u8, u32),
}

/// A writer's commits, and the states that they lead to.
struct Writer {
    ops: Vec<Op>,
    states: Vec<BTreeMap<u8, u32>>,
    /// Commits that have begun, and those that have returned.
    begun: AtomicUsize,
    acked: AtomicUsize,
}

impl Writer {
    /// Key 0 is written by each commit that removes something, and values are never the same, so all states differ.
    fn new(rng: &mut Rng, commits: usize) -> Self {
        let mut writer =
            Self { ops: Vec::new(), states: vec![BTreeMap::new()], begun: AtomicUsize::new(0), acked: AtomicUsize::new(0) };
        for version in 1..=commits as u32 {
            let mut state = writer.states.last().cloned().unwrap_or_default();
            let other = |rng: &mut Rng| 1 + rng.below(u64::from(KEYS) - 1) as u8;
            writer.ops.push(if rng.chance(1, 4) {
                let key = other(rng);
                state.insert(key, version);
                Op::Single(key, version)
            } else {
                let mut changes = BTreeMap::from([(0, Some(version))]);
                for _ in 0..1 + rng.below(12) {
                    changes.insert(other(rng), (!rng.chance(1, 3)).then_some(version));
                }
                for (&key, &value) in &changes {
                    match value {
                        Some(value) => drop(state.insert(key, value)),
                        None => drop(state.remove(&key)),
                    }
                }
                Op::Several(changes.into_iter().collect(), rng.chance(1, 3))
            });
            writer.states.push(state);
        }
        writer
    }

    fn write(&self, db: &Db, number: usize) -> Checked {
        let next = self.acked.load(Ordering::SeqCst);
        self.begun.store(next + 1, Ordering::SeqCst);
        let committed = match &self.ops[next] {
            Op::Single(key, version) => db.insert(key_of(number, *key), value_of(*version)),
            Op::Several(changes, false) => {
                changes.iter().fold(db.batch(), |batch, &(key, version)| changed(batch, key_of(number, key), version)).commit()
            }
            Op::Several(changes, true) => db.transaction(|tx| {
                changes.iter().try_for_each(|&(key, version)| match version {
                    Some(version) => tx.insert(key_of(number, key), value_of(version)),
                    None => tx.remove(key_of(number, key)).map(drop),
                })
            }),
        };
        committed.map_err(words)?;
        self.acked.store(next + 1, Ordering::SeqCst);
        Ok(())
    }
}

fn changed(batch: Batch<'_>, key: [u8; 2], version: Option<u32>) -> Batch<'_> {
    match version {
        Some(version) => batch.insert(key.to_vec(), value_of(version)),
        None => batch.remove(key.to_vec()),
    }
}

fn key_of(writer: usize, key: u8) -> [u8; 2] {
    [writer as u8, key]
}

fn value_of(version: u32) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    value.resize(100, 7);
    value
}

fn version_of(value: &[u8]) -> Result<u32, String> {
    value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(|| "a value that nobody wrote".into())
}

/// What the threads of a history share.
struct World<'a> {
    writers: Vec<Writer>,
    counts: &'a Counts,
    clock: TestClock,
    /// For each read of all keys, how many commits of each writer it has seen.
    seen: Mutex<Vec<Vec<usize>>>,
    team: Team,
    running: AtomicUsize,
}

impl World<'_> {
    /// Reads keys of all writers, and looks for the states of which that is.
    fn read(&self, space: &Namespace, rng: &mut Rng, is_follower: bool) -> Checked {
        let mut keys: Vec<[u8; 2]> = (0..WRITERS).flat_map(|writer| (0..KEYS).map(move |key| key_of(writer, key))).collect();
        for place in (1..keys.len()).rev() {
            keys.swap(place, rng.below(place as u64 + 1) as usize);
        }
        let is_whole = rng.chance(1, 2);
        if !is_whole {
            keys.truncate(2 + rng.below(40) as usize);
        }
        let least: Vec<usize> = self.writers.iter().map(|writer| writer.acked.load(Ordering::SeqCst)).collect();
        let mut found: Vec<BTreeMap<u8, u32>> = vec![BTreeMap::new(); WRITERS];
        let mut asked: Vec<Vec<u8>> = vec![Vec::new(); WRITERS];
        let mut note = |[writer, key]: [u8; 2], value: Option<&[u8]>| {
            asked[usize::from(writer)].push(key);
            match value.map(version_of) {
                Some(version) => version.map(|version| {
                    found[usize::from(writer)].insert(key, version);
                }),
                None => Ok(()),
            }
        };
        if rng.chance(1, 3) {
            let mut noted = Ok(());
            space.get_many_with(&keys, |key, value| noted = noted.clone().and(note(*key, value))).map_err(words)?;
            noted?;
        } else {
            let values = space.get_many(&keys).map_err(words)?;
            keys.iter().zip(values).try_for_each(|(key, value)| note(*key, value.as_deref()))?;
        }
        let mut seen = Vec::new();
        for (number, writer) in self.writers.iter().enumerate() {
            let (from, to) = (if is_follower { 0 } else { least[number] }, writer.begun.load(Ordering::SeqCst));
            let fits = |state: &BTreeMap<u8, u32>| asked[number].iter().all(|key| state.get(key) == found[number].get(key));
            let place = writer.states[from..=to].iter().position(fits).ok_or_else(|| {
                format!("of writer {number} no state from {from} to {to} has {:?} for {:?}", found[number], asked[number])
            })?;
            seen.push(from + place);
        }
        if is_whole {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        }
        (if is_follower { &self.counts.followed } else { &self.counts.reads }).add(1);
        Ok(())
    }

    /// Reads keys that are always written, removed and expired together.
    fn read_twins(&self, space: &Namespace, is_follower: bool) -> Checked {
        let values = space.get_many((0..TWINS).map(twin)).map_err(words)?;
        if values.windows(2).any(|two| two[0] != two[1]) {
            let versions: Vec<_> = values.iter().map(|value| value.as_deref().map(version_of)).collect();
            return Err(format!("one commit wrote all of these: {versions:?}"));
        }
        (if is_follower { &self.counts.followed } else { &self.counts.reads }).add(1);
        Ok(())
    }

    fn reads(&self, db: &Db, rng: &mut Rng, is_follower: bool, may_nest: bool) -> Checked {
        let spaces = ["cleared", "short"].map(|name| db.namespace(name));
        let [cleared, short] = spaces.map(|space| space.map_err(words));
        let (cleared, short) = (cleared?, short?);
        while !self.team.is_over() {
            match rng.below(8) {
                0 => self.read_twins(&cleared, is_follower)?,
                1 => self.read_twins(&short, is_follower)?,
                2 if may_nest => {
                    // Holding a shard, in the closure of an update.
                    let mut result = Ok(());
                    db.update("scratch", |_| {
                        result = self.read(db, rng, is_follower);
                        None
                    })
                    .map_err(words)?;
                    result?;
                }
                _ => self.read(db, rng, is_follower)?,
            }
        }
        Ok(())
    }

    /// Writes the twins, and removes them in every way.
    fn twins(&self, db: &Db, rng: &mut Rng) -> Checked {
        let (cleared, short) = (db.namespace("cleared").map_err(words)?, db.namespace("short").map_err(words)?);
        let mut version = 0;
        while !self.team.is_over() {
            version += 1;
            let all = || (0..TWINS).map(twin);
            match rng.below(8) {
                0 => cleared.clear(),
                1 => cleared.delete_group("twin").map(drop),
                2 => cleared.remove_many(all()).map(drop),
                3..=5 => cleared.insert_many(all().map(|key| (key, value_of(version)))),
                _ => {
                    let ttl = Ttl::After(Duration::from_millis(1 + rng.below(20)));
                    all().fold(short.batch(), |batch, key| batch.insert_with_ttl(key, value_of(version), ttl)).commit()
                }
            }
            .map_err(words)?;
        }
        Ok(())
    }

    fn maintenance(&self, db: &Db, rng: &mut Rng) -> Checked {
        while !self.team.is_over() {
            match rng.below(4) {
                0 => db.checkpoint().map_err(words)?,
                1 => drop(db.compact().map_err(words)?),
                2 => drop(db.compact_step().map_err(words)?),
                _ => self.clock.advance(Duration::from_millis(1)),
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Of any two reads one is the later one.
    fn in_order(&self) -> Checked {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.sort_by_key(|counts| counts.iter().sum::<usize>());
        let is_after = |two: &&[Vec<usize>]| two[0].iter().zip(&two[1]).all(|(before, after)| before <= after);
        match seen.windows(2).find(|two| !is_after(two)) {
            Some(two) => Err(format!("neither of two reads is before the other: commits seen {:?} and {:?}", two[0], two[1])),
            None => Ok(()),
        }
    }
}

fn twin(number: u8) -> Vec<u8> {
    format!("twin.{number}").into_bytes()
}

fn one(budget: &Budget, counts: &Counts, seed: u64) -> Checked {
    let mut rng = derive(seed, 0);
    let storage = MemoryStorage::new();
    let is_ordered = seed.is_multiple_of(2);
    let clock = TestClock::new(1_000_000);
    let open = |follow: bool| {
        let builder = Db::builder().segment_size(4096).ordered(is_ordered && !follow).background(false).clock(clock.clone());
        builder.follow(follow).open_storage(Box::new(storage.clone())).map_err(words)
    };
    let world = World {
        writers: (0..WRITERS).map(|_| Writer::new(&mut rng, SESSIONS * budget.commits)).collect(),
        counts,
        clock: clock.clone(),
        seen: Mutex::default(),
        team: Team::default(),
        running: AtomicUsize::new(0),
    };
    for session in 0..SESSIONS {
        let db = open(false)?;
        for name in ["cleared", "short"] {
            db.namespace(name).map_err(words)?;
        }
        db.flush().map_err(words)?;
        let follower = open(true)?;
        world.running.store(WRITERS, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let (world, db, follower) = (&world, &db, &follower);
            for (number, writer) in world.writers.iter().enumerate() {
                scope.spawn(move || {
                    world.team.run(|| (0..budget.commits).try_for_each(|_| writer.write(db, number)));
                    if world.running.fetch_sub(1, Ordering::SeqCst) == 1 {
                        world.team.end();
                    }
                });
            }
            let stream = |number: u64| derive(seed, (session as u64) << 8 | number);
            // Inside a closure, a shard that is not built yet is an error.
            let may_nest = session == 0;
            for reader in 1..3 {
                let mut rng = stream(reader);
                scope.spawn(move || world.team.run(|| world.reads(db, &mut rng, false, may_nest)));
            }
            let (mut first, mut second, mut third) = (stream(3), stream(4), stream(5));
            scope.spawn(move || world.team.run(|| world.reads(follower, &mut first, true, false)));
            scope.spawn(move || world.team.run(|| world.twins(db, &mut second)));
            scope.spawn(move || world.team.run(|| world.maintenance(db, &mut third)));
            scope.spawn(move || {
                world.team.run(|| {
                    while !world.team.is_over() {
                        follower.refresh().map_err(words)?;
                        std::thread::yield_now();
                    }
                    Ok(())
                })
            });
        });
        world.team.outcome()?;
        let mut rng = derive(seed, 6);
        world.read(&db, &mut rng, false)?;
        drop(follower);
        if session == 1 {
            // Killed: what has returned stays.
            std::mem::forget(db);
        } else {
            db.close().map_err(words)?;
        }
    }
    let db = open(false)?;
    (0..8).try_for_each(|_| world.read(&db, &mut rng, false))?;
    world.in_order()
}

/// Runs the histories.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    for seed in budget.seed..budget.seed + budget.histories {
        let fail = |what| Failure::new(format!("PIPKIN_SEED={seed} PIPKIN_MANY=1 (threads: may take several runs)"), what);
        one(budget, counts, seed).map_err(fail)?;
    }
    Ok(())
}
