//! Rot, and then every verb: only the damaged record's own key answers `Corrupt`, everything else goes on, and no older value appears. Stores
//! that were closed and stores with unclean tails, with and without the ordered index; where the index has to be rebuilt across the damage,
//! keys that cannot be ruled out may answer `Corrupt`, too.

use crate::drive::Fault;
use crate::parallel::{Failure, Outcome, for_each, guard};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive, index};
use pipkin::limits::DATA_START;
use pipkin::storage::MemoryStorage;
use pipkin::{Cursor, Db, Error, IndexMemory, Namespace};
use std::collections::{BTreeMap, BTreeSet};

/// Keys of each namespace.
const KEYS: u64 = 60;
/// Verbs behind each rotten byte.
const VERBS: usize = 8;
/// Steps of compaction after which one is taken for endless.
const STEPS_MAX: usize = 2_000;
/// Namespaces; the first one is the default.
const SPACES: [&str; 3] = ["", "one", "two"];

type Key = (usize, Vec<u8>);
type Model = BTreeMap<Key, Vec<u8>>;

/// What the trials count.
#[derive(Debug)]
pub struct Counts {
    /// Rotten stores that opened.
    pub opened: Quota,
    /// Verbs that ran on them.
    pub verbs: Quota,
    /// Stores in which some key was damaged.
    pub damaged: Quota,
    /// Stores whose index was rebuilt across damage.
    pub unsure: Quota,
}

impl Counts {
    /// Of a run that owes `least` stores.
    pub fn new(least: u64) -> Self {
        Self {
            opened: Quota::new("rot, stores that opened", least / 2),
            verbs: Quota::new("rot, verbs", least * VERBS as u64 / 2),
            damaged: Quota::new("rot, a key damaged", least / 40),
            unsure: Quota::new("rot, rebuilt across damage", least / 100),
        }
    }
}

/// A healthy store.
struct Base {
    bytes: Vec<u8>,
    model: Model,
    /// What had been flushed, byte by byte as far as it has not changed since.
    flushed: Vec<u8>,
    segment_size: u32,
}

fn key(number: u64) -> Vec<u8> {
    let mut key = format!("{number:03}").into_bytes();
    key.resize(3 + (number % 9) as usize * 2, b'.');
    key
}

struct Handles(Db, Vec<Namespace>);

impl Handles {
    fn of(db: Db) -> Result<Self, Error> {
        let named = SPACES.iter().map(|name| if name.is_empty() { Ok(db.default_namespace()) } else { db.namespace(name) });
        let named = named.collect::<Result<_, _>>()?;
        Ok(Self(db, named))
    }

    fn space(&self, number: usize) -> &Namespace {
        &self.1[number]
    }
}

fn open(storage: &MemoryStorage, segment_size: u32, ordered: bool, seed: u64) -> Result<Db, Error> {
    let entropy = std::array::from_fn(|place| (seed >> (place % 8 * 8)) as u8 ^ place as u8);
    let builder = Db::builder().segment_size(segment_size).replay_debt_max(u64::MAX).background(false).entropy(entropy);
    let index = if seed % 4 == 1 { IndexMemory::InFile { newer_max: 0 } } else { IndexMemory::Resident };
    let builder = builder.index_memory(index);
    builder.auto_compact_dead_share(2.0).ordered(ordered).open_storage(Box::new(storage.clone()))
}

fn write(handles: &Handles, model: &mut Model, rng: &mut Rng, tag: &mut u64) -> Result<(), Error> {
    let (number, name) = (index(rng, SPACES.len()), key(rng.below(KEYS)));
    *tag += 1;
    let value = format!("{tag} {}", "v".repeat(rng.below(80) as usize)).into_bytes();
    let space = handles.space(number);
    match rng.below(6) {
        0 => {
            space.remove(&name)?;
            model.remove(&(number, name));
        }
        1 => {
            let names: Vec<Vec<u8>> = (0..5).map(|_| key(rng.below(KEYS))).collect();
            space.insert_many(names.iter().map(|name| (name, &value)))?;
            model.extend(names.into_iter().map(|name| ((number, name), value.clone())));
        }
        _ => {
            space.insert(&name, &value)?;
            model.insert((number, name), value);
        }
    }
    Ok(())
}

