//! A store held against a state of the model.

use super::{Fault, space};
use crate::model::{DEFAULT_NS, Digest, State, default_digest, expiry_digest, namespace_digest, record_digest};
use crate::tape::{Val, key_bytes, ns_name};
use pipkin::{Db, Namespace};
use std::collections::BTreeSet;

/// Reads the whole store through `iter` and returns the digest of what is in it.
pub fn dump(db: &Db) -> Result<Digest, Fault> {
    let mut digest: Digest = 0;
    let mut read = |name: &str, space: &Namespace| -> Result<(), Fault> {
        let (mut records, mut own): (u64, Digest) = (0, 0);
        space::for_each(space, |key, value| {
            records += 1;
            own = own.wrapping_add(record_digest(name, key, value));
        })?;
        digest = digest.wrapping_add(own).wrapping_add(times(db, name, space)?);
        let mut ordered = Vec::new();
        if space::for_each_in_order(space, |key, value| ordered.push((key.to_vec(), value.to_vec())))? {
            let (mut sum, mut before): (Digest, Option<&[u8]>) = (0, None);
            for (key, value) in &ordered {
                sum = sum.wrapping_add(record_digest(name, key, value));
                if before.replace(key).is_some_and(|before| before >= key.as_slice()) {
                    return Fault::wrong(format!("range() of `{name}` gives keys out of order"));
                }
            }
            if sum != own {
                return Fault::wrong(format!(
                    "range() of `{name}` gives {} records, iter() gives {records} others",
                    ordered.len()
                ));
            }
        }
        let len = space.len()?;
        if len != records {
            return Fault::wrong(format!("len() of `{name}` is {len}, iter() gives {records}"));
        }
        Ok(())
    };
    read(DEFAULT_NS, db)?;
    let mut names = db.list_namespaces();
    names.sort_unstable();
    for name in &names {
        read(name, &db.namespace(name)?)?;
    }
    names.iter().for_each(|name| digest = digest.wrapping_add(namespace_digest(name)));
    Ok(digest)
}

/// What the expiries of a namespace's records add to the digest, and the time that they live by default.
fn times(db: &Db, name: &str, space: &Namespace) -> Result<Digest, Fault> {
    let default = space.default_ttl().map_or(0, |ttl| default_digest(name, ttl.as_millis() as u64));
    if !db.may_expire() {
        return Ok(default);
    }
    let mut digest = default;
    for key in space.keys() {
        let key = key?;
        digest = digest.wrapping_add(space.expires_at(&key)?.map_or(0, |expiry| expiry_digest(name, &key, expiry)));
    }
    Ok(digest)
}

/// The first differences between a store and a state, in words, for a person.
pub fn differences(db: &Db, state: &State) -> String {
    let mut out = String::new();
    let mut say = |line: String| {
        if out.len() < 1500 {
            out.push_str("\n  ");
            out.push_str(&line);
        }
    };
    let mut names: BTreeSet<String> = db.list_namespaces().into_iter().collect();
    for (&ns, space) in &state.spaces {
        if ns != 0 && !names.remove(&ns_name(ns)) {
            say(format!("namespace {ns} is missing"));
            continue;
        }
        let Ok(handle) = space::namespace(db, ns) else {
            say(format!("namespace {ns} does not open"));
            continue;
        };
        let mut extra: BTreeSet<Vec<u8>> = BTreeSet::new();
        let keys = handle.keys().try_for_each(|key| {
            extra.insert(key?);
            Ok::<_, pipkin::Error>(())
        });
        if let Err(error) = keys {
            say(format!("keys() of namespace {ns}: {error}"));
        }
        for (&key, &val) in space {
            extra.remove(&key_bytes(key));
            match handle.get(key_bytes(key)) {
                Ok(Some(found)) if found == val.bytes() => {
                    let (right, found) = (state.expiries.get(&(ns, key)).copied(), handle.expires_at(key_bytes(key)));
                    if !matches!(&found, Ok(found) if *found == right) {
                        say(format!("{ns}/{key}: should expire at {right:?}, expires at {found:?}"));
                    }
                }
                Ok(Some(found)) => say(format!(
                    "{ns}/{key}: should be {}#{}, has {} bytes {:02x?}",
                    val.len,
                    val.tag,
                    found.len(),
                    found.get(..8.min(found.len()))
                )),
                Ok(None) => say(format!("{ns}/{key}: should be {}#{}, is missing", val.len, val.tag)),
                Err(error) => say(format!("{ns}/{key}: {error}")),
            }
        }
        for key in extra {
            say(format!("namespace {ns} has {:?}, which should not be there", String::from_utf8_lossy(&key)));
        }
    }
    names.into_iter().for_each(|name| say(format!("`{name}` exists, and should not")));
    out
}

/// The store's whole content is that of `state`.
pub fn check_state(db: &Db, state: &State) -> Result<(), Fault> {
    let digest = dump(db)?;
    if digest == state.digest {
        return Ok(());
    }
    Fault::wrong(format!("the content differs from the model's:{}", differences(db, state)))
}

/// `get` and `contains_key` answer as `state` does for every key below `keys`, present or not.
pub fn check_gets(db: &Db, state: &State, keys: u16) -> Result<(), Fault> {
    for (&ns, space) in &state.spaces {
        let handle = space::namespace(db, ns)?;
        for key in 0..keys {
            check_get(&handle, ns, key, space.get(&key).copied())?;
        }
    }
    Ok(())
}

fn check_get(space: &Namespace, ns: u8, key: u16, val: Option<Val>) -> Result<(), Fault> {
    let bytes = key_bytes(key);
    let found = space.get_zerocopy(&bytes)?;
    let right = match (&found, val) {
        (Some(found), Some(val)) => **found == *val.bytes(),
        (None, None) => true,
        _ => false,
    };
    if !right {
        return Fault::wrong(format!(
            "get {ns}/{key}: should be {val:?}, got {:?}",
            found.map(|found| (found.len(), found.iter().take(8).copied().collect::<Vec<u8>>()))
        ));
    }
    if space.contains_key(&bytes)? != val.is_some() {
        return Fault::wrong(format!("contains_key {ns}/{key} disagrees with get"));
    }
    Ok(())
}
