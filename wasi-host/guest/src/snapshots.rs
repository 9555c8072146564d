//! The resources `snapshot` and `snapshot-namespace`.

use crate::bindings::exports::pipkin::kv::store::{GuestSnapshot, GuestSnapshotNamespace, Scan, SnapshotNamespace};
use crate::bindings::exports::pipkin::kv::types::{Error, KeyRange, Packed, PackedValues, Position};
use crate::open::{Closed, Open};
use crate::records::Pages;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pipkin::Snapshot;
use pipkin_wasi_shared::{PackingValues, values};

/// A snapshot, and the store that it is of. Declared in this order: the snapshot ends before the store may close.
pub(crate) struct Moment {
    snapshot: Snapshot,
    open: Arc<Open>,
}

impl Moment {
    pub(crate) fn new(open: Arc<Open>, snapshot: Snapshot) -> Self {
        Self { snapshot, open }
    }

    /// The engine's handle, for one call of it.
    fn snapshot(&self) -> Result<&Snapshot, Closed> {
        self.open.end_call()?;
        Ok(&self.snapshot)
    }
}

impl GuestSnapshot for Moment {
    fn namespace(&self, name: Option<String>) -> Result<Option<SnapshotNamespace>, Error> {
        let snapshot = self.snapshot()?;
        let found = match name {
            Some(name) => snapshot.namespace(&name)?,
            None => Some(snapshot.default_namespace()),
        };
        Ok(found.map(|records| SnapshotNamespace::new(RecordsThen { records, open: self.open.clone() })))
    }

    fn namespaces(&self) -> Result<Vec<String>, Error> {
        Ok(self.snapshot()?.list_namespaces()?)
    }

    fn position(&self) -> Option<Position> {
        self.snapshot.position().map(Into::into)
    }
}

/// The records of one namespace as they were.
pub(crate) struct RecordsThen {
    records: pipkin::SnapshotNamespace,
    open: Arc<Open>,
}

impl RecordsThen {
    /// The engine's handle, for one call of it.
    fn records(&self) -> Result<&pipkin::SnapshotNamespace, Closed> {
        self.open.end_call()?;
        Ok(&self.records)
    }
}

impl GuestSnapshotNamespace for RecordsThen {
    fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.records()?.get(key)?)
    }

    fn get_many(&self, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        values(keys, |key| Ok(self.records()?.get(key)?))
    }

    fn get_packed(&self, keys: Packed) -> Result<PackedValues, Error> {
        let found = PackingValues::of(&keys.lengths, &keys.bytes, |key| Ok::<_, Error>(self.records()?.get_zerocopy(key)?))?;
        Ok(PackedValues { lengths: found.lengths, bytes: found.bytes })
    }

    fn contains(&self, key: Vec<u8>) -> Result<bool, Error> {
        Ok(self.records()?.contains_key(key)?)
    }

    fn expires_at(&self, key: Vec<u8>) -> Result<Option<u64>, Error> {
        Ok(self.records()?.expires_at(key)?)
    }

    fn len(&self) -> Result<u64, Error> {
        Ok(self.records()?.len()?)
    }

    fn scan(&self, prefix: Vec<u8>) -> Scan {
        Pages::scan(&self.open, self.records.clone(), prefix)
    }

    fn range(&self, range: KeyRange) -> Result<Scan, Error> {
        Ok(Pages::range(&self.open, self.records()?.clone(), range))
    }
}
