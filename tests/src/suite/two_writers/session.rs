//! One session: it carries out its script and remembers what it was told.

use super::scheduler::{Scheduler, Seat, Turns, dump, trace};
use super::trial::Op::{Checkpoint, Churn, Close, Compact, Count, Flush, Long, Open, Put};
use super::trial::{Host, Op};
use crate::rng::derive;
use pipkin::storage::{CacheOptions, CachedStorage};
use pipkin::{Db, Error, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a session was told, of its keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Written, then flushed.
    pub(super) written: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) flushed: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Values that a key may have besides: in doubt, or overwritten since by this session.
    pub(super) others: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    pub(super) counted: u64,
    pub(super) counted_flushed: u64,
    pub(super) counts_tried: u64,
    pub(super) was_fenced: bool,
    pub(super) flushes: u64,
}

impl Told {
    pub(super) fn put(&mut self, key: &[u8], value: &[u8], put: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.others.entry(key.to_vec()).or_default().push(value.to_vec());
        put()?;
        self.written.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    pub(super) fn is_flushed(&mut self) {
        self.flushes += 1;
        self.flushed.append(&mut self.written.clone());
        self.counted_flushed = self.counted;
    }
}

pub(super) struct Session {
    pub(super) who: usize,
    pub(super) host: Host,
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) seed: u64,
    pub(super) db: Option<Db>,
    pub(super) told: Told,
    pub(super) puts: u32,
}

impl Session {
    pub(super) fn open(&mut self) -> Result<(), Error> {
        if self.db.is_some() {
            return Ok(());
        }
        let opened = {
            let mut state = self.scheduler.lock();
            state.opening[self.who] = true;
            state.opened[self.who]
        };
        let seat = Seat { who: self.who, scheduler: self.scheduler.clone(), is_exclusive: self.host == Host::ThoughtLocked };
        let storage: Box<dyn Storage> = match self.host {
            Host::Cached | Host::SealedCached => Box::new(CachedStorage::<_, 65_536>::new(seat, CacheOptions::default())?),
            Host::Plain | Host::Sealed | Host::ThoughtLocked => Box::new(seat),
        };
        let mut entropy = [0; 32];
        derive(self.seed, u64::from(opened) * 2 + self.who as u64).fill(&mut entropy);
        let builder = self.host.builder().entropy(entropy).replay_debt_max(64 * 1024);
        let builder = builder.clock(Turns(self.scheduler.clone()));
        self.db = Some(builder.open_storage(storage)?);
        Ok(())
    }

    pub(super) fn run(&mut self, op: Op) -> Result<(), Error> {
        if op == Open {
            return self.open();
        }
        let Some(db) = self.db.clone() else { return Ok(()) };
        let who = self.who as u8;
        match op {
            Open => {}
            Put | Long => {
                self.puts += 1;
                let key = format!("{who}/{}", self.puts).into_bytes();
                let value = vec![who; if op == Long { 9000 } else { 40 + self.puts as usize }];
                self.told.put(&key, &value, || db.insert(&key, &value))?;
            }
            Churn => {
                for round in 0..6_u8 {
                    self.puts += 1;
                    let key = format!("{who}/churn {}", round % 2).into_bytes();
                    let value = vec![self.puts as u8; 900];
                    self.told.put(&key, &value, || db.insert(&key, &value))?;
                }
            }
            Count => {
                let old = db.get("count")?.and_then(|old| old.try_into().ok()).map_or(0, u64::from_le_bytes);
                self.told.counts_tried += 1;
                db.insert("count", (old + 1).to_le_bytes())?;
                self.told.counted += 1;
            }
            Flush => {
                db.flush()?;
                self.told.is_flushed();
            }
            Checkpoint => db.checkpoint()?,
            Compact => drop(db.compact()?),
            Close => {
                self.db = None;
                db.close()?;
                self.told.is_flushed();
            }
        }
        Ok(())
    }

    /// Runs a script. Fenced off, it opens the store again and goes on behind.
    pub(super) fn play(&mut self, script: &[Op]) -> Result<(), String> {
        let mut times = 0;
        for &op in script {
            match self.run(op) {
                Ok(()) => {}
                Err(Error::Fenced) => {
                    self.told.was_fenced = true;
                    self.db = None;
                    // What was not flushed may be gone.
                    self.told.written = self.told.flushed.clone();
                    self.told.counted = self.told.counted_flushed;
                    times += 1;
                    if times > 3 {
                        break;
                    }
                    match self.open() {
                        Ok(()) | Err(Error::Fenced) => {}
                        Err(_) if self.is_killed() => return Ok(()),
                        Err(error) => {
                            if trace() {
                                dump(&self.scheduler.disk.latest_image().to_vec());
                            }
                            return Err(format!("session {} opened again: {error}", self.who));
                        }
                    }
                }
                Err(_) if self.is_killed() => return Ok(()),
                Err(error) => return Err(format!("session {} was told at {op:?}: {error}", self.who)),
            }
        }
        Ok(())
    }

    pub(super) fn is_killed(&self) -> bool {
        self.scheduler.lock().killed[self.who]
    }
}