fn build(seed: u64) -> Result<Base, Fault> {
    let mut rng = derive(seed, 0x0e4b);
    let storage = MemoryStorage::new();
    let segment_size = 4096 << (seed % 3);
    let handles = Handles::of(open(&storage, segment_size, false, seed)?)?;
    let (mut model, mut tag) = (Model::new(), 0);
    let gone = handles.0.namespace("gone")?;
    for step in 0..500 {
        write(&handles, &mut model, &mut rng, &mut tag)?;
        if step % 5 == 0 && step <= 420 {
            gone.insert(key(step), "x")?;
        }
        match step {
            200 if seed.is_multiple_of(2) => drop(handles.0.compact()?),
            350 if !seed.is_multiple_of(4) => handles.0.checkpoint()?,
            420 => drop(handles.0.drop_namespace("gone")?),
            460 => handles.0.checkpoint()?,
            _ => {}
        }
    }
    handles.0.flush()?;
    let mut flushed = storage.to_vec();
    if seed.is_multiple_of(3) {
        for _ in 0..20 {
            write(&handles, &mut model, &mut rng, &mut tag)?;
        }
    } else {
        handles.0.clone().close()?;
        flushed = storage.to_vec();
    }
    Ok(Base { bytes: storage.to_vec(), model, flushed, segment_size })
}

/// Where the newest superblock says that something is.
fn place(bytes: &[u8], at: usize) -> usize {
    let word = |at: usize| bytes.get(at..at + 8).and_then(|word| word.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word));
    let slot = if word(48) >= word(4096 + 48) { 0 } else { 4096 };
    word(slot + at) as usize
}

struct Trial<'a> {
    base: &'a Base,
    storage: MemoryStorage,
    handles: Handles,
    ordered: bool,
    seed: u64,
    model: Model,
    /// Keys that answer `Corrupt`.
    lost: BTreeSet<Key>,
    unsure: bool,
    tag: u64,
}

fn is_corrupt<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Corrupt { .. }))
}

