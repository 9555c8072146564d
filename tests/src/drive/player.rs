//! A store and its model, led through the same operations.

use super::space::namespace;
use super::{Fault, Host, Setup, check_state};
use crate::model::{History, State, commits};
use crate::tape::{Op, Tape, Val, key_bytes, ns_name};
use pipkin::storage::MemoryStorage;
use pipkin::{Clock, Db, Error, Ttl};
use std::time::Duration;

/// A store, its model, and what may be found after a crash.
pub struct Player<H: Host> {
    /// Where the store lives.
    pub host: H,
    /// The open store; none after a failed reopen.
    pub db: Option<Db>,
    /// What it has been through.
    pub history: History,
    /// The states of an operation that failed: it may have got as far as any of them.
    pub in_doubt: Vec<State>,
    /// The latest expiry that the file says was acted on, if the host's clock was behind it at the last opening.
    floor: u64,
}

impl<H: Host> Player<H> {
    /// Opens the store, which must be in `state`.
    pub fn open(host: H, state: State) -> Result<Self, Fault> {
        let db = host.open()?;
        let mut player = Self::going_on(host, db, History::new(state));
        check_state(&player.db()?, player.history.now()).map_err(|fault| fault.at("right after opening"))?;
        player.history = History::new(player.history.now().clone());
        Ok(player)
    }

    /// Goes on with a store that has just been opened, and is in what is left of the newest state of the history.
    pub fn going_on(host: H, db: Db, history: History) -> Self {
        let mut player = Self { host, db: None, history, in_doubt: Vec::new(), floor: 0 };
        player.has_opened(db);
        if player.history.now().now != player.time() {
            player.history.states.push(player.history.now().at(player.time()));
        }
        player
    }

    fn has_opened(&mut self, db: Db) {
        let behind = db.open_report().clock_behind_ms;
        self.floor = if behind > 0 { self.host.clock().map_or(0, Clock::now_ms) + behind } else { 0 };
        self.db = Some(db);
    }

    /// The store's time; 0 where it has none of the tests' clocks.
    pub fn time(&self) -> u64 {
        self.host.clock().map_or(0, Clock::now_ms).max(self.floor)
    }

    /// The open store.
    pub fn db(&self) -> Result<Db, Fault> {
        self.db.clone().map_or_else(|| Fault::wrong("the store is not open"), Ok)
    }

    /// Plays one operation. An error leaves its states in `in_doubt`; then only reads and a reopen make sense.
    pub fn play(&mut self, op: &Op) -> Result<(), Fault> {
        let mut steps = commits(self.history.now(), op);
        if let (Op::Wait(ms, _), Some(clock)) = (op, self.host.clock()) {
            clock.advance(Duration::from_millis(*ms));
            steps.push(self.history.now().at(self.time()));
        }
        self.in_doubt.clone_from(&steps);
        self.act(op)?;
        self.in_doubt.clear();
        self.history.states.extend(steps);
        if matches!(op, Op::Flush | Op::Reopen) {
            self.history.flushed = self.history.newest();
        }
        Ok(())
    }

    /// Plays a whole tape; `each` runs behind every operation.
    pub fn play_all(&mut self, tape: &Tape, mut each: impl FnMut(&mut Self, &Op) -> Result<(), Fault>) -> Result<(), Fault> {
        for (i, op) in tape.0.iter().enumerate() {
            self.play(op).and_then(|()| each(self, op)).map_err(|fault| fault.at(format!("operation {i} `{op}`")))?;
        }
        Ok(())
    }

    fn act(&mut self, op: &Op) -> Result<(), Fault> {
        let db = self.db()?;
        let now = self.history.now();
        match op {
            Op::Put(ns, key, val) => namespace(&db, *ns)?.insert(key_bytes(*key), val.bytes())?,
            Op::Del(ns, key) => {
                let had = now.get(*ns, *key).is_some();
                if namespace(&db, *ns)?.remove(key_bytes(*key))? != had {
                    return Fault::wrong(format!("remove should say {had}"));
                }
            }
            Op::Many(ns, records) => {
                let records = records.iter().map(|(key, val)| (key_bytes(*key), val.bytes()));
                namespace(&db, *ns)?.insert_many(records)?;
            }
            Op::Txn(keep, edits) => transact(&db, now, *keep, edits)?,
            Op::Cas(ns, key, hit, val) => {
                let expected = match (now.get(*ns, *key), hit) {
                    (old, true) => old.map(Val::bytes),
                    (Some(_), false) => None,
                    (None, false) => Some(b"not there".to_vec()),
                };
                let new = val.map(Val::bytes);
                let space = namespace(&db, *ns)?;
                if space.compare_and_swap(key_bytes(*key), expected.as_deref(), new.as_deref())? != *hit {
                    return Fault::wrong(format!("compare_and_swap should say {hit}"));
                }
            }
            Op::Update(ns, key, val) => {
                let old = now.get(*ns, *key).map(Val::bytes);
                let mut seen = None;
                namespace(&db, *ns)?.update(key_bytes(*key), |found| {
                    seen = Some(found.map(<[u8]>::to_vec));
                    val.map(Val::bytes)
                })?;
                if seen != Some(old) {
                    return Fault::wrong("update was shown another value than the newest");
                }
            }
            Op::Clear(ns) => namespace(&db, *ns)?.clear()?,
            Op::Drop(ns) => {
                let had = now.spaces.contains_key(ns);
                if db.drop_namespace(&ns_name(*ns))? != had {
                    return Fault::wrong(format!("drop_namespace should say {had}"));
                }
            }
            Op::Flush => {
                let achieved = db.flush()?;
                if achieved != self.host.durability() {
                    return Fault::wrong(format!("flush claims {achieved:?}, the host gives {:?}", self.host.durability()));
                }
            }
            Op::Checkpoint => db.checkpoint()?,
            Op::Step => db.compact_step().map(|_| ())?,
            Op::Compact => db.compact().map(|_| ())?,
            Op::Verify => {
                let report = db.verify()?;
                if !report.is_ok() {
                    return Fault::wrong(format!("verify of a healthy store finds {:?}", report.damage));
                }
            }
            Op::Backup => backup(&db, now, &Setup { sealed: self.host.is_sealed(), ..Setup::tiny(self.host.clock()) })?,
            Op::Until(ns, key, val, ms) => insert_until(&db, now, *ns, *key, *val, *ms)?,
            Op::Persist(ns, key) => {
                let expires = now.expiries.contains_key(&(*ns, *key));
                if namespace(&db, *ns)?.persist(key_bytes(*key))? != expires {
                    return Fault::wrong(format!("persist should say {expires}"));
                }
            }
            Op::Default(ns, ms) => namespace(&db, *ns)?.set_default_ttl((*ms > 0).then(|| Duration::from_millis(*ms)))?,
            Op::Wait(_, true) => self.in_doubt.last().map_or(Ok(()), |aged| check_state(&db, aged))?,
            Op::Wait(_, false) => {}
            Op::Reopen => {
                self.db = None;
                db.close()?;
                self.come_back(|host| host.open())?;
            }
            Op::Kill => {
                self.db = None;
                self.come_back(|host| host.kill(db))?;
            }
        }
        Ok(())
    }

