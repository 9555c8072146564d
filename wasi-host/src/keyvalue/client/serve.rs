//! Implements the interface `store` for Wasmtime: looks handles up in the resource table of the embedder and calls their methods.

use super::wit::pipkin::kv::store::{self, Options, Secret};
use super::wit::pipkin::kv::types::{
    self, ChangesOptions, Compression, ConsumerState, Durability, Entry as Record, Error, KeyRange, Op, Packed, PackedValues,
    Position, PositionState, Ttl, Version, Versioned,
};
use super::{
    ClientChanges, ClientConsumer, ClientDb, ClientNamespace, ClientScan, ClientSnapshot, ClientTransaction, access_denied, lost,
    over_quota,
};
use crate::keyvalue::view::{View, WasiKeyValue};
use pipkin_wasi_shared::{Packing, millis};
use std::sync::Arc;
use wasmtime::Result as Outcome;
use wasmtime::component::{Linker, Resource};

pub(in crate::keyvalue) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> WasiKeyValue<'_>,
) -> Outcome<()> {
    types::add_to_linker::<_, View>(linker, view)?;
    store::add_to_linker::<_, View>(linker, view)
}

impl types::Host for WasiKeyValue<'_> {}

impl store::Host for WasiKeyValue<'_> {}

impl store::HostDb for WasiKeyValue<'_> {
    fn open(&mut self, name: String, options: Options) -> Result<Resource<ClientDb>, Error> {
        let db = ClientDb::open(self.find(&name)?, options)?;
        self.table.push(db).map_err(lost)
    }

    fn open_sealed(&mut self, _: String, _: Options, _: Secret) -> Result<Resource<ClientDb>, Error> {
        Err(access_denied("the host has the keys of the stores that it serves; open this one with `open`".to_owned()))
    }

    fn close(&mut self, db: Resource<ClientDb>) -> Result<(), Error> {
        self.table.delete(db).map_err(lost)?.close()
    }

    fn refresh(&mut self, db: Resource<ClientDb>) -> Result<bool, Error> {
        self.db(&db)?.refresh()
    }

    fn namespace(&mut self, db: Resource<ClientDb>, name: Option<String>) -> Result<Resource<ClientNamespace>, Error> {
        let kept = Arc::new(self.ctx.keep(0).map_err(over_quota)?);
        let store = self.db(&db)?.clone();
        let records = store.named(name.as_deref())?;
        self.table.push(ClientNamespace::new(records, store, kept)).map_err(lost)
    }

    fn namespaces(&mut self, db: Resource<ClientDb>) -> Vec<String> {
        let names = |db: &ClientDb| Ok(db.engine.call()?.list_namespaces());
        self.db(&db).and_then(names).unwrap_or_default()
    }

    fn drop_namespace(&mut self, db: Resource<ClientDb>, name: String) -> Result<bool, Error> {
        self.db(&db)?.drop_namespace(&name)
    }

    fn write(&mut self, db: Resource<ClientDb>, ops: Vec<Op>, durability: Durability) -> Result<(), Error> {
        self.db(&db)?.write_all(&ops, durability)
    }

    fn flush(&mut self, db: Resource<ClientDb>, durability: Durability) -> Result<Durability, Error> {
        self.db(&db)?.flush(durability)
    }

    fn snapshot(&mut self, db: Resource<ClientDb>) -> Result<Resource<ClientSnapshot>, Error> {
        let kept = self.ctx.keep(0).map_err(over_quota)?;
        let snapshot = self.db(&db)?.snapshot(kept)?;
        self.table.push(snapshot).map_err(lost)
    }

    fn begin(&mut self, db: Resource<ClientDb>) -> Result<Resource<ClientTransaction>, Error> {
        let kept = self.ctx.keep(0).map_err(over_quota)?;
        let transaction = ClientTransaction::begin(self.db(&db)?, kept)?;
        self.table.push(transaction).map_err(lost)
    }

    fn position(&mut self, db: Resource<ClientDb>) -> Result<Position, Error> {
        self.db(&db)?.position()
    }

    fn state_of(&mut self, db: Resource<ClientDb>, position: Position) -> Result<PositionState, Error> {
        self.db(&db)?.state_of(position)
    }

    fn flush_to(&mut self, db: Resource<ClientDb>, position: Position) -> Result<Durability, Error> {
        self.db(&db)?.flush_to(position)
    }

    fn changes(&mut self, db: Resource<ClientDb>, options: ChangesOptions) -> Result<Resource<ClientChanges>, Error> {
        let (store, kept) = self.reader(&db, &options)?;
        let changes = store.changes(options, kept)?;
        self.table.push(changes).map_err(lost)
    }

    fn changes_with_state(
        &mut self,
        db: Resource<ClientDb>,
        options: ChangesOptions,
    ) -> Result<(Resource<ClientSnapshot>, Resource<ClientChanges>), Error> {
        let (store, kept) = self.reader_and_snapshot(&db, &options)?;
        self.with_state(store.changes_with_state(options, kept))
    }

    fn consumer(
        &mut self,
        db: Resource<ClientDb>,
        name: String,
        options: ChangesOptions,
    ) -> Result<Resource<ClientConsumer>, Error> {
        let (store, kept) = self.reader(&db, &options)?;
        let consumer = store.consumer(&name, options, kept)?;
        self.table.push(consumer).map_err(lost)
    }

    fn consumer_with_state(
        &mut self,
        db: Resource<ClientDb>,
        name: String,
        options: ChangesOptions,
    ) -> Result<(Resource<ClientSnapshot>, Resource<ClientConsumer>), Error> {
        let (store, kept) = self.reader_and_snapshot(&db, &options)?;
        self.with_state(store.consumer_with_state(&name, options, kept))
    }

    fn consumers(&mut self, db: Resource<ClientDb>) -> Result<Vec<ConsumerState>, Error> {
        self.db(&db)?.consumers()
    }

    fn remove_consumer(&mut self, db: Resource<ClientDb>, name: String) -> Result<bool, Error> {
        self.db(&db)?.remove_consumer(&name)
    }

    fn drop(&mut self, db: Resource<ClientDb>) -> Outcome<()> {
        self.table.delete(db)?;
        Ok(())
    }
}

