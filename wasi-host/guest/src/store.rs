//! The resource `db`.

use crate::Component;
use crate::bindings::exports::pipkin::kv::store::{Db, Guest, GuestDb, Namespace, Options, Snapshot, Transaction};
use crate::bindings::exports::pipkin::kv::types::{Durability, Error, Op, Position, PositionState};
use crate::open::{How, Open, open};
use crate::records::{Pages, Records};
use crate::snapshots::{Moment, RecordsThen};
use crate::transactions::{InMemory, Place};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pipkin::Ttl;
use pipkin_wasi_shared::{Change, commit};

/// A handle to an open store.
pub(crate) struct Handle {
    pub(crate) open: Arc<Open>,
    durability: Durability,
}

impl Guest for Component {
    type Db = Handle;
    type Namespace = Records;
    type Scan = Pages;
    type Snapshot = Moment;
    type SnapshotNamespace = RecordsThen;
    type Transaction = InMemory;
    type Savepoint = Place;
}

impl Handle {
    fn named(&self, name: Option<&str>) -> Result<pipkin::Namespace, Error> {
        match name {
            Some(name) => Ok(self.open.db()?.namespace(name)?),
            None => Ok(self.open.db()?.default_namespace()),
        }
    }
}

impl GuestDb for Handle {
    fn open(name: String, options: Options) -> Result<Db, Error> {
        let Options { create, read_only, durability, cache_bytes, segment_bytes, exclusive } = options;
        let open = open(&name, How { create, read_only, cache_bytes, segment_bytes, exclusive })?;
        Ok(Db::new(Handle { open, durability }))
    }

    fn close(db: Db) -> Result<(), Error> {
        Ok(db.into_inner::<Handle>().open.close()?)
    }

    fn namespace(&self, name: Option<String>) -> Result<Namespace, Error> {
        let namespace = self.named(name.as_deref())?;
        // Creating a namespace writes its name.
        self.open.settle(self.durability)?;
        Ok(Namespace::new(Records::new(self.open.clone(), namespace, self.durability)))
    }

    fn namespaces(&self) -> Vec<String> {
        self.open.db().map(pipkin::Db::list_namespaces).unwrap_or_default()
    }

    fn drop_namespace(&self, name: String) -> Result<bool, Error> {
        let dropped = self.open.db()?.drop_namespace(&name)?;
        self.open.settle(self.durability)?;
        Ok(dropped)
    }

    fn write(&self, ops: Vec<Op>, durability: Durability) -> Result<(), Error> {
        self.open.writable()?;
        let changes: Vec<Change<'_>> = ops
            .iter()
            .map(|Op { namespace, key, value, ttl }| Change {
                namespace: namespace.as_deref(),
                key,
                value: value.as_deref(),
                ttl: ttl.map_or(Ttl::Default, Into::into),
            })
            .collect();
        commit(self.open.db()?, &changes, |_| Ok::<(), pipkin::Error>(()))?;
        self.open.settle(durability)?;
        Ok(())
    }

    fn flush(&self, durability: Durability) -> Result<Durability, Error> {
        // Fails if the store was closed: writes that a failed close could not hand over must not reach the file any more.
        self.open.db()?;
        Ok(self.open.settle(durability)?)
    }

    fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(Snapshot::new(Moment::new(self.open.clone(), self.open.db()?.snapshot())))
    }

    fn begin(&self) -> Result<Transaction, Error> {
        let transaction = self.open.db()?.begin()?;
        Ok(Transaction::new(InMemory::new(self.open.clone(), transaction, self.durability)))
    }

    fn position(&self) -> Result<Position, Error> {
        let position = self.open.db()?.position()?;
        if self.open.writable().is_ok() {
            // The first one of a session begins a segment.
            self.open.settle(self.durability)?;
        }
        Ok(position.into())
    }

    fn state_of(&self, position: Position) -> Result<PositionState, Error> {
        Ok(self.open.db()?.state_of(position.into()).into())
    }

    fn flush_to(&self, position: Position) -> Result<Durability, Error> {
        Ok(self.open.db()?.flush_to(position.into())?.into())
    }
}
