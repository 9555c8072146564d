//! Records in the order of their keys. Needs the [ordered index](super::Builder::ordered).

use super::handle::Namespace;
use super::in_order::{GROUP_FIRST, GROUP_MAX, Order};
use super::key_range::KeyRange;
use super::snapshot::SnapshotNamespace;
use crate::error::{Error, Result};
use crate::names::Name;
use crate::store::Store;
use alloc::sync::Arc;
use alloc::vec::{self, Vec};
use core::ops::Bound;

/// The bounds of a range of keys, as copies.
pub(super) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Records in the order of their keys, from either end. See [`Db::range`](crate::Namespace::range).
///
/// A damaged record is returned as [`Error::Corrupt`] with its key, and the range continues after it.
///
/// It holds nothing between two steps: it can be sent to another thread, and the store may be compacted. [`Range::rest`] says where to go on
/// after a pause, in another session too.
///
/// Of a [`SnapshotNamespace`], it shows the moment of that; of a [`Namespace`](crate::Namespace), records that are written or removed meanwhile
/// may appear or not, and so may a part of a commit.
///
/// ```
/// # let db = pipkin::Db::builder().ordered(true).in_memory()?;
/// # db.insert_many([("a", "1"), ("ab", "2"), ("b", "3"), ("c", "4")])?;
/// let mut both_ends = db.range("a".."c")?;
/// let (first, last) = (both_ends.next().transpose()?, both_ends.next_back().transpose()?);
/// assert_eq!((first.unwrap().0, last.unwrap().0), (b"a".to_vec(), b"b".to_vec()));
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct Range<'a> {
    source: Source<'a>,
    /// The bounds of what has not been fetched yet.
    bounds: Bounds,
    front: Fetched,
    back: Fetched,
    done: bool,
    /// Only keys are wanted: values are left empty.
    keys_only: bool,
    /// Of the records that were fetched for a transaction, those that expire.
    expiring: Option<Vec<(Vec<u8>, u64)>>,
}

/// What a range reads.
pub(super) enum Source<'a> {
    Now(&'a Store, Arc<Name>),
    At(SnapshotNamespace),
}

/// Records that were fetched at one end of a range, in the order in which they are handed out there.
struct Fetched {
    records: vec::IntoIter<(Vec<u8>, Vec<u8>)>,
    /// The error that comes after them.
    error: Option<Error>,
    /// How many records to fetch next.
    group: usize,
}

impl Fetched {
    /// Takes the item furthest from this end, for the iterator of the other end.
    fn rest(&mut self) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        self.error.take().map(Err).or_else(|| self.records.next_back().map(Ok))
    }

    /// The key that is handed out next, or that of the damaged record.
    fn next_key(&self) -> Option<&[u8]> {
        let fetched = self.records.as_slice().first().map(|(key, _)| key.as_slice());
        fetched.or_else(|| self.error.as_ref()?.damaged_key())
    }

    fn nothing() -> Self {
        Self { records: Vec::new().into_iter(), error: None, group: GROUP_FIRST }
    }
}

/// Copies the bounds of a range.
pub(super) fn bounds(range: &impl KeyRange) -> Bounds {
    let (start, end) = range.bounds();
    (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec))
}

/// The range of all keys that begin with `prefix`.
pub(super) fn bounds_of_prefix(prefix: &[u8]) -> Bounds {
    let mut end = prefix.to_vec();
    // The first key after all of them: trailing 0xff bytes dropped, and the last remaining byte incremented.
    while end.pop_if(|last| *last == u8::MAX).is_some() {}
    let end = match end.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(end)
        }
        None => Bound::Unbounded,
    };
    (Bound::Included(prefix.to_vec()), end)
}

