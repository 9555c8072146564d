//! The content of a store as two numbers, the same whatever order the records lie in.

use alloc::format;
use alloc::string::String;
use pipkin::Db;

/// How many records a store holds, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Number of records in all namespaces.
    pub records: u64,
    /// A wrapping sum over one FNV-1a hash of namespace, key and value for each record.
    pub hash: u64,
}

impl Digest {
    fn add(&mut self, space: &str, key: &[u8], value: &[u8]) {
        self.records += 1;
        self.hash = self.hash.wrapping_add(record_hash(space, key, value));
    }
}

/// FNV-1a over the three fields, each behind its length, so that no byte can move unseen from one to the next.
pub(crate) fn record_hash(space: &str, key: &[u8], value: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for field in [space.as_bytes(), key, value] {
        for byte in (field.len() as u64).to_le_bytes().iter().chain(field) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}

/// Reads every record of every namespace twice, through the iterator and by its key, and sums them up.
///
/// Fails when the two answers differ, or when the number of records is not the one that the store counts.
pub fn digest(db: &Db) -> Result<Digest, String> {
    let mut digest = Digest::default();
    for entry in db.iter() {
        let (key, value) = entry.map_err(|error| format!("iter: {error}"))?;
        let found = db.get(&key).map_err(|error| format!("get: {error}"))?;
        same("", &key, &value, found.as_deref())?;
        digest.add("", &key, &value);
    }
    counted("", digest.records, db.len().map_err(|error| format!("len: {error}"))?)?;
    for name in db.list_namespaces() {
        let before = digest.records;
        let space = db.namespace(&name).map_err(|error| format!("namespace {name}: {error}"))?;
        for entry in space.iter() {
            let (key, value) = entry.map_err(|error| format!("iter in {name}: {error}"))?;
            let found = space.get(&key).map_err(|error| format!("get in {name}: {error}"))?;
            same(&name, &key, &value, found.as_deref())?;
            digest.add(&name, &key, &value);
        }
        counted(&name, digest.records - before, space.len().map_err(|error| format!("len of {name}: {error}"))?)?;
    }
    Ok(digest)
}

fn same(space: &str, key: &[u8], value: &[u8], found: Option<&[u8]>) -> Result<(), String> {
    if found == Some(value) {
        return Ok(());
    }
    let (key, len) = (key.get(..32).unwrap_or(key), key.len());
    Err(format!("namespace {space:?}: get does not return what iter does for the {len} byte key that begins {key:02x?}"))
}

fn counted(space: &str, seen: u64, len: u64) -> Result<(), String> {
    if seen == len { Ok(()) } else { Err(format!("namespace {space:?}: iter has {seen} records, len says {len}")) }
}
