//! What a writer has: its spaces, their keys, and what its calls make of them.

use std::collections::BTreeMap;

/// Keys of a writer in each of its spaces.
pub(super) const KEYS: u64 = 12;
/// Spaces of a writer: its keys in the default namespace, and namespaces of its own.
pub(super) const SPACES: usize = 3;
pub(super) type Key = Vec<u8>;
/// The records of each space; `None` without the namespace.
pub(super) type State = Vec<Option<BTreeMap<Key, Vec<u8>>>>;

/// What a call does.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Write(Vec<(usize, Key, Option<Vec<u8>>)>),
    Clear(usize),
    Drop(usize),
    Create(usize),
}

impl Call {
    pub(super) fn apply(&self, state: &mut State) {
        match self {
            Self::Write(records) => {
                for (space, key, value) in records {
                    let Some(space) = &mut state[*space] else { continue };
                    match value {
                        Some(value) => drop(space.insert(key.clone(), value.clone())),
                        None => drop(space.remove(key)),
                    }
                }
            }
            Self::Clear(space) => drop(state[*space].as_mut().map(BTreeMap::clear)),
            Self::Drop(space) => state[*space] = None,
            Self::Create(space) => drop(state[*space].get_or_insert_default()),
        }
    }
}

pub(super) fn name_of(writer: usize, space: usize) -> String {
    format!("space-{writer}-{space}")
}

pub(super) fn key_of(writer: usize, key: u64) -> Key {
    format!("{}-{writer}-{}", key % 3, "k".repeat(key as usize)).into_bytes()
}

/// The key under which a commit writes its number.
pub(super) fn marker_of(writer: usize) -> Key {
    format!("marker-{writer}").into_bytes()
}

pub(super) fn empty() -> State {
    let mut state = vec![None; SPACES];
    state[0] = Some(BTreeMap::new());
    state
}
