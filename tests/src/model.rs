//! What the store must answer: a `BTreeMap` for each namespace, and the states between the commits of an operation.

use crate::tape::{Edit, Op, Val, key_bytes, ns_name};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A sum over the records and namespaces of a state: equal states have equal digests, in whatever order they are read.
pub type Digest = u64;

/// The part that one record adds to the digest of a state.
pub fn record_digest(ns: &str, key: &[u8], value: &[u8]) -> Digest {
    xxh3_64_with_seed(value, xxh3_64_with_seed(key, xxh3_64_with_seed(ns.as_bytes(), 1)))
}

/// The part that the existence of a namespace adds.
pub fn namespace_digest(ns: &str) -> Digest {
    xxh3_64_with_seed(ns.as_bytes(), 2)
}

/// The part that a record's expiry adds.
pub fn expiry_digest(ns: &str, key: &[u8], expiry: u64) -> Digest {
    xxh3_64_with_seed(&expiry.to_le_bytes(), xxh3_64_with_seed(key, xxh3_64_with_seed(ns.as_bytes(), 3)))
}

/// The part that it adds how long the records of a namespace live by default, in milliseconds.
pub fn default_digest(ns: &str, ms: u64) -> Digest {
    xxh3_64_with_seed(&ms.to_le_bytes(), xxh3_64_with_seed(ns.as_bytes(), 4))
}

/// The name under which the default namespace goes in digests; no named one can have it.
pub const DEFAULT_NS: &str = "";

/// The records of every namespace at a time. The default one, 0, is always there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Namespace, key, value.
    pub spaces: BTreeMap<u8, BTreeMap<u16, Val>>,
    /// When the records expire that do.
    pub expiries: BTreeMap<(u8, u16), u64>,
    /// How long records of a namespace live by default, in milliseconds, where that is not for ever.
    pub defaults: BTreeMap<u8, u64>,
    /// The time of the store, in milliseconds since 1970: no record is left that has expired by then. 0 without a clock.
    pub now: u64,
    /// Nothing was written: only time has gone by since the state before.
    pub is_aged: bool,
    /// Its digest, kept up to date.
    pub digest: Digest,
}

impl Default for State {
    fn default() -> Self {
        let spaces = BTreeMap::from([(0, BTreeMap::new())]);
        Self { spaces, expiries: BTreeMap::new(), defaults: BTreeMap::new(), now: 0, is_aged: false, digest: 0 }
    }
}

fn digest_name(ns: u8) -> String {
    if ns == 0 { DEFAULT_NS.to_string() } else { ns_name(ns) }
}

fn digest_of(ns: u8, key: u16, val: Val) -> Digest {
    record_digest(&digest_name(ns), &key_bytes(key), &val.bytes())
}

fn digest_of_expiry(ns: u8, key: u16, expiry: u64) -> Digest {
    expiry_digest(&digest_name(ns), &key_bytes(key), expiry)
}

impl State {
    /// The value of a key.
    pub fn get(&self, ns: u8, key: u16) -> Option<Val> {
        self.spaces.get(&ns)?.get(&key).copied()
    }

    /// Sets or removes a key; the namespace exists. The record lives as long as those of its namespace do.
    pub fn set(&mut self, ns: u8, key: u16, val: Option<Val>) {
        let ttl = self.defaults.get(&ns).filter(|_| val.is_some());
        self.set_until(ns, key, val, ttl.map(|ms| self.now + ms));
    }

    /// Sets or removes a key; the namespace exists.
    pub fn set_until(&mut self, ns: u8, key: u16, val: Option<Val>, expiry: Option<u64>) {
        self.expire_at(ns, key, expiry);
        let space = self.spaces.entry(ns).or_default();
        let old = match val {
            Some(val) => space.insert(key, val),
            None => space.remove(&key),
        };
        let gone = old.map_or(0, |old| digest_of(ns, key, old));
        let came = val.map_or(0, |val| digest_of(ns, key, val));
        self.digest = self.digest.wrapping_sub(gone).wrapping_add(came);
    }

