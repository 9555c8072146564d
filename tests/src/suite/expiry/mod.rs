//! Records that expire, against a model with the same clock: every way of reading agrees with it after every call, whatever has happened to
//! clock, store and file. In every history earlier versions lie under records that expire, and must not come back.

mod model;
mod ways;

use self::model::{KEYS, Model, SPACES, START, key_of};
use self::ways::check;
use crate::parallel::{Failure, Outcome, guard};
use crate::quota::Quota;
use crate::rng::{Rng, derive};
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::testing::TestClock;
use pipkin::{Db, IndexMemory, Namespace, Snapshot, Ttl};
use std::time::Duration;

/// A time at which the host's clock is wrong, once: in 2099.
const WRONG: u64 = 4_071_000_000_000;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Histories.
    pub histories: u64,
    /// Calls of a history.
    pub calls: usize,
    /// Seed of the first history.
    pub seed: u64,
}

/// One history: a store and its model.
struct History {
    storage: MemoryStorage,
    clock: TestClock,
    db: Db,
    spaces: Vec<Namespace>,
    model: Model,
    rng: Rng,
    /// A snapshot, and the model when it was taken.
    snapshot: Option<(Snapshot, Model)>,
}

fn open_db(storage: &MemoryStorage, clock: &TestClock) -> Result<Db, String> {
    let builder =
        Db::builder().clock(clock.clone()).segment_size(4096).ordered(true).entropy([7; 32]).auto_compact_dead_share(2.0);
    // Every other session, as the time of its opening falls.
    let is_in_file = pipkin::Clock::now_ms(clock) / 1000 % 2 == 1;
    let builder = builder.index_memory(if is_in_file { IndexMemory::InFile { newer_max: 2000 } } else { IndexMemory::Resident });
    builder.open_storage(Box::new(storage.clone())).map_err(words)
}

fn open(storage: &MemoryStorage, clock: &TestClock) -> Result<(Db, Vec<Namespace>), String> {
    let db = open_db(storage, clock)?;
    let named = db.namespace("named").map_err(words)?;
    let spaces = vec![db.default_namespace(), named];
    Ok((db, spaces))
}

impl History {
    fn new(seed: u64) -> Result<Self, String> {
        let (storage, clock) = (MemoryStorage::new(), TestClock::new(START));
        let (db, spaces) = open(&storage, &clock)?;
        Ok(Self { storage, clock, db, spaces, model: Model::default(), rng: derive(seed, 23), snapshot: None })
    }

    /// A value that makes all frames of a key equally long: then offsets recur when segments are used again.
    fn value(&mut self, ttl: Ttl, space: usize) -> Vec<u8> {
        let extra = match (self.model.expires(ttl, space), space) {
            (true, _) => 0,
            (false, 0) => 7,
            (false, _) => 6,
        };
        vec![self.rng.below(250) as u8; 300 + extra]
    }

    fn ttl(&mut self) -> Ttl {
        match self.rng.below(10) {
            0..=2 => Ttl::Default,
            3 => Ttl::Never,
            4 => Ttl::At(self.model.now.saturating_sub(self.rng.below(1000))),
            5 => Ttl::At(self.model.now + self.rng.below(90_000)),
            _ => Ttl::After(Duration::from_millis(1 + self.rng.below(60_000))),
        }
    }

    /// Writes to a key in one of the ways that there are.
    fn write(&mut self) -> Checked {
        let (space, key, ttl) = (self.rng.below(SPACES as u64) as usize, key_of(self.rng.below(KEYS)), self.ttl());
        let value = self.value(ttl, space);
        let handle = self.spaces[space].clone();
        match self.rng.below(6) {
            0 => handle.insert_with_ttl(&key, &value, ttl),
            1 => handle.with_ttl(ttl).insert_many([(&key, &value)]),
            2 => self.db.batch().insert_in_with_ttl(&handle, &key, &value, ttl).commit(),
            3 => self.db.transaction(|tx| tx.insert_in_with_ttl(&handle, &key, &value, ttl)),
            4 => {
                let expected = self.model.get(space, &key);
                let swapped = handle.with_ttl(ttl).compare_and_swap(&key, expected.as_deref(), Some(&value)).map_err(words)?;
                if !swapped {
                    return Err(format!("the value of {key:?} in {space} was not {expected:?}"));
                }
                Ok(())
            }
            _ => handle.with_ttl(ttl).update(&key, |_| Some(value.clone())),
        }
        .map_err(words)?;
        self.model.insert(space, key, value, ttl);
        Ok(())
    }

