//! What the threads of a history do.

use super::check::{Audit, Clear, Commit, State, place};
use super::{KEYS, SPACES, Shared};
use crate::rng::Rng;
use crate::suite::{Checked, words};
use pipkin::{Db, Error, Namespace, Position, Transaction};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::Ordering;

pub(super) struct Worker<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) db: &'a Db,
    pub(super) is_ordered: bool,
    pub(super) rng: Rng,
}

/// What one transaction has read, and what it has written.
#[derive(Default)]
struct Done {
    reads: Vec<(usize, u32)>,
    writes: BTreeMap<usize, u32>,
}

fn log_position(position: Position) -> u64 {
    let bytes = position.to_bytes();
    u64::from_le_bytes(std::array::from_fn(|index| bytes[index]))
}

fn number(value: &[u8]) -> u32 {
    value.first_chunk().map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes))
}

/// Everything that a store holds.
pub(super) fn content(db: &Db) -> Checked<State> {
    let mut state = State::default();
    for (space, name) in SPACES.iter().enumerate() {
        let namespace = if name.is_empty() { Some(db.default_namespace()) } else { db.find_namespace(name) };
        let Some(namespace) = namespace else { continue };
        for record in &namespace {
            let (key, value) = record.map_err(words)?;
            state[place(space, key[0])] = number(&value);
        }
    }
    Ok(state)
}

