//! The resource `db`.

use crate::Component;
use crate::bindings::exports::pipkin::kv::store::{
    Changes, Consumer, Db, Guest, GuestDb, Namespace, Options, Secret, Snapshot, Transaction,
};
use crate::bindings::exports::pipkin::kv::types::{
    ChangesOptions, ConsumerState, Durability, Error, Op, Position, PositionState, Reason,
};
use crate::changes::Reader;
use crate::open::{How, Open, open};
use crate::records::{Pages, Records};
use crate::secret::Unlocking;
use crate::snapshots::{Moment, RecordsThen};
use crate::transactions::{InMemory, Place};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pipkin::{ConsumerBuilder, Ttl};
use pipkin_wasi_shared::{Asked, Change, TOO_MANY_CONSUMERS, commit};

/// A handle to an open store.
pub(crate) struct Handle {
    pub(crate) open: Arc<Open>,
    pub(crate) durability: Durability,
}

impl Guest for Component {
    type Db = Handle;
    type Namespace = Records;
    type Scan = Pages;
    type Snapshot = Moment;
    type SnapshotNamespace = RecordsThen;
    type Transaction = InMemory;
    type Savepoint = Place;
    type Changes = Reader<pipkin::Changes>;
    type Consumer = Reader<pipkin::Consumer>;
}

impl Handle {
    fn named(&self, name: Option<&str>) -> Result<pipkin::Namespace, Error> {
        match name {
            Some(name) => Ok(self.open.db()?.namespace(name)?),
            None => Ok(self.open.db()?.default_namespace()),
        }
    }

    /// What a call has written that may have: a name of a namespace or a log, or the segment that the first position of a session begins.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        if self.open.writable().is_ok() {
            self.open.settle(self.durability)?;
        }
        Ok(())
    }

    fn snapshot_of(&self, snapshot: pipkin::Snapshot) -> Snapshot {
        Snapshot::new(Moment::new(self.open.clone(), snapshot))
    }

    fn changes_of(&self, changes: pipkin::Changes) -> Result<Changes, Error> {
        self.settle()?;
        Ok(Changes::new(Reader::new(self.open.clone(), changes, self.durability)?))
    }

    fn named_consumer(&self, name: &str, options: ChangesOptions) -> Result<ConsumerBuilder, Error> {
        self.open.writable()?;
        let builder = Asked::from(options).consumer(self.open.db()?, name)?;
        builder.ok_or_else(|| Error { reason: Reason::Quota, message: TOO_MANY_CONSUMERS.to_string() })
    }

    fn consumer_of(&self, consumer: pipkin::Consumer) -> Result<Consumer, Error> {
        self.open.settle(self.durability)?;
        Ok(Consumer::new(Reader::new(self.open.clone(), consumer, self.durability)?))
    }
}

fn opened(name: &str, options: Options, unlocking: Unlocking) -> Result<Db, Error> {
    let Options { create, read_only, durability, cache_bytes, segment_bytes, exclusive, follow } = options;
    let open = open(name, How { create, read_only, cache_bytes, segment_bytes, exclusive, follow }, unlocking)?;
    Ok(Db::new(Handle { open, durability }))
}

impl GuestDb for Handle {
    fn open(name: String, options: Options) -> Result<Db, Error> {
        opened(&name, options, Unlocking::NONE)
    }

    fn open_sealed(name: String, options: Options, secret: Secret) -> Result<Db, Error> {
        opened(&name, options, Unlocking::with(secret)?)
    }

    fn close(db: Db) -> Result<(), Error> {
        Ok(db.into_inner::<Handle>().open.close()?)
    }

    fn refresh(&self) -> Result<bool, Error> {
        Ok(self.open.db()?.refresh()?)
    }

    fn namespace(&self, name: Option<String>) -> Result<Namespace, Error> {
        let namespace = self.named(name.as_deref())?;
        // Creating a namespace writes its name.
        self.settle()?;
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
        Ok(self.snapshot_of(self.open.db()?.snapshot()))
    }

    fn begin(&self) -> Result<Transaction, Error> {
        let transaction = self.open.db()?.begin()?;
        Ok(Transaction::new(InMemory::new(self.open.clone(), transaction, self.durability)))
    }

    fn position(&self) -> Result<Position, Error> {
        let position = self.open.db()?.position()?;
        self.settle()?;
        Ok(position.into())
    }

    fn state_of(&self, position: Position) -> Result<PositionState, Error> {
        Ok(self.open.db()?.state_of(position.into()).into())
    }

    fn flush_to(&self, position: Position) -> Result<Durability, Error> {
        Ok(self.open.db()?.flush_to(position.into())?.into())
    }

    fn changes(&self, options: ChangesOptions) -> Result<Changes, Error> {
        self.changes_of(Asked::from(options).of(self.open.db()?).start()?)
    }

    fn changes_with_state(&self, options: ChangesOptions) -> Result<(Snapshot, Changes), Error> {
        let (snapshot, changes) = Asked::from(options).of(self.open.db()?).with_state()?;
        Ok((self.snapshot_of(snapshot), self.changes_of(changes)?))
    }

    fn consumer(&self, name: String, options: ChangesOptions) -> Result<Consumer, Error> {
        self.consumer_of(self.named_consumer(&name, options)?.start()?)
    }

    fn consumer_with_state(&self, name: String, options: ChangesOptions) -> Result<(Snapshot, Consumer), Error> {
        let (snapshot, consumer) = self.named_consumer(&name, options)?.with_state()?;
        Ok((self.snapshot_of(snapshot), self.consumer_of(consumer)?))
    }

    fn consumers(&self) -> Result<Vec<ConsumerState>, Error> {
        Ok(self.open.db()?.consumers()?.into_iter().map(Into::into).collect())
    }

    fn remove_consumer(&self, name: String) -> Result<bool, Error> {
        self.open.writable()?;
        let removed = self.open.db()?.remove_consumer(&name)?;
        self.open.settle(self.durability)?;
        Ok(removed)
    }
}
