//! A store that keeps its index in the file, beside a model and beside the same store with its index in memory: random operations, checkpoints
//! that write everything or changes, compactions, kills and full media; readers beside a writer and checkpoints; and bytes that rot while the
//! store is open. What a read answers is what the model has, or an error, and never that a record is not there; and what has rotted is built anew
//! from the log, beside writers, unless the log is damaged, too.

use crate::parallel::{Failure, Outcome, Team, for_each, guard};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive};
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::FaultStorage;
use pipkin::{Db, Error, IndexMemory, SegmentUse, Snapshot, SnapshotState, Storage};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

type File = FaultStorage<MemoryStorage>;
type Model = BTreeMap<u32, Vec<u8>>;

/// Keys of a history.
const KEYS: u64 = 2500;
/// Keys that the readers beside a writer look for.
const RACED: u64 = 40;
/// Bytes in front of what a segment has.
const SEGMENT_HEADER: u64 = 704;

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
    /// Times that rotten parts were built anew.
    pub healed: Quota,
}

impl Counts {
    /// Of a run that owes `least` histories.
    pub fn new(least: u64) -> Self {
        Self {
            reads: Quota::new("index in the file", least * 2000),
            loaded: Quota::new("index in the file, openings", least),
            rotten: Quota::new("index in the file, rotten bytes", least),
            full: Quota::new("index in the file, full media", least / 10),
            healed: Quota::new("index in the file, healed", least),
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
        guard(|| race(seed).and_then(|()| healed_beside_writers(seed, counts)))
            .unwrap_or_else(Err)
            .map_err(|what| Failure::new(format!("PIPKIN_SEED={seed}"), what))
    })
}

