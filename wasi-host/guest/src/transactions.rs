//! The resources `transaction` and `savepoint`.

use crate::bindings::exports::pipkin::kv::store::{
    GuestSavepoint, GuestTransaction, NamespaceBorrow, Savepoint, SavepointBorrow, Scan, Transaction as Handle,
};
use crate::bindings::exports::pipkin::kv::types::{self, Durability, Error, KeyRange, Packed, PackedValues, Position};
use crate::kept::Kept;
use crate::open::{Closed, Open};
use crate::records::{Pages, Records};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pipkin::{Namespace, Transaction, Ttl};
use pipkin_wasi_shared::OpenTransaction;

/// A transaction, and the store that it is of. Declared in this order: the transaction ends before the store may close.
pub(crate) struct InMemory {
    transaction: Ended,
    open: Arc<Open>,
    durability: Durability,
}

/// A transaction that ends with its handle, though walks of it may still be there.
struct Ended {
    transaction: OpenTransaction,
    kept: Kept,
}

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.transaction.end());
    }
}

impl Ended {
    /// Fails if so many bytes more are too many.
    fn admit(&self, more: usize) -> Result<(), Error> {
        self.kept.admit(self.transaction.memory_bytes(), more)
    }
}

impl InMemory {
    pub(crate) fn new(open: Arc<Open>, transaction: Transaction, durability: Durability) -> Self {
        let transaction = Ended { transaction: OpenTransaction::new(transaction), kept: Kept::new() };
        Self { transaction, open, durability }
    }

    /// Runs a call of the engine that may have to keep `more` bytes.
    pub(crate) fn run<T>(&self, more: usize, call: impl FnOnce(&mut Transaction) -> pipkin::Result<T>) -> Result<T, Error> {
        self.open.end_call()?;
        self.transaction.admit(more)?;
        Ok(self.transaction.transaction.run(call)?)
    }

    /// Commits, and makes the commit as durable as `durability` says.
    fn commit<T>(
        handle: Handle,
        commit: impl FnOnce(Transaction) -> pipkin::Result<T>,
    ) -> Result<(T, Arc<Open>, Durability), Error> {
        let Self { transaction, open, durability } = handle.into_inner::<Self>();
        open.end_call()?;
        let ending = transaction.transaction.end().ok_or(pipkin::Error::Closed)?;
        let committed = commit(ending)?;
        Ok((committed, open, durability))
    }
}

/// The engine's handle of a namespace, for one call.
fn named<'a>(namespace: &'a NamespaceBorrow<'_>) -> Result<&'a Namespace, Closed> {
    namespace.get::<Records>().namespace()
}

impl GuestTransaction for InMemory {
    fn get(&self, namespace: NamespaceBorrow<'_>, key: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        let records = named(&namespace)?;
        self.run(0, |transaction| transaction.get_in(records, key))
    }

    fn get_many(&self, namespace: NamespaceBorrow<'_>, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.run(0, |_| Ok(()))?;
        self.transaction.transaction.get_many(named(&namespace)?, keys, || Ok(self.open.end_call()?))
    }

    fn get_packed(&self, namespace: NamespaceBorrow<'_>, keys: Packed) -> Result<PackedValues, Error> {
        self.run(0, |_| Ok(()))?;
        let begin = || Ok::<(), Error>(self.open.end_call()?);
        let found = self.transaction.transaction.get_packed(named(&namespace)?, &keys.lengths, &keys.bytes, begin)?;
        Ok(PackedValues { lengths: found.lengths, bytes: found.bytes })
    }

    fn contains(&self, namespace: NamespaceBorrow<'_>, key: Vec<u8>) -> Result<bool, Error> {
        let records = named(&namespace)?;
        self.run(0, |transaction| transaction.contains_key_in(records, key))
    }

    fn put(&self, namespace: NamespaceBorrow<'_>, key: Vec<u8>, value: Vec<u8>) -> Result<(), Error> {
        let records = named(&namespace)?;
        self.run(key.len() + value.len(), |transaction| transaction.insert_in(records, &key, &value))
    }

    fn put_with_ttl(&self, namespace: NamespaceBorrow<'_>, key: Vec<u8>, value: Vec<u8>, ttl: types::Ttl) -> Result<(), Error> {
        let (records, more) = (named(&namespace)?, key.len() + value.len());
        self.run(more, |transaction| transaction.insert_in_with_ttl(records, &key, &value, Ttl::from(ttl)))
    }

    fn delete(&self, namespace: NamespaceBorrow<'_>, key: Vec<u8>) -> Result<bool, Error> {
        let records = named(&namespace)?;
        self.run(key.len(), |transaction| transaction.remove_in(records, &key))
    }

    fn scan(&self, namespace: NamespaceBorrow<'_>, prefix: Vec<u8>) -> Result<Scan, Error> {
        let records = named(&namespace)?;
        self.run(prefix.len(), |transaction| transaction.namespace(records).map(drop))?;
        Ok(Pages::scan(&self.open, self.transaction.transaction.records(records), prefix))
    }

    fn range(&self, namespace: NamespaceBorrow<'_>, range: KeyRange) -> Result<Scan, Error> {
        let records = named(&namespace)?;
        self.run(0, |transaction| transaction.namespace(records).map(drop))?;
        Ok(Pages::range(&self.open, self.transaction.transaction.records(records), range))
    }

    fn savepoint(&self) -> Result<Savepoint, Error> {
        let savepoint = self.run(0, |transaction| Ok(transaction.savepoint()))?;
        Ok(Savepoint::new(Place(savepoint)))
    }

    fn rollback_to(&self, savepoint: SavepointBorrow<'_>) -> Result<(), Error> {
        self.open.end_call()?;
        Ok(self.transaction.transaction.run(|transaction| transaction.rollback_to(&savepoint.get::<Place>().0))?)
    }

    fn commit(transaction: Handle) -> Result<Position, Error> {
        let (position, open, durability) = Self::commit(transaction, Transaction::commit_with_position)?;
        if open.writable().is_ok() {
            open.settle(durability)?;
        }
        Ok(position.into())
    }

    fn commit_durably(transaction: Handle) -> Result<Durability, Error> {
        Ok(Self::commit(transaction, Transaction::commit_durably)?.0.into())
    }

    fn rollback(transaction: Handle) {
        drop(transaction);
    }
}

/// A place in a transaction to go back to.
pub(crate) struct Place(pipkin::Savepoint);

impl GuestSavepoint for Place {}
