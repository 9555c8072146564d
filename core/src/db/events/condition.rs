//! Which events an append may not meet, and which a reader wants.

use crate::events::QueryItem;
use alloc::string::String;
use alloc::vec::Vec;

/// A query over types and tags: no event behind a number may match where it is the condition of an append, and a reader returns the events that do.
///
/// An item matches an event that has one of its types, if it names any, and all of its tags; a query matches what one of its items does.
///
/// ```
/// use pipkin::Condition;
///
/// let condition = Condition::tagged(["course:rust", "student:ada"]) // both tags ...
///     .or(["Cancelled", "Moved"], ["course:rust"])                  // ... or one of these types, and the tag
///     .after(42);                                                   // behind event 42
/// # drop(condition);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub(super) items: Vec<QueryItem>,
    pub(super) after: u64,
}

fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut texts: Vec<String> = texts.into_iter().map(T::into).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

impl Condition {
    /// Events that have all of these tags.
    pub fn tagged<T: Into<String>>(tags: impl IntoIterator<Item = T>) -> Self {
        Self { items: alloc::vec![QueryItem { types: Vec::new(), tags: texts(tags) }], after: 0 }
    }

    /// Events that have one of these types.
    pub fn of_types<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self { items: alloc::vec![QueryItem { types: texts(types), tags: Vec::new() }], after: 0 }
    }

    /// Events that have one of these types and all of these tags.
    pub fn new<K: Into<String>, T: Into<String>>(types: impl IntoIterator<Item = K>, tags: impl IntoIterator<Item = T>) -> Self {
        Self { items: alloc::vec![QueryItem { types: texts(types), tags: texts(tags) }], after: 0 }
    }

    /// Also events that have one of these types and all of these tags.
    #[must_use]
    pub fn or<K: Into<String>, T: Into<String>>(
        mut self,
        types: impl IntoIterator<Item = K>,
        tags: impl IntoIterator<Item = T>,
    ) -> Self {
        self.items.push(QueryItem { types: texts(types), tags: texts(tags) });
        self
    }

    /// Only events behind the one with this number: what was read before the decision does not count.
    #[must_use]
    pub const fn after(mut self, number: u64) -> Self {
        self.after = number;
        self
    }
}
