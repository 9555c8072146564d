//! The namespaces of the tape, by number, and every way to walk over one.

use crate::tape::ns_name;
use pipkin::{Db, Error, Namespace};

/// The namespace by number, 0 for the default one; creates it.
pub fn namespace(db: &Db, ns: u8) -> pipkin::Result<Namespace> {
    if ns == 0 { Ok(db.default_namespace()) } else { db.namespace(&ns_name(ns)) }
}

/// The namespace by name, the empty one for the default one; creates it.
pub fn named(db: &Db, name: &str) -> pipkin::Result<Namespace> {
    if name.is_empty() { Ok(db.default_namespace()) } else { db.namespace(name) }
}

/// Every record, as `iter` gives it.
pub fn for_each(space: &Namespace, mut each: impl FnMut(&[u8], &[u8])) -> pipkin::Result<()> {
    space.iter().try_for_each(|record| record.map(|(key, value)| each(&key, &value)))
}

/// Every record, as `range_with` gives it; false when the store keeps no order. That `range_rev_with` gives the same is seen to here.
pub fn for_each_in_order(space: &Namespace, mut each: impl FnMut(&[u8], &[u8])) -> pipkin::Result<bool> {
    let mut keys = Vec::new();
    let all = |key: &[u8], value: &[u8]| {
        each(key, value);
        keys.push(key.to_vec());
        true
    };
    match space.range_with(.., all) {
        Err(Error::NotOrdered) => return Ok(false),
        result => result?,
    }
    let back = |key: &[u8], _: &[u8]| {
        assert_eq!(keys.pop().as_deref(), Some(key), "walked back");
        true
    };
    space.range_rev_with(.., back)?;
    assert!(keys.is_empty(), "walked back past {} keys", keys.len());
    Ok(true)
}
