//! The keys in their order, from the first time that somebody asks for it.
//!
//! The engine has an ordered index of its own, made for many threads. One thread does with a set of keys, at a fifth of the module's size.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Bound;

use pipkin::{Db, Result};

use crate::wire::Write;

/// The bounds of a range of keys.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The keys of a store; nothing until they are needed, and kept up to date from then on.
#[derive(Debug, Default)]
pub(crate) struct Order(RefCell<Option<BTreeSet<Box<[u8]>>>>);

impl Order {
    /// Takes over what was written just now.
    pub(crate) fn apply<'a>(&self, writes: impl IntoIterator<Item = &'a Write<'a>>) {
        let Some(keys) = &mut *self.0.borrow_mut() else { return };
        for (key, value) in writes {
            match value {
                Some(_) if keys.contains(*key) => {}
                Some(_) => _ = keys.insert((*key).into()),
                None => _ = keys.remove(*key),
            }
        }
    }

    /// Hands the records between two bounds to `each`, in the order of their keys, until it says `false`.
    pub(crate) fn range(
        &self,
        db: &Db,
        bounds: Bounds<'_>,
        values: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let mut keys = self.0.borrow_mut();
        let keys = match &mut *keys {
            Some(keys) => keys,
            none => none.insert(read(db)?),
        };
        if is_empty(bounds) {
            return Ok(());
        }
        for key in keys.range::<[u8], _>(bounds) {
            let value = if values { db.get(key)? } else { Some(Vec::new()) };
            if value.is_some_and(|value| !each(key, &value)) {
                break;
            }
        }
        Ok(())
    }
}

/// One by one: sorting them at once would take another 3 kB of the module.
fn read(db: &Db) -> Result<BTreeSet<Box<[u8]>>> {
    let mut keys = BTreeSet::new();
    for key in db.keys() {
        keys.insert(key?.into_boxed_slice());
    }
    Ok(keys)
}

/// Whether a range ends in front of its beginning, which a set takes for a mistake.
fn is_empty(bounds: Bounds<'_>) -> bool {
    match bounds {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end) | Bound::Included(end)) => start >= end,
    }
}