    /// Gives a record another expiry, or none.
    pub fn expire_at(&mut self, ns: u8, key: u16, expiry: Option<u64>) {
        let old = match expiry {
            Some(expiry) => self.expiries.insert((ns, key), expiry),
            None => self.expiries.remove(&(ns, key)),
        };
        let of = |expiry: Option<u64>| expiry.map_or(0, |expiry| digest_of_expiry(ns, key, expiry));
        self.digest = self.digest.wrapping_sub(of(old)).wrapping_add(of(expiry));
    }

    /// Says how long the records of a namespace live; 0: for ever.
    pub fn set_default(&mut self, ns: u8, ms: u64) {
        let of = |ms: Option<u64>| ms.filter(|&ms| ms > 0).map_or(0, |ms| default_digest(&digest_name(ns), ms));
        let old = if ms > 0 { self.defaults.insert(ns, ms) } else { self.defaults.remove(&ns) };
        self.digest = self.digest.wrapping_sub(of(old)).wrapping_add(of(Some(ms)));
    }

    /// What is left of it at this time.
    #[must_use]
    pub fn at(&self, now: u64) -> Self {
        let mut later = Self { now, is_aged: true, ..self.clone() };
        for ((ns, key), _) in self.expired_at(now) {
            later.set_until(ns, key, None, None);
        }
        later
    }

    /// The digest of [`Self::at`].
    pub fn digest_at(&self, now: u64) -> Digest {
        let gone = self.expired_at(now).map(|((ns, key), expiry)| {
            let record = self.get(ns, key).map_or(0, |val| digest_of(ns, key, val));
            record.wrapping_add(digest_of_expiry(ns, key, expiry))
        });
        gone.fold(self.digest, Digest::wrapping_sub)
    }

    fn expired_at(&self, now: u64) -> impl Iterator<Item = ((u8, u16), u64)> {
        self.expiries.iter().map(|(&record, &expiry)| (record, expiry)).filter(move |&(_, expiry)| expiry <= now)
    }

    /// Empties a namespace.
    pub fn clear(&mut self, ns: u8) {
        let expiring: Vec<u16> = self.expiries.range((ns, 0)..=(ns, u16::MAX)).map(|(&(_, key), _)| key).collect();
        expiring.into_iter().for_each(|key| self.expire_at(ns, key, None));
        let space = self.spaces.insert(ns, BTreeMap::new()).unwrap_or_default();
        for (key, val) in space {
            self.digest = self.digest.wrapping_sub(digest_of(ns, key, val));
        }
    }

    /// Makes a namespace exist.
    pub fn define(&mut self, ns: u8) {
        if let std::collections::btree_map::Entry::Vacant(e) = self.spaces.entry(ns) {
            e.insert(BTreeMap::new());
            self.digest = self.digest.wrapping_add(namespace_digest(&digest_name(ns)));
        }
    }

    /// Drops a namespace.
    pub fn drop_namespace(&mut self, ns: u8) {
        if self.spaces.contains_key(&ns) {
            self.clear(ns);
            self.set_default(ns, 0);
            self.spaces.remove(&ns);
            self.digest = self.digest.wrapping_sub(namespace_digest(&digest_name(ns)));
        }
    }

    /// Number of records in all namespaces.
    pub fn records(&self) -> u64 {
        self.spaces.values().map(|space| space.len() as u64).sum()
    }
}

