//! A walk over records, a page at a time.

use crate::answer::BYTES_MAX;
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
    fn page(&self, from: Cursor, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> pipkin::Result<Option<Cursor>> {
        match self {
            Self::Now(records) => records.page(from, each),
            Self::At(records) => records.page(from, each),
            Self::In(records) => records.page(from, each),
        }
    }
}

/// A walk. Between two pages it holds only the cursor of the next one.
#[derive(Debug)]
pub struct Walk {
    records: Source,
    prefix: Vec<u8>,
    next: Option<Cursor>,
    /// Damage found after the records of the last page; the next call reports it.
    damage: Option<Error>,
}

impl Walk {
    /// Starts a walk over the records whose keys begin with `prefix`.
    #[must_use]
    pub fn new(records: impl Into<Source>, prefix: Vec<u8>) -> Self {
        // A prefix longer than any key matches nothing: the walk is at its end, and the prefix need not be kept.
        let next = (prefix.len() <= KEY_LEN_MAX).then(Cursor::default);
        let prefix = if next.is_some() { prefix } else { Vec::new() };
        Self { records: records.into(), prefix, next, damage: None }
    }

    /// The bytes of the prefix that the walk keeps.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.prefix.len()
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
        let (entries_max, bytes_max) = (max_entries.max(1) as usize, (max_bytes.max(1) as usize).min(BYTES_MAX));
        let (mut entries, mut bytes) = (0, 0_usize);
        if let Some(error) = self.damage.take() {
            return Err(error.into());
        }
        while let Some(from) = self.next
            && entries == 0
        {
            begin()?;
            let page = self.records.page(from, &mut |key, value| {
                if key.starts_with(&self.prefix) {
                    entries += 1;
                    bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
                    take(key, value);
                }
                entries < entries_max && bytes < bytes_max
            });
            self.next = match page {
                Ok(next) => next,
                Err(error) => match &error {
                    Error::Corrupt { .. } if entries > 0 => {
                        let next = error.next_page();
                        self.damage = Some(error);
                        next
                    }
                    Error::Corrupt { .. } => {
                        self.next = error.next_page();
                        return Err(error.into());
                    }
                    _ => return Err(error.into()),
                },
            };
        }
        Ok(())
    }
}
