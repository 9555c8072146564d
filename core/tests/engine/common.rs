//! Set-up that several of these modules share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "each set of features uses a part, and a test fails by panicking"
)]

use pipkin::storage::MemoryStorage;
use pipkin::{Change, Commit, Db, Storage};
use std::collections::BTreeMap;

/// The store in this storage, new or not; a new one in segments of this size.
pub(crate) fn opened(storage: impl Storage + 'static, segment_size: u32) -> Db {
    Db::builder().segment_size(segment_size).background(false).open_storage(Box::new(storage)).unwrap()
}

/// The process ends without a close.
pub(crate) fn killed(db: Db) {
    std::mem::forget(db);
}

/// Of so many places in a row one is tried: `normal`, or what the environment says. At night it is 1.
pub(crate) fn stride(normal: usize) -> usize {
    std::env::var("PIPKIN_FLIP_STRIDE").map_or(normal, |stride| stride.parse().unwrap())
}

/// Where these bytes come first.
pub(crate) fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap()
}

/// Where they come last.
pub(crate) fn find_last(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).rposition(|window| window == what).unwrap()
}

/// The same file with one bit changed at this place.
pub(crate) fn flipped(bytes: &[u8], at: usize) -> MemoryStorage {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 4;
    MemoryStorage::from_vec(bytes)
}

/// Every namespace with its records; the default one is the empty name.
pub(crate) fn contents(db: &Db) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut all = BTreeMap::from([(String::new(), db.iter().map(Result::unwrap).collect())]);
    for name in db.list_namespaces() {
        all.insert(name.clone(), db.namespace(&name).unwrap().iter().map(Result::unwrap).collect());
    }
    all
}

/// The numbers under one key, as commits wrote them.
pub(crate) fn numbers(commits: &[Commit]) -> Vec<u32> {
    let number = |commit: &Commit| match commit.changes() {
        [Change::Put { value, .. }] => u32::from_le_bytes(value[..4].try_into().unwrap()),
        other => panic!("{other:?}"),
    };
    commits.iter().map(number).collect()
}

/// Overwrites a few keys with rising numbers.
pub(crate) fn churn(db: &Db, from: u32, to: u32) {
    for number in from..to {
        let mut value = vec![0; 120];
        value[..4].copy_from_slice(&number.to_le_bytes());
        db.insert((number % 5).to_le_bytes(), &value).unwrap();
    }
    db.flush().unwrap();
}