/// The states behind each commit that `op` makes, in order. Empty when it commits nothing.
pub fn commits(before: &State, op: &Op) -> Vec<State> {
    let mut steps = Vec::new();
    let mut now = State { is_aged: false, ..before.clone() };
    let mut touched: Vec<u8> = match op {
        Op::Put(ns, ..) | Op::Del(ns, _) | Op::Many(ns, _) | Op::Cas(ns, ..) | Op::Update(ns, ..) | Op::Clear(ns) => vec![*ns],
        Op::Until(ns, ..) | Op::Persist(ns, _) | Op::Default(ns, _) => vec![*ns],
        Op::Txn(_, edits) => edits.iter().map(|edit| edit.0).collect(),
        _ => Vec::new(),
    };
    touched.sort_unstable();
    touched.dedup();
    for ns in touched {
        if !now.spaces.contains_key(&ns) {
            now.define(ns);
            steps.push(now.clone());
        }
    }
    match op {
        Op::Put(ns, key, val) => now.set(*ns, *key, Some(*val)),
        Op::Del(ns, key) => now.set(*ns, *key, None),
        Op::Many(ns, records) => records.iter().for_each(|(key, val)| now.set(*ns, *key, Some(*val))),
        Op::Txn(true, edits) => edits.iter().for_each(|(ns, key, val): &Edit| now.set(*ns, *key, *val)),
        Op::Cas(ns, key, true, val) | Op::Update(ns, key, val) => now.set(*ns, *key, *val),
        Op::Clear(ns) => now.clear(*ns),
        Op::Drop(ns) => now.drop_namespace(*ns),
        Op::Until(ns, key, val, ms) => now.set_until(*ns, *key, Some(*val), Some(now.now + ms)),
        Op::Persist(ns, key) => now.expire_at(*ns, *key, None),
        Op::Default(ns, ms) => now.set_default(*ns, *ms),
        _ => return steps,
    }
    now.is_aged = before.is_aged && steps.is_empty() && writes_nothing(before, op);
    steps.push(now);
    steps
}

/// True for a removal of what is not there, or what has expired, and for a default that the namespace has: the log hears nothing of it.
fn writes_nothing(before: &State, op: &Op) -> bool {
    match op {
        Op::Del(ns, key) | Op::Cas(ns, key, true, None) | Op::Update(ns, key, None) => before.get(*ns, *key).is_none(),
        Op::Persist(ns, key) => !before.expiries.contains_key(&(*ns, *key)),
        Op::Default(ns, ms) => before.defaults.get(ns).copied().unwrap_or(0) == *ms,
        _ => false,
    }
}

/// Every state the store has been in, and which of them it may come back in.
#[derive(Clone, Debug)]
pub struct History {
    /// One state per commit, the oldest first.
    pub states: Vec<State>,
    /// A power cut may not go back behind this one: a flush acknowledged it.
    pub flushed: usize,
}

impl History {
    /// A store that is in `state`, all of it flushed.
    pub fn new(state: State) -> Self {
        Self { states: vec![state], flushed: 0 }
    }

    /// The newest state.
    pub fn now(&self) -> &State {
        &self.states[self.states.len() - 1]
    }

    /// The place of the newest state.
    pub fn newest(&self) -> usize {
        self.states.len() - 1
    }

    /// The newest place from `low` to `high` whose state has `digest` at a time.
    pub fn find(&self, digest: Digest, now: u64, low: usize, high: usize) -> Option<usize> {
        (low..=high).rev().find(|&place| self.states[place].digest_at(now) == digest)
    }

    /// The place of the last commit up to `place`.
    pub fn commit_at(&self, place: usize) -> usize {
        (0..=place).rev().find(|&place| !self.states[place].is_aged).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What had expired in front of one that writes nothing counted as forgotten by no flush, though no commit had relied on it: a power cut in
    /// front of the next sync may take the mark that says so.
    #[test]
    fn a_default_that_the_namespace_has_is_no_commit() {
        let mut state = State::default();
        state.define(1);
        state.set_default(1, 50);
        let is_aged = |state: &State, ns, ms| commits(state, &Op::Default(ns, ms)).last().is_some_and(|last| last.is_aged);
        let aged = state.at(10);
        assert!(is_aged(&aged, 1, 50) && is_aged(&aged, 0, 0));
        assert!(!is_aged(&aged, 1, 60) && !is_aged(&aged, 1, 0) && !is_aged(&aged, 0, 50));
        assert!(!is_aged(&aged, 2, 0), "the namespace is new");
        assert!(!is_aged(&state, 1, 50), "the state in front of it is a commit");
    }
}
