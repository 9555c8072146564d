//! Every way of reading, against the model.

use super::model::{KEYS, Model, key_of};
use crate::suite::{Checked, words};
use pipkin::{Cursor, Namespace, Result, Snapshot, SnapshotNamespace};
use std::collections::BTreeMap;

type Found = BTreeMap<Vec<u8>, Vec<u8>>;

fn all(records: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>) -> Result<Found, String> {
    records.collect::<Result<_>>().map_err(words)
}

fn same(way: &str, space: usize, found: &Found, expected: &Found) -> Checked {
    if found == expected {
        return Ok(());
    }
    let shown = |records: &Found| {
        let one =
            |(key, value): (&Vec<u8>, &Vec<u8>)| format!("{}: {}x{:?}", String::from_utf8_lossy(key), value.len(), value.first());
        records.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    Err(format!("{way} of space {space} is {{{}}} instead of {{{}}}", shown(found), shown(expected)))
}

fn expected_of(model: &Model, space: usize) -> Found {
    model.spaces[space].iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect()
}

/// One page from a cursor on.
type Page<'a> = dyn Fn(Cursor, &mut Each<'_>) -> Result<Option<Cursor>> + 'a;
type Each<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

fn paged(page: &Page<'_>) -> Result<Found, String> {
    let (mut found, mut cursor) = (Found::new(), Some(Cursor::default()));
    while let Some(from) = cursor {
        let mut each = |key: &[u8], value: &[u8]| drop(found.insert(key.to_vec(), value.to_vec()));
        cursor = page(from, &mut each).map_err(words)?;
    }
    Ok(found)
}

/// Fails unless every read of both namespaces agrees with the model.
pub(super) fn check(spaces: &[Namespace], model: &Model) -> Checked {
    for (number, space) in spaces.iter().enumerate() {
        let expected = expected_of(model, number);
        let mut single = Found::new();
        let keys: Vec<Vec<u8>> = (0..KEYS).map(key_of).chain([b"relies on it".to_vec()]).collect();
        for (key, value) in keys.iter().zip(space.get_many(&keys).map_err(words)?) {
            let got = space.get(key).map_err(words)?;
            let views = [
                space.get_zerocopy(key).map_err(words)?.map(pipkin::Value::into_vec),
                space.get_zerocopy_owned(key).map_err(words)?.map(pipkin::OwnedValue::into_vec),
                space.get_versioned(key).map_err(words)?.map(|(value, _)| value),
                space.transaction(|tx| tx.get(key)).map_err(words)?,
                value,
            ];
            if views.iter().any(|view| *view != got) || space.contains_key(key).map_err(words)? != got.is_some() {
                return Err(format!("reads of {key:?} in {number} differ: {got:?} and {views:?}"));
            }
            let expiry = space.expires_at(key).map_err(words)?;
            let known = model.spaces[number].get(key).and_then(|(_, expiry)| *expiry);
            if expiry != known {
                return Err(format!("{key:?} in {number} expires at {expiry:?} instead of {known:?}"));
            }
            let left = space.ttl(key).map_err(words)?.map(|left| left.as_millis() as u64);
            if left != known.map(|expiry| expiry - model.now) {
                return Err(format!("{key:?} in {number} lives {left:?} ms more, to {known:?} at {}", model.now));
            }
            single.extend(got.map(|value| (key.clone(), value)));
        }
        same("get", number, &single, &expected)?;
        same("iter", number, &all(space.iter())?, &expected)?;
        same("range", number, &all(space.range(..).map_err(words)?)?, &expected)?;
        same("range, reversed", number, &all(space.range(..).map_err(words)?.rev())?, &expected)?;
        same(
            "page",
            number,
            &paged(&|from, each| {
                space.page(from, |key, value| {
                    each(key, value);
                    true
                })
            })?,
            &expected,
        )?;
        let mut keys = space.keys().collect::<Result<Vec<_>>>().map_err(words)?;
        keys.sort();
        let ranged = space.range_keys(..).and_then(Iterator::collect::<Result<Vec<_>>>).map_err(words)?;
        if keys != ranged || !keys.iter().eq(expected.keys()) {
            return Err(format!("keys of space {number}: {keys:?} and {ranged:?}"));
        }
        let len = space.len().map_err(words)?;
        if len != expected.len() as u64 || space.is_empty().map_err(words)? != expected.is_empty() {
            return Err(format!("space {number} has {len} records instead of {}", expected.len()));
        }
    }
    Ok(())
}

/// Fails unless every read of a snapshot agrees with the model of its time.
pub(super) fn check_snapshot(snapshot: &Snapshot, then: &Model) -> Checked {
    let named = snapshot.namespace("named").map_err(words)?.ok_or("a snapshot has lost a namespace")?;
    let spaces: [SnapshotNamespace; 2] = [snapshot.default_namespace(), named];
    for (number, space) in spaces.iter().enumerate() {
        let expected = expected_of(then, number);
        let mut single = Found::new();
        for key in (0..KEYS).map(key_of).chain([b"relies on it".to_vec()]) {
            let got = space.get(&key).map_err(words)?;
            single.extend(got.map(|value| (key, value)));
        }
        same("get of the snapshot", number, &single, &expected)?;
        same("iter of the snapshot", number, &all(space.iter())?, &expected)?;
        same("range of the snapshot", number, &all(space.range(..).map_err(words)?)?, &expected)?;
        let pages = paged(&|from, each| {
            space.page(from, |key, value| {
                each(key, value);
                true
            })
        })?;
        same("page of the snapshot", number, &pages, &expected)?;
        let len = space.len().map_err(words)?;
        if len != expected.len() as u64 {
            return Err(format!("the snapshot has {len} records in space {number} instead of {}", expected.len()));
        }
    }
    Ok(())
}
