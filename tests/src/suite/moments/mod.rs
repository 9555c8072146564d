//! Snapshots under writers, compaction, clears, drops and reopening: every one of them shows a state that each writer had between two of
//! its calls, the same one in every way of reading, for as long as it lives.
//!
//! A writer has keys and namespaces of its own and records what each call does. Most calls are commits that also write their number, so
//! that a snapshot says after which of them it was taken; the calls after that one may be in it or not.

mod model;
mod siblings;
mod ways;

pub use siblings::siblings;

use self::model::{Call, KEYS, SPACES, State, empty, key_of, marker_of, name_of};
use self::ways::{check, check_one};
use crate::parallel::{Failure, Outcome, Team};
use crate::quota::Quota;
use crate::rng::{Rng, derive};
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Snapshot};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Threads that write.
const WRITERS: usize = 4;
/// Threads that take snapshots.
const READERS: usize = 2;
/// Snapshots that a reader holds.
const HELD: usize = 4;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Histories.
    pub histories: u64,
    /// Calls of each writer in one session of a history.
    pub calls: usize,
    /// Seed of the first history.
    pub seed: u64,
}

/// One writer, as its readers see it.
#[derive(Debug, Default)]
struct Writer {
    /// Every call that has begun.
    calls: Mutex<Vec<Call>>,
    begun: AtomicUsize,
    done: AtomicUsize,
}

/// One history: a store, and what its writers did so far.
struct History {
    seed: u64,
    writers: Vec<Writer>,
    team: Team,
    checks: Quota,
}

impl History {
    /// The state of a writer after its first `count` calls.
    fn state(&self, writer: usize, count: usize) -> State {
        let mut state = empty();
        let calls = self.writers[writer].calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().take(count).for_each(|call| call.apply(&mut state));
        state
    }

    fn write(&self, db: &Db, writer: usize, calls: usize, mut rng: Rng) -> Checked {
        let own = &self.writers[writer];
        let mut state = self.state(writer, usize::MAX);
        for _ in 0..calls {
            if self.team.is_over() {
                return Ok(());
            }
            let number = own.begun.load(Ordering::SeqCst) + 1;
            let space = rng.below(SPACES as u64) as usize;
            let value = |rng: &mut Rng| {
                let mut value = vec![0; 8 + if rng.below(8) == 0 { rng.below(900) } else { rng.below(80) } as usize];
                rng.fill(&mut value);
                value
            };
            let key = |rng: &mut Rng| key_of(writer, rng.below(KEYS));
            let call = match rng.below(20) {
                _ if state[space].is_none() => Call::Create(space),
                0 if space > 0 => Call::Clear(space),
                1 if space > 0 => Call::Drop(space),
                2..=4 => Call::Write(vec![(space, key(&mut rng), Some(value(&mut rng)))]),
                5..=6 => {
                    let key = key(&mut rng);
                    // A removal of nothing is no commit.
                    let there = state[space].as_ref().is_some_and(|space| space.contains_key(&key));
                    if !there {
                        continue;
                    }
                    Call::Write(vec![(space, key, None)])
                }
                _ => {
                    let mut records: Vec<_> = (0..1 + rng.below(6))
                        .filter_map(|_| {
                            let space = rng.below(SPACES as u64) as usize;
                            let removes = rng.below(4) == 0;
                            state[space].is_some().then(|| (space, key(&mut rng), (!removes).then(|| value(&mut rng))))
                        })
                        .collect();
                    records.push((0, marker_of(writer), Some((number as u64).to_le_bytes().to_vec())));
                    Call::Write(records)
                }
            };
            own.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
            own.begun.store(number, Ordering::SeqCst);
            self.carry_out(db, writer, &call, rng.below(3) == 0).map_err(words)?;
            call.apply(&mut state);
            own.done.store(number, Ordering::SeqCst);
        }
        Ok(())
    }

