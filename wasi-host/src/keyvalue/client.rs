//! `pipkin:kv`, served by the native engine.

mod admin;
mod wit {
    #![allow(missing_docs, clippy::all, reason = "generated; the WIT has the documents")]
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "pipkin:kv/admin-client",
        imports: { "pipkin:kv/store.[method]namespace.scan": trappable },
        with: {
            "pipkin:kv/store.db": crate::keyvalue::ClientDb,
            "pipkin:kv/store.namespace": crate::keyvalue::ClientNamespace,
            "pipkin:kv/store.scan": crate::keyvalue::ClientScan,
        },
    });
}

pub(super) use admin::add_admin_to_linker;

use super::context::{Entry, Kept, SyncPolicy, Unlisted};
use super::store_file::{Call, Engine};
use super::{View, WasiKeyValue};
use pipkin::limits::NAMESPACE_NAME_LEN_MAX;
use pipkin::{Error as Native, Namespace};
use pipkin_wasi_shared::{Answer, Packing, PackingValues, Walk, records, strings};
use wasmtime::Result as Outcome;
use wasmtime::component::{Linker, Resource};
use wit::pipkin::kv::store::{self, Options};
use wit::pipkin::kv::types::{self, Durability, Entry as Record, Error, Op, Packed, PackedValues, Reason, Version, Versioned};

/// A guest's handle to an open store, in the resource table of the embedder.
#[derive(Clone)]
pub struct ClientDb {
    engine: Engine,
    sync: SyncPolicy,
    read_only: bool,
    durability: Durability,
}

/// A guest's handle to a namespace, in the resource table of the embedder.
#[derive(Clone)]
pub struct ClientNamespace {
    records: Namespace,
    store: ClientDb,
}

/// A guest's walk over records, in the resource table of the embedder.
pub struct ClientScan {
    walk: Walk,
    engine: Engine,
    _kept: Kept,
}

pub(super) fn add_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Outcome<()> {
    types::add_to_linker::<_, View>(linker, view)?;
    store::add_to_linker::<_, View>(linker, view)
}

pipkin_wasi_shared::impl_conversions! {
    types: crate::keyvalue::client::wit::pipkin::kv::types,
    admin: crate::keyvalue::client::wit::pipkin::kv::admin
}

fn access_denied(message: String) -> Error {
    Error { reason: Reason::AccessDenied, message }
}

/// A handle that is not in the table: a bug of the embedder or of Wasmtime, for guests cannot make handles up.
fn lost(error: impl ToString) -> Error {
    Error { reason: Reason::Io, message: error.to_string() }
}

impl ClientDb {
    fn writable(&self) -> Result<(), Error> {
        if self.read_only { Err(Native::ReadOnly.into()) } else { Ok(()) }
    }

    /// The native engine hands every write to the system at once: there is only the sync to see to.
    fn settle(&self, db: &Call<'_>, durability: Durability) -> Result<Durability, Error> {
        if durability != Durability::Synced && self.sync == SyncPolicy::Manual {
            return Ok(Durability::Written);
        }
        Ok(db.flush()?.into())
    }

    fn write<T>(&self, write: impl FnOnce(&Call<'_>) -> pipkin::Result<T>) -> Result<T, Error> {
        self.writable()?;
        let db = self.engine.call()?;
        let answer = write(&db)?;
        self.settle(&db, self.durability)?;
        Ok(answer)
    }

    fn named(&self, db: &Call<'_>, name: Option<&str>) -> Result<Namespace, Error> {
        let Some(name) = name else { return Ok(db.default_namespace()) };
        let is_name = (1..=NAMESPACE_NAME_LEN_MAX).contains(&name.len());
        if self.read_only && is_name && !db.list_namespaces().iter().any(|other| other == name) {
            return Err(Native::ReadOnly.into());
        }
        Ok(db.namespace(name)?)
    }
}

impl ClientNamespace {
    fn read<T>(&self, read: impl FnOnce(&Namespace) -> pipkin::Result<T>) -> Result<T, Error> {
        let _in = self.store.engine.call()?;
        Ok(read(&self.records)?)
    }

