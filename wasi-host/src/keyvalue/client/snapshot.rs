//! A guest's handles to a snapshot and to a namespace of one, and their operations.

use super::lost;
use super::wit::pipkin::kv::types::{Error, KeyRange, Packed, PackedValues};
use crate::keyvalue::context::Kept;
use crate::keyvalue::store_file::Engine;
use crate::keyvalue::view::WasiKeyValue;
use pipkin::{Snapshot, SnapshotNamespace};
use pipkin_wasi_shared::{PackingValues, Walk, values};
use wasmtime::component::Resource;

/// A guest's handle to a snapshot, in the resource table of the embedder. The snapshot ends with it and with the handles to its namespaces.
pub struct ClientSnapshot {
    snapshot: Snapshot,
    engine: Engine,
    _kept: Kept,
}

impl ClientSnapshot {
    pub(super) fn new(snapshot: Snapshot, engine: Engine, kept: Kept) -> Self {
        Self { snapshot, engine, _kept: kept }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Snapshot) -> pipkin::Result<T>) -> Result<T, Error> {
        let _in = self.engine.call()?;
        Ok(read(&self.snapshot)?)
    }

    pub(super) fn position(&self) -> Option<pipkin::Position> {
        self.snapshot.position()
    }

    /// A namespace as it was, and the engine that it is read from.
    pub(super) fn named(&self, name: Option<&str>) -> Result<Option<(SnapshotNamespace, Engine)>, Error> {
        let found = self.read(|snapshot| match name {
            Some(name) => snapshot.namespace(name),
            None => Ok(Some(snapshot.default_namespace())),
        })?;
        Ok(found.map(|records| (records, self.engine.clone())))
    }
}

/// A guest's handle to a namespace of a snapshot, in the resource table of the embedder.
pub struct ClientSnapshotNamespace {
    records: SnapshotNamespace,
    engine: Engine,
    _kept: Kept,
}

impl ClientSnapshotNamespace {
    pub(super) fn new((records, engine): (SnapshotNamespace, Engine), kept: Kept) -> Self {
        Self { records, engine, _kept: kept }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&SnapshotNamespace) -> pipkin::Result<T>) -> Result<T, Error> {
        let _in = self.engine.call()?;
        Ok(read(&self.records)?)
    }

    pub(super) fn get_many(&self, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.read(|records| values(keys, |key| records.get(key)))
    }

    pub(super) fn get_packed(&self, keys: &Packed) -> Result<PackedValues, Error> {
        self.read(|records| {
            let found = PackingValues::of(&keys.lengths, &keys.bytes, |key| records.get_zerocopy(key))?;
            Ok(PackedValues { lengths: found.lengths, bytes: found.bytes })
        })
    }

    /// A walk over the records, and the engine that it reads from.
    pub(super) fn scan(&self, prefix: Vec<u8>) -> (Walk, Engine) {
        (Walk::new(self.records.clone(), prefix), self.engine.clone())
    }

    /// The same over a range.
    pub(super) fn range(&self, range: KeyRange) -> (Walk, Engine) {
        (Walk::range(self.records.clone(), range.into()), self.engine.clone())
    }
}

impl WasiKeyValue<'_> {
    pub(super) fn snapshot(&self, snapshot: &Resource<ClientSnapshot>) -> Result<&ClientSnapshot, Error> {
        self.table.get(snapshot).map_err(lost)
    }

    pub(super) fn records_then(&self, records: &Resource<ClientSnapshotNamespace>) -> Result<&ClientSnapshotNamespace, Error> {
        self.table.get(records).map_err(lost)
    }
}