impl Worker<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn position(&self) -> Checked<u64> {
        self.db.position().map(log_position).map_err(words)
    }

    /// A value that nothing else has.
    fn value(&mut self) -> (u32, Vec<u8>) {
        let number = self.shared.next_value.fetch_add(1, Ordering::Relaxed);
        let mut value = number.to_le_bytes().to_vec();
        value.resize(4 + self.below(150) as usize, 0);
        (number, value)
    }

    /// One of the namespaces; `None` while the one that is dropped now and then is gone.
    fn space(&mut self) -> Option<(usize, Namespace)> {
        let space = self.below(SPACES.len() as u64) as usize;
        let namespace = if space == 0 { Some(self.db.default_namespace()) } else { self.db.find_namespace(SPACES[space]) };
        Some((space, namespace?))
    }

    fn key(&mut self) -> u8 {
        self.below(KEYS.into()) as u8
    }

    pub(super) fn transactions(&mut self, tries: u64) -> Checked {
        for _ in 0..tries {
            if self.shared.team.is_over() {
                return Ok(());
            }
            let only_reads = self.below(4) == 0;
            let after = self.position()?;
            let mut tx = self.db.begin().map_err(words)?;
            let begun = if only_reads { self.position()? } else { 0 };
            let mut done = Done::default();
            for _ in 0..2 + self.below(5) {
                match (only_reads, self.below(3)) {
                    (false, 0) => self.write(&mut tx, &mut done)?,
                    _ => self.read(&tx, &mut done)?,
                }
                if self.below(4) == 0 {
                    std::thread::yield_now();
                }
            }
            let Done { reads, .. } = &done;
            if only_reads {
                let audit = Audit { after, before: begun, reads: reads.clone() };
                tx.commit().map_err(words)?;
                self.shared.history().audits.push(audit);
                continue;
            }
            let (value, bytes) = self.value();
            let key = self.key();
            tx.insert([key], bytes).map_err(words)?;
            done.writes.insert(place(0, key), value);
            match tx.commit_with_position() {
                Ok(position) => self.committed(position, done, true),
                Err(Error::Conflict(conflict)) => self.shared.counts.conflict(conflict)?,
                Err(Error::NamespaceDropped) => {}
                Err(error) => return Err(words(error)),
            }
        }
        Ok(())
    }

    fn committed(&self, position: Position, done: Done, is_transaction: bool) {
        let Done { reads, writes } = done;
        let commit = Commit { position: log_position(position), reads, writes: writes.into_iter().collect(), is_transaction };
        self.shared.history().commits.push(commit);
    }

    fn write(&mut self, tx: &mut Transaction, done: &mut Done) -> Checked {
        let Some((space, namespace)) = self.space() else { return Ok(()) };
        let (key, (value, bytes), before) = (self.key(), self.value(), tx.savepoint());
        let written = match self.below(4) {
            0 => match tx.remove_in(&namespace, [key]) {
                Ok(there) => {
                    done.saw(place(space, key), None, there)?;
                    there.then_some(0)
                }
                Err(Error::NamespaceDropped) => None,
                Err(error) => return Err(words(error)),
            },
            kind => match tx.insert_in(&namespace, [key], bytes) {
                // Now and then it is taken back.
                Ok(()) if kind == 1 && self.below(3) == 0 => {
                    tx.rollback_to(&before).map_err(words)?;
                    None
                }
                Ok(()) => Some(value),
                Err(Error::NamespaceDropped) => None,
                Err(error) => return Err(words(error)),
            },
        };
        done.writes.extend(written.map(|value| (place(space, key), value)));
        Ok(())
    }

    fn read(&mut self, tx: &Transaction, done: &mut Done) -> Checked {
        let Some((space, namespace)) = self.space() else { return Ok(()) };
        let view = tx.namespace(&namespace).map_err(words)?;
        let (from, to) = (self.key(), self.key());
        let mut found = BTreeMap::new();
        let mut read = from..to.max(from);
        match self.below(5) {
            0..=2 => {
                found.extend(view.get([from]).map_err(words)?.map(|value| (from, number(&value))));
                read = from..from + 1;
            }
            _ if !self.is_ordered => {
                for record in view.iter() {
                    let (key, value) = record.map_err(words)?;
                    found.insert(key[0], number(&value));
                }
                read = 0..KEYS;
            }
            _ => {
                let (most, falls) = (self.below(4) as usize, self.below(2) == 0);
                let bounds = (Bound::Included(vec![read.start]), Bound::Excluded(vec![read.end]));
                let mut range = view.range(bounds).map_err(words)?;
                while found.len() < most {
                    let Some(record) = (if falls { range.next_back() } else { range.next() }) else { break };
                    let (key, value) = record.map_err(words)?;
                    found.insert(key[0], number(&value));
                }
                // Only this far is it known.
                if found.len() == most {
                    let (first, last) = (found.keys().next().copied(), found.keys().next_back().copied());
                    read = match (falls, first, last) {
                        (true, Some(first), _) => first..read.end,
                        (false, _, Some(last)) => read.start..last + 1,
                        _ => 0..0,
                    };
                }
            }
        }
        let wrong = found.keys().find(|key| !read.contains(key));
        if let Some(key) = wrong {
            return Err(format!("the key {key} was read in {read:?}"));
        }
        read.into_iter().try_for_each(|key| done.saw(place(space, key), found.get(&key).copied(), found.contains_key(&key)))
    }

    /// Writes without a transaction.
    pub(super) fn plain_writes(&mut self) -> Checked {
        while !self.shared.team.is_over() {
            let Some((space, namespace)) = self.space() else { continue };
            let (key, (value, bytes)) = (self.key(), self.value());
            let mut done = Done::default();
            done.writes.insert(place(space, key), value);
            let written = match self.below(3) {
                0 => namespace.insert_with_position([key], bytes),
                _ => {
                    let (other, (other_value, other_bytes)) = (self.key(), self.value());
                    done.writes.insert(place(0, other), other_value);
                    // Of two writes of one key the last one counts.
                    let batch = namespace.batch().insert([key], bytes).insert_in(self.db, [other], other_bytes);
                    batch.commit_with_position()
                }
            };
            match written {
                Ok(position) => self.committed(position, done, false),
                Err(Error::NamespaceDropped) => {}
                Err(error) => return Err(words(error)),
            }
            std::thread::sleep(std::time::Duration::from_micros(self.below(300)));
        }
        Ok(())
    }

    /// Clears one namespace, and drops the other and makes it again.
    pub(super) fn clears(&mut self) -> Checked {
        while !self.shared.team.is_over() {
            let space = 1 + self.below(2) as usize;
            let after = self.position()?;
            if space == 1 {
                self.db.namespace(SPACES[space]).and_then(|namespace| namespace.clear()).map_err(words)?;
            } else {
                self.db.drop_namespace(SPACES[space]).map_err(words)?;
            }
            let before = self.position()?;
            self.shared.history().clears.push(Clear { after, before, space });
            self.db.namespace(SPACES[space]).map_err(words)?;
            std::thread::sleep(std::time::Duration::from_micros(500 + self.below(3000)));
        }
        Ok(())
    }

    pub(super) fn maintenance(&mut self) -> Checked {
        while !self.shared.team.is_over() {
            match self.below(6) {
                0..=2 => drop(self.db.compact_step().map_err(words)?),
                3 => drop(self.db.compact().map_err(words)?),
                4 => self.db.checkpoint().map_err(words)?,
                _ => drop(self.db.flush().map_err(words)?),
            }
            std::thread::sleep(std::time::Duration::from_micros(self.below(1000)));
        }
        Ok(())
    }
}

impl Done {
    /// A key was found with a value, or without one. Of what the transaction has written itself, that is what it must find.
    fn saw(&mut self, place: usize, value: Option<u32>, is_there: bool) -> Checked {
        match self.writes.get(&place) {
            Some(&own) if (own != 0) == is_there && value.is_none_or(|value| value == own) => {}
            Some(own) => return Err(format!("a transaction has written {own} and reads {value:?} ({is_there}) at {place}")),
            None if is_there => self.reads.extend(value.map(|value| (place, value))),
            None => self.reads.push((place, 0)),
        }
        Ok(())
    }
}
