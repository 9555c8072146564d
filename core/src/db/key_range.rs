//! The ranges of keys that a call accepts.

use core::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys: `..`, `"a".."b"`, `"a"..="b"`, `"a"..`, `.."b"`, `..="b"`, or a pair of [`Bound`]s. The keys are anything that is
/// bytes.
///
/// A trait of its own and not [`RangeBounds`], because `..` is a `RangeBounds` of every type, so that each call would have to name one.
///
/// ```
/// let db = pipkin::Db::builder().ordered(true).in_memory()?;
/// db.insert_many([("a", "1"), ("b", "2"), ("c", "3")])?;
/// assert_eq!(db.range(..)?.count(), 3);
/// assert_eq!(db.range("a"..="b")?.count(), 2);
/// assert_eq!(db.range(vec![b'b']..)?.count(), 2);
/// # Ok::<(), pipkin::Error>(())
/// ```
pub trait KeyRange {
    /// Where it begins and where it ends.
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

fn bytes_of<'a, K: AsRef<[u8]> + 'a>(range: &'a impl RangeBounds<K>) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (range.start_bound().map(K::as_ref), range.end_bound().map(K::as_ref))
}

impl KeyRange for RangeFull {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for Range<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bytes_of(self)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeInclusive<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bytes_of(self)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeFrom<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bytes_of(self)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeTo<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bytes_of(self)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeToInclusive<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bytes_of(self)
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bytes_of(self)
    }
}