impl store::HostNamespace for WasiKeyValue<'_> {
    fn get(&mut self, namespace: Resource<ClientNamespace>, key: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        self.namespace(&namespace)?.read(|records| records.get(key))
    }

    fn get_versioned(&mut self, namespace: Resource<ClientNamespace>, key: Vec<u8>) -> Result<Option<Versioned>, Error> {
        let found = self.namespace(&namespace)?.read(|records| records.get_versioned(key))?;
        Ok(found.map(|(value, version)| Versioned { value, version: version.into() }))
    }

    fn get_many(&mut self, namespace: Resource<ClientNamespace>, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.namespace(&namespace)?.get_many(keys)
    }

    fn get_packed(&mut self, namespace: Resource<ClientNamespace>, keys: Packed) -> Result<PackedValues, Error> {
        self.namespace(&namespace)?.get_packed(&keys)
    }

    fn contains(&mut self, namespace: Resource<ClientNamespace>, key: Vec<u8>) -> Result<bool, Error> {
        self.namespace(&namespace)?.read(|records| records.contains_key(key))
    }

    fn put(&mut self, namespace: Resource<ClientNamespace>, key: Vec<u8>, value: Vec<u8>) -> Result<(), Error> {
        self.namespace(&namespace)?.put(&key, &value)
    }

    fn put_with_ttl(
        &mut self,
        namespace: Resource<ClientNamespace>,
        key: Vec<u8>,
        value: Vec<u8>,
        ttl: Ttl,
    ) -> Result<(), Error> {
        self.namespace(&namespace)?.put_with_ttl(&key, &value, ttl)
    }

    fn with_ttl(&mut self, namespace: Resource<ClientNamespace>, ttl: Option<Ttl>) -> Outcome<Resource<ClientNamespace>> {
        let kept = self.ctx.keep(0).map_err(wasmtime::Error::msg)?;
        let other = self.table.get(&namespace)?.with_ttl(ttl, kept);
        Ok(self.table.push(other)?)
    }

    fn expires_at(&mut self, namespace: Resource<ClientNamespace>, key: Vec<u8>) -> Result<Option<u64>, Error> {
        self.namespace(&namespace)?.read(|records| records.expires_at(key))
    }

    fn persist(&mut self, namespace: Resource<ClientNamespace>, key: Vec<u8>) -> Result<bool, Error> {
        self.namespace(&namespace)?.persist(&key)
    }

    fn set_default_ttl(&mut self, namespace: Resource<ClientNamespace>, ttl: Option<u64>) -> Result<(), Error> {
        self.namespace(&namespace)?.set_default_ttl(ttl)
    }

    fn default_ttl(&mut self, namespace: Resource<ClientNamespace>) -> Result<Option<u64>, Error> {
        self.namespace(&namespace)?.read(|records| Ok(records.default_ttl().map(millis)))
    }

    fn set_compression(&mut self, namespace: Resource<ClientNamespace>, compression: Compression) -> Result<(), Error> {
        self.namespace(&namespace)?.set_compression(compression)
    }

    fn compression(&mut self, namespace: Resource<ClientNamespace>) -> Result<Compression, Error> {
        self.namespace(&namespace)?.read(|records| Ok(records.compression().into()))
    }

    fn put_packed(&mut self, namespace: Resource<ClientNamespace>, packed: Packed, durability: Durability) -> Result<(), Error> {
        self.namespace(&namespace)?.put_packed(&packed, durability)
    }

    fn delete(&mut self, namespace: Resource<ClientNamespace>, key: Vec<u8>) -> Result<bool, Error> {
        self.namespace(&namespace)?.delete(&key)
    }

    fn compare_and_swap(
        &mut self,
        namespace: Resource<ClientNamespace>,
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        new: Option<Vec<u8>>,
    ) -> Result<bool, Error> {
        self.namespace(&namespace)?.swap(&key, expected.as_deref(), new.as_deref())
    }

    fn compare_version_and_swap(
        &mut self,
        namespace: Resource<ClientNamespace>,
        key: Vec<u8>,
        expected: Option<Version>,
        new: Option<Vec<u8>>,
    ) -> Result<bool, Error> {
        self.namespace(&namespace)?.swap_version(&key, expected, new.as_deref())
    }

    fn len(&mut self, namespace: Resource<ClientNamespace>) -> Result<u64, Error> {
        self.namespace(&namespace)?.read(|records| records.len())
    }

    fn delete_group(&mut self, namespace: Resource<ClientNamespace>, name: Vec<u8>) -> Result<u64, Error> {
        self.namespace(&namespace)?.delete_group(&name)
    }

    fn clear(&mut self, namespace: Resource<ClientNamespace>) -> Result<(), Error> {
        self.namespace(&namespace)?.clear()
    }

    fn scan(&mut self, namespace: Resource<ClientNamespace>, prefix: Vec<u8>) -> Outcome<Resource<ClientScan>> {
        let (walk, engine) = self.table.get(&namespace)?.scan(prefix);
        let kept = self.ctx.keep(walk.kept_bytes()).map_err(wasmtime::Error::msg)?;
        Ok(self.table.push(ClientScan::new(walk, engine, kept))?)
    }

    fn range(&mut self, namespace: Resource<ClientNamespace>, range: KeyRange) -> Result<Resource<ClientScan>, Error> {
        let walk = self.namespace(&namespace)?.range(range)?;
        self.walk(walk)
    }

    fn drop(&mut self, namespace: Resource<ClientNamespace>) -> Outcome<()> {
        self.table.delete(namespace)?;
        Ok(())
    }
}

impl store::HostScan for WasiKeyValue<'_> {
    fn next(&mut self, scan: Resource<ClientScan>, max_entries: u32, max_bytes: u32) -> Result<Vec<Record>, Error> {
        let mut page = Vec::new();
        let mut take = |key: &[u8], value: &[u8]| page.push(Record { key: key.to_vec(), value: value.to_vec() });
        self.page(&scan, max_entries, max_bytes, &mut take)?;
        Ok(page)
    }

    fn next_packed(&mut self, scan: Resource<ClientScan>, max_entries: u32, max_bytes: u32) -> Result<Packed, Error> {
        let mut page = Packing::default();
        self.page(&scan, max_entries, max_bytes, &mut |key, value| {
            page.push(key);
            page.push(value);
        })?;
        Ok(Packed { lengths: page.lengths, bytes: page.bytes })
    }

    fn drop(&mut self, scan: Resource<ClientScan>) -> Outcome<()> {
        self.table.delete(scan)?;
        Ok(())
    }
}
