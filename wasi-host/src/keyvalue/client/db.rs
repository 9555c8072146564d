//! A guest's handle to an open store, and its operations.

use super::wit::pipkin::kv::store::Options;
use super::wit::pipkin::kv::types::{Durability, Error, Op, Position, PositionState, Reason};
use super::{ClientSnapshot, access_denied, lost, over_quota};
use crate::keyvalue::context::{Entry, Kept, Unlisted};
use crate::keyvalue::quota::{Admitted, Failure};
use crate::keyvalue::store_file::{Call, Engine};
use crate::keyvalue::view::WasiKeyValue;
use pipkin::limits::NAMESPACE_NAME_LEN_MAX;
use pipkin::{Error as Native, Namespace, Ttl};
use pipkin_wasi_shared::{Change, commit};
use std::sync::Arc;
use wasmtime::component::Resource;

/// A guest's handle to an open store, in the resource table of the embedder.
#[derive(Clone)]
pub struct ClientDb {
    pub(super) engine: Engine,
    pub(super) entry: Entry,
    read_only: bool,
    follow: bool,
    pub(super) durability: Durability,
    _kept: Arc<Kept>,
}

impl ClientDb {
    pub(super) fn open((entry, kept): (Entry, Kept), options: Options) -> Result<Self, Error> {
        let Options { create, durability, segment_bytes, .. } = options;
        let follow = options.follow || entry.follows();
        let read_only = options.read_only || follow;
        if entry.is_read_only() && !read_only {
            return Err(access_denied("the host lets this component only read the store; open it with `read-only`".to_owned()));
        }
        let engine = entry.opened(|store| match (follow, read_only) {
            (true, _) => store.open_to_follow(),
            (false, true) => store.open_to_read(),
            (false, false) => store.open(create, segment_bytes),
        })?;
        Ok(Self { engine, entry, read_only, follow, durability, _kept: Arc::new(kept) })
    }

    pub(super) fn close(self) -> Result<(), Error> {
        if self.read_only {
            return Ok(());
        }
        let db = self.engine.call()?;
        Ok(db.flush().map(drop).map_err(|error| self.entry.failed(error.into(), db.limits()))?)
    }

    /// A store that this host writes is up to date.
    pub(super) fn refresh(&self) -> Result<bool, Error> {
        let db = self.engine.call()?;
        if self.follow && !db.stats()?.follows { Ok(false) } else { Ok(db.refresh()?) }
    }

    pub(super) fn writable(&self) -> Result<(), Error> {
        if self.read_only { Err(Native::ReadOnly.into()) } else { Ok(()) }
    }

    /// Whether a write of that durability waits for the device.
    pub(super) fn waits_for(&self, durability: Durability) -> bool {
        durability == Durability::Synced || self.entry.syncs()
    }

    pub(super) fn waits(&self) -> bool {
        self.waits_for(self.durability)
    }

    /// Syncs if `durability` or the store's policy demands it. Nothing else is left to do: the native engine hands every write to the
    /// system at once.
    pub(super) fn settle(&self, db: &Call<'_>, durability: Durability) -> Result<Durability, Error> {
        if !self.waits_for(durability) {
            return Ok(Durability::Written);
        }
        Ok(db.flush().map_err(|error| self.entry.failed(error.into(), db.limits()))?.into())
    }