    fn remove(&mut self) -> Checked {
        let (space, key) = (self.rng.below(SPACES as u64) as usize, key_of(self.rng.below(KEYS)));
        let expected = self.model.remove(space, &key);
        let removed = match self.rng.below(3) {
            0 => self.spaces[space].remove(&key).map_err(words)?,
            1 => self.spaces[space].take(&key).map_err(words)?.is_some(),
            _ => self.spaces[space].remove_many([&key]).map_err(words)? == 1,
        };
        if removed == expected {
            Ok(())
        } else {
            Err(format!("removing {key:?} in {space} found {removed} instead of {expected}"))
        }
    }

    /// Sets the host's clock, and has every record looked at: from then on nothing that has expired comes back.
    fn set_clock(&mut self, host: u64) -> Checked {
        self.clock.set(host);
        self.model.set_host(host);
        check(&self.spaces, &self.model)
    }

    fn turn_the_clock(&mut self) -> Checked {
        let now = self.model.now;
        match self.rng.below(24) {
            0 => {
                let back = self.rng.below(100_000);
                self.set_clock(now.saturating_sub(back))
            }
            1 => {
                self.set_clock(WRONG)?;
                self.set_clock(now)
            }
            _ => {
                let step = self.rng.below(20_000);
                self.set_clock(now + step)
            }
        }
    }

    /// Goes on in another file, or opens the same one again.
    fn move_on(&mut self) -> Checked {
        self.snapshot = None;
        // A commit that relies on what has expired: its file says so.
        self.db.insert("relies on it", "1").map_err(words)?;
        self.model.insert(0, b"relies on it".to_vec(), b"1".to_vec(), Ttl::Default);
        let storage = match self.rng.below(4) {
            0 => {
                self.db.clone().close().map_err(words)?;
                MemoryStorage::from_vec(self.storage.to_vec())
            }
            1 => MemoryStorage::from_vec(self.storage.to_vec()),
            2 => {
                let copy = MemoryStorage::new();
                self.db.backup_to_storage(&copy).map_err(words)?;
                copy
            }
            _ => {
                let copy = MemoryStorage::new();
                let target = open_db(&copy, &self.clock)?;
                let source = MemoryStorage::from_vec(self.storage.to_vec());
                let report = pipkin::salvage(&source, &target, &mut |_, _| {}).map_err(words)?;
                if !report.damage.is_empty() || report.revived + report.superseded > 0 {
                    return Err(format!("salvage of a store without damage: {report:?}"));
                }
                // While it copied, the target may have swept versions that were replaced later: from here on both have acted up to now.
                let now = Ttl::At(self.model.now);
                target.insert_with_ttl("relies on it", "1", now).map_err(words)?;
                if target.contains_key("relies on it").map_err(words)? {
                    return Err("a record that expires now is there".into());
                }
                target.insert("relies on it", "1").map_err(words)?;
                self.model.insert(0, b"relies on it".to_vec(), b"1".to_vec(), now);
                self.model.insert(0, b"relies on it".to_vec(), b"1".to_vec(), Ttl::Default);
                copy
            }
        };
        let verified = pipkin::verify_storage(&storage).map_err(words)?;
        if !verified.is_ok() {
            return Err(format!("damage: {verified:?}"));
        }
        if self.rng.chance(1, 3) {
            let back = self.model.now.saturating_sub(self.rng.below(50_000));
            self.clock.set(back);
            self.model.set_host(back);
        }
        (self.db, self.spaces) = open(&storage, &self.clock)?;
        self.storage = storage;
        let behind = self.db.open_report().clock_behind_ms;
        let expected = self.model.floor.saturating_sub(self.model.host);
        if behind == expected { Ok(()) } else { Err(format!("opening found the clock {behind} ms behind instead of {expected}")) }
    }