    fn carry_out(&self, db: &Db, writer: usize, call: &Call, transacts: bool) -> Result<(), Error> {
        match call {
            Call::Create(space) => db.namespace(&name_of(writer, *space)).map(drop),
            Call::Clear(space) => db.namespace(&name_of(writer, *space))?.clear(),
            Call::Drop(space) => db.drop_namespace(&name_of(writer, *space)).map(drop),
            Call::Write(records) => {
                let mut spaces = vec![db.default_namespace(); SPACES];
                for (space, ..) in records.iter().filter(|(space, ..)| *space > 0) {
                    spaces[*space] = db.namespace(&name_of(writer, *space))?;
                }
                match &records[..] {
                    [(space, key, Some(value))] => return spaces[*space].insert(key, value),
                    [(space, key, None)] => return spaces[*space].remove(key).map(drop),
                    _ => {}
                }
                if transacts {
                    return db.transaction(|tx| {
                        records.iter().try_for_each(|(space, key, value)| match value {
                            Some(value) => tx.insert_in(&spaces[*space], key, value),
                            None => tx.remove_in(&spaces[*space], key).map(drop),
                        })
                    });
                }
                let mut batch = db.batch();
                for (space, key, value) in records {
                    batch = match value {
                        Some(value) => batch.insert_in(&spaces[*space], key, value),
                        None => batch.remove_in(&spaces[*space], key),
                    };
                }
                batch.commit()
            }
        }
    }

