//! The operations on the tape.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use pipkin::{Db, Result};

/// A change of one record: the value to put, or `None` to remove it.
pub struct Change {
    /// The namespace; the default one has the empty name.
    pub space: &'static str,
    /// The key.
    pub key: Vec<u8>,
    /// The new value, or none.
    pub value: Option<Vec<u8>>,
}

/// One operation on a store, one commit at most.
pub enum Step {
    /// One record put or removed by itself.
    One(Change),
    /// Records of the default namespace put in one call.
    Batch(Vec<(Vec<u8>, Vec<u8>)>),
    /// Changes in several named namespaces at once.
    Transaction(Vec<Change>),
    /// A namespace dropped with all its records.
    DropNamespace(&'static str),
    /// Everything written so far made durable.
    Flush,
    /// The index written down.
    Checkpoint,
    /// Dead space freed.
    Compact,
}

impl Step {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::One(Change { value: Some(_), .. }) => "put",
            Self::One(Change { value: None, .. }) => "remove",
            Self::Batch(_) => "batch",
            Self::Transaction(_) => "transaction",
            Self::DropNamespace(_) => "drop namespace",
            Self::Flush => "flush",
            Self::Checkpoint => "checkpoint",
            Self::Compact => "compact",
        }
    }

    pub(crate) fn apply(&self, db: &Db) -> Result<()> {
        match self {
            Self::One(change) => change.apply(db),
            Self::Batch(records) => db.insert_many(records.iter().map(|(key, value)| (key, value))),
            Self::Transaction(changes) => {
                let spaces = changes.iter().map(|change| db.namespace(change.space)).collect::<Result<Vec<_>>>()?;
                db.transaction(|transaction| {
                    for (change, space) in changes.iter().zip(&spaces) {
                        match &change.value {
                            Some(value) => transaction.insert_in(space, &change.key, value)?,
                            None => {
                                transaction.remove_in(space, &change.key)?;
                            }
                        }
                    }
                    Ok(())
                })
            }
            Self::DropNamespace(name) => db.drop_namespace(name).map(drop),
            Self::Flush => db.flush().map(drop),
            Self::Checkpoint => db.checkpoint(),
            Self::Compact => db.compact().map(drop),
        }
    }
}

impl Change {
    fn apply(&self, db: &Db) -> Result<()> {
        match (self.space, &self.value) {
            ("", Some(value)) => db.insert(&self.key, value),
            ("", None) => db.remove(&self.key).map(drop),
            (name, Some(value)) => db.namespace(name)?.insert(&self.key, value),
            (name, None) => db.namespace(name)?.remove(&self.key).map(drop),
        }
    }
}

/// New records of every size class: a host that returns short counts is met at 64 KiB, a segment ends after 4 MiB.
pub(crate) fn first_half(divisor: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..400).map(|n| put("", key(n), bytes(n, n as usize % 300))).collect();
    steps.push(put("", Vec::new(), b"the empty key".to_vec()));
    steps.push(put("", b"the empty value".to_vec(), Vec::new()));
    steps.push(put("", bytes(401, 64 * 1024 / divisor), bytes(402, 100)));
    steps.push(put("", b"200 KiB".to_vec(), bytes(403, 200 * 1024 / divisor)));
    steps.push(put("", b"5 MiB".to_vec(), bytes(404, 5 * 1024 * 1024 / divisor)));
    steps.push(Step::Flush);
    steps.extend((0..400).filter(|n| n % 5 == 0).map(|n| put("", key(n), bytes(n + 1000, 150))));
    steps.extend((0..400).filter(|n| n % 7 == 0).map(|n| remove("", key(n))));
    steps.extend((0..50).map(|n| put("users", key(n), bytes(n + 2000, 40))));
    steps.extend((0..50).map(|n| put("sessions", key(n), bytes(n + 3000, 40))));
    steps.push(Step::Batch((300..500).map(|n| (key(n), bytes(n + 4000, 150))).collect()));
    steps
}

/// Changes of what the first half left, with snapshot and compaction between them.
pub(crate) fn second_half(divisor: usize) -> Vec<Step> {
    let mut steps = vec![
        put("", b"5 MiB".to_vec(), bytes(5000, 70 * 1024 / divisor)),
        remove("", b"200 KiB".to_vec()),
        Step::Transaction(vec![change("users", key(3), None), change("sessions", key(3), Some(bytes(5001, 10)))]),
        Step::DropNamespace("sessions"),
        put("sessions", key(7), b"after the drop".to_vec()),
        Step::Checkpoint,
    ];
    steps.extend((0..300).map(|n| put("", key(n), bytes(n + 6000, 200))));
    steps.push(Step::Compact);
    steps.extend((100..200).map(|n| remove("", key(n))));
    steps.push(put("users", key(49), bytes(7000, 3 * 1024 * 1024 / divisor)));
    steps
}

fn change(space: &'static str, key: Vec<u8>, value: Option<Vec<u8>>) -> Change {
    Change { space, key, value }
}

fn put(space: &'static str, key: Vec<u8>, value: Vec<u8>) -> Step {
    Step::One(change(space, key, Some(value)))
}

fn remove(space: &'static str, key: Vec<u8>) -> Step {
    Step::One(change(space, key, None))
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

/// `len` bytes that no two seeds share (xorshift64*, Vigna 2016).
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        out.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    out.truncate(len);
    out
}