impl Trial<'_> {
    /// Every key gives what it should, or is known to be lost.
    fn check(&mut self, what: &str) -> Result<(), Fault> {
        let all = (0..SPACES.len()).flat_map(|number| (0..KEYS).map(move |name| (number, key(name))));
        for id in all {
            let found = self.handles.space(id.0).get(&id.1);
            match found {
                Err(Error::Corrupt { .. }) if self.lost.contains(&id) => {}
                Err(error) => return Err(Fault::from(error).at(format!("{what}: {id:?}"))),
                Ok(found) if found.as_ref() == self.model.get(&id) => {}
                Ok(found) => {
                    let right = self.model.get(&id).map(|value| String::from_utf8_lossy(value).into_owned());
                    let found = found.map(|value| String::from_utf8_lossy(&value).into_owned());
                    return Fault::wrong(format!("{what}: {id:?} gives {found:?} instead of {right:?}"));
                }
            }
        }
        (0..SPACES.len()).try_for_each(|number| self.check_together(number, what))
    }

    /// Many keys at once give what each gives alone.
    fn check_together(&self, number: usize, what: &str) -> Result<(), Fault> {
        let ids = (0..KEYS).map(|name| (number, key(name))).filter(|id| !self.lost.contains(id));
        let ids: Vec<Key> = ids.filter(|id| !is_corrupt(&self.handles.space(number).get(&id.1))).collect();
        let found =
            self.handles.space(number).get_many(ids.iter().map(|id| &id.1)).map_err(|error| Fault::from(error).at(what))?;
        match ids.iter().zip(found).find(|(id, found)| found.as_ref() != self.model.get(*id)) {
            None => Ok(()),
            Some((id, found)) => Fault::wrong(format!("{what}: many keys give {id:?} {found:?}")),
        }
    }

    fn walk(&self, records: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), Error>>, number: usize) -> Result<(), Fault> {
        let (mut seen, mut failed) = (BTreeSet::new(), false);
        for record in records.take(10_000) {
            match record {
                Ok((name, value)) if self.model.get(&(number, name.clone())) == Some(&value) => drop(seen.insert(name)),
                Ok((name, _)) => return Fault::wrong(format!("a walk gives {name:?} of {number} what it should not have")),
                Err(Error::Corrupt { .. }) => failed = true,
                Err(error) => return Err(error.into()),
            }
        }
        let missed = self
            .model
            .keys()
            .find(|(of, name)| *of == number && !seen.contains(name) && !self.lost.contains(&(*of, name.clone())));
        match missed {
            Some(missed) => Fault::wrong(format!("a walk misses {missed:?}")),
            None if failed && self.lost.is_empty() && !self.unsure => Fault::wrong("a walk meets damage that nobody has"),
            None if !failed && self.lost.iter().any(|id| id.0 == number && self.model.contains_key(id)) => {
                Fault::wrong("a walk leaves out a damaged record without a word")
            }
            None => Ok(()),
        }
    }

    fn verb(&mut self, rng: &mut Rng) -> Result<&'static str, Fault> {
        let number = index(rng, SPACES.len());
        // Often one that is damaged.
        let target = self.lost.iter().nth(index(rng, self.lost.len())).filter(|_| rng.chance(1, 3)).cloned();
        let (number, name) = target.unwrap_or_else(|| (number, key(rng.below(KEYS))));
        self.tag += 1;
        let value = format!("after {}", self.tag).into_bytes();
        let space = self.handles.space(number).clone();
        let db = self.handles.0.clone();
        Ok(match rng.below(17) {
            0 => {
                space.insert(&name, &value)?;
                self.lost.remove(&(number, name.clone()));
                self.model.insert((number, name), value);
                "insert"
            }
            1 => {
                let names: Vec<Vec<u8>> = (0..choose(rng, &[3, 130])).map(|_| key(rng.below(KEYS))).collect();
                space.insert_many(names.iter().map(|name| (name, &value)))?;
                for name in names {
                    self.lost.remove(&(number, name.clone()));
                    self.model.insert((number, name), value.clone());
                }
                "insert_many"
            }
            2 => {
                space.remove(&name)?;
                self.lost.remove(&(number, name.clone()));
                self.model.remove(&(number, name));
                "remove"
            }
            3 => {
                space.remove_many([&name])?;
                self.lost.remove(&(number, name.clone()));
                self.model.remove(&(number, name));
                "remove_many"
            }
            4 => {
                db.namespace("extra")?.insert("a", "b")?;
                db.drop_namespace("extra")?;
                "namespace"
            }
            5 => {
                let right = self.model.keys().filter(|(of, _)| *of == number).count() as u64;
                let len = space.len();
                if !(self.unsure && is_corrupt(&len)) && len? != right {
                    return Fault::wrong(format!("len is not {right}"));
                }
                "len"
            }
            6 => {
                db.compact()?;
                "compact"
            }
            7 => {
                for round in 0..2 {
                    let mut steps = 0;
                    while let Some(step) = db.compact_step()? {
                        steps += 1;
                        if steps > STEPS_MAX || round > 0 && step.segments_retired == 0 {
                            return Fault::wrong("compaction picks the same damaged segment again and again");
                        }
                    }
                }
                "compact_step"
            }
            8 => {
                db.checkpoint()?;
                "checkpoint"
            }
            9 => {
                let target = MemoryStorage::new();
                // A damaged record of a namespace that was dropped may be anybody's.
                let is_known = db.stats()?.records == self.model.len() as u64;
                let is_whole = !self.lost.iter().any(|id| self.model.contains_key(id)) && !self.unsure && is_known;
                match db.backup_to_storage(&target) {
                    Ok(_) => {
                        let copy = open(&target, self.base.segment_size, true, 7)?;
                        let handles = Handles::of(copy)?;
                        let handles = std::mem::replace(&mut self.handles, handles);
                        let lost = std::mem::take(&mut self.lost);
                        self.check("a backup")?;
                        (self.handles, self.lost) = (handles, lost);
                    }
                    Err(Error::Corrupt { .. }) if !is_whole => {}
                    Err(error) => return Err(Fault::from(error).at("backup")),
                }
                "backup"
            }
            10 | 11 => {
                self.walk(space.iter(), number)?;
                let keys = space.keys().map(|name| {
                    name.map(|name| {
                        let value = self.model.get(&(number, name.clone())).cloned();
                        (name, value.unwrap_or_default())
                    })
                });
                self.walk(keys, number)?;
                "iter"
            }
            12 => {
                if self.ordered {
                    self.walk(space.range(..)?, number)?;
                    self.walk(space.range(..)?.rev(), number)?;
                }
                "range"
            }
            13 => {
                let (mut from, mut records) = (Some(Cursor::default()), Vec::new());
                while let Some(cursor) = from {
                    from = match space.page(cursor, |name, value| {
                        records.push(Ok((name.to_vec(), value.to_vec())));
                        records.len() % 7 != 0
                    }) {
                        Ok(next) => next,
                        Err(error @ Error::Corrupt { .. }) => {
                            let next = error.next_page();
                            records.push(Err(error));
                            next
                        }
                        Err(error) => return Err(error.into()),
                    };
                }
                self.walk(records.into_iter(), number)?;
                "page"
            }
            14 => {
                let id = (number, name);
                let changed = space.update(&id.1, |_| Some(value.clone()));
                if !(self.lost.contains(&id) && is_corrupt(&changed)) {
                    changed?;
                    self.model.insert(id, value);
                }
                "update"
            }
            15 => {
                db.stats()?;
                db.verify()?;
                db.flush()?;
                "stats"
            }
            _ => {
                self.reopen()?;
                "reopen"
            }
        })
    }

    fn reopen(&mut self) -> Result<(), Fault> {
        self.handles.0.clone().close()?;
        let db = open(&self.storage, self.base.segment_size, self.ordered, self.seed + self.tag)?;
        self.unsure = db.open_report().unsure_at.is_some();
        self.handles = Handles::of(db)?;
        Ok(())
    }
}

