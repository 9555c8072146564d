//! Many threads on one store, with checks that do not depend on luck: every key has one writer that counts its versions, so a
//! reader knows which versions it may see; shared counters must add up; transactions must see sums that never change.

use crate::parallel::{Failure, Outcome, Team};
use crate::rng::{Rng, derive, index};
use crate::suite::{Checked, words};
use pipkin::{Db, Error, Namespace};
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that write keys of their own.
const WRITERS: usize = 3;
/// Keys of each writer.
const KEYS: usize = 60;
/// Keys that all writers add to.
const COUNTERS: usize = 4;
/// Keys that each batch writes together.
const GROUP: usize = 5;
/// Rounds of overwriting and compaction under a held value.
const HELD_ROUNDS: u64 = 12;
/// Accounts between which transactions move amounts; half of them live in a namespace.
const ACCOUNTS: u64 = 8;
/// What the accounts hold together.
const TOTAL: u64 = 8000;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Operations of each writer.
    pub ops: u64,
    /// Seed.
    pub seed: u64,
}

/// A run: what was begun and what was acknowledged, per key.
#[derive(Debug)]
pub struct Run {
    begun: Vec<AtomicU64>,
    acked: Vec<AtomicU64>,
    added: Vec<AtomicU64>,
    groups: Vec<AtomicU64>,
    reads: AtomicU64,
    maintenance: AtomicU64,
    team: Team,
}

