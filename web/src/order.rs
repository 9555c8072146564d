//! The keys in order, built when a range is first read.
//!
//! The engine has an ordered index, too, made for many threads. For one thread sorted blocks of keys are enough. With a `BTreeSet` in
//! their place the module is 1,896 bytes larger as compressed by brotli, of 120,281 (`npm run build` in `web/npm`).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Bound;

use pipkin::Result;

use crate::records::Records;
use crate::wire::{Bounds, Damage, Range, Write};

/// A block with more keys is split in two.
const BLOCK_KEYS_MAX: usize = 512;

/// The keys of a store: `None` until they are needed, and kept up to date from then on.
#[derive(Debug, Default)]
pub(crate) struct Order(RefCell<Option<Keys>>);

impl Order {
    /// Applies writes that have just been committed.
    pub(crate) fn apply<'a>(&self, writes: impl IntoIterator<Item = &'a Write<'a>>) {
        let order = &mut *self.0.borrow_mut();
        // A write may have replaced a record whose key could not be read; only reading the store again tells.
        drop(order.take_if(|keys| !keys.unread.is_empty()));
        let Some(keys) = order else { return };
        for (key, value) in writes {
            match value {
                Some(_) => keys.insert(key),
                None => keys.remove(key),
            }
        }
    }

    /// Forgets all keys: there are others than those that were written.
    pub(crate) fn forget(&self) {
        *self.0.borrow_mut() = None;
    }

    /// Passes the records of a range to `each`, in the order asked for, until that returns `false`. Records whose keys could not be read
    /// have no position in the order: their damage comes first, in every range.
    pub(crate) fn range(
        &self,
        records: &dyn Records,
        range: Range<'_>,
        mut each: impl FnMut(core::result::Result<(&[u8], &[u8]), Damage>) -> bool,
    ) -> Result<()> {
        let mut keys = self.0.borrow_mut();
        let keys = match &mut *keys {
            Some(keys) => keys,
            none => none.insert(Keys::read(records)?),
        };
        let mut goes_on = keys.unread.iter().all(|damage| each(Err(damage.clone())));
        let mut expired: Vec<Box<[u8]>> = Vec::new();
        let mut found = keys.between(range.bounds);
        while goes_on && let Some(key) = if range.reverse { found.next_back() } else { found.next() } {
            let value = match records.may_expire() {
                _ if range.values => records.get(key),
                true => records.has(key).map(|is_there| is_there.then(Vec::new)),
                false => Ok(Some(Vec::new())),
            };
            goes_on = match value {
                Ok(Some(value)) => each(Ok((key, &value))),
                Ok(None) => {
                    expired.push(key.into());
                    true
                }
                Err(error) => each(Err(Damage::of(error)?.of_key(key))),
            };
        }
        drop(found);
        expired.iter().for_each(|key| keys.remove(key));
        Ok(())
    }
}

/// Sorted keys in blocks, none of them empty.
#[derive(Debug, Default)]
struct Keys {
    blocks: Vec<Vec<Box<[u8]>>>,
    /// Records whose keys could not be read.
    unread: Vec<Damage>,
}

impl Keys {
    fn read(records: &dyn Records) -> Result<Self> {
        let mut keys = Self::default();
        records.keys(&mut |key| {
            match key {
                Ok(key) => keys.insert(&key),
                Err(error) => keys.unread.push(Damage::of(error)?),
            }
            Ok(())
        })?;
        Ok(keys)
    }

    /// The block of a key, and the index in it at which the key is (`Ok`) or belongs (`Err`).
    fn find(&self, key: &[u8]) -> (usize, core::result::Result<usize, usize>) {
        let behind = self.blocks.partition_point(|block| block.first().is_some_and(|first| **first <= *key));
        let index = behind.saturating_sub(1);
        (index, self.blocks.get(index).map_or(Err(0), |block| block.binary_search_by(|other| (**other).cmp(key))))
    }

    fn insert(&mut self, key: &[u8]) {
        let (index, Err(place)) = self.find(key) else { return };
        let Some(block) = self.blocks.get_mut(index) else {
            self.blocks.push(alloc::vec![key.into()]);
            return;
        };
        block.insert(place, key.into());
        if block.len() > BLOCK_KEYS_MAX {
            let rest = block.split_off(BLOCK_KEYS_MAX / 2);
            self.blocks.insert(index + 1, rest);
        }
    }

    fn remove(&mut self, key: &[u8]) {
        let (index, Ok(place)) = self.find(key) else { return };
        let Some(block) = self.blocks.get_mut(index) else { return };
        block.remove(place);
        if block.is_empty() {
            self.blocks.remove(index);
        }
    }

    /// Block and index of the first key after a cut in the order. The cut is before `key`, or after it if `behind`.
    fn split(&self, key: &[u8], behind: bool) -> (usize, usize) {
        match self.find(key) {
            (index, Ok(place)) => (index, place + usize::from(behind)),
            (index, Err(place)) => (index, place),
        }
    }

    fn between(&self, (start, end): Bounds<'_>) -> impl DoubleEndedIterator<Item = &[u8]> {
        let from = match start {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => self.split(key, false),
            Bound::Excluded(key) => self.split(key, true),
        };
        let to = match end {
            Bound::Unbounded => (self.blocks.len(), 0),
            Bound::Included(key) => self.split(key, true),
            Bound::Excluded(key) => self.split(key, false),
        };
        let blocks = self.blocks.iter().enumerate().take(to.0 + 1).skip(from.0);
        let part = move |(index, block): (usize, &'_ Vec<Box<[u8]>>)| {
            let first = if index == from.0 { from.1 } else { 0 };
            let last = if index == to.0 { to.1 } else { block.len() };
            first..last
        };
        blocks.flat_map(move |both| both.1.get(part(both)).unwrap_or_default()).map(|key| &**key)
    }
}
