//! An open transaction, which its walks share.

use crate::answer::values;
use crate::packed::PackingValues;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pipkin::{Cursor, Error, Namespace, Result, Transaction};
use spin::Mutex;

/// A transaction until it is committed or rolled back. Clones are the same transaction. The lock is never waited for: a guest makes one call at
/// a time.
#[derive(Clone, Debug)]
pub struct OpenTransaction(Arc<Mutex<Option<Transaction>>>);

impl OpenTransaction {
    /// A transaction that has begun.
    #[must_use]
    pub fn new(transaction: Transaction) -> Self {
        Self(Arc::new(Mutex::new(Some(transaction))))
    }

    /// Ends it for all clones; `None` if it has ended.
    #[must_use]
    pub fn end(&self) -> Option<Transaction> {
        self.0.lock().take()
    }

    /// Runs a call of the engine.
    ///
    /// # Errors
    ///
    /// Those of `call`, and [`Error::InvalidArgument`] once the transaction has ended.
    pub fn run<T>(&self, call: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut transaction = self.0.lock();
        call(transaction.as_mut().ok_or(Error::InvalidArgument("the transaction has ended; begin another one"))?)
    }

    /// The memory that it takes, in bytes; 0 once it has ended.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.lock().as_ref().map_or(0, Transaction::memory_bytes)
    }

    /// The values of many keys of a namespace. Between two of them `begin` is called.
    ///
    /// # Errors
    ///
    /// Those of the engine, of `begin` and of an answer that is too long.
    pub fn get_many<E: From<Error>>(
        &self,
        records: &Namespace,
        keys: Vec<Vec<u8>>,
        mut begin: impl FnMut() -> Result<(), E>,
    ) -> Result<Vec<Option<Vec<u8>>>, E> {
        values(keys, |key| {
            begin()?;
            Ok(self.run(|transaction| transaction.get_in(records, key))?)
        })
    }

    /// The same, packed.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get_many`], and of a list whose lengths do not add up.
    pub fn get_packed<E: From<Error>>(
        &self,
        records: &Namespace,
        lengths: &[u32],
        bytes: &[u8],
        mut begin: impl FnMut() -> Result<(), E>,
    ) -> Result<PackingValues, E> {
        PackingValues::of(lengths, bytes, |key| {
            begin()?;
            Ok(self.run(|transaction| transaction.get_in(records, key))?)
        })
    }

    /// The records of a namespace as it sees them, for a walk.
    #[must_use]
    pub fn records(&self, records: &Namespace) -> InTransaction {
        InTransaction { transaction: self.clone(), records: records.clone() }
    }
}

/// The records of a namespace as a transaction sees them.
#[derive(Debug)]
pub struct InTransaction {
    transaction: OpenTransaction,
    records: Namespace,
}

impl InTransaction {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.transaction.run(|transaction| transaction.get_in(&self.records, key))
    }

    #[cfg(feature = "ordered")]
    pub(crate) fn in_order(&self, range: &crate::key_range::KeyRange, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.transaction.run(|transaction| {
            crate::key_range::pass(transaction.namespace(&self.records)?.range(range.bounds())?, range.reverse, each)
        })
    }

    pub(crate) fn page(&self, from: Cursor, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
        self.transaction.run(|transaction| transaction.namespace(&self.records)?.page(from, each))
    }
}