/// One history.
pub fn one(seed: u64, steps: u64, counts: &Counts) -> Outcome {
    let done = guard(|| {
        let mut history = History::new(seed)?;
        (0..steps).try_for_each(|step| history.step(step, counts).map_err(|what| format!("step {step}: {what}")))?;
        history.compare(counts)?;
        history.rot(counts)?;
        history.heal(counts)
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

    /// Every key answers what the model has, or one of these errors.
    fn readable(&self) -> Checked {
        (0..KEYS as u32).try_for_each(|number| match self.db.get(key(number)) {
            Err(Error::IndexDamaged { .. } | Error::Corrupt { .. }) => Ok(()),
            answer => same(&answer.map_err(words)?, &self.model.get(&number).cloned(), number),
        })
    }

    /// What has rotted is built from the log, by a write that meets it or by a checkpoint; not while a record there is damaged.
    fn heal(&mut self, counts: &Counts) -> Checked {
        for round in 0..3 {
            self.db.checkpoint().map_err(words)?;
            if self.model.is_empty() || self.db.stats().map_err(words)?.index_file_bytes == 0 {
                return Ok(());
            }
            let before = self.db.stats().map_err(words)?.index_rebuilt;
            let apart = 20 + self.rng.below(200);
            rot_all(&self.db, &self.file, &mut self.rng, apart)?;
            self.readable()?;
            if round == 1 {
                self.heal_across_damage()?;
            }
            for step in 0..if round == 0 { 30 } else { 0 } {
                let (number, value) = (self.rng.below(KEYS) as u32, vec![9; step]);
                self.db.insert(key(number), &value).map_err(words)?;
                self.other.insert(key(number), &value).map_err(words)?;
                self.model.insert(number, value);
                self.readable()?;
            }
            self.db.checkpoint().map_err(words)?;
            self.compare(counts)?;
            counts.healed.add(u64::from(self.db.stats().map_err(words)?.index_rebuilt > before));
        }
        self.reopen(counts)
    }

    /// A byte of the log is damaged meanwhile: a checkpoint says so, and no key is forgotten.
    fn heal_across_damage(&mut self) -> Checked {
        let place = |segment| match segment {
            SegmentUse::Log { offset, used, .. } if used > 0 => Some((offset + SEGMENT_HEADER, used)),
            _ => None,
        };
        let places: Vec<(u64, u64)> = self.db.segments().map_err(words)?.into_iter().filter_map(place).collect();
        let (from, len) = choose(&mut self.rng, &places);
        let (at, bit) = (from + self.rng.below(len), 1 << self.rng.below(8));
        flip(&self.file, at, bit)?;
        match self.db.checkpoint() {
            Err(Error::Corrupt { .. }) => {}
            Ok(()) if self.db.stats().map_err(words)?.index_rebuilt == 0 => {}
            answer => return Err(format!("a checkpoint over a damaged log, byte {at}: {answer:?}")),
        }
        self.readable()?;
        flip(&self.file, at, bit)
    }

    /// A byte of the index rots while the store is open.
    fn rot(&mut self, counts: &Counts) -> Checked {
        self.held = None;
        self.file.set_capacity(None);
        self.db.checkpoint().map_err(words)?;
        if self.db.stats().map_err(words)?.index_file_bytes == 0 {
            return Ok(());
        }
        let places = snapshots(&self.db)?;
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

/// Where index snapshots are, and what else is neither free nor of the log.
fn snapshots(db: &Db) -> Checked<Vec<(u64, u64)>> {
    let segments = db.segments().map_err(words)?.into_iter();
    let place = |segment| if let SegmentUse::Other { offset, len } = segment { Some((offset, len)) } else { None };
    Ok(segments.filter_map(place).collect())
}

/// Flips a bit.
fn flip(file: &File, at: u64, bit: u8) -> Checked {
    let mut byte = [0];
    file.read_at(at, &mut byte).map_err(|error| words(error.into()))?;
    file.write_at(at, &[&[byte[0] ^ bit]]).map_err(|error| words(error.into()))
}

/// Bytes of the index in the file rot, about one in `apart`.
fn rot_all(db: &Db, file: &File, rng: &mut Rng, apart: u64) -> Checked {
    let end = file.len().map_err(|error| words(error.into()))?;
    for (from, len) in snapshots(db)? {
        let mut at = from + SEGMENT_HEADER + rng.below(apart);
        while at < (from + len).min(end) {
            flip(file, at, 1 << rng.below(8))?;
            at += 1 + rng.below(2 * apart);
        }
    }
    Ok(())
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

/// Writers beside rot and the checkpoints that heal it: nothing that they have written is lost, and nothing that they have removed comes back.
fn healed_beside_writers(seed: u64, counts: &Counts) -> Checked {
    let file = FaultStorage::new(MemoryStorage::new());
    let db = open(&file, 0)?;
    for number in 0..4000_u32 {
        db.insert(number.to_le_bytes(), 1_u64.to_le_bytes()).map_err(words)?;
    }
    let team = Team::default();
    let written: Mutex<Vec<BTreeMap<u32, u64>>> = Mutex::default();
    // Bytes rot between two writes: what has been listed as a snapshot may be of the log behind one.
    let between = RwLock::new(());
    std::thread::scope(|scope| {
        for writer in 0..2_u32 {
            let (db, team, written, between) = (&db, &team, &written, &between);
            scope.spawn(move || {
                team.run(|| {
                    let (mut own, mut rng) = (BTreeMap::new(), derive(seed, 0x4ea1 + u64::from(writer)));
                    for value in 2.. {
                        let number = 2 * rng.below(2000) as u32 + writer;
                        let _writing = between.read().map_err(|_| "a writer has failed")?;
                        if rng.chance(1, 4) {
                            db.remove(number.to_le_bytes()).map_err(words)?;
                            own.insert(number, 0);
                        } else {
                            db.insert(number.to_le_bytes(), u64::to_le_bytes(value)).map_err(words)?;
                            own.insert(number, value);
                        }
                        if team.is_over() {
                            break;
                        }
                    }
                    written.lock().map_err(|_| "a writer has failed")?.push(own);
                    Ok(())
                });
            });
        }
        team.run(|| {
            let mut rng = derive(seed, 0x0407);
            for _ in 0..12 {
                db.checkpoint().map_err(words)?;
                let alone = between.write().map_err(|_| "a writer has failed")?;
                rot_all(&db, &file, &mut rng, 60)?;
                drop(alone);
                // Meets it, unless a writer has.
                let _ = db.get((rng.below(4000) as u32).to_le_bytes());
            }
            db.checkpoint().map_err(words)
        });
        team.end();
    });
    team.outcome()?;
    counts.healed.add(u64::from(db.stats().map_err(words)?.index_rebuilt > 0));
    let written = written.into_inner().map_err(|_| "a writer has failed")?;
    for number in 0..4000_u32 {
        let newest = written.iter().find_map(|own| own.get(&number).copied()).unwrap_or(1);
        let expected = Some(newest).filter(|&value| value > 0).map(|value| value.to_le_bytes().to_vec());
        same(&db.get(number.to_le_bytes()).map_err(words)?, &expected, number)?;
    }
    if db.len().map_err(words)? != contents(&db)?.len() as u64 {
        return Err("another number of records than the walk has".into());
    }
    Ok(())
}