    /// Writes, and makes the write durable. `admitted` is held while the write runs.
    pub(super) fn write<'a, T, E: Into<Failure>>(
        &'a self,
        durability: Durability,
        admit: impl FnOnce(&Call<'a>) -> Result<Admitted<'a>, Failure>,
        mut write: impl FnMut(&Call<'a>) -> Result<T, E>,
    ) -> Result<T, Error> {
        self.writable()?;
        let db = self.engine.call()?;
        let admitted = admit(&db)?;
        let written = db.limits().with_room(&db, || write(&db).map_err(Into::into));
        let answer = written.map_err(|failure| self.entry.failed(failure, db.limits()))?;
        drop(admitted);
        self.settle(&db, durability)?;
        Ok(answer)
    }

    pub(super) fn named(&self, name: Option<&str>) -> Result<Namespace, Error> {
        let db = self.engine.call()?;
        let Some(name) = name else { return Ok(db.default_namespace()) };
        let _names = db.names();
        if let Some(found) = db.find_namespace(name) {
            return Ok(found);
        }
        if (1..=NAMESPACE_NAME_LEN_MAX).contains(&name.len()) {
            self.writable()?;
            db.limits().admit_namespace(&db)?;
        }
        Ok(db.namespace(name).map_err(|error| self.entry.failed(error.into(), db.limits()))?)
    }

    pub(super) fn drop_namespace(&self, name: &str) -> Result<bool, Error> {
        let drop_it = |db: &Call<'_>| {
            let _names = db.names();
            db.drop_namespace(name)
        };
        self.write(self.durability, |_| Ok(Admitted::none()), drop_it)
    }

    pub(super) fn write_all(&self, ops: &[Op], durability: Durability) -> Result<(), Error> {
        let changes: Vec<Change<'_>> = ops
            .iter()
            .map(|Op { namespace, key, value, ttl }| Change {
                namespace: namespace.as_deref(),
                key,
                value: value.as_deref(),
                ttl: ttl.map_or(Ttl::Default, Into::into),
            })
            .collect();
        let stored = || changes.iter().filter(|change| change.value.is_some());
        let new = |db: &Call<'_>| {
            stored().try_fold(0, |new, change| {
                let place = change.namespace.map_or(Some(db.default_namespace()), |name| db.find_namespace(name));
                Ok(new + u64::from(!place.map_or(Ok(false), |place| place.contains_key(change.key))?))
            })
        };
        let commit = |db: &Call<'_>| {
            let _names = changes.iter().any(|change| change.namespace.is_some()).then(|| db.names());
            commit(db, &changes, |_| db.limits().admit_namespace(db))
        };
        self.write(durability, |db| db.admit(stored().count(), || new(db)), commit)
    }

    pub(super) fn flush(&self, durability: Durability) -> Result<Durability, Error> {
        self.settle(&self.engine.call()?, durability)
    }

    pub(super) fn snapshot(&self, kept: Kept) -> Result<ClientSnapshot, Error> {
        let snapshot = self.engine.call()?.snapshot();
        Ok(ClientSnapshot::new(snapshot, self.engine.clone(), kept))
    }

    /// The first position of a session begins a segment, which is a write.
    pub(super) fn position(&self) -> Result<Position, Error> {
        let db = self.engine.call()?;
        let position = db.limits().with_room(&db, || db.position().map_err(Into::into));
        Ok(position.map_err(|failure| self.entry.failed(failure, db.limits()))?.into())
    }

    pub(super) fn state_of(&self, position: Position) -> Result<PositionState, Error> {
        Ok(self.engine.call()?.state_of(position.into()).into())
    }

    pub(super) fn flush_to(&self, position: Position) -> Result<Durability, Error> {
        let db = self.engine.call()?;
        match db.flush_to(position.into()) {
            Err(Native::UnknownPosition) => Err(Native::UnknownPosition.into()),
            flushed => Ok(flushed.map_err(|error| self.entry.failed(error.into(), db.limits()))?.into()),
        }
    }
}

impl WasiKeyValue<'_> {
    pub(super) fn listed(&self, name: &str) -> Result<&Entry, Error> {
        self.ctx.entry(name).map_err(|why| match why {
            Unlisted::Unknown => {
                Error { reason: Reason::NotFound, message: format!("the host lists no store {name:?}; ask it for another name") }
            }
            Unlisted::Denied => access_denied(format!("the host keeps the store {name:?} from this component")),
        })
    }

    /// Looks up what opening needs beside its options.
    pub(super) fn find(&self, name: &str) -> Result<(Entry, Kept), Error> {
        Ok((self.listed(name)?.clone(), self.ctx.keep(0).map_err(over_quota)?))
    }

    pub(super) fn db(&self, db: &Resource<ClientDb>) -> Result<&ClientDb, Error> {
        self.table.get(db).map_err(lost)
    }
}