    fn come_back(&mut self, open: impl FnOnce(&H) -> pipkin::Result<Db>) -> Result<(), Fault> {
        let db = open(&self.host)?;
        let checked = check_state(&db, self.history.now());
        self.has_opened(db);
        checked
    }
}

/// A put that expires, in a way that its value names.
fn insert_until(db: &Db, now: &State, ns: u8, key: u16, val: Val, ms: u64) -> pipkin::Result<()> {
    let (space, key, val, after) = (namespace(db, ns)?, key_bytes(key), val.bytes(), Duration::from_millis(ms));
    match val.len() % 4 {
        0 => space.insert_with_ttl(key, val, after),
        1 => space.insert_with_ttl(key, val, Ttl::At(now.now + ms)),
        2 => space.with_ttl(after).insert_many([(key, val)]),
        _ => db.transaction(|txn| txn.insert_in_with_ttl(&space, &key, &val, after)),
    }
}

fn backup(db: &Db, now: &State, setup: &Setup) -> Result<(), Fault> {
    let target = MemoryStorage::new();
    let report = db.backup_to_storage(&target)?;
    // It copies the log, so the dead records count, too.
    if report.records < now.records() {
        return Fault::wrong(format!("backup counts {} records, the model {}", report.records, now.records()));
    }
    let copy = setup.open(target, 1)?;
    check_state(&copy, now).map_err(|fault| fault.at("in the backup"))
}

/// Any error that the closure of a transaction can return to have it rolled back.
fn roll_back() -> Error {
    Error::InvalidArgument("rolled back by the test")
}

fn transact(db: &Db, now: &State, keep: bool, edits: &[(u8, u16, Option<Val>)]) -> Result<(), Fault> {
    let mut handles = std::collections::BTreeMap::new();
    let mut spaces: Vec<u8> = edits.iter().map(|edit| edit.0).filter(|&ns| ns != 0).collect();
    spaces.sort_unstable();
    spaces.dedup();
    for ns in spaces {
        handles.insert(ns, db.namespace(&ns_name(ns))?);
    }
    let mut inside = now.clone();
    let mut wrong = None;
    let result = db.transaction(|txn| {
        for (ns, key, val) in edits {
            let bytes = key_bytes(*key);
            let before = match handles.get(ns) {
                None => txn.get(&bytes)?,
                Some(handle) => txn.get_in(handle, &bytes)?,
            };
            if before != inside.get(*ns, *key).map(Val::bytes) {
                wrong = Some(format!("inside the transaction {ns}/{key} is not what was written"));
            }
            match (handles.get(ns), val) {
                (None, Some(val)) => txn.insert(&bytes, val.bytes())?,
                (None, None) => txn.remove(&bytes).map(|_| ())?,
                (Some(handle), Some(val)) => txn.insert_in(handle, &bytes, val.bytes())?,
                (Some(handle), None) => txn.remove_in(handle, &bytes).map(|_| ())?,
            }
            inside.spaces.entry(*ns).or_default();
            inside.set(*ns, *key, *val);
            let there = match handles.get(ns) {
                None => txn.contains_key(&bytes)?,
                Some(handle) => txn.contains_key_in(handle, &bytes)?,
            };
            if there != val.is_some() {
                wrong = Some(format!("the transaction does not see its own write to {ns}/{key}"));
            }
        }
        if keep { Ok(()) } else { Err(roll_back()) }
    });
    match (result, wrong) {
        (_, Some(wrong)) => Fault::wrong(wrong),
        (Ok(()), None) => Ok(()),
        (Err(Error::InvalidArgument(_)), None) if !keep => Ok(()),
        (Err(error), None) => Err(error.into()),
    }
}