    fn write<T>(&self, write: impl FnOnce(&Namespace) -> pipkin::Result<T>) -> Result<T, Error> {
        self.store.write(|_| write(&self.records))
    }
}

impl WasiKeyValue<'_> {
    fn listed(&self, name: &str) -> Result<Entry, Error> {
        self.ctx.entry(name).cloned().map_err(|why| match why {
            Unlisted::Unknown => {
                Error { reason: Reason::NotFound, message: format!("the host lists no store {name:?}; ask it for another name") }
            }
            Unlisted::Denied => access_denied(format!("the host keeps the store {name:?} from this component")),
        })
    }

    fn db(&self, db: &Resource<ClientDb>) -> Result<&ClientDb, Error> {
        self.table.get(db).map_err(lost)
    }

    fn namespace(&self, namespace: &Resource<ClientNamespace>) -> Result<&ClientNamespace, Error> {
        self.table.get(namespace).map_err(lost)
    }

    fn page(
        &mut self,
        scan: &Resource<ClientScan>,
        max_entries: u32,
        max_bytes: u32,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let ClientScan { walk, engine, .. } = self.table.get_mut(scan).map_err(lost)?;
        let _in = engine.call()?;
        walk.page(max_entries, max_bytes, || Ok(()), take)
    }
}

impl types::Host for WasiKeyValue<'_> {}

impl store::Host for WasiKeyValue<'_> {}

