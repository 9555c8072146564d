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
    /// What the WebAssembly component changes after that.
    pub(super) in_component: Edit,
    /// What a program changes after that that only knows the standard `wasi:keyvalue`.
    pub(super) by_program: Edit,
    /// What a second tab of a browser changes after that.
    pub(super) in_browser: Edit,
}

/// Changes, and the state after them.
pub(super) struct Edit {
    /// New value, or none for a key that is removed.
    pub(super) changes: Vec<(String, Option<String>)>,
    pub(super) state: BTreeMap<String, String>,
}

impl Edit {
    /// Of the keys in order, every seventh is overwritten, every eleventh removed, and some new ones come.
    fn new(before: &BTreeMap<String, String>, who: &str) -> Edit {
        let mut state = before.clone();
        let mut changes = Vec::new();
        for (place, (key, value)) in before.iter().enumerate() {
            if place % 7 == 2 {
                changes.push((key.clone(), Some(format!("{value} ({who})"))));
            } else if place % 11 == 5 {
                changes.push((key.clone(), None));
            } else if place % 50 == 0 {
                changes.push((format!("{key} ({who})"), Some(value.clone())));
            }
        }
        for (key, value) in &changes {
            match value {
                Some(value) => drop(state.insert(key.clone(), value.clone())),
                None => drop(state.remove(key)),
            }
        }
        Edit { changes, state }
    }

    /// The changes as a watcher tells of them.
    pub(super) fn told(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.changes.iter().map(|(key, value)| (key.as_str(), value.as_deref()))
    }
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
        let in_component = Edit::new(&edited, "in the component");
        let by_program = Edit::new(&in_component.state, "by a program");
        let in_browser = Edit::new(&by_program.state, "in a browser");
        Plan { records: set.records.clone(), loaded, overwritten, removed, edited, in_component, by_program, in_browser }
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
        let Edit { changes, state } = &plan.in_component;
        assert_eq!(changes.iter().filter(|(_, value)| value.is_none()).count(), 7);
        assert_eq!(state.get("002").map(String::as_str), Some("v2 (in the component)"));
        assert_eq!(plan.by_program.state.values().filter(|value| value.ends_with("(by a program)")).count(), 12);
    }
}
