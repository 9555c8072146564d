//! Transactions that tabs have begun, by the numbers that they have given them.

use alloc::vec::Vec;
use core::cell::RefCell;

use pipkin::{Cursor, Db, Result, Transaction, Ttl};

use crate::failure::{Code, Failure};
use crate::order::Order;
use crate::records::Records;
use crate::wire::Write;

/// So many are open at most: each is looked for among the others.
const OPEN_MAX: usize = 1000;
/// Memory that the writes of all of them may take, and the lists of what they have read.
const BYTES_MAX: usize = 128 * 1024 * 1024;

/// A transaction with its keys in order, which are read when a range is.
#[derive(Debug)]
pub(crate) struct Running {
    number: f64,
    db: Db,
    transaction: Transaction,
    pub(crate) order: Order,
    /// By the numbers that the tab has given them, in their order.
    #[cfg(feature = "full")]
    places: Vec<(f64, pipkin::Savepoint)>,
}

impl Running {
    pub(crate) fn write(&mut self, (key, value): Write<'_>, ttl: Ttl) -> Result<()> {
        match value {
            Some(value) => self.transaction.insert_with_ttl(key, value, ttl)?,
            None => drop(self.transaction.remove(key)?),
        }
        self.order.apply(&[(key, value)]);
        Ok(())
    }

    /// True if the key was there, which counts as read.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let there = self.transaction.remove(key)?;
        self.order.apply(&[(key, None)]);
        Ok(there)
    }

    /// A place to go back to, unless there is one of that number: the request may have come before.
    #[cfg(feature = "full")]
    pub(crate) fn savepoint(&mut self, place: f64) -> u8 {
        if !self.places.iter().any(|(number, _)| *number == place) {
            self.places.push((place, self.transaction.savepoint()));
        }
        0
    }

    #[cfg(feature = "full")]
    pub(crate) fn rollback_to(&mut self, place: f64) -> Result<()> {
        use pipkin::Error;
        const ENDED: Error =
            Error::InvalidArgument("the savepoint is not of this transaction, or was made behind one that it has gone back to");
        let at = self.places.iter().position(|(number, _)| *number == place).ok_or(ENDED)?;
        self.places.truncate(at + 1);
        let (_, savepoint) = self.places.last().ok_or(ENDED)?;
        self.transaction.rollback_to(savepoint)?;
        // Read again when a range is.
        self.order = Order::default();
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        #[cfg(feature = "full")]
        let places = self.places.capacity() * size_of::<(f64, pipkin::Savepoint)>();
        #[cfg(not(feature = "full"))]
        let places = 0;
        self.transaction.memory_bytes() + places
    }

    #[cfg(feature = "full")]
    pub(crate) fn transaction(&mut self) -> &mut Transaction {
        &mut self.transaction
    }

    pub(crate) fn into_inner(self) -> Transaction {
        self.transaction
    }
}

impl Records for Running {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.transaction.get(key)
    }

    fn has(&self, key: &[u8]) -> Result<bool> {
        self.transaction.contains_key(key)
    }

    /// No message asks: what is written lives from the commit on.
    fn expires_at(&self, _: &[u8]) -> Result<Option<u64>> {
        Ok(None)
    }

    fn page(&self, from: Cursor, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
        self.transaction.namespace(&self.db)?.page(from, each)
    }

    fn may_expire(&self) -> bool {
        false
    }

    /// By pages: an iterator would be code for the same a second time.
    fn keys(&self, each: &mut dyn FnMut(Result<Vec<u8>>) -> Result<()>) -> Result<()> {
        let mut next = Some(Cursor::default());
        while let Some(from) = next {
            let mut taken = Ok(());
            let page = self.page(from, &mut |key, _| {
                taken = each(Ok(key.to_vec()));
                taken.is_ok()
            });
            taken?;
            next = match page {
                Ok(next) => next,
                Err(error) => {
                    let behind = error.next_page();
                    each(Err(error))?;
                    behind
                }
            };
        }
        Ok(())
    }
}

/// The open transactions of a store.
#[derive(Debug, Default)]
pub(crate) struct Transactions(RefCell<Vec<Running>>);

impl Transactions {
    /// Begins a transaction, unless there is one of that number: the request may have come before. Numbers are random, and never used again.
    pub(crate) fn begin(&self, db: &Db, number: f64) -> core::result::Result<(), Failure> {
        let all = &mut *self.0.borrow_mut();
        if all.iter().any(|running| running.number == number) {
            return Ok(());
        }
        if all.len() >= OPEN_MAX {
            return Err(Failure::new(Code::Usage, "1000 transactions are open: wait for some to end"));
        }
        let transaction = db.begin().map_err(|error| Failure::from(&error))?;
        all.push(Running {
            number,
            db: db.clone(),
            transaction,
            order: Order::default(),
            #[cfg(feature = "full")]
            places: Vec::new(),
        });
        Ok(())
    }

    /// Takes a transaction out, to commit it or to give it up.
    pub(crate) fn take(&self, number: f64) -> Option<Running> {
        let all = &mut *self.0.borrow_mut();
        let place = all.iter().position(|running| running.number == number)?;
        Some(all.swap_remove(place))
    }

    /// Runs `work` on a transaction. Fails if there is none of that number: the store was opened again since it began.
    pub(crate) fn with<T>(
        &self,
        number: f64,
        work: impl FnOnce(&mut Running) -> core::result::Result<T, Failure>,
    ) -> core::result::Result<T, Failure> {
        let all = &mut *self.0.borrow_mut();
        let bytes: usize = all.iter().map(Running::memory_bytes).sum();
        if bytes > BYTES_MAX {
            return Err(Failure::new(Code::Usage, "more than 128 MiB in transactions that are open: read and write less in one"));
        }
        work(all.iter_mut().find(|running| running.number == number).ok_or_else(gone)?)
    }
}

/// The transaction is not here, and has written nothing.
pub(crate) fn gone() -> Failure {
    const WHY: &str = "the transaction has gone with the tab that had the store open, or was frozen or replaced by an import";
    Failure::new(Code::Conflict, WHY)
}
