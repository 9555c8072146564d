//! Implements the snapshots of the interface `store` for Wasmtime: looks handles up in the resource table of the embedder.

use super::wit::pipkin::kv::store;
use super::wit::pipkin::kv::types::{Error, KeyRange, Packed, PackedValues, Position};
use super::{ClientScan, ClientSnapshot, ClientSnapshotNamespace, lost, over_quota};
use crate::keyvalue::view::WasiKeyValue;
use wasmtime::Result as Outcome;
use wasmtime::component::Resource;

impl store::HostSnapshot for WasiKeyValue<'_> {
    fn namespace(
        &mut self,
        snapshot: Resource<ClientSnapshot>,
        name: Option<String>,
    ) -> Result<Option<Resource<ClientSnapshotNamespace>>, Error> {
        let Some(found) = self.snapshot(&snapshot)?.named(name.as_deref())? else { return Ok(None) };
        let kept = self.ctx.keep(0).map_err(over_quota)?;
        self.table.push(ClientSnapshotNamespace::new(found, kept)).map(Some).map_err(lost)
    }

    fn namespaces(&mut self, snapshot: Resource<ClientSnapshot>) -> Result<Vec<String>, Error> {
        self.snapshot(&snapshot)?.read(|snapshot| snapshot.list_namespaces())
    }

    fn position(&mut self, snapshot: Resource<ClientSnapshot>) -> Outcome<Option<Position>> {
        Ok(self.table.get(&snapshot)?.position().map(Into::into))
    }

    fn drop(&mut self, snapshot: Resource<ClientSnapshot>) -> Outcome<()> {
        self.table.delete(snapshot)?;
        Ok(())
    }
}

impl store::HostSnapshotNamespace for WasiKeyValue<'_> {
    fn get(&mut self, records: Resource<ClientSnapshotNamespace>, key: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        self.records_then(&records)?.read(|records| records.get(key))
    }

    fn get_many(
        &mut self,
        records: Resource<ClientSnapshotNamespace>,
        keys: Vec<Vec<u8>>,
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.records_then(&records)?.get_many(keys)
    }

    fn get_packed(&mut self, records: Resource<ClientSnapshotNamespace>, keys: Packed) -> Result<PackedValues, Error> {
        self.records_then(&records)?.get_packed(&keys)
    }

    fn contains(&mut self, records: Resource<ClientSnapshotNamespace>, key: Vec<u8>) -> Result<bool, Error> {
        self.records_then(&records)?.read(|records| records.contains_key(key))
    }

    fn expires_at(&mut self, records: Resource<ClientSnapshotNamespace>, key: Vec<u8>) -> Result<Option<u64>, Error> {
        self.records_then(&records)?.read(|records| records.expires_at(key))
    }

    fn len(&mut self, records: Resource<ClientSnapshotNamespace>) -> Result<u64, Error> {
        self.records_then(&records)?.read(|records| records.len())
    }

    fn scan(&mut self, records: Resource<ClientSnapshotNamespace>, prefix: Vec<u8>) -> Outcome<Resource<ClientScan>> {
        let (walk, engine) = self.table.get(&records)?.scan(prefix);
        let kept = self.ctx.keep(walk.kept_bytes()).map_err(wasmtime::Error::msg)?;
        Ok(self.table.push(ClientScan::new(walk, engine, kept))?)
    }

    fn range(&mut self, records: Resource<ClientSnapshotNamespace>, range: KeyRange) -> Result<Resource<ClientScan>, Error> {
        let walk = self.records_then(&records)?.range(range);
        self.walk(walk)
    }

    fn drop(&mut self, records: Resource<ClientSnapshotNamespace>) -> Outcome<()> {
        self.table.delete(records)?;
        Ok(())
    }
}
