//! A store that keeps its index in the file, beside a model and beside the same store with its index in memory: random operations, checkpoints
//! that write everything or changes, compactions, kills and full media; readers beside a writer and checkpoints; and bytes that rot while the
//! store is open. What a read answers is what the model has, or an error, and never that a record is not there.

use crate::parallel::{Failure, Outcome, Team, for_each, guard};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive};
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::FaultStorage;
use pipkin::{Db, Error, IndexMemory, SegmentUse, Snapshot, SnapshotState, Storage};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

type File = FaultStorage<MemoryStorage>;
type Model = BTreeMap<u32, Vec<u8>>;

/// Keys of a history.
const KEYS: u64 = 2500;
/// Keys that the readers beside a writer look for.
const RACED: u64 = 40;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Histories.
    pub histories: u64,
    /// Operations of each.
    pub steps: u64,
    /// Rounds of readers beside a writer.
    pub races: u64,
    /// Seed of the first history.
    pub seed: u64,
}

/// What the trials count.
#[derive(Debug)]
pub struct Counts {
    /// Reads whose answer is that of the model.
    pub reads: Quota,
    /// Openings with the slots of a snapshot.
    pub loaded: Quota,
    /// Rotten bytes that a read has noticed.
    pub rotten: Quota,
    /// Checkpoints without room for a snapshot.
    pub full: Quota,
}

impl Counts {
    /// Of a run that owes `least` histories.
    pub fn new(least: u64) -> Self {
        Self {
            reads: Quota::new("index in the file", least * 2000),
            loaded: Quota::new("index in the file, openings", least),
            rotten: Quota::new("index in the file, rotten bytes", least),
            full: Quota::new("index in the file, full media", least / 10),
        }
    }
}

/// Runs the suite.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    for_each(budget.seed..budget.seed + budget.histories, |seed, watch| {
        watch.begin(format!("index in the file, seed {seed}"));
        one(seed, budget.steps, counts)
    })?;
    for_each(budget.seed..budget.seed + budget.races, |seed, watch| {
        watch.begin(format!("index in the file, race {seed}"));
        guard(|| race(seed)).unwrap_or_else(Err).map_err(|what| Failure::new(format!("PIPKIN_SEED={seed}"), what))
    })
}

/// One history.
pub fn one(seed: u64, steps: u64, counts: &Counts) -> Outcome {
    let done = guard(|| {
        let mut history = History::new(seed)?;
        (0..steps).try_for_each(|step| history.step(step, counts).map_err(|what| format!("step {step}: {what}")))?;
        history.compare(counts)?;
        history.rot(counts)
    });
    done.unwrap_or_else(Err).map_err(|what| Failure::new(format!("PIPKIN_SEED={seed}"), what))
}

struct History {
    rng: Rng,
    file: File,
    db: Db,
    newer_max: u64,
    /// The same, with its index in memory.
    other: Db,
    model: Model,
    held: Option<(Snapshot, Model)>,
}

fn open(file: &File, newer_max: u64) -> Checked<Db> {
    let builder = Db::builder().segment_size(16 * 1024).replay_debt_max(40_000).background(false).entropy([3; 32]);
    let builder = builder.index_memory(IndexMemory::InFile { newer_max });
    builder.open_storage(Box::new(file.clone())).map_err(words)
}

