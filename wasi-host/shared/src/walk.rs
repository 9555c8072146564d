//! A walk over records, a page at a time.

use crate::answer::BYTES_MAX;
use crate::range::{KeyRange, Ranging};
use crate::transaction::InTransaction;
use alloc::vec::Vec;
use pipkin::limits::KEY_LEN_MAX;
use pipkin::{Cursor, Error, Namespace, SnapshotNamespace};

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
    /// [`Error::NotOrdered`] where the store keeps no order, and those of reading.
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
        Err(Error::NotOrdered)
    }
}

#[cfg(feature = "ordered")]
pub(crate) fn pass(
    mut records: impl DoubleEndedIterator<Item = pipkin::Result<(Vec<u8>, Vec<u8>)>>,
    reverse: bool,
    each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> pipkin::Result<()> {
    while let Some(record) = if reverse { records.next_back() } else { records.next() } {
        let (key, value) = record?;
        if !each(&key, &value) {
            break;
        }
    }
    Ok(())
}

/// Where a page ends.
#[derive(Debug)]
pub(crate) struct Limits {
    entries: usize,
    bytes: usize,
    is_empty: bool,
}

impl Limits {
    fn new(max_entries: u32, max_bytes: u32) -> Self {
        Self { entries: max_entries.max(1) as usize, bytes: (max_bytes.max(1) as usize).min(BYTES_MAX), is_empty: true }
    }

    /// Counts a record; true when the page is full.
    pub(crate) fn count(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.is_empty = false;
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(key.len()).saturating_sub(value.len());
        self.entries == 0 || self.bytes == 0
    }

    /// True if the page has a record.
    pub(crate) const fn has_any(&self) -> bool {
        !self.is_empty
    }
}

/// A walk.
#[derive(Debug)]
pub struct Walk {
    records: Source,
    way: Way,
    /// Damage found after the records of the last page; the next call reports it.
    damage: Option<Error>,
}

#[derive(Debug)]
enum Way {
    /// All keys that begin with the prefix, in no order. Between two pages it holds only the cursor of the next one.
    Scan {
        prefix: Vec<u8>,
        next: Option<Cursor>,
    },
    Range(Ranging),
}

impl Walk {
    /// Starts a walk over the records whose keys begin with `prefix`.
    #[must_use]
    pub fn new(records: impl Into<Source>, prefix: Vec<u8>) -> Self {
        // A prefix longer than any key matches nothing: the walk is at its end, and the prefix need not be kept.
        let next = (prefix.len() <= KEY_LEN_MAX).then(Cursor::default);
        let prefix = if next.is_some() { prefix } else { Vec::new() };
        Self { records: records.into(), way: Way::Scan { prefix, next }, damage: None }
    }

    /// Starts a walk over the records of a range, in the order of their keys.
    #[must_use]
    pub fn range(records: impl Into<Source>, range: KeyRange) -> Self {
        Self { records: records.into(), way: Way::Range(Ranging::new(range)), damage: None }
    }

    /// The bytes that the walk keeps.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        match &self.way {
            Way::Scan { prefix, .. } => prefix.len(),
            Way::Range(range) => range.kept_bytes(),
        }
    }

    /// Ends the walk, and keeps nothing any more: there is no room for what it holds.
    pub fn end(&mut self) {
        (self.way, self.damage) = (Way::Scan { prefix: Vec::new(), next: None }, None);
    }

    /// Passes the records of the next page to `take`; none when the walk has ended. `begin` is called before each call of the engine.
    ///
    /// # Errors
    ///
    /// Those of the engine, and of `begin`. The next call then returns the same page again; after damage, it goes on behind the damage.
    pub fn page<E: From<Error>>(
        &mut self,
        max_entries: u32,
        max_bytes: u32,
        mut begin: impl FnMut() -> Result<(), E>,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), E> {
        if let Some(error) = self.damage.take() {
            return Err(error.into());
        }
        let mut limits = Limits::new(max_entries, max_bytes);
        let Self { records, way, damage } = self;
        let (prefix, next) = match way {
            Way::Scan { prefix, next } => (prefix, next),
            Way::Range(range) => {
                return match range.page(records, &mut limits, &mut || begin().map_err(Met::Begin), take) {
                    Ok(()) => Ok(()),
                    Err(Met::Engine(error @ Error::Corrupt { .. })) if limits.has_any() => {
                        *damage = Some(error);
                        Ok(())
                    }
                    Err(Met::Engine(error)) => Err(error.into()),
                    Err(Met::Begin(error)) => Err(error),
                };
            }
        };
        while let Some(from) = *next
            && !limits.has_any()
        {
            begin()?;
            let page = records.page(from, &mut |key, value| {
                if !key.starts_with(prefix) {
                    return true;
                }
                take(key, value);
                !limits.count(key, value)
            });
            *next = match page {
                Ok(next) => next,
                Err(error @ Error::Corrupt { .. }) => {
                    *next = error.next_page();
                    if !limits.has_any() {
                        return Err(error.into());
                    }
                    *damage = Some(error);
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
        }
        Ok(())
    }
}

/// What has ended a page.
enum Met<E> {
    Engine(Error),
    Begin(E),
}

impl<E> From<Error> for Met<E> {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}
