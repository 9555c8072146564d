//! One store: its writer writes, compacts, closes, is killed and opens it again, while two followers look.

use super::appended::{Appended, Records, keep};
use super::seen::{History, SHORT, Seen};
use super::stepped::Stepped;
use crate::drive::Setup;
use crate::rng::Rng;
use pipkin::storage::MemoryStorage;
use pipkin::{Compression, Db, Namespace};
use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What all have in common.
pub(super) struct Life {
    history: Arc<Mutex<History>>,
    failed: Arc<Mutex<Option<String>>>,
    db: Option<Db>,
    file: Stepped,
    /// What was appended of events.
    events: RefCell<Appended>,
}

/// Adds a key to those that open the store, or removes it.
fn change_keys(db: &Db) -> pipkin::Result<()> {
    match db.key_slots()?.get(1) {
        Some(slot) => db.remove_key_slot(slot.number),
        None => db.add_encryption_key([9; 32]).map(drop),
    }
}

/// Runs a life; returns how often a follower looked.
pub(super) fn run(rng: &mut Rng, seed: u64, operations: u64) -> Result<u64, String> {
    let memory = MemoryStorage::new();
    let file = Stepped::new(memory.clone());
    let segment_size = [4096, 4096, 16_384][(seed % 3) as usize];
    let is_sealed = Setup::seals(seed);
    let compression = match seed % 5 {
        0 => Compression::Off,
        _ if is_sealed => Compression::Off,
        1 => Compression::OnWrite,
        _ => Compression::OnCompaction,
    };
    let builder = || if is_sealed { Db::builder().encryption_key([7; 32]) } else { Db::builder() };
    let open = || {
        let builder = builder().segment_size(segment_size).replay_debt_max(16 * 1024).background(false);
        let builder = builder.compression(compression);
        builder.open_storage(Box::new(file.clone())).map_err(|error| format!("the writer: {error}"))
    };
    let words = |error: pipkin::Error| format!("{error} ({error:?})");
    let mut life = Life::new(open()?, file.clone());
    let follow = || builder().follow(true).ordered(true).open_storage(Box::new(memory.clone())).map(Seen::new).map_err(words);
    let (close, idle) = (Arc::new(Mutex::new(follow()?)), Arc::new(Mutex::new(follow()?)));
    life.watch(&close, &idle, seed);
    for operation in 0..operations {
        match rng.below(40) {
            0 => drop(life.db().compact().map_err(words)?),
            1 => life.db().checkpoint().map_err(words)?,
            2 => drop(life.db().flush().map_err(words)?),
            3 => {
                life.db.take().map(Db::close).transpose().map_err(words)?;
                life.db = Some(open()?);
            }
            4 => {
                // Killed: its writes that returned stay.
                std::mem::forget(life.db.take());
                life.db = Some(open()?);
            }
            5 => *close.lock().unwrap() = follow()?,
            6 if is_sealed => change_keys(life.db()).map_err(words)?,
            _ => life.write(rng, operation).map_err(words)?,
        }
        if let Some(what) = life.failed.lock().unwrap().take() {
            return Err(format!("operation {operation}: {what}"));
        }
    }
    let history = life.history.lock().unwrap();
    for seen in [&close, &idle] {
        seen.lock().unwrap().look(&history, true).map_err(|what| format!("at the end: {what}"))?;
    }
    let looks = close.lock().unwrap().looks + idle.lock().unwrap().looks;
    drop(history);
    std::mem::forget(life.db.take());
    Ok(looks)
}

impl Life {
    pub(super) fn new(db: Db, file: Stepped) -> Self {
        Self { history: Arc::default(), failed: Arc::default(), db: Some(db), file, events: RefCell::default() }
    }

    /// A follower refreshes and looks, while the writer does nothing.
    pub(super) fn look(&self, seen: &mut Seen) -> Result<(), String> {
        seen.look(&self.history.lock().unwrap(), true)
    }

    /// What the store has.
    pub(super) fn state(&self) -> Records {
        self.history.lock().unwrap().last()
    }

