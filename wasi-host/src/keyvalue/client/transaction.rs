//! A guest's handles to a transaction and to its savepoints, and their operations.

use super::wit::pipkin::kv::types::{Durability, Error, KeyRange, Packed, PackedValues, Position};
use super::{ClientDb, over_quota};
use crate::keyvalue::context::Kept;
use crate::keyvalue::quota::Failure;
use crate::keyvalue::store_file::{Call, Engine};
use pipkin::{Error as Native, Namespace, Savepoint, Subscription, Transaction, Ttl};
use pipkin_wasi_shared::{OpenTransaction, Walk};

/// What a cursor takes in the memory of a transaction, at most.
const CURSOR_BYTES: usize = 512;

/// A guest's handle to a transaction, in the resource table of the embedder. The transaction ends with it.
pub struct ClientTransaction {
    transaction: OpenTransaction,
    store: ClientDb,
    kept: Kept,
    /// Entries of the index that its events make at most, and how many events there are.
    of_events: (usize, u64),
}

impl Drop for ClientTransaction {
    fn drop(&mut self) {
        // Walks of it may live on.
        drop(self.transaction.end());
    }
}

impl ClientTransaction {
    pub(super) fn begin(store: &ClientDb, kept: Kept) -> Result<Self, Error> {
        let transaction = store.engine.call()?.begin()?;
        Ok(Self { transaction: OpenTransaction::new(transaction), store: store.clone(), kept, of_events: (0, 0) })
    }

    /// Whether its commit waits for the device.
    pub(super) fn waits(&self) -> bool {
        self.store.waits()
    }

    /// Runs `call`, which may have to keep `more` bytes.
    fn run_any<T>(&mut self, more: usize, call: impl FnOnce(&OpenTransaction) -> Result<T, Error>) -> Result<T, Error> {
        let _in = self.store.engine.call()?;
        self.kept.reserve(self.transaction.memory_bytes().saturating_add(more)).map_err(over_quota)?;
        let answer = call(&self.transaction);
        self.kept.set(self.transaction.memory_bytes());
        answer
    }

    /// A call of the engine that keeps no more than the keys that it reads.
    pub(super) fn read<T>(&mut self, call: impl FnOnce(&mut Transaction) -> pipkin::Result<T>) -> Result<T, Error> {
        self.run_any(0, |transaction| Ok(transaction.run(call)?))
    }

    fn write<T>(&mut self, more: usize, call: impl FnOnce(&mut Transaction) -> pipkin::Result<T>) -> Result<T, Error> {
        self.store.writable()?;
        self.run_any(more, |transaction| Ok(transaction.run(call)?))
    }

    pub(super) fn get_many(&mut self, records: &Namespace, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.run_any(0, |transaction| transaction.get_many(records, keys, || Ok(())))
    }

    pub(super) fn get_packed(&mut self, records: &Namespace, keys: &Packed) -> Result<PackedValues, Error> {
        let found =
            self.run_any(0, |transaction| transaction.get_packed::<Error>(records, &keys.lengths, &keys.bytes, || Ok(())))?;
        Ok(PackedValues { lengths: found.lengths, bytes: found.bytes })
    }

    pub(super) fn put(&mut self, records: &Namespace, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.write(key.len() + value.len(), |transaction| transaction.insert_in(records, key, value))
    }

    pub(super) fn put_with_ttl(&mut self, records: &Namespace, key: &[u8], value: &[u8], ttl: Ttl) -> Result<(), Error> {
        self.write(key.len() + value.len(), |transaction| transaction.insert_in_with_ttl(records, key, value, ttl))
    }

    pub(super) fn delete(&mut self, records: &Namespace, key: &[u8]) -> Result<bool, Error> {
        self.write(key.len(), |transaction| transaction.remove_in(records, key))
    }

    /// Keeps events for the commit.
    pub(super) fn append(
        &mut self,
        more: usize,
        (entries, events): (usize, usize),
        call: impl FnOnce(&mut Transaction) -> pipkin::Result<()>,
    ) -> Result<(), Error> {
        self.write(more, call)?;
        self.of_events = (self.of_events.0 + entries, self.of_events.1 + events as u64);
        Ok(())
    }

    pub(super) fn ack(&mut self, subscription: &Subscription, number: u64) -> Result<(), Error> {
        self.write(CURSOR_BYTES, |transaction| transaction.ack(subscription, number))
    }

    /// A walk over the records as the transaction sees them, and the engine that it reads from.
    pub(super) fn scan(&mut self, records: &Namespace, prefix: Vec<u8>) -> Result<(Walk, Engine), Error> {
        // Refuses the namespace of another store at once.
        self.read(|transaction| transaction.namespace(records).map(drop))?;
        Ok((Walk::new(self.transaction.records(records), prefix), self.store.engine.clone()))
    }

    /// The same over a range.
    pub(super) fn range(&mut self, records: &Namespace, range: KeyRange) -> Result<(Walk, Engine), Error> {
        self.read(|transaction| transaction.namespace(records).map(drop))?;
        Ok((Walk::range(self.transaction.records(records), range.into()), self.store.engine.clone()))
    }

    /// What it goes back to is less than what it has: no limit keeps it from that.
    pub(super) fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<(), Error> {
        let _in = self.store.engine.call()?;
        self.transaction.run(|transaction| transaction.rollback_to(savepoint))?;
        self.kept.set(self.transaction.memory_bytes());
        Ok(())
    }

    pub(super) fn commit(self) -> Result<Position, Error> {
        let durability = self.store.durability;
        Ok(self.commit_as(durability)?.0)
    }

    pub(super) fn commit_durably(self) -> Result<Durability, Error> {
        Ok(self.commit_as(Durability::Synced)?.1)
    }

    fn commit_as(self, durability: Durability) -> Result<(Position, Durability), Error> {
        let db = self.store.engine.call()?;
        let transaction = self.transaction.end().ok_or(Native::Closed)?;
        let mut stored = 0;
        transaction.each_write(&mut |_, _, stores| stored += usize::from(stores));
        let (entries, events) = self.of_events;
        let admitted = db.admit(stored + entries, || Ok(new_records(&db, &transaction)? + events))?;
        let committed = transaction.commit_by(|commit| db.limits().with_room(&db, || commit().map_err(Failure::from)));
        let position = committed.map_err(|failure| match failure {
            // Nothing has failed: the host need not know.
            Failure::Engine(answer @ (Native::Conflict(_) | Native::AppendRefused { .. })) => answer.into(),
            failure => self.store.entry.failed(failure, db.limits()),
        })?;
        drop(admitted);
        Ok((position.into(), self.store.settle(&db, durability)?))
    }
}

/// How many of the keys that a transaction stores have no record now. Cursors of events do not count as records.
fn new_records(db: &Call<'_>, transaction: &Transaction) -> pipkin::Result<u64> {
    let mut new = Ok(0);
    transaction.each_write(&mut |name, key, stores| {
        if let (Ok(count), true) = (&new, stores) {
            if name.starts_with('\0') {
                return;
            }
            let place = if name.is_empty() { Some(db.default_namespace()) } else { db.find_namespace(name) };
            let is_there = place.map_or(Ok(false), |place| place.contains_key(key));
            new = is_there.map(|is_there| count + u64::from(!is_there));
        }
    });
    new
}

/// A guest's handle to a place in a transaction, in the resource table of the embedder.
pub struct ClientSavepoint {
    pub(super) place: Savepoint,
    _kept: Kept,
}

impl ClientSavepoint {
    pub(super) fn new(place: Savepoint, kept: Kept) -> Self {
        Self { place, _kept: kept }
    }
}