impl Namespace {
    /// Records whose keys lie in a range, in the order of the keys.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// db.insert_many([("b", "2"), ("a", "1"), ("c", "3")])?;
    /// let keys: Vec<_> = db.range("a".."c")?.map(|record| record.map(|(key, _)| key)).collect::<Result<_, _>>()?;
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The last records come first with [`rev`](Iterator::rev):
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// # db.insert_many([("b", "2"), ("a", "1"), ("c", "3")])?;
    /// let newest = db.range(..)?.next_back().transpose()?;
    /// assert_eq!(newest, Some((b"c".to_vec(), b"3".to_vec())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotOrdered`](crate::Error::NotOrdered) when the store was opened without [`Builder::ordered`](crate::Builder::ordered).
    pub fn range(&self, range: impl KeyRange) -> Result<Range<'_>> {
        self.store.range(&self.name, bounds(&range))
    }

    /// Records whose keys begin with `prefix`, in the order of the keys. See [`Self::range`].
    ///
    /// ```
    /// # let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// # db.insert_many([("a", "1"), ("ab", "2"), ("b", "3"), ("c", "4")])?;
    /// let keys = db.range_prefix("a")?.map(|record| Ok(record?.0)).collect::<pipkin::Result<Vec<_>>>()?;
    /// assert_eq!(keys, [&b"a"[..], b"ab"]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn range_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.store.range(&self.name, bounds_of_prefix(prefix.as_ref()))
    }

    /// Records from `key` on, `key` included, in the order of the keys. See [`Self::range`].
    ///
    /// ```
    /// # let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// # db.insert_many([("a", "1"), ("ab", "2"), ("b", "3"), ("c", "4")])?;
    /// assert_eq!(db.iter_from("ab")?.count(), 3); // ab, b, c
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn iter_from(&self, key: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.range(key.as_ref()..)
    }

    /// Records after `key`, `key` excluded, in the order of the keys. See [`Self::range`].
    ///
    /// ```
    /// # let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// # db.insert_many([("a", "1"), ("ab", "2"), ("b", "3"), ("c", "4")])?;
    /// let next = db.iter_after("ab")?.next().transpose()?; // the next page begins here
    /// assert_eq!(next, Some((b"b".to_vec(), b"3".to_vec())));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn iter_after(&self, key: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.range((Bound::Excluded(key.as_ref()), Bound::Unbounded))
    }

    /// Hands the records whose keys lie in a range to `each`, in the order of the keys, until it returns `false`; without a copy where the
    /// host can map the file. See [`Self::range`].
    ///
    /// ```
    /// # let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// # db.insert_many([("a", "1"), ("ab", "2"), ("b", "3"), ("c", "4")])?;
    /// let mut sum = 0;
    /// db.range_with("a".."c", |_key, value| {
    ///     sum += value[0] - b'0';
    ///     true // go on
    /// })?;
    /// assert_eq!(sum, 1 + 2 + 3);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::range`], errors of the storage, and [`Error::Corrupt`](crate::Error::Corrupt), whose field `key` is the key after
    /// which to continue.
    pub fn range_with(&self, range: impl KeyRange, each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.store.range_with(&self.name, range.bounds(), Order::Rising, each)
    }

    /// Like [`Self::range_with`], in descending order of the keys: after damage, continue below the key in the error.
    ///
    /// ```
    /// # let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// # db.insert_many([("a", "1"), ("ab", "2"), ("b", "3"), ("c", "4")])?;
    /// let mut newest = Vec::new();
    /// db.range_rev_with(.., |key, _value| {
    ///     newest.push(key.to_vec());
    ///     newest.len() < 2
    /// })?;
    /// assert_eq!(newest, [b"c", b"b"]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn range_rev_with(&self, range: impl KeyRange, each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.store.range_with(&self.name, range.bounds(), Order::Falling, each)
    }
}

pub(super) fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Store {
    pub(super) fn range(&self, name: &Arc<Name>, bounds: Bounds) -> Result<Range<'_>> {
        Range::of(Source::Now(self, name.clone()), bounds)
    }
}

impl<'a> Range<'a> {
    pub(super) fn of(source: Source<'a>, bounds: Bounds) -> Result<Self> {
        match &source {
            Source::Now(store, name) => store.engine.has_order(name.number())?,
            Source::At(namespace) => namespace.taken.engine().has_order(Some(namespace.number()?))?,
        }
        let (front, back) = (Fetched::nothing(), Fetched::nothing());
        Ok(Self { source, bounds, front, back, done: false, keys_only: false, expiring: None })
    }
}