/// Damages a store, and says how: whether one record at most is concerned.
fn rot(base: &Base, rng: &mut Rng) -> (Vec<u8>, bool) {
    let mut bytes = base.bytes.clone();
    let is_safe = |at: usize| base.flushed.get(at) == base.bytes.get(at) && base.bytes.get(at).is_some_and(|byte| *byte != 0);
    let mut at = 0;
    while !is_safe(at) || at < DATA_START as usize {
        at = index(rng, base.flushed.len());
    }
    let is_bit = rng.chance(3, 4);
    if is_bit {
        bytes[at] ^= 1 << rng.below(8);
    } else {
        let end = (at + 1 + index(rng, 40)).min(base.flushed.len());
        (at..end).filter(|&at| is_safe(at)).for_each(|at| bytes[at] = 0);
    }
    if rng.chance(1, 6) {
        let directory = place(&bytes, 96);
        if directory > 0 {
            bytes[directory + 12] ^= 1;
        }
    }
    (bytes, is_bit)
}

fn trial(bases: &[Base], seed: u64, counts: &Counts) -> Result<(), Fault> {
    let mut rng = derive(seed, 0x4e1b);
    let base = &bases[index(&mut rng, bases.len())];
    let ordered = rng.chance(1, 2);
    let (bytes, is_bit) = rot(base, &mut rng);
    let storage = MemoryStorage::from_vec(bytes.clone());
    let db = match open(&storage, base.segment_size, ordered, seed) {
        Ok(db) => db,
        // In front of nothing but what replays: the log says where.
        Err(Error::Corrupt { .. }) => return Ok(()),
        Err(error) => return Err(Fault::from(error).at("open")),
    };
    if db.open_report().torn_bytes > 0 {
        // What said that it had been synced was damaged, and nothing behind it had been: any end from there on is right.
        return Ok(());
    }
    counts.opened.add(1);
    let unsure = db.open_report().unsure_at.is_some();
    counts.unsure.add(u64::from(unsure));
    let mut names = db.list_namespaces();
    names.sort_unstable();
    if !unsure && names != SPACES[1..] {
        return Fault::wrong(format!("namespaces {names:?}"));
    }
    let handles = Handles::of(db)?;
    let (model, lost) = (base.model.clone(), BTreeSet::new());
    let mut trial = Trial { base, storage, handles, ordered, seed, model, lost, unsure, tag: 0 };
    let all = (0..SPACES.len()).flat_map(|number| (0..KEYS).map(move |name| (number, key(name))));
    trial.lost = all.filter(|id| is_corrupt(&trial.handles.space(id.0).get(&id.1))).collect();
    if is_bit && !unsure && trial.lost.len() > 1 {
        return Fault::wrong(format!("one bit costs {:?}", trial.lost));
    }
    counts.damaged.add(u64::from(!trial.lost.is_empty()));
    trial.check("behind the open")?;
    salvaged(&bytes, &trial)?;
    let mut before = "open";
    for _ in 0..VERBS {
        let verb = trial.verb(&mut rng).map_err(|fault| fault.at(format!("a verb behind {before}")))?;
        counts.verbs.add(1);
        trial.check(verb)?;
        before = verb;
    }
    trial.reopen().map_err(|fault| fault.at(format!("a reopen behind {before}")))?;
    trial.check("behind a reopen")
}

