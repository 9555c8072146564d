//! The namespaces of a store: names and numbers. A number is never given out twice; clearing a namespace gives its name a new one,
//! and whatever carries the old number is dead.

use crate::sync::{AtomicU32, Ordering};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The name of the default namespace, which no caller can use.
pub(crate) const DEFAULT: &str = "";
/// What a dropped namespace has instead of a number.
const DROPPED: u32 = u32::MAX - 1;

/// One namespace, shared by all its handles.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) name: String,
    number: AtomicU32,
}

impl Default for Name {
    fn default() -> Self {
        Self { name: DEFAULT.into(), number: AtomicU32::new(0) }
    }
}

impl Name {
    /// Its number now; `None` once it has been dropped.
    pub(crate) fn number(&self) -> Option<u32> {
        let number = self.number.load(Ordering::Acquire);
        (number != DROPPED).then_some(number)
    }
}

/// All namespaces.
#[derive(Debug)]
pub(crate) struct Names {
    by_name: BTreeMap<String, Arc<Name>>,
    pub(crate) next: u32,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { by_name: BTreeMap::new(), next: 1 };
        names.set(DEFAULT, 0);
        names
    }
}

impl Names {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Name>> {
        self.by_name.get(name).cloned()
    }

    /// The name has this number from now on.
    pub(crate) fn set(&mut self, name: &str, number: u32) -> Arc<Name> {
        self.next = self.next.max(number.saturating_add(1));
        let entry = self.by_name.entry(name.into());
        let entry = entry.or_insert_with(|| Arc::new(Name { name: name.into(), number: AtomicU32::new(number) }));
        entry.number.store(number, Ordering::Release);
        entry.clone()
    }

    /// The name is gone; handles to it notice.
    pub(crate) fn drop_name(&mut self, name: &str) {
        if let Some(entry) = self.by_name.remove(name) {
            entry.number.store(DROPPED, Ordering::Release);
        }
    }

    /// Named namespaces in order of their names.
    pub(crate) fn list(&self) -> Vec<String> {
        self.by_name.keys().filter(|name| *name != DEFAULT).cloned().collect()
    }

    /// `(name, number)` of all, the default one included.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, u32)> {
        self.by_name.values().filter_map(|entry| Some((entry.name.as_str(), entry.number()?)))
    }

    /// How many there are, the default one included.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn has_number(&self, number: u32) -> bool {
        self.pairs().any(|(_, known)| known == number)
    }
}