impl Range<'_> {
    /// The part of the range that has not been returned yet, as a range for another call: to go on after a pause, or after the store was
    /// opened again. Records that were written into that part meanwhile are in it.
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")])?;
    /// let mut range = db.range("a".."d")?;
    /// range.next().transpose()?;
    /// let rest = range.rest(); // can be stored
    /// assert_eq!(db.range(rest)?.map(|record| Ok(record?.0)).collect::<pipkin::Result<Vec<_>>>()?, [b"b", b"c"]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn rest(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let start = self.front.next_key().map_or_else(|| self.bounds.0.clone(), |key| Bound::Included(key.to_vec()));
        let end = self.back.next_key().map_or_else(|| self.bounds.1.clone(), |key| Bound::Included(key.to_vec()));
        (start, end)
    }

    /// The same range for a caller who wants at least so many records. Nothing has been fetched yet.
    #[cfg(feature = "async")]
    pub(super) fn in_groups_of(mut self, group: usize) -> Self {
        (self.front.group, self.back.group) = (group, group);
        self
    }

    /// The same range for a caller who wants only its keys. Nothing has been fetched yet.
    pub(super) fn without_values(self) -> Self {
        Self { keys_only: true, ..self }
    }

    /// The same range for a transaction, which asks [`Self::take_expiry`] for each record.
    pub(super) fn with_expiries(self) -> Self {
        Self { expiring: Some(Vec::new()), ..self }
    }

    /// When the record expires that was just returned; `None` if it never does.
    pub(super) fn take_expiry(&mut self, key: &[u8]) -> Option<u64> {
        let expiring = self.expiring.as_mut()?;
        let place = expiring.iter().position(|(other, _)| other == key)?;
        Some(expiring.swap_remove(place).1)
    }

    /// Fetches the next group of records at the end where this order begins.
    fn fetch(&mut self, order: Order) {
        let group = self.side(order).group;
        let mut fetched = Vec::with_capacity(group);
        let bounds = (as_slice(&self.bounds.0), as_slice(&self.bounds.1));
        let keys_only = self.keys_only;
        let mut each = |key: &[u8], value: &[u8]| {
            fetched.push((key.to_vec(), if keys_only { Vec::new() } else { value.to_vec() }));
            fetched.len() < group
        };
        let result = match &self.source {
            Source::Now(store, name) => store.range_with(name, bounds, order, each),
            Source::At(namespace) => namespace.range_with(bounds, order, |frame| {
                if let (Some(expiring), Some(expiry)) = (&mut self.expiring, frame.expiry()) {
                    expiring.push((frame.key().to_vec(), expiry));
                }
                each(frame.key(), frame.value())
            }),
        };
        let error = result.err();
        // After a damaged record the range continues, if its key is known.
        let damaged = error.as_ref().and_then(Error::damaged_key);
        self.done = damaged.is_none() && (error.is_some() || fetched.len() < group);
        if let Some(key) = damaged.or_else(|| fetched.last().map(|(key, _)| key.as_slice())) {
            let rest = match order {
                Order::Rising => &mut self.bounds.0,
                Order::Falling => &mut self.bounds.1,
            };
            *rest = Bound::Excluded(key.to_vec());
        }
        *self.side(order) = Fetched { records: fetched.into_iter(), error, group: (group * 2).min(GROUP_MAX) };
    }

    const fn side(&mut self, order: Order) -> &mut Fetched {
        match order {
            Order::Rising => &mut self.front,
            Order::Falling => &mut self.back,
        }
    }

    /// The next record, or error, at the end where this order begins; `None` once nothing is left to fetch.
    pub(super) fn step(&mut self, order: Order) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        loop {
            if let Some(record) = self.side(order).records.next() {
                return Some(Ok(record));
            }
            if let Some(error) = self.side(order).error.take() {
                return Some(Err(error));
            }
            if self.done {
                return None;
            }
            self.fetch(order);
        }
    }
}

/// Moves a bound of what is left past a record that was handed out at that end.
fn close(bound: &mut Bound<Vec<u8>>, record: &Result<(Vec<u8>, Vec<u8>)>) {
    let key = match record {
        Ok((key, _)) => Some(key.as_slice()),
        Err(error) => error.damaged_key(),
    };
    if let Some(key) = key {
        *bound = Bound::Excluded(key.to_vec());
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Order::Rising).or_else(|| {
            // Finally, what the other end has fetched and not returned.
            self.back.rest().inspect(|record| close(&mut self.bounds.0, record))
        })
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Order::Falling).or_else(|| self.front.rest().inspect(|record| close(&mut self.bounds.1, record)))
    }
}
