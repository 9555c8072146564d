//! What the demonstration does to the data, and what must be in the store afterwards.

use super::data::{DataSet, Record};
use std::collections::BTreeMap;

pub(super) struct Plan {
    /// In the order of the source; the few keys that come twice are there twice.
    pub(super) records: Vec<Record>,
    /// State after loading.
    pub(super) loaded: BTreeMap<String, String>,
    pub(super) overwritten: Vec<Record>,
    pub(super) removed: Vec<String>,
    /// State after loading, overwriting and removing.
    pub(super) edited: BTreeMap<String, String>,
}

impl Plan {
    /// Of the keys in order, every fifth is overwritten by a longer value and every tenth is removed.
    pub(super) fn new(set: &DataSet) -> Plan {
        let loaded: BTreeMap<String, String> = set.records.iter().cloned().collect();
        let mut edited = loaded.clone();
        let (mut overwritten, mut removed) = (Vec::new(), Vec::new());
        for (place, (key, value)) in loaded.iter().enumerate() {
            if place % 5 == 1 {
                let longer = format!("{value} (revised)");
                overwritten.push((key.clone(), longer.clone()));
                edited.insert(key.clone(), longer);
            } else if place % 10 == 3 {
                removed.push(key.clone());
                edited.remove(key);
            }
        }
        Plan { records: set.records.clone(), loaded, overwritten, removed, edited }
    }
}

/// Bytes of keys and values: what a store cannot do without.
pub(super) fn payload(state: &BTreeMap<String, String>) -> u64 {
    state.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_equal_keys_wins_and_no_record_is_both_overwritten_and_removed() {
        let mut records: Vec<Record> = (0..100).map(|i| (format!("{i:03}"), format!("v{i}"))).collect();
        records.push(("000".into(), "again".into()));
        let plan = Plan::new(&DataSet { about: "", records });
        assert_eq!(plan.loaded.len(), 100);
        assert_eq!(plan.loaded.get("000").map(String::as_str), Some("again"));
        assert_eq!((plan.overwritten.len(), plan.removed.len()), (20, 10));
        assert_eq!(plan.edited.len(), 90);
        assert_eq!(plan.edited.get("001").map(String::as_str), Some("v1 (revised)"));
        assert!(!plan.edited.contains_key("003"));
    }
}
