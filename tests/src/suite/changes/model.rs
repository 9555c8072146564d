//! What a store's commits change, and what they add up to.

use pipkin::Change;
use std::collections::BTreeMap;

/// Names of the namespaces; the first one is the default one.
pub(super) const SPACES: [&str; 3] = ["", "one", "two"];
/// Keys in each, in two groups.
pub(super) const KEYS: u64 = 7;

/// A value, and when it expires.
pub(super) type Record = (Vec<u8>, Option<u64>);
/// The records of each namespace that there is, those that have expired included.
pub(super) type State = BTreeMap<String, BTreeMap<Vec<u8>, Record>>;

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
        Change::Put { key, value, expires_at, .. } => {
            state.entry(space).or_default().insert(key.clone(), (value.clone(), *expires_at));
        }
        Change::Remove { key, .. } => drop(state.entry(space).or_default().remove(key)),
        Change::Clear { .. } => drop(state.insert(space, BTreeMap::new())),
        _ => drop(state.remove(&space)),
    }
}

/// A key of a namespace.
pub(super) fn key_of(number: u64) -> Vec<u8> {
    vec![if number.is_multiple_of(2) { b'a' } else { b'b' }, b'.', number as u8]
}

/// True for a record that has not expired.
pub(super) fn lives((_, expires_at): &Record, now: u64) -> bool {
    expires_at.is_none_or(|expires_at| expires_at > now)
}

/// True when a commit is what it was to be. The end of a group removes its keys in any order.
pub(super) fn is_same(found: &[Change], expected: &[Change]) -> bool {
    let sorted = |changes: &[Change]| {
        let keys = changes.iter().map(|change| matches!(change, Change::Remove { .. }).then(|| change.key()).flatten());
        let mut keys = keys.collect::<Option<Vec<_>>>()?;
        keys.sort_unstable();
        Some(keys.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
    };
    let spaces = |changes: &[Change]| changes.first().map(|change| change.namespace().to_owned());
    found == expected || spaces(found) == spaces(expected) && sorted(found).is_some_and(|keys| Some(keys) == sorted(expected))
}
