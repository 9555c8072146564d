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

/// The name under which the default namespace goes in digests; no named one can have it.
pub const DEFAULT_NS: &str = "";

/// The records of every namespace. The default one, 0, is always there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Namespace, key, value.
    pub spaces: BTreeMap<u8, BTreeMap<u16, Val>>,
    /// Its digest, kept up to date.
    pub digest: Digest,
}

impl Default for State {
    fn default() -> Self {
        Self { spaces: BTreeMap::from([(0, BTreeMap::new())]), digest: 0 }
    }
}

fn digest_name(ns: u8) -> String {
    if ns == 0 { DEFAULT_NS.to_string() } else { ns_name(ns) }
}

fn digest_of(ns: u8, key: u16, val: Val) -> Digest {
    record_digest(&digest_name(ns), &key_bytes(key), &val.bytes())
}

impl State {
    /// The value of a key.
    pub fn get(&self, ns: u8, key: u16) -> Option<Val> {
        self.spaces.get(&ns)?.get(&key).copied()
    }

    /// Sets or removes a key; the namespace exists.
    pub fn set(&mut self, ns: u8, key: u16, val: Option<Val>) {
        let space = self.spaces.entry(ns).or_default();
        let old = match val {
            Some(val) => space.insert(key, val),
            None => space.remove(&key),
        };
        let gone = old.map_or(0, |old| digest_of(ns, key, old));
        let came = val.map_or(0, |val| digest_of(ns, key, val));
        self.digest = self.digest.wrapping_sub(gone).wrapping_add(came);
    }

    /// Empties a namespace.
    pub fn clear(&mut self, ns: u8) {
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
    let mut now = before.clone();
    let mut touched: Vec<u8> = match op {
        Op::Put(ns, ..) | Op::Del(ns, _) | Op::Many(ns, _) | Op::Cas(ns, ..) | Op::Update(ns, ..) | Op::Clear(ns) => {
            vec![*ns]
        }
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
        _ => return steps,
    }
    steps.push(now);
    steps
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

    /// The newest place from `low` to `high` whose state has `digest`.
    pub fn find(&self, digest: Digest, low: usize, high: usize) -> Option<usize> {
        (low..=high).rev().find(|&place| self.states[place].digest == digest)
    }
}
