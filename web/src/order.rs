//! The keys in their order, from the first time that somebody asks for it.
//!
//! The engine has an ordered index of its own, made for many threads. One thread does with sorted blocks of keys, at a tenth of the
//! module's size.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Bound;

use pipkin::{Db, Result};

use crate::wire::Write;

/// A block with more keys becomes two.
const BLOCK_KEYS_MAX: usize = 512;

/// The bounds of a range of keys.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The keys of a store; nothing until they are needed, and kept up to date from then on.
#[derive(Debug, Default)]
pub(crate) struct Order(RefCell<Option<Keys>>);

impl Order {
    /// Takes over what was written just now.
    pub(crate) fn apply<'a>(&self, writes: impl IntoIterator<Item = &'a Write<'a>>) {
        let Some(keys) = &mut *self.0.borrow_mut() else { return };
        for (key, value) in writes {
            match value {
                Some(_) => keys.insert(key),
                None => keys.remove(key),
            }
        }
    }

    /// Hands the records between two bounds to `each`, in the order of their keys, until it says `false`.
    pub(crate) fn range(
        &self,
        db: &Db,
        (start, end): Bounds<'_>,
        values: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let mut keys = self.0.borrow_mut();
        let keys = match &mut *keys {
            Some(keys) => keys,
            none => none.insert(Keys::read(db)?),
        };
        for key in keys.from(start) {
            let is_behind = match end {
                Bound::Included(end) => key > end,
                Bound::Excluded(end) => key >= end,
                Bound::Unbounded => false,
            };
            if is_behind {
                break;
            }
            let value = if values { db.get(key)? } else { Some(Vec::new()) };
            if value.is_some_and(|value| !each(key, &value)) {
                break;
            }
        }
        Ok(())
    }
}

/// Sorted keys in blocks, none of them empty.
#[derive(Debug, Default)]
struct Keys(Vec<Vec<Box<[u8]>>>);

impl Keys {
    fn read(db: &Db) -> Result<Self> {
        let mut keys = Self::default();
        for key in db.keys() {
            keys.insert(&key?);
        }
        Ok(keys)
    }

    /// The block of a key, and in it the place where it is, or belongs.
    fn find(&self, key: &[u8]) -> (usize, core::result::Result<usize, usize>) {
        let behind = self.0.partition_point(|block| block.first().is_some_and(|first| **first <= *key));
        let index = behind.saturating_sub(1);
        (index, self.0.get(index).map_or(Err(0), |block| block.binary_search_by(|other| (**other).cmp(key))))
    }

    fn insert(&mut self, key: &[u8]) {
        let (index, Err(place)) = self.find(key) else { return };
        let Some(block) = self.0.get_mut(index) else {
            self.0.push(alloc::vec![key.into()]);
            return;
        };
        block.insert(place, key.into());
        if block.len() > BLOCK_KEYS_MAX {
            let rest = block.split_off(BLOCK_KEYS_MAX / 2);
            self.0.insert(index + 1, rest);
        }
    }

    fn remove(&mut self, key: &[u8]) {
        let (index, Ok(place)) = self.find(key) else { return };
        let Some(block) = self.0.get_mut(index) else { return };
        block.remove(place);
        if block.is_empty() {
            self.0.remove(index);
        }
    }

    /// All keys from a bound on.
    fn from(&self, start: Bound<&[u8]>) -> impl Iterator<Item = &[u8]> {
        let (index, place) = match start {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => match self.find(key) {
                (index, Ok(place) | Err(place)) => (index, place),
            },
            Bound::Excluded(key) => match self.find(key) {
                (index, Ok(place)) => (index, place + 1),
                (index, Err(place)) => (index, place),
            },
        };
        self.0.iter().skip(index).flatten().skip(place).map(|key| &**key)
    }
}
