//! Records in the order of their keys as a transaction sees them: its snapshot's, with its own writes over them.

use super::Transaction;
use super::writes::{Own, Write};
use crate::db::check::ReadRange;
use crate::db::range::{Bounds, Range, Source, as_slice};
use crate::error::Result;
use alloc::collections::btree_map;
use alloc::vec::Vec;
use core::ops::Bound;

type Record = Result<(Vec<u8>, Vec<u8>)>;

/// Records of a transaction in the order of their keys, from either end; from [`Transaction::range`].
///
/// Only what it has returned counts as read: what others write beyond that is no conflict.
///
/// ```
/// let db = pipkin::Db::builder().ordered(true).in_memory()?;
/// db.insert_many([("a", "1"), ("b", "2"), ("c", "3")])?;
/// let mut tx = db.begin()?;
/// tx.remove("a")?;
/// let first = tx.range(..)?.next().transpose()?; // reads up to b
/// assert_eq!(first, Some((b"b".to_vec(), b"2".to_vec())));
/// db.insert("bb", "other")?;
/// tx.commit()?;
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct TransactionRange<'a> {
    transaction: &'a Transaction,
    /// Number of the namespace in the snapshot; `None` if there was none.
    number: Option<u32>,
    bounds: Bounds,
    stored: Option<Range<'a>>,
    /// Records of `stored` that wait until it is their turn.
    front: Option<Record>,
    back: Option<Record>,
    own: Option<btree_map::Range<'a, Vec<u8>, Write>>,
    /// Where the range stands among what the transaction has read.
    place: usize,
    /// The last keys that were returned at each end.
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
    ended: bool,
}

/// The keys of a range of a transaction, in their order, from either end; from [`Transaction::range_keys`].
pub struct TransactionRangeKeys<'a>(TransactionRange<'a>);

impl<'a> TransactionRange<'a> {
    pub(super) fn new(transaction: &'a Transaction, number: Option<u32>, own: Option<&'a Own>, bounds: Bounds) -> Result<Self> {
        let slices = (as_slice(&bounds.0), as_slice(&bounds.1));
        transaction.taken.engine().has_order(number)?;
        let stored =
            number.map(|number| Range::of(Source::At(transaction.taken.namespace(number)), bounds.clone())).transpose()?;
        let stored = stored.map(Range::with_expiries);
        // All of it until it is dropped: then it is known what was returned.
        let place = number.map_or(0, |number| transaction.reads.lock().set.range(ReadRange::new(number, slices.0, slices.1)));
        let own = own.filter(|own| !own.is_empty() && !is_inverted(slices)).map(|own| own.range::<[u8], _>(slices));
        Ok(Self {
            transaction,
            number,
            bounds,
            stored,
            front: None,
            back: None,
            own,
            place,
            first: None,
            last: None,
            ended: false,
        })
    }

    fn peek_stored(&mut self, rising: bool) {
        let (here, there) = if rising { (&mut self.front, &mut self.back) } else { (&mut self.back, &mut self.front) };
        if here.is_none() {
            let next = self.stored.as_mut().and_then(|stored| if rising { stored.next() } else { stored.next_back() });
            *here = next.or_else(|| there.take());
        }
    }

    fn step(&mut self, rising: bool) -> Option<Record> {
        loop {
            self.peek_stored(rising);
            let here = if rising { &mut self.front } else { &mut self.back };
            let own = self.own.as_ref().and_then(|own| if rising { own.clone().next() } else { own.clone().next_back() });
            let (takes_stored, takes_own) = match (&*here, own) {
                (None, None) => {
                    self.ended = true;
                    return None;
                }
                (Some(Ok((stored, _))), Some((own, _))) if stored == own => (true, true),
                (Some(Ok((stored, _))), Some((own, _))) if (stored < own) != rising => (false, true),
                (Some(_), _) => (true, false),
                (None, Some(_)) => (false, true),
            };
            let stored = if takes_stored { here.take() } else { None };
            let expiry = self.take_expiry(stored.as_ref());
            if !takes_own {
                expiry.into_iter().for_each(|expiry| self.transaction.reads.lock().set.expires(expiry));
                return stored.map(|record| self.hand_out(record, rising));
            }
            if let Some(own) = &mut self.own {
                let _taken = if rising { own.next() } else { own.next_back() };
            }
            if let Some((key, Write { value: Some(value), .. })) = own {
                return Some(self.hand_out(Ok((key.clone(), value.clone())), rising));
            }
        }
    }

    fn take_expiry(&mut self, record: Option<&Record>) -> Option<u64> {
        let (key, _) = record?.as_ref().ok()?;
        self.stored.as_mut()?.take_expiry(key)
    }

    /// Notes how far the range was read.
    fn hand_out(&mut self, record: Record, rising: bool) -> Record {
        let end = if rising { &mut self.first } else { &mut self.last };
        match &record {
            Ok((key, _)) => {
                let end = end.get_or_insert_default();
                end.clear();
                end.extend_from_slice(key);
            }
            // What comes after damage is read, too.
            Err(_) => self.ended = true,
        }
        self.transaction.seen(record)
    }
}

impl Drop for TransactionRange<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number.filter(|_| !self.ended) else { return };
        let (start, end) = (as_slice(&self.bounds.0), as_slice(&self.bounds.1));
        let front = self.first.as_deref().map(|first| ReadRange::new(number, start, Bound::Included(first)));
        let back = self.last.as_deref().map(|last| ReadRange::new(number, Bound::Included(last), end));
        self.transaction.reads.lock().set.narrow(self.place, front, back);
    }
}

/// True for a range that begins after its end: a B-tree refuses it.
fn is_inverted((start, end): (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
        _ => false,
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        self.step(true)
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Record> {
        self.step(false)
    }
}

impl<'a> TransactionRangeKeys<'a> {
    pub(super) fn of(range: TransactionRange<'a>) -> Self {
        Self(range.without_values())
    }
}

impl TransactionRange<'_> {
    /// The same range for a caller who wants only its keys. Nothing has been read yet.
    fn without_values(mut self) -> Self {
        self.stored = self.stored.take().map(Range::without_values);
        self
    }
}

impl Iterator for TransactionRangeKeys<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for TransactionRangeKeys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.0.next_back()?.map(|(key, _)| key))
    }
}