    fn maintain(&mut self) -> Checked {
        match self.rng.below(5) {
            0 => drop(self.db.sweep_expired().map_err(words)?),
            1 => self.db.checkpoint().map_err(words)?,
            2 => drop(self.db.compact().map_err(words)?),
            _ => {
                self.db.checkpoint().map_err(words)?;
                self.db.compact_step().map_err(words)?;
            }
        }
        Ok(())
    }

    fn set_default(&mut self) -> Checked {
        let ms = [0, 5_000, 40_000][self.rng.below(3) as usize];
        self.spaces[1].set_default_ttl((ms > 0).then(|| Duration::from_millis(ms))).map_err(words)?;
        self.model.default = ms;
        Ok(())
    }

    fn reset_clock(&mut self) -> Checked {
        // What was swept stays gone; counting has swept everything.
        self.snapshot = None;
        check(&self.spaces, &self.model)?;
        let returned = self.db.reset_clock().map_err(words)?;
        self.model.reset();
        if returned == 0 { Ok(()) } else { Err(format!("{returned} records came back that had been swept")) }
    }

    fn look_back(&mut self) -> Checked {
        match self.snapshot.take() {
            Some((snapshot, then)) => {
                ways::check_snapshot(&snapshot, &then)?;
                self.snapshot = self.rng.chance(2, 3).then_some((snapshot, then));
            }
            None => self.snapshot = Some((self.db.snapshot(), self.model.clone())),
        }
        Ok(())
    }

    fn step(&mut self) -> Checked {
        match self.rng.below(100) {
            0..50 => self.write()?,
            50..60 => self.remove()?,
            60..76 => self.turn_the_clock()?,
            76..88 => self.maintain()?,
            88..94 => self.look_back()?,
            94 => self.set_default()?,
            95 => {
                self.spaces[1].clear().map_err(words)?;
                self.model.spaces[1].clear();
            }
            96 if self.model.floor > self.model.host => self.reset_clock()?,
            _ => self.move_on()?,
        }
        check(&self.spaces, &self.model)
    }
}

fn one(seed: u64, calls: usize) -> Checked {
    let mut history = History::new(seed)?;
    for number in 0..calls {
        history.step().map_err(|what| format!("after {number} calls: {what}"))?;
    }
    Ok(())
}

/// The tombstone that compaction leaves of an expired record is as long-lived as any other: an earlier version of its key lies in a segment
/// that nothing empties, while the segments after it are emptied again and again.
fn lies_under() -> Checked {
    let (storage, clock) = (MemoryStorage::new(), TestClock::new(START));
    let db = open_db(&storage, &clock)?;
    let insert = |key: &str, len: usize, ttl: Ttl| db.insert_with_ttl(key, vec![7; len], ttl).map_err(words);
    insert("key", 10, Ttl::Never)?;
    insert("cold", 3000, Ttl::Never)?;
    insert("filler", 3000, Ttl::Never)?;
    insert("key", 20, Ttl::After(Duration::from_secs(1)))?;
    clock.advance(Duration::from_secs(1));
    for round in 0..6 {
        for _ in 0..3 {
            insert("filler", 3000, Ttl::Never)?;
        }
        db.checkpoint().map_err(words)?;
        while db.compact_step().map_err(words)?.is_some() {}
        let copy = MemoryStorage::new();
        db.backup_to_storage(&copy).map_err(words)?;
        if open_db(&copy, &clock)?.get("key").map_err(words)?.is_some() {
            return Err(format!("the earlier version of an expired record came back after {} rounds", round + 1));
        }
    }
    Ok(())
}

/// One record that expires, over an earlier version that stays in the log.
pub fn under() -> Outcome {
    guard(lies_under).unwrap_or_else(Err).map_err(|what| Failure::new("PIPKIN_SEED=0", what))
}

/// Runs the histories.
pub fn run(budget: &Budget, quota: &Quota) -> Outcome {
    for seed in budget.seed..budget.seed + budget.histories {
        let replay = || format!("PIPKIN_SEED={seed} PIPKIN_EXPIRY_HISTORIES=1");
        guard(|| one(seed, budget.calls)).unwrap_or_else(Err).map_err(|what| Failure::new(replay(), what))?;
        quota.add(1);
    }
    Ok(())
}
