//! Records of a snapshot in the order of their keys.
//!
//! The order has the keys of now; those that were removed since are beside it. Each key of both is looked up at the moment.

use super::in_order::{Order, is_above, is_below};
use super::key_range::KeyRange;
use super::range::{Range, Source, bounds, bounds_of_prefix};
use super::range_keys::RangeKeys;
use super::snapshot::SnapshotNamespace;
use crate::engine::Engine;
use crate::error::Result;
use crate::log::Frame;
use alloc::vec::Vec;
use core::ops::Bound;

/// Keys that are looked at together.
const WINDOW: usize = 32;

impl SnapshotNamespace {
    /// Records whose keys lie in a range, in the order of the keys. See [`Namespace::range`](crate::Namespace::range).
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2"), ("c", "3")])?;
    /// let before = db.snapshot();
    /// db.remove("b")?;
    /// let keys = before.range("a".."c")?.map(|record| Ok(record?.0)).collect::<pipkin::Result<Vec<_>>>()?;
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotOrdered`](crate::Error::NotOrdered) when the store was opened without [`Builder::ordered`](crate::Builder::ordered).
    pub fn range(&self, range: impl KeyRange) -> Result<Range<'_>> {
        Range::of(Source::At(self.clone()), bounds(&range))
    }

    /// Records whose keys begin with `prefix`, in the order of the keys.
    pub fn range_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range<'_>> {
        Range::of(Source::At(self.clone()), bounds_of_prefix(prefix.as_ref()))
    }

    /// The keys that lie in a range, in their order. See [`Namespace::range_keys`](crate::Namespace::range_keys).
    pub fn range_keys(&self, range: impl KeyRange) -> Result<RangeKeys<'_>> {
        Ok(RangeKeys::of(self.range(range)?))
    }

    /// Records from `key` on, `key` included, in the order of the keys.
    pub fn iter_from(&self, key: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.range(key.as_ref()..)
    }

    /// Records after `key`, `key` excluded, in the order of the keys.
    pub fn iter_after(&self, key: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.range((Bound::Excluded(key.as_ref()), Bound::Unbounded))
    }

    /// Hands the records inside the bounds to `each`, in the given order of their keys, until it returns `false`.
    pub(super) fn range_with(
        &self,
        (start, end): (Bound<&[u8]>, Bound<&[u8]>),
        order: Order,
        mut each: impl FnMut(&Frame<'_>) -> bool,
    ) -> Result<()> {
        let (engine, moment, number) = (self.taken.engine(), &self.taken.moment, self.number()?);
        engine.has_order(Some(number))?;
        moment.still_lives()?;
        // A key that is being inserted by a commit from before the moment may not be in the order yet.
        engine.settle_all(moment)?;
        let mut last: Option<Vec<u8>> = None;
        loop {
            let rest = last.as_deref().map(Bound::Excluded);
            let bounds = match order {
                Order::Rising => (rest.unwrap_or(start), end),
                Order::Falling => (start, rest.unwrap_or(end)),
            };
            let Keys { keys, until } = keys_within(engine, number, bounds, order)?;
            // The list may have lost a key whose ghost went with the moment.
            moment.still_lives()?;
            let pin = engine.pin();
            for key in &keys {
                let look = || {
                    let found = engine.find_at(&pin, moment, engine.full_key(number, key))?;
                    found.map(|frame| engine.decoded(frame)).transpose()
                };
                match look().or_else(|error| self.taken.look_again(error, &mut || look())) {
                    Ok(Some(frame)) if !each(&frame) => return Ok(()),
                    Ok(_) => {}
                    Err(error) => return Err(error.with_damaged_key(key)),
                }
            }
            if until.is_none() {
                return self.taken.has_all_in_order(&pin, number);
            }
            last = until;
        }
    }
}

/// The next keys of a walk: those of now and those that were removed since, sorted.
struct Keys {
    keys: Vec<Vec<u8>>,
    /// The keys are complete as far as this one; `None` if no others follow.
    until: Option<Vec<u8>>,
}

fn keys_within(engine: &Engine, number: u32, bounds: (Bound<&[u8]>, Bound<&[u8]>), order: Order) -> Result<Keys> {
    let (from, to) = bounds;
    let mut keys: Vec<Vec<u8>> = Vec::with_capacity(WINDOW);
    let mut take = |key: &[u8], inside: bool| {
        if inside {
            keys.push(key.to_vec());
        }
        inside && keys.len() < WINDOW
    };
    // In this order: whoever removes a key puts it beside the order before it leaves it.
    match order {
        Order::Rising => engine.walk_keys(number, from, |key, _| take(key, is_below(key, to))),
        Order::Falling => engine.walk_keys_back(number, to, |key, _| take(key, is_above(key, from))),
    }?;
    let ghosts = engine.moments.ghosts(number, bounds, matches!(order, Order::Falling), WINDOW);
    // Both lists are complete up to the nearer one of their ends.
    let full = [&keys, &ghosts].into_iter().filter(|list| list.len() == WINDOW).filter_map(|list| list.last());
    let until = match order {
        Order::Rising => full.min(),
        Order::Falling => full.max(),
    };
    let until = until.cloned();
    keys.extend(ghosts);
    keys.sort_unstable();
    keys.dedup();
    if let Some(until) = &until {
        keys.retain(|key| if matches!(order, Order::Rising) { key <= until } else { key >= until });
    }
    if matches!(order, Order::Falling) {
        keys.reverse();
    }
    Ok(Keys { keys, until })
}