fn key(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

impl History {
    fn new(seed: u64) -> Checked<Self> {
        let mut rng = derive(seed, 0x1f11e);
        let newer_max = choose(&mut rng, &[0, 4_000, 40_000, 1 << 30]);
        let file = FaultStorage::new(MemoryStorage::new());
        let db = open(&file, newer_max)?;
        let other = Db::builder().segment_size(16 * 1024).background(false).in_memory().map_err(words)?;
        Ok(Self { rng, file, db, newer_max, other, model: Model::new(), held: None })
    }

    /// What a write has done; a full medium is no error, and changes nothing.
    fn done(&self, written: Result<bool, Error>) -> Checked<bool> {
        match written {
            Ok(done) => Ok(done),
            Err(Error::NoSpace) => Ok(false),
            Err(error) => Err(words(error)),
        }
    }

    fn step(&mut self, step: u64, counts: &Counts) -> Checked {
        let number = self.rng.below(KEYS) as u32;
        let value = [step.to_le_bytes().to_vec(), vec![7; self.rng.below(60) as usize]].concat();
        match self.rng.below(1000) {
            0..=399 => {
                if self.done(self.db.insert(key(number), &value).map(|()| true))? {
                    self.other.insert(key(number), &value).map_err(words)?;
                    self.model.insert(number, value);
                }
            }
            400..=549 => {
                if self.done(self.db.remove(key(number)).map(|_| true))? {
                    self.other.remove(key(number)).map_err(words)?;
                    self.model.remove(&number);
                }
            }
            550..=699 => self.batch(&value)?,
            700..=919 => {
                let found = self.db.get(key(number)).map_err(words)?;
                same(&found, &self.model.get(&number).cloned(), number)?;
                counts.reads.add(1);
            }
            920..=949 => self.read_many(counts)?,
            950..=969 => match self.db.checkpoint() {
                Err(Error::NoSpace) => drop(counts.full.add(1)),
                result => result.map_err(words)?,
            },
            970..=979 => drop(self.done(self.db.compact_step().map(|_| true))?),
            980..=981 => drop(self.done(self.db.compact().map(|_| true))?),
            982..=986 => self.compare(counts)?,
            987..=989 => self.reopen(counts)?,
            990..=994 => self.fill_or_free()?,
            _ => self.moment()?,
        }
        Ok(())
    }

    fn batch(&mut self, value: &[u8]) -> Checked {
        let (from, count) = (self.rng.below(KEYS) as u32, self.rng.below(40) as u32);
        let ops: Vec<(u32, bool)> = (from..=from + count).map(|number| (number % KEYS as u32, self.rng.chance(3, 4))).collect();
        let commit = |db: &Db| {
            let mut batch = db.batch();
            for &(number, puts) in &ops {
                batch = if puts { batch.insert(key(number), value.to_vec()) } else { batch.remove(key(number)) };
            }
            batch.commit()
        };
        if self.done(commit(&self.db).map(|()| true))? {
            commit(&self.other).map_err(words)?;
            for &(number, puts) in &ops {
                if puts { drop(self.model.insert(number, value.to_vec())) } else { drop(self.model.remove(&number)) }
            }
        }
        Ok(())
    }

    fn read_many(&mut self, counts: &Counts) -> Checked {
        let from = self.rng.below(KEYS) as u32;
        let numbers: Vec<u32> = (from..from + 150).map(|number| number % KEYS as u32).collect();
        let found = self.db.get_many(numbers.iter().map(|&number| key(number))).map_err(words)?;
        for (found, number) in found.iter().zip(numbers) {
            same(found, &self.model.get(&number).cloned(), number)?;
        }
        counts.reads.add(150);
        Ok(())
    }

    /// All of it, in every way.
    fn compare(&mut self, counts: &Counts) -> Checked {
        let all = contents(&self.db)?;
        if all != self.model || contents(&self.other)? != self.model {
            return Err("a walk has other records than the model".into());
        }
        if self.db.len().map_err(words)? != self.model.len() as u64 {
            return Err("another number of records than the model".into());
        }
        let mut paged = Model::new();
        let mut cursor = pipkin::Cursor::default();
        while let Some(next) = self
            .db
            .page(cursor, |key, value| {
                paged.insert(u32::from_le_bytes(key.try_into().unwrap_or_default()), value.to_vec());
                true
            })
            .map_err(words)?
        {
            cursor = next;
        }
        if paged != self.model {
            return Err("pages have other records than the model".into());
        }
        if let Some((snapshot, then)) = &self.held {
            for number in 0..KEYS as u32 {
                match snapshot.get(key(number)) {
                    // A full medium ends snapshots.
                    Err(Error::SnapshotTooOld) => break,
                    answer => same(&answer.map_err(words)?, &then.get(&number).cloned(), number)?,
                }
            }
        }
        for number in 0..KEYS as u32 {
            same(&self.db.get(key(number)).map_err(words)?, &self.model.get(&number).cloned(), number)?;
        }
        counts.reads.add(KEYS);
        Ok(())
    }

    fn reopen(&mut self, counts: &Counts) -> Checked {
        self.held = None;
        let before = if self.rng.chance(1, 2) { self.db.clone().close().map_err(words) } else { Ok(()) };
        before?;
        // Without a close the process ends here.
        let next = FaultStorage::new(MemoryStorage::from_vec(self.file.inner().to_vec()));
        let db = open(&next, self.newer_max)?;
        counts.loaded.add(u64::from(db.open_report().snapshot == SnapshotState::Loaded));
        std::mem::forget(std::mem::replace(&mut self.db, db));
        self.file = next;
        self.compare(counts)
    }

    /// The medium becomes full, or gets room.
    fn fill_or_free(&mut self) -> Checked {
        let len = self.file.len().map_err(|error| words(error.into()))?;
        self.file.set_capacity(if self.rng.chance(1, 2) { Some(len) } else { None });
        Ok(())
    }

    fn moment(&mut self) -> Checked {
        self.held = if self.held.is_some() { None } else { Some((self.db.snapshot(), self.model.clone())) };
        Ok(())
    }

    /// A byte of the index rots while the store is open.
    fn rot(&mut self, counts: &Counts) -> Checked {
        self.held = None;
        self.file.set_capacity(None);
        self.db.checkpoint().map_err(words)?;
        if self.db.stats().map_err(words)?.index_file_bytes == 0 {
            return Ok(());
        }
        let places = self.db.segments().map_err(words)?.into_iter().filter_map(|segment| match segment {
            SegmentUse::Other { offset, len } => Some((offset, len)),
            _ => None,
        });
        let places: Vec<(u64, u64)> = places.collect();
        for _ in 0..12 {
            let (from, len) = choose(&mut self.rng, &places);
            let at = from + self.rng.below(len);
            let mut byte = [0];
            if self.file.read_at(at, &mut byte).is_err() {
                continue;
            }
            let bit = 1 << self.rng.below(8);
            self.file.write_at(at, &[&[byte[0] ^ bit]]).map_err(|error| words(error.into()))?;
            for number in 0..KEYS as u32 {
                match self.db.get(key(number)) {
                    Err(Error::IndexDamaged { .. }) => drop(counts.rotten.add(1)),
                    answer => same(&answer.map_err(words)?, &self.model.get(&number).cloned(), number)?,
                }
            }
            self.file.write_at(at, &[&byte]).map_err(|error| words(error.into()))?;
        }
        self.compare(counts)
    }
}

fn same(found: &Option<Vec<u8>>, expected: &Option<Vec<u8>>, number: u32) -> Checked {
    if found == expected {
        return Ok(());
    }
    let short = |value: &Option<Vec<u8>>| value.as_ref().map(|value| value.iter().take(8).copied().collect::<Vec<u8>>());
    Err(format!("key {number} has {:?} instead of {:?}", short(found), short(expected)))
}

fn contents(db: &Db) -> Checked<Model> {
    db.iter()
        .map(|record| {
            let (key, value) = record.map_err(words)?;
            Ok((u32::from_le_bytes(key.try_into().map_err(|_| "a key of another length")?), value))
        })
        .collect()
}

/// Readers beside a writer that overwrites records whose slots are in the file, while checkpoints put them there again.
fn race(seed: u64) -> Checked {
    let file = FaultStorage::new(MemoryStorage::new());
    let db = open(&file, 0)?;
    for number in 0..RACED + 4000 {
        db.insert(number.to_le_bytes(), 1_u64.to_le_bytes()).map_err(words)?;
    }
    db.checkpoint().map_err(words)?;
    let (written, team) = (AtomicU64::new(1), Team::default());
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (db, team, written) = (&db, &team, &written);
            scope.spawn(move || {
                team.run(|| {
                    let (mut seen, mut rng) = ([0; RACED as usize], derive(seed, reader));
                    while !team.is_over() {
                        let number = rng.below(RACED);
                        let least = written.load(Ordering::SeqCst) - 1;
                        let value = db.get(number.to_le_bytes()).map_err(words)?;
                        let value = value.ok_or_else(|| format!("key {number} is not there"))?;
                        let value = u64::from_le_bytes(value.try_into().map_err(|_| "a value of another length")?);
                        let before = &mut seen[number as usize];
                        if value < (*before).max(least) {
                            return Err(format!("key {number} had {before}, at least {least}, and has {value}"));
                        }
                        *before = value;
                    }
                    Ok(())
                });
            });
        }
        team.run(|| {
            for round in 2..40_u64 {
                for number in 0..RACED {
                    db.insert(number.to_le_bytes(), round.to_le_bytes()).map_err(words)?;
                }
                written.store(round, Ordering::SeqCst);
                db.checkpoint().map_err(words)?;
            }
            Ok(())
        });
        team.end();
    });
    team.outcome()
}
