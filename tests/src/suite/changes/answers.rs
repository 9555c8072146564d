//! What a store must answer.

use super::model::{Record, State, is_same, lives};
use crate::suite::{Checked, words};
use pipkin::{Change, Db, Error, Position};
use std::collections::BTreeMap;

pub(super) fn is_unknown(db: &Db, position: Position) -> Checked {
    match db.changes().from(position).start() {
        Err(Error::UnknownPosition) => Ok(()),
        other => Err(format!("the position of a lost commit is answered with {other:?}")),
    }
}

/// Later its place may have been compacted: then nobody can tell any more.
pub(super) fn is_refused(db: &Db, position: Position) -> Checked {
    match db.changes().from(position).start() {
        Err(Error::UnknownPosition | Error::Compacted { .. }) => Ok(()),
        other => Err(format!("the position of a commit that was lost long ago is answered with {other:?}")),
    }
}

/// Compares the records that have not expired at a time.
pub(super) fn has_state(db: &Db, expected: &State, now: u64) -> Checked {
    let mut found = BTreeMap::new();
    for name in [String::new()].into_iter().chain(db.list_namespaces()) {
        let namespace = if name.is_empty() { db.default_namespace() } else { db.namespace(&name).map_err(words)? };
        found.insert(name, namespace.iter().collect::<pipkin::Result<BTreeMap<_, _>>>().map_err(words)?);
    }
    if found == living(expected, now) { Ok(()) } else { Err("the store holds other records than its commits come to".into()) }
}

/// The records of each namespace that have not expired.
pub(super) fn living(state: &State, now: u64) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
    let of = |records: &BTreeMap<Vec<u8>, Record>| {
        let living = records.iter().filter(|(_, record)| lives(record, now));
        living.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    };
    state.iter().map(|(name, records)| (name.clone(), of(records))).collect()
}

pub(super) fn short(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|change| format!("{change:?}").chars().take(90).collect()).collect()
}

/// The answer of a store that no longer has what comes after a position.
pub(super) const COMPACTED: &str = "compacted";

/// What comes from a position on are the last commits, all behind the `first` ones if it is known how many are before the position.
pub(super) fn is_a_suffix(db: &Db, position: Position, first: Option<usize>, commits: &[Vec<Change>]) -> Checked {
    let read = db.changes().from(position).appended(true).start().and_then(|mut changes| changes.drain());
    let heard = match read {
        Err(Error::Compacted { .. }) => return Err(COMPACTED.into()),
        read => read.map_err(words)?,
    };
    let last = commits.len();
    let is_same = heard.len() <= last
        && first.is_none_or(|first| first + heard.len() == last)
        && heard.iter().zip(&commits[last - heard.len()..]).all(|(commit, made)| is_same(commit.changes(), made));
    if is_same { Ok(()) } else { Err(format!("{} commits come after {position:?}, {first:?} of {last}", heard.len())) }
}
