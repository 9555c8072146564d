//! What a store's commits change, and what they add up to.

use pipkin::Change;
use std::collections::BTreeMap;

/// Names of the namespaces; the first one is the default one.
pub(super) const SPACES: [&str; 3] = ["", "one", "two"];
/// Keys in each.
pub(super) const KEYS: u64 = 7;

/// The records of each namespace that there is.
pub(super) type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Every commit of a store, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Commits(pub(super) Vec<Vec<Change>>);

impl Commits {
    /// The state after the first `count` of them.
    pub(super) fn state(&self, count: usize) -> State {
        let mut state = State::from([(String::new(), BTreeMap::new())]);
        self.0.iter().take(count).flatten().for_each(|change| apply(&mut state, change));
        state
    }
}

/// What one change does to a state.
pub(super) fn apply(state: &mut State, change: &Change) {
    let space = change.namespace().to_owned();
    match change {
        Change::Put { key, value, .. } => drop(state.entry(space).or_default().insert(key.clone(), value.clone())),
        Change::Remove { key, .. } => drop(state.entry(space).or_default().remove(key)),
        Change::Clear { .. } => drop(state.insert(space, BTreeMap::new())),
        _ => drop(state.remove(&space)),
    }
}