impl store::HostDb for WasiKeyValue<'_> {
    fn open(&mut self, name: String, options: Options) -> Result<Resource<ClientDb>, Error> {
        let Options { create, read_only, durability, segment_bytes, .. } = options;
        let entry = self.listed(&name)?;
        let engine = if read_only { entry.store.open_to_read()? } else { entry.store.open(create, segment_bytes)? };
        self.table.push(ClientDb { engine, sync: entry.sync, read_only, durability }).map_err(lost)
    }

    fn close(&mut self, db: Resource<ClientDb>) -> Result<(), Error> {
        let db = self.table.delete(db).map_err(lost)?;
        if db.read_only { Ok(()) } else { Ok(db.engine.call()?.flush().map(drop)?) }
    }

    fn namespace(&mut self, db: Resource<ClientDb>, name: Option<String>) -> Result<Resource<ClientNamespace>, Error> {
        let store = self.db(&db)?.clone();
        let records = store.named(&store.engine.call()?, name.as_deref())?;
        self.table.push(ClientNamespace { records, store }).map_err(lost)
    }

    fn namespaces(&mut self, db: Resource<ClientDb>) -> Vec<String> {
        let names = |db: &ClientDb| Ok(db.engine.call()?.list_namespaces());
        self.db(&db).and_then(names).unwrap_or_default()
    }

    fn drop_namespace(&mut self, db: Resource<ClientDb>, name: String) -> Result<bool, Error> {
        let db = self.db(&db)?;
        db.write(|db| db.drop_namespace(&name))
    }

    fn write(&mut self, db: Resource<ClientDb>, ops: Vec<Op>, durability: Durability) -> Result<(), Error> {
        let db = self.db(&db)?;
        db.writable()?;
        let engine = db.engine.call()?;
        let names = ops.iter().map(|op| db.named(&engine, op.namespace.as_deref())).collect::<Result<Vec<_>, _>>()?;
        let batch = names.iter().zip(&ops).fold(engine.batch(), |batch, (name, op)| match &op.value {
            Some(value) => batch.insert_in(name, &op.key, value),
            None => batch.remove_in(name, &op.key),
        });
        batch.commit()?;
        db.settle(&engine, durability)?;
        Ok(())
    }

    fn flush(&mut self, db: Resource<ClientDb>, durability: Durability) -> Result<Durability, Error> {
        let db = self.db(&db)?;
        db.settle(&db.engine.call()?, durability)
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
        let ClientNamespace { records, store } = self.namespace(&namespace)?;
        let _in = store.engine.call()?;
        let (mut values, mut answer) = (Vec::new(), Answer::default());
        for key in keys {
            let value = records.get(key)?;
            answer.add(value.as_ref().map_or(0, Vec::len))?;
            values.push(value);
        }
        Ok(values)
    }

    fn get_packed(&mut self, namespace: Resource<ClientNamespace>, keys: Packed) -> Result<PackedValues, Error> {
        let ClientNamespace { records, store } = self.namespace(&namespace)?;
        let _in = store.engine.call()?;
        let mut found = PackingValues::default();
        for key in strings(&keys.lengths, &keys.bytes)? {
            found.push(records.get_zerocopy(key)?.as_deref())?;
        }
        Ok(PackedValues { lengths: found.lengths, bytes: found.bytes })
    }

    fn contains(&mut self, namespace: Resource<ClientNamespace>, key: Vec<u8>) -> Result<bool, Error> {
        self.namespace(&namespace)?.read(|records| records.contains_key(key))
    }

    fn put(&mut self, namespace: Resource<ClientNamespace>, key: Vec<u8>, value: Vec<u8>) -> Result<(), Error> {
        self.namespace(&namespace)?.write(|records| records.insert(key, value))
    }

    fn put_packed(&mut self, namespace: Resource<ClientNamespace>, packed: Packed, durability: Durability) -> Result<(), Error> {
        let ClientNamespace { records: namespace, store } = self.namespace(&namespace)?;
        store.writable()?;
        let db = store.engine.call()?;
        namespace.insert_many(records(&packed.lengths, &packed.bytes)?)?;
        store.settle(&db, durability)?;
        Ok(())
    }

    fn delete(&mut self, namespace: Resource<ClientNamespace>, key: Vec<u8>) -> Result<bool, Error> {
        self.namespace(&namespace)?.write(|records| records.remove(key))
    }

    fn compare_and_swap(
        &mut self,
        namespace: Resource<ClientNamespace>,
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        new: Option<Vec<u8>>,
    ) -> Result<bool, Error> {
        self.namespace(&namespace)?.write(|records| records.compare_and_swap(key, expected.as_deref(), new.as_deref()))
    }

    fn compare_version_and_swap(
        &mut self,
        namespace: Resource<ClientNamespace>,
        key: Vec<u8>,
        expected: Option<Version>,
        new: Option<Vec<u8>>,
    ) -> Result<bool, Error> {
        let expected = expected.map(Into::into);
        self.namespace(&namespace)?.write(|records| records.compare_version_and_swap(key, expected, new.as_deref()))
    }

    fn len(&mut self, namespace: Resource<ClientNamespace>) -> Result<u64, Error> {
        self.namespace(&namespace)?.read(|records| records.len())
    }

    fn clear(&mut self, namespace: Resource<ClientNamespace>) -> Result<(), Error> {
        self.namespace(&namespace)?.write(|records| records.clear())
    }

    fn scan(&mut self, namespace: Resource<ClientNamespace>, prefix: Vec<u8>) -> Outcome<Resource<ClientScan>> {
        let ClientNamespace { records, store } = self.table.get(&namespace)?.clone();
        let walk = Walk::new(records, prefix);
        let kept = self.ctx.keep(walk.kept_bytes()).map_err(wasmtime::Error::msg)?;
        Ok(self.table.push(ClientScan { walk, engine: store.engine, _kept: kept })?)
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::store::{HostDb, HostNamespace, HostScan};
    use super::*;
    use crate::keyvalue::WasiKeyValueCtx;
    use pipkin::limits::KEY_LEN_MAX;
    use wasmtime::component::ResourceTable;

    #[test]
    fn a_prefix_that_no_key_has_is_an_empty_walk_and_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("").build();
        let mut table = ResourceTable::new();
        let mut view = WasiKeyValue::new(&ctx, &mut table);
        let options =
            Options { create: true, read_only: false, durability: Durability::Written, cache_bytes: 0, segment_bytes: 0 };
        let db = HostDb::open(&mut view, String::new(), options).unwrap();
        let space = HostDb::namespace(&mut view, db, None).unwrap();
        let own = || Resource::new_own(space.rep());
        for key in [vec![1; 2], vec![1; KEY_LEN_MAX]] {
            view.put(own(), key, vec![]).unwrap();
        }
        let mut found = |len| {
            let scan = view.scan(own(), vec![1; len]).unwrap();
            let records = HostScan::next(&mut view, Resource::new_own(scan.rep()), 10, u32::MAX).unwrap().len();
            (records, view.table.get(&scan).unwrap().walk.kept_bytes())
        };
        assert_eq!(found(1), (2, 1));
        assert_eq!(found(KEY_LEN_MAX), (1, KEY_LEN_MAX));
        assert_eq!(found(KEY_LEN_MAX + 1), (0, 0));
    }
}
