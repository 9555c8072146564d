//! Every way of reading a snapshot, held against the model.

use super::model::{KEYS, Key, SPACES, State, key_of, marker_of, name_of};
use crate::rng::Rng;
use crate::suite::{Checked, words};
use pipkin::{Cursor, Error, Snapshot, SnapshotNamespace};
use std::collections::BTreeMap;

/// All of a snapshot: the state of each writer, and the names.
pub(super) fn check(snapshot: &Snapshot, states: &[State], rng: &mut Rng) -> Checked {
    for (writer, state) in states.iter().enumerate() {
        check_one(snapshot, writer, state, rng).map_err(|what| format!("writer {writer}, later: {what}"))?;
    }
    let names = states
        .iter()
        .enumerate()
        .flat_map(|(writer, state)| (1..SPACES).filter(|&space| state[space].is_some()).map(move |space| name_of(writer, space)));
    let mut names: Vec<String> = names.collect();
    names.sort();
    let listed = snapshot.list_namespaces().map_err(words)?;
    if listed != names {
        return Err(format!("namespaces: {listed:?} instead of {names:?}"));
    }
    let defaults: Vec<_> = states.iter().filter_map(|state| state[0].clone()).flatten().collect();
    same(snapshot, defaults.into_iter().collect(), rng)
}

/// What one writer has to do with: its keys in the default namespace, one by one, and its namespaces.
pub(super) fn check_one(snapshot: &Snapshot, writer: usize, state: &State, rng: &mut Rng) -> Checked {
    let own = state[0].clone().unwrap_or_default();
    for key in (0..KEYS).map(|key| key_of(writer, key)).chain([marker_of(writer)]) {
        let found = snapshot.get(&key).map_err(words)?;
        if found.as_ref() != own.get(&key) {
            return Err(format!(
                "{}: {:?} instead of {:?}",
                key.escape_ascii(),
                found.map(|v| v.len()),
                own.get(&key).map(Vec::len)
            ));
        }
    }
    for (space, records) in state.iter().enumerate().skip(1) {
        let name = name_of(writer, space);
        match (snapshot.namespace(&name).map_err(words)?, records) {
            (Some(namespace), Some(records)) => {
                same(&namespace, records.clone(), rng).map_err(|what| format!("{name}: {what}"))?;
            }
            (None, None) => {}
            (found, _) => return Err(format!("{name} is there: {}", found.is_some())),
        }
    }
    Ok(())
}

/// One way of reading a namespace of a snapshot.
fn same(namespace: &SnapshotNamespace, expected: BTreeMap<Key, Vec<u8>>, rng: &mut Rng) -> Checked {
    let len = namespace.len().map_err(words)?;
    if len != expected.len() as u64 {
        return Err(format!("{len} records are counted instead of {}", expected.len()));
    }
    let sorted = |mut records: Vec<(Key, Vec<u8>)>| {
        records.sort();
        records
    };
    let collect = |range: pipkin::Result<pipkin::Range<'_>>| range.and_then(Iterator::collect::<pipkin::Result<Vec<_>>>);
    let (way, found) = match rng.below(7) {
        0 => ("iter", namespace.iter().collect::<pipkin::Result<Vec<_>>>().map(sorted)),
        1 => ("page", pages(namespace, 1 + rng.below(9) as usize).map(sorted)),
        2 => ("range", collect(namespace.range(..))),
        3 => {
            let reversed = namespace.range(..).and_then(|range| range.rev().collect::<pipkin::Result<Vec<_>>>());
            ("range back", reversed.map(|records| records.into_iter().rev().collect()))
        }
        4 => {
            let keys = namespace.keys().collect::<pipkin::Result<Vec<_>>>();
            let pairs = keys.and_then(|keys| {
                Ok(namespace.get_many(&keys)?.into_iter().zip(keys).map(|(v, k)| (k, v.unwrap_or_default())).collect())
            });
            ("keys, get_many", pairs.map(sorted))
        }
        5 => {
            let from = expected.keys().nth(expected.len() / 2).cloned().unwrap_or_default();
            let front = namespace.range(..from.clone()).and_then(Iterator::collect::<pipkin::Result<Vec<_>>>);
            let both = front.and_then(|front| Ok([front, collect(namespace.iter_from(&from))?].concat()));
            ("range, iter_from", both)
        }
        _ => {
            let held = expected.keys().map(|key| {
                let value = namespace.get_zerocopy(key)?;
                std::thread::yield_now();
                Ok((key.clone(), value.map(|value| value.to_vec()).unwrap_or_default()))
            });
            ("get_zerocopy", held.collect::<pipkin::Result<Vec<_>>>())
        }
    };
    // A store without order has no ranges: it is read all the same, because a way that says nothing would let any state of equal length pass.
    let (way, found) = match found {
        Err(Error::NotOrdered) => ("iter, without order", namespace.iter().collect::<pipkin::Result<Vec<_>>>().map(sorted)),
        found => (way, found),
    };
    match found {
        Err(error) => Err(words(error)),
        Ok(found) if found.iter().map(|(key, value)| (key, value)).eq(&expected) => Ok(()),
        Ok(found) => {
            let keys = |records: &mut dyn Iterator<Item = (&Key, &Vec<u8>)>| {
                records.map(|(key, value)| format!("{}={}", key.escape_ascii(), value.len())).collect::<Vec<_>>().join(" ")
            };
            let (found, expected) = (keys(&mut found.iter().map(|(key, value)| (key, value))), keys(&mut expected.iter()));
            Err(format!("{way}: {found} instead of {expected}"))
        }
    }
}

fn pages(namespace: &SnapshotNamespace, size: usize) -> pipkin::Result<Vec<(Key, Vec<u8>)>> {
    let (mut records, mut cursor) = (Vec::new(), Some(Cursor::default()));
    while let Some(from) = cursor {
        let full = records.len() + size;
        cursor = namespace.page(from, |key, value| {
            records.push((key.to_vec(), value.to_vec()));
            records.len() < full
        })?;
    }
    Ok(records)
}
