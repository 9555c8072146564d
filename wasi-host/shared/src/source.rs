//! What a walk reads.

use crate::key_range::KeyRange;
#[cfg(feature = "ordered")]
use crate::key_range::pass;
use crate::transaction::InTransaction;
use alloc::vec::Vec;
use pipkin::{Cursor, Namespace, SnapshotNamespace};

/// What a walk reads: records as they are now, as they were at the moment of a snapshot, or as a transaction sees them.
#[derive(Debug)]
pub enum Source {
    /// Each page as the records are when it is read.
    Now(Namespace),
    /// All pages at one moment.
    At(SnapshotNamespace),
    /// Each page as the transaction has made the records by then.
    In(InTransaction),
}

impl From<Namespace> for Source {
    fn from(records: Namespace) -> Self {
        Self::Now(records)
    }
}

impl From<SnapshotNamespace> for Source {
    fn from(records: SnapshotNamespace) -> Self {
        Self::At(records)
    }
}

impl From<InTransaction> for Source {
    fn from(records: InTransaction) -> Self {
        Self::In(records)
    }
}

impl Source {
    pub(crate) fn page(&self, from: Cursor, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> pipkin::Result<Option<Cursor>> {
        match self {
            Self::Now(records) => records.page(from, each),
            Self::At(records) => records.page(from, each),
            Self::In(records) => records.page(from, each),
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> pipkin::Result<Option<Vec<u8>>> {
        match self {
            Self::Now(records) => records.get(key),
            Self::At(records) => records.get(key),
            Self::In(records) => records.get(key),
        }
    }

    /// Passes the records of a range to `each`, in their order, until it returns `false`.
    ///
    /// # Errors
    ///
    /// [`NotOrdered`](pipkin::Error::NotOrdered) where the store keeps no order, and those of reading.
    #[cfg(feature = "ordered")]
    pub(crate) fn in_order(&self, range: &KeyRange, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> pipkin::Result<()> {
        match self {
            Self::Now(records) => pass(records.range(range.bounds())?, range.reverse, each),
            Self::At(records) => pass(records.range(range.bounds())?, range.reverse, each),
            Self::In(records) => records.in_order(range, each),
        }
    }

    #[cfg(not(feature = "ordered"))]
    #[expect(clippy::unused_self, reason = "a store keeps no order without the feature")]
    pub(crate) fn in_order(&self, _: &KeyRange, _: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> pipkin::Result<()> {
        Err(pipkin::Error::NotOrdered)
    }
}
