//! What a store should hold, step by step: a map in place of an engine.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::digest::{Digest, record_hash};
use crate::step::{Change, Step};

/// Namespace and key to the hash of the whole record. The default namespace has the empty name.
#[derive(Default)]
pub(crate) struct Model {
    records: BTreeMap<(String, Vec<u8>), u64>,
}

impl Model {
    /// What the steps leave in a store that was empty.
    pub(crate) fn after<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Self {
        let mut model = Self::default();
        steps.into_iter().for_each(|step| model.apply(step));
        model
    }

    pub(crate) fn apply(&mut self, step: &Step) {
        match step {
            Step::One(change) => self.note(change),
            Step::Batch(records) => {
                records.iter().for_each(|(key, value)| self.put("", key, value));
            }
            Step::Transaction(changes) => changes.iter().for_each(|change| self.note(change)),
            Step::DropNamespace(name) => self.records.retain(|(space, _), _| space != name),
            Step::Flush | Step::Checkpoint | Step::Compact => {}
        }
    }

    pub(crate) fn digest(&self) -> Digest {
        let hash = self.records.values().fold(0, |sum: u64, hash| sum.wrapping_add(*hash));
        Digest { records: self.records.len() as u64, hash }
    }

    fn note(&mut self, change: &Change) {
        match &change.value {
            Some(value) => self.put(change.space, &change.key, value),
            None => {
                self.records.remove(&(change.space.to_string(), change.key.clone()));
            }
        }
    }

    fn put(&mut self, space: &str, key: &[u8], value: &[u8]) {
        self.records.insert((space.to_string(), key.to_vec()), record_hash(space, key, value));
    }
}