/// What salvage makes of it: nothing that was removed, and nothing older but where a record is lost, unless it says so.
fn salvaged(bytes: &[u8], trial: &Trial<'_>) -> Result<(), Fault> {
    let target = Db::builder().background(false).in_memory()?;
    let report = pipkin::salvage(&MemoryStorage::from_vec(bytes.to_vec()), &target, &mut |_, _| {})?;
    let sum = report.records + report.replaced + report.removed + report.tombstones + report.carried + report.names;
    if report.read != sum + report.dropped + report.unfinished + report.revived {
        return Fault::wrong(format!("salvage does not account for every record: {report:?}"));
    }
    let names = target.list_namespaces();
    if report.unsure > 0 || SPACES[1..].iter().any(|name| !names.iter().any(|other| other == name)) {
        return Ok(());
    }
    let handles = Handles::of(target)?;
    for (number, _) in SPACES.iter().enumerate() {
        for name in (0..KEYS).map(key) {
            let id = (number, name);
            let found = handles.space(number).get(&id.1)?;
            if found.as_ref() != trial.model.get(&id) && (!trial.lost.contains(&id) || !trial.model.contains_key(&id)) {
                return Fault::wrong(format!("salvage gives {id:?} {found:?}, and says nothing: {report:?}"));
            }
        }
    }
    Ok(())
}

/// Rots `trials` stores.
pub fn run(trials: std::ops::Range<u64>, counts: &Counts) -> Outcome {
    let build = |seed| build(seed).unwrap_or_else(|fault| panic!("base store {seed}: {fault}"));
    let bases: Vec<Base> = (0..12).map(build).collect();
    for_each(trials, |seed, watch| {
        let replay = format!("PIPKIN_SEED={seed}");
        watch.begin(replay.clone());
        let outcome = guard(|| trial(&bases, seed, counts)).unwrap_or_else(Fault::wrong);
        outcome.map_err(|fault| Failure::new(replay, fault))
    })
}