    fn maintain(&self, db: &Db, mut rng: Rng) -> Checked {
        while !self.team.is_over() {
            match rng.below(8) {
                0..=3 => drop(db.compact_step().map_err(words)?),
                4..=5 => drop(db.compact().map_err(words)?),
                6 => db.checkpoint().map_err(words)?,
                _ => drop(db.flush().map_err(words)?),
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Takes snapshots, looks at them now and again, and drops them.
    fn read(&self, db: &Db, mut rng: Rng) -> Checked {
        let mut held: Vec<(Snapshot, Vec<State>)> = Vec::new();
        let mut last = false;
        loop {
            if held.len() < HELD && rng.below(3) > 0 {
                let done: Vec<usize> = self.writers.iter().map(|writer| writer.done.load(Ordering::SeqCst)).collect();
                let snapshot = db.snapshot();
                let begun: Vec<usize> = self.writers.iter().map(|writer| writer.begun.load(Ordering::SeqCst)).collect();
                // Only one way of reading now; the others must agree with it later, too.
                let seen = self.which(&snapshot, &done, &begun, &mut rng)?;
                held.push((snapshot, seen));
            }
            if !held.is_empty() {
                let place = rng.below(held.len() as u64) as usize;
                let (snapshot, states) = &held[place];
                self.checks.add(1);
                check(snapshot, states, &mut rng)?;
                if rng.below(4) == 0 {
                    held.swap_remove(place);
                }
            }
            if last {
                return held.iter().try_for_each(|(snapshot, states)| check(snapshot, states, &mut rng));
            }
            last = self.team.is_over();
        }
    }

    /// Which state of each writer a snapshot shows.
    fn which(&self, snapshot: &Snapshot, done: &[usize], begun: &[usize], rng: &mut Rng) -> Checked<Vec<State>> {
        let mut states = Vec::new();
        for (number, writer) in self.writers.iter().enumerate() {
            let marker = snapshot.get(marker_of(number)).map_err(words)?;
            let marker = marker.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()) as usize);
            let (from, to) = (done[number].max(marker), begun[number]);
            if marker > to {
                return Err(format!("writer {number}: call {marker} is in a snapshot from before it began ({to})"));
            }
            let calls = writer.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let mut state = empty();
            calls.iter().take(from).for_each(|call| call.apply(&mut state));
            let mut reasons = Vec::new();
            let mut found = None;
            for count in from..=to {
                if count > from {
                    calls[count - 1].apply(&mut state);
                }
                let is_marker = state[0].as_ref().and_then(|space| space.get(&marker_of(number)));
                let is_marker =
                    is_marker.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap_or_default()) as usize);
                if is_marker != marker {
                    continue;
                }
                match check_one(snapshot, number, &state, rng) {
                    Ok(()) => found = Some(state.clone()),
                    Err(what) => reasons.push(format!("after call {count}: {what}")),
                }
                if found.is_some() {
                    break;
                }
            }
            let nothing =
                || format!("writer {number}: calls {from}..={to}, marker {marker}: none of these states: {}", reasons.join("; "));
            states.push(found.ok_or_else(nothing)?);
        }
        Ok(states)
    }

    fn session(&self, storage: &MemoryStorage, calls: usize, session: u64) -> Checked {
        let builder = Db::builder().segment_size(4096 << (self.seed % 3)).ordered(!self.seed.is_multiple_of(4)).background(false);
        let db = builder.open_storage(Box::new(storage.clone())).map_err(words)?;
        let seed = |thread: u64| derive(self.seed, session * 100 + thread);
        // Right after opening no shard is built.
        let (all, mut rng) = ((0..WRITERS).map(|writer| self.state(writer, usize::MAX)).collect::<Vec<_>>(), seed(99));
        let first = db.snapshot();
        let first_held = first.clone();
        std::thread::scope(|scope| {
            let db = &db;
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| scope.spawn(move || self.team.run(|| self.write(db, writer, calls, seed(writer as u64)))))
                .collect();
            for reader in 0..READERS as u64 {
                scope.spawn(move || self.team.run(|| self.read(db, seed(10 + reader))));
            }
            scope.spawn(move || self.team.run(|| self.maintain(db, seed(20))));
            writers.into_iter().for_each(|writer| drop(writer.join()));
            self.team.end();
        });
        self.team.outcome()?;
        let what = |what: String| format!("the snapshot from the beginning of the session: {what}");
        for _ in 0..3 {
            check(&first, &all, &mut rng).map_err(what)?;
            db.compact().map_err(words)?;
        }
        drop((first, first_held));
        self.nothing_is_left(&db)
    }

    /// Without snapshots nothing is kept for them.
    fn nothing_is_left(&self, db: &Db) -> Checked {
        db.compact().map_err(words)?;
        let stats = db.stats().map_err(words)?;
        let kept = (stats.snapshots, stats.snapshot_held_bytes, stats.snapshot_memory_bytes);
        if kept != (0, 0, 0) {
            return Err(format!("without a snapshot {kept:?} (snapshots, bytes held, bytes of memory) are left"));
        }
        let states: Vec<State> = (0..WRITERS).map(|writer| self.state(writer, usize::MAX)).collect();
        let records: usize = states.iter().flatten().flatten().map(BTreeMap::len).sum();
        if stats.records != records as u64 {
            return Err(format!("{} records are counted, there are {records}", stats.records));
        }
        check(&db.snapshot(), &states, &mut derive(self.seed, 98))?;
        let report = db.verify().map_err(words)?;
        if report.is_ok() { Ok(()) } else { Err(format!("{:?}", report.damage)) }
    }
}

/// Runs the histories; each has two sessions on one file.
pub fn run(budget: &Budget, quota: &Quota) -> Outcome {
    for seed in budget.seed..budget.seed + budget.histories {
        let history = History {
            seed,
            writers: (0..WRITERS).map(|_| Writer::default()).collect(),
            team: Team::default(),
            checks: Quota::new("moments", 0),
        };
        let storage = MemoryStorage::new();
        let fail =
            |what: String| Failure::new(format!("PIPKIN_SEED={seed} PIPKIN_HISTORIES=1 (threads: may take several runs)"), what);
        for session in 0..2 {
            history.session(&storage, budget.calls, session).map_err(fail)?;
        }
        quota.add(1);
    }
    Ok(())
}