fn zeros(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

fn key_of(key: usize) -> Vec<u8> {
    format!("own-{key}").into_bytes()
}

fn counter_of(counter: usize) -> Vec<u8> {
    format!("counter-{counter}").into_bytes()
}

fn group_key(writer: usize, member: usize) -> Vec<u8> {
    format!("group-{writer}-{member}").into_bytes()
}

/// Every seventh version is a removal; version 0 is "never written".
fn is_removed(version: u64) -> bool {
    version.is_multiple_of(7)
}

fn value_of(key: usize, version: u64) -> Vec<u8> {
    let mut rng = derive(version, key as u64);
    let mut value = vec![0; 16 + rng.below(500) as usize];
    rng.fill(&mut value);
    value[..8].copy_from_slice(&(key as u64).to_le_bytes());
    value[8..16].copy_from_slice(&version.to_le_bytes());
    value
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

impl Default for Run {
    fn default() -> Self {
        Self {
            begun: zeros(WRITERS * KEYS),
            acked: zeros(WRITERS * KEYS),
            added: zeros(COUNTERS),
            groups: zeros(WRITERS),
            reads: AtomicU64::new(0),
            maintenance: AtomicU64::new(0),
            team: Team::default(),
        }
    }
}

impl Run {
    /// Checked reads so far.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Compactions, checkpoints, flushes, backups and walks so far.
    pub fn maintenance(&self) -> u64 {
        self.maintenance.load(Ordering::Relaxed)
    }

    /// Runs all threads on `db` until the writers are done, then checks the sums.
    pub fn work(&self, db: &Db, budget: &Budget) -> Outcome {
        let fail = |what: String| Failure::new(format!("PIPKIN_SEED={} (threads: may take several runs)", budget.seed), what);
        self.prepare(db).map_err(fail)?;
        std::thread::scope(|scope| {
            let writers: Vec<_> =
                (0..WRITERS).map(|writer| scope.spawn(move || self.team.run(|| self.write(db, writer, budget)))).collect();
            for reader in 0..2 {
                scope.spawn(move || self.team.run(|| self.read(db, derive(budget.seed, 100 + reader))));
            }
            scope.spawn(|| self.team.run(|| self.maintain(db, derive(budget.seed, 200))));
            scope.spawn(|| self.team.run(|| self.transfer(db, derive(budget.seed, 300))));
            scope.spawn(|| self.team.run(|| self.audit(db)));
            writers.into_iter().for_each(|writer| drop(writer.join()));
            self.team.end();
        });
        self.team.outcome().map_err(fail)?;
        self.check(db).map_err(|what| fail(format!("at the end: {what}")))
    }

    fn accounts(db: &Db) -> Checked<Namespace> {
        db.namespace("accounts").map_err(words)
    }

    /// A value that is held keeps its bytes while everything around it is overwritten and compacted, several files' worth of it.
    fn hold(db: &Db) -> Checked {
        let written = value_of(0, 1);
        db.insert(b"held", &written).map_err(words)?;
        let held = db.get_zerocopy(b"held").map_err(words)?.ok_or("a value that was just written is missing")?;
        for round in 0..HELD_ROUNDS {
            for key in 0..KEYS {
                db.insert(group_key(WRITERS, key), value_of(key, round * 7 + 1)).map_err(words)?;
            }
            db.insert(b"held", value_of(1, round * 7 + 1)).map_err(words)?;
            db.compact().map_err(words)?;
            if *held != *written {
                return Err(format!("the bytes changed under a reader in round {round}"));
            }
        }
        drop(held);
        for key in 0..KEYS {
            db.remove(group_key(WRITERS, key)).map_err(words)?;
        }
        Ok(())
    }

    fn prepare(&self, db: &Db) -> Checked {
        Self::hold(db)?;
        let named = Self::accounts(db)?;
        for account in 0..ACCOUNTS {
            let amount = (TOTAL / ACCOUNTS).to_le_bytes();
            let key = account.to_le_bytes();
            if account % 2 == 0 { db.insert(key, amount) } else { named.insert(key, amount) }.map_err(words)?;
        }
        for counter in 0..COUNTERS {
            db.insert(counter_of(counter), 0_u64.to_le_bytes()).map_err(words)?;
        }
        Ok(())
    }

    fn write(&self, db: &Db, writer: usize, budget: &Budget) -> Checked {
        let mut rng = derive(budget.seed, writer as u64);
        for op in 0..budget.ops {
            if self.team.is_over() {
                return Ok(());
            }
            match rng.below(20) {
                0 | 1 => self.add(db, &mut rng)?,
                2 => self.put_group(db, writer, op + 1)?,
                3 => drop(db.flush().map_err(words)?),
                _ => self.put_own(db, writer * KEYS + index(&mut rng, KEYS))?,
            }
        }
        Ok(())
    }

    fn put_own(&self, db: &Db, key: usize) -> Checked {
        let version = self.begun[key].fetch_add(1, Ordering::SeqCst) + 1;
        if is_removed(version) {
            if !db.remove(key_of(key)).map_err(words)? {
                return Err(format!("remove of key {key} at version {version} found nothing"));
            }
        } else {
            db.insert(key_of(key), value_of(key, version)).map_err(words)?;
        }
        self.acked[key].store(version, Ordering::SeqCst);
        self.check_key(db, key, true)
    }

    fn add(&self, db: &Db, rng: &mut Rng) -> Checked {
        let counter = index(rng, COUNTERS);
        let key = counter_of(counter);
        if rng.chance(1, 2) {
            let plus_one = |old: Option<&[u8]>| Some((old.and_then(number).unwrap_or(0) + 1).to_le_bytes().to_vec());
            db.update(&key, plus_one).map_err(words)?;
        } else {
            loop {
                let old = db.get(&key).map_err(words)?;
                let new = (old.as_deref().and_then(number).unwrap_or(0) + 1).to_le_bytes();
                if db.compare_and_swap(&key, old.as_deref(), Some(&new)).map_err(words)? {
                    break;
                }
            }
        }
        self.added[counter].fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn put_group(&self, db: &Db, writer: usize, version: u64) -> Checked {
        let records = (0..GROUP).map(|member| (group_key(writer, member), value_of(member, version)));
        db.insert_many(records).map_err(words)?;
        self.groups[writer].store(version, Ordering::SeqCst);
        Ok(())
    }

    /// One key: what is read was acknowledged before the read began, or begun before it ended.
    fn check_key(&self, db: &Db, key: usize, hold: bool) -> Checked {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let low = self.acked[key].load(Ordering::SeqCst);
        let value = db.get_zerocopy(key_of(key)).map_err(words)?;
        let high = self.begun[key].load(Ordering::SeqCst);
        let Some(value) = value else {
            return if (low..=high).any(is_removed) {
                Ok(())
            } else {
                Err(format!("key {key} is missing, versions {low}..={high} are not removals"))
            };
        };
        let version = value.get(8..).and_then(number).unwrap_or(0);
        let first = value.to_vec();
        if first != value_of(key, version) {
            return Err(format!("key {key} has bytes that nobody wrote (version {version}, should be {low}..={high})"));
        }
        if version < low || version > high || is_removed(version) {
            return Err(format!("key {key} has version {version}, should be {low}..={high}"));
        }
        if hold {
            // A value that is held stays what it was, whatever is compacted meanwhile.
            std::thread::yield_now();
            if *value != *first {
                return Err(format!("key {key}: the bytes changed under a reader"));
            }
        }
        Ok(())
    }

    fn read(&self, db: &Db, mut rng: Rng) -> Checked {
        while !self.team.is_over() {
            let hold = rng.chance(1, 8);
            self.check_key(db, index(&mut rng, WRITERS * KEYS), hold)?;
        }
        Ok(())
    }

    fn maintain(&self, db: &Db, mut rng: Rng) -> Checked {
        while !self.team.is_over() {
            self.maintenance.fetch_add(1, Ordering::Relaxed);
            match rng.below(10) {
                0 => drop(db.compact().map_err(words)?),
                1 => db.checkpoint().map_err(words)?,
                2 => drop(db.flush().map_err(words)?),
                3 => self.walk(db)?,
                4 => self.back_up(db)?,
                _ => drop(db.compact_step().map_err(words)?),
            }
        }
        Ok(())
    }

    fn walk(&self, db: &Db) -> Checked {
        for record in db.iter() {
            let (key, value) = record.map_err(words)?;
            if let Some(key) = key.strip_prefix(b"own-").and_then(|key| std::str::from_utf8(key).ok()?.parse().ok()) {
                let version = value.get(8..).and_then(number).unwrap_or(0);
                if value != value_of(key, version) {
                    return Err(format!("iter gives key {key} bytes that nobody wrote"));
                }
            }
        }
        Ok(())
    }

    /// A backup taken beside writers holds each batch whole and each sum right.
    fn back_up(&self, db: &Db) -> Checked {
        let target = pipkin::storage::MemoryStorage::new();
        db.backup_to_storage(&target).map_err(words)?;
        let copy = Db::builder().background(false).open_storage(Box::new(target)).map_err(words)?;
        self.check_groups(&copy).map_err(|what| format!("in a backup: {what}"))?;
        self.check_sum(&copy).map_err(|what| format!("in a backup: {what}"))
    }

    fn transfer(&self, db: &Db, mut rng: Rng) -> Checked {
        let named = Self::accounts(db)?;
        while !self.team.is_over() {
            let (from, to, amount) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS), rng.below(50));
            let moved = db.transaction(|txn| {
                let mut change = |account: u64, plus: u64, minus: u64| {
                    let key = account.to_le_bytes();
                    let old = if account.is_multiple_of(2) { txn.get(key)? } else { txn.get_in(&named, key)? };
                    let old = old.as_deref().and_then(number).ok_or(Error::InvalidArgument("an account is missing"))?;
                    let new = (old + plus).checked_sub(minus).ok_or(Error::InvalidArgument("not enough"))?.to_le_bytes();
                    if account.is_multiple_of(2) { txn.insert(key, new) } else { txn.insert_in(&named, key, new) }
                };
                change(from, 0, amount)?;
                change(to, amount, 0)
            });
            match moved {
                Ok(()) | Err(Error::Conflict(_) | Error::InvalidArgument("not enough")) => {}
                Err(error) => return Err(words(error)),
            }
        }
        Ok(())
    }

    /// A transaction that only reads sees the sum unchanged.
    fn audit(&self, db: &Db) -> Checked {
        while !self.team.is_over() {
            self.check_sum(db)?;
            std::thread::yield_now();
        }
        Ok(())
    }

    fn check_sum(&self, db: &Db) -> Checked {
        let named = Self::accounts(db)?;
        let sum = db.transaction(|txn| {
            let mut sum = 0;
            for account in 0..ACCOUNTS {
                let key = account.to_le_bytes();
                let amount = if account % 2 == 0 { txn.get(key)? } else { txn.get_in(&named, key)? };
                sum += amount.as_deref().and_then(number).unwrap_or(0);
            }
            Ok(sum)
        });
        match sum {
            Ok(TOTAL) => Ok(()),
            Ok(sum) => Err(format!("the accounts hold {sum}, should be {TOTAL}: a transaction was seen in part")),
            Err(error) => Err(words(error)),
        }
    }

    fn check_groups(&self, db: &Db) -> Checked {
        for writer in 0..WRITERS {
            let mut versions = Vec::new();
            for member in 0..GROUP {
                let value = db.get(group_key(writer, member)).map_err(words)?;
                versions.push(value.as_deref().and_then(|value| value.get(8..)).and_then(number));
            }
            if versions.iter().any(|version| *version != versions[0]) {
                return Err(format!("a batch is there in part: versions {versions:?}"));
            }
        }
        Ok(())
    }

    /// What must hold when all threads have ended, and after every reopen.
    pub fn check(&self, db: &Db) -> Checked {
        for key in 0..WRITERS * KEYS {
            self.check_key(db, key, false)?;
        }
        for (counter, added) in self.added.iter().enumerate() {
            let value = db.get(counter_of(counter)).map_err(words)?.as_deref().and_then(number);
            let added = added.load(Ordering::SeqCst);
            if value != Some(added) {
                return Err(format!("counter {counter} holds {value:?}, {added} were added"));
            }
        }
        for (writer, version) in self.groups.iter().enumerate() {
            let value = db.get(group_key(writer, 0)).map_err(words)?;
            let found = value.as_deref().and_then(|value| value.get(8..)).and_then(number).unwrap_or(0);
            if found != version.load(Ordering::SeqCst) {
                return Err(format!("group {writer} has version {found}, {version:?} was acknowledged"));
            }
        }
        self.check_groups(db)?;
        self.check_sum(db)
    }
}