    pub(super) fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// One follower looks at each step of the writer, the other seldom.
    fn watch(&self, close: &Arc<Mutex<Seen>>, idle: &Arc<Mutex<Seen>>, seed: u64) {
        let (close, idle, history, failed) = (close.clone(), idle.clone(), self.history.clone(), self.failed.clone());
        let mut step = 0;
        self.file.set(Box::new(move || {
            step += 1;
            let Ok(history) = history.try_lock() else { return };
            let look = |seen: &Arc<Mutex<Seen>>, refresh| {
                if let Ok(mut seen) = seen.try_lock()
                    && let Err(what) = seen.look(&history, refresh)
                {
                    failed.lock().unwrap().get_or_insert(format!("step {step}: {what}"));
                }
            };
            if step % (1 + seed % 4) == 0 {
                look(&close, true);
            }
            if step % 611 == 0 {
                look(&idle, step % 1222 == 0);
            }
        }));
    }

    /// One commit, whose result the history knows before it is made.
    pub(super) fn write(&self, rng: &mut Rng, operation: u64) -> pipkin::Result<()> {
        let db = self.db();
        let key = |rng: &mut Rng| rng.below(60).to_le_bytes()[..2].to_vec();
        let value = |rng: &mut Rng| {
            let len = if rng.chance(1, 30) { rng.below(9000) } else { rng.below(120) };
            let mut value = vec![0; 8 + len as usize];
            rng.fill(&mut value);
            value[..8].copy_from_slice(&operation.to_le_bytes());
            value
        };
        let mut state = self.history.lock().unwrap().last();
        let name = ["", "", "one", "two"][rng.below(4) as usize];
        let in_space = |name: &str, key: Vec<u8>| (name.to_string(), key);
        match rng.below(20) {
            15..=18 => {
                let events = self.events.borrow_mut().append(rng, &mut state);
                self.commit(state, || events.run(db))
            }
            19 if rng.chance(1, 4) => match self.events.borrow_mut().retain(rng, &mut state) {
                Some(events) => self.commit(state, || keep(db, events)),
                None => Ok(()),
            },
            19 => match self.events.borrow_mut().remove(rng, &mut state) {
                Some((stream, before)) => self.commit(state, || Appended::log(db)?.truncate(stream, before).map(drop)),
                None => Ok(()),
            },
            14 => {
                // No part of the state, but compaction drops it without a word once it has expired.
                let (key, value) = (key(rng), value(rng));
                db.namespace(SHORT)?.insert_with_ttl(key, value, Duration::from_millis(1))
            }
            0 => {
                state.retain(|(space, _), _| space != name);
                let space = self.space(name)?;
                self.commit(state, || space.clear())
            }
            1 if !name.is_empty() => {
                state.retain(|(space, _), _| space != name);
                self.commit(state, || db.drop_namespace(name).map(drop))
            }
            2..=4 => {
                let space = self.space(name)?;
                let mut batch = db.batch();
                for _ in 0..rng.below(12) + 2 {
                    let key = key(rng);
                    if rng.chance(1, 4) {
                        state.remove(&in_space(name, key.clone()));
                        batch = batch.remove_in(&space, key);
                    } else {
                        let value = value(rng);
                        batch = batch.insert_in(&space, key.clone(), value.clone());
                        state.insert(in_space(name, key), value);
                    }
                }
                self.commit(state, || batch.commit())
            }
            5 | 6 => {
                let (space, key) = (self.space(name)?, key(rng));
                state.remove(&in_space(name, key.clone()));
                self.commit(state, || space.remove(&key).map(drop))
            }
            _ => {
                let (space, key, value) = (self.space(name)?, key(rng), value(rng));
                state.insert(in_space(name, key.clone()), value.clone());
                self.commit(state, || space.insert(&key, &value))
            }
        }
    }

    /// The creation of a namespace changes no record.
    fn space(&self, name: &str) -> pipkin::Result<Namespace> {
        if name.is_empty() { Ok(self.db().default_namespace()) } else { self.db().namespace(name) }
    }

    fn commit(&self, state: Records, make: impl FnOnce() -> pipkin::Result<()>) -> pipkin::Result<()> {
        self.history.lock().unwrap().expect(state);
        make()?;
        self.history.lock().unwrap().acknowledged += 1;
        Ok(())
    }
}
