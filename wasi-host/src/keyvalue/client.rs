//! `pipkin:kv`, served by the native engine.

mod admin;
mod wit {
    #![allow(missing_docs, clippy::all, reason = "generated; the WIT has the documents")]
    wasmtime::component::bindgen!({
        path: "wit",
        world: "pipkin:kv/admin-client",
        imports: { "pipkin:kv/store.[method]namespace.scan": trappable },
        with: {
            "pipkin:kv/store.db": crate::keyvalue::ClientDb,
            "pipkin:kv/store.namespace": crate::keyvalue::ClientNamespace,
            "pipkin:kv/store.scan": crate::keyvalue::ClientScan,
        },
    });
}

pub(super) use admin::{add_admin_to_linker, add_async_admin_to_linker};

use super::context::{Entry, Kept, Unlisted};
use super::off_thread::{Later, off_thread};
use super::quota::{Admitted, Failure};
use super::store_file::{Call, Engine};
use super::{View, WasiKeyValue};
use pipkin::limits::NAMESPACE_NAME_LEN_MAX;
use pipkin::{Error as Native, Namespace};
use pipkin_wasi_shared::{Answer, Change, Packing, PackingValues, Walk, commit, records, strings};
use std::sync::Arc;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result as Outcome, StoreContextMut};
use wit::pipkin::kv::store::{self, Options};
use wit::pipkin::kv::types::{self, Durability, Entry as Record, Error, Op, Packed, PackedValues, Reason, Version, Versioned};

/// A guest's handle to an open store, in the resource table of the embedder.
#[derive(Clone)]
pub struct ClientDb {
    engine: Engine,
    entry: Entry,
    read_only: bool,
    durability: Durability,
    _kept: Arc<Kept>,
}

/// A guest's handle to a namespace, in the resource table of the embedder.
#[derive(Clone)]
pub struct ClientNamespace {
    records: Namespace,
    store: ClientDb,
    _kept: Arc<Kept>,
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

/// Adds methods of a handle that may wait for a device, off the thread of the caller when they `$waits`.
macro_rules! methods {
    ($instance:ident, $view:ident, $kind:ty: $($name:literal ($($given:ident: $type:ty),*) -> $answer:ty, $waits:expr, $work:expr;)*) => {
        $($instance.func_wrap_async(
            $name,
            move |mut store: StoreContextMut<'_, T>,
                  (handle, $($given,)*): (Resource<$kind>, $($type,)*)|
                  -> Later<'_, (Result<$answer, Error>,)> {
                let handle = $view(store.data_mut()).table.get(&handle).cloned().map_err(lost);
                Box::new(async move {
                    let waits: &dyn Fn(&$kind) -> bool = &$waits;
                    let waits = handle.as_ref().is_ok_and(waits);
                    let work = move || {
                        let work: &dyn Fn(&$kind, $($type),*) -> Result<$answer, Error> = &$work;
                        work(&handle?, $($given),*)
                    };
                    Ok((off_thread(waits, work).await,))
                })
            },
        )?;)*
    };
}
use methods;

/// Puts functions that do not wait in the thread of the caller in the place of those that would.
pub(super) fn add_async_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> WasiKeyValue<'_>,
) -> Outcome<()> {
    let mut instance = linker.instance("pipkin:kv/store@0.1.0")?;
    instance.func_wrap_async(
        "[static]db.open",
        move |mut store: StoreContextMut<'_, T>,
              (name, options): (String, Options)|
              -> Later<'_, (Result<Resource<ClientDb>, Error>,)> {
            let found = view(store.data_mut()).find(&name);
            Box::new(async move {
                let db = off_thread(true, move || ClientDb::open(found?, options)).await;
                Ok((db.and_then(|db| view(store.data_mut()).table.push(db).map_err(lost)),))
            })
        },
    )?;
    instance.func_wrap_async(
        "[static]db.close",
        move |mut store: StoreContextMut<'_, T>, (db,): (Resource<ClientDb>,)| -> Later<'_, (Result<(), Error>,)> {
            let db = view(store.data_mut()).table.delete(db).map_err(lost);
            Box::new(async move { Ok((off_thread(true, move || db?.close()).await,)) })
        },
    )?;
    methods!(instance, view, ClientDb:
        "[method]db.drop-namespace"(name: String) -> bool, |db| db.waits(), |db, name| db.drop_namespace(&name);
        "[method]db.write"(ops: Vec<Op>, durability: Durability) -> (), move |db| db.waits_for(durability),
            |db, ops, durability| db.write_all(&ops, durability);
        "[method]db.flush"(durability: Durability) -> Durability, move |db| db.waits_for(durability), |db, durability| db.flush(durability);
    );
    methods!(instance, view, ClientNamespace:
        "[method]namespace.put"(key: Vec<u8>, value: Vec<u8>) -> (), |space| space.store.waits(), |space, key, value| space.put(&key, &value);
        "[method]namespace.put-packed"(packed: Packed, durability: Durability) -> (), move |space| space.store.waits_for(durability),
            |space, packed, durability| space.put_packed(&packed, durability);
        "[method]namespace.delete"(key: Vec<u8>) -> bool, |space| space.store.waits(), |space, key| space.delete(&key);
        "[method]namespace.compare-and-swap"(key: Vec<u8>, expected: Option<Vec<u8>>, new: Option<Vec<u8>>) -> bool,
            |space| space.store.waits(), |space, key, expected, new| space.swap(&key, expected.as_deref(), new.as_deref());
        "[method]namespace.compare-version-and-swap"(key: Vec<u8>, expected: Option<Version>, new: Option<Vec<u8>>) -> bool,
            |space| space.store.waits(), |space, key, expected, new| space.swap_version(&key, expected, new.as_deref());
        "[method]namespace.clear"() -> (), |space| space.store.waits(), |space| space.clear();
    );
    Ok(())
}

pipkin_wasi_shared::impl_conversions! {
    types: crate::keyvalue::client::wit::pipkin::kv::types,
    admin: crate::keyvalue::client::wit::pipkin::kv::admin
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Engine(error) => error.into(),
            Failure::Quota(words) => over_quota(words),
        }
    }
}

fn over_quota(words: &str) -> Error {
    Error { reason: Reason::Quota, message: words.to_owned() }
}

fn access_denied(message: String) -> Error {
    Error { reason: Reason::AccessDenied, message }
}

/// A handle that is not in the table: a bug of the embedder or of Wasmtime, for guests cannot make handles up.
fn lost(error: impl ToString) -> Error {
    Error { reason: Reason::Io, message: error.to_string() }
}

impl ClientDb {
    fn open((entry, kept): (Entry, Kept), options: Options) -> Result<Self, Error> {
        let Options { create, read_only, durability, segment_bytes, .. } = options;
        if entry.is_read_only() && !read_only {
            return Err(access_denied("the host lets this component only read the store; open it with `read-only`".to_owned()));
        }
        let engine = entry.opened(|store| if read_only { store.open_to_read() } else { store.open(create, segment_bytes) })?;
        Ok(Self { engine, entry, read_only, durability, _kept: Arc::new(kept) })
    }

    fn close(self) -> Result<(), Error> {
        if self.read_only {
            return Ok(());
        }
        let db = self.engine.call()?;
        Ok(db.flush().map(drop).map_err(|error| self.entry.failed(error.into(), db.limits()))?)
    }

    fn writable(&self) -> Result<(), Error> {
        if self.read_only { Err(Native::ReadOnly.into()) } else { Ok(()) }
    }

    /// Whether a write of that durability waits for the device.
    fn waits_for(&self, durability: Durability) -> bool {
        durability == Durability::Synced || self.entry.syncs()
    }

    fn waits(&self) -> bool {
        self.waits_for(self.durability)
    }

    /// The native engine hands every write to the system at once: there is only the sync to see to.
    fn settle(&self, db: &Call<'_>, durability: Durability) -> Result<Durability, Error> {
        if !self.waits_for(durability) {
            return Ok(Durability::Written);
        }
        Ok(db.flush().map_err(|error| self.entry.failed(error.into(), db.limits()))?.into())
    }

    /// Writes, and makes what was written durable. `admitted` is for as long as it is being written.
    fn write<'a, T, E: Into<Failure>>(
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

    fn named(&self, name: Option<&str>) -> Result<Namespace, Error> {
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

    fn drop_namespace(&self, name: &str) -> Result<bool, Error> {
        let drop_it = |db: &Call<'_>| {
            let _names = db.names();
            db.drop_namespace(name)
        };
        self.write(self.durability, |_| Ok(Admitted::none()), drop_it)
    }

    fn write_all(&self, ops: &[Op], durability: Durability) -> Result<(), Error> {
        let changes: Vec<Change<'_>> = ops
            .iter()
            .map(|Op { namespace, key, value }| Change { namespace: namespace.as_deref(), key, value: value.as_deref() })
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

    fn flush(&self, durability: Durability) -> Result<Durability, Error> {
        self.settle(&self.engine.call()?, durability)
    }
}

impl ClientNamespace {
    fn read<T>(&self, read: impl FnOnce(&Namespace) -> pipkin::Result<T>) -> Result<T, Error> {
        let _in = self.store.engine.call()?;
        Ok(read(&self.records)?)
    }

    /// Writes what can only be one new record.
    fn store<T>(&self, key: &[u8], write: impl Fn(&Namespace) -> pipkin::Result<T>) -> Result<T, Error> {
        let new = || Ok(u64::from(!self.records.contains_key(key)?));
        self.store.write(self.store.durability, |db| db.admit(1, new), |_| write(&self.records))
    }

    /// Writes what makes no new record.
    fn remove<T>(&self, write: impl Fn(&Namespace) -> pipkin::Result<T>) -> Result<T, Error> {
        self.store.write(self.store.durability, |_| Ok(Admitted::none()), |_| write(&self.records))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.store(key, |records| records.insert(key, value))
    }

    fn put_packed(&self, packed: &Packed, durability: Durability) -> Result<(), Error> {
        let pairs = || records(&packed.lengths, &packed.bytes);
        let new = || pairs()?.try_fold(0, |new, (key, _)| Ok(new + u64::from(!self.records.contains_key(key)?)));
        self.store.write(durability, |db| db.admit(packed.lengths.len() / 2, new), |_| self.records.insert_many(pairs()?))
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.remove(|records| records.remove(key))
    }

    fn swap(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool, Error> {
        let swap = |records: &Namespace| records.compare_and_swap(key, expected, new);
        if new.is_some() { self.store(key, swap) } else { self.remove(swap) }
    }

    fn swap_version(&self, key: &[u8], expected: Option<Version>, new: Option<&[u8]>) -> Result<bool, Error> {
        let swap = |records: &Namespace| records.compare_version_and_swap(key, expected.map(Into::into), new);
        if new.is_some() { self.store(key, swap) } else { self.remove(swap) }
    }

    fn clear(&self) -> Result<(), Error> {
        self.remove(Namespace::clear)
    }
}

impl WasiKeyValue<'_> {
    fn listed(&self, name: &str) -> Result<&Entry, Error> {
        self.ctx.entry(name).map_err(|why| match why {
            Unlisted::Unknown => {
                Error { reason: Reason::NotFound, message: format!("the host lists no store {name:?}; ask it for another name") }
            }
            Unlisted::Denied => access_denied(format!("the host keeps the store {name:?} from this component")),
        })
    }

    /// What opening needs beside its options.
    fn find(&self, name: &str) -> Result<(Entry, Kept), Error> {
        Ok((self.listed(name)?.clone(), self.ctx.keep(0).map_err(over_quota)?))
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
        let db = ClientDb::open(self.find(&name)?, options)?;
        self.table.push(db).map_err(lost)
    }

    fn close(&mut self, db: Resource<ClientDb>) -> Result<(), Error> {
        self.table.delete(db).map_err(lost)?.close()
    }

    fn namespace(&mut self, db: Resource<ClientDb>, name: Option<String>) -> Result<Resource<ClientNamespace>, Error> {
        let kept = Arc::new(self.ctx.keep(0).map_err(over_quota)?);
        let store = self.db(&db)?.clone();
        let records = store.named(name.as_deref())?;
        self.table.push(ClientNamespace { records, store, _kept: kept }).map_err(lost)
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
        let ClientNamespace { records, store, .. } = self.namespace(&namespace)?;
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
        let ClientNamespace { records, store, .. } = self.namespace(&namespace)?;
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
        self.namespace(&namespace)?.put(&key, &value)
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

    fn clear(&mut self, namespace: Resource<ClientNamespace>) -> Result<(), Error> {
        self.namespace(&namespace)?.clear()
    }

    fn scan(&mut self, namespace: Resource<ClientNamespace>, prefix: Vec<u8>) -> Outcome<Resource<ClientScan>> {
        let ClientNamespace { records, store, .. } = self.table.get(&namespace)?.clone();
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
    use crate::keyvalue::{Quota, WasiKeyValueCtx};
    use pipkin::limits::KEY_LEN_MAX;
    use wasmtime::component::ResourceTable;

    fn options(read_only: bool) -> Options {
        Options { create: true, read_only, durability: Durability::Written, cache_bytes: 0, segment_bytes: 0, exclusive: false }
    }

    fn op(namespace: &str, key: &[u8], value: Option<Vec<u8>>) -> Op {
        Op { namespace: Some(namespace.to_owned()), key: key.to_vec(), value }
    }

    #[test]
    fn a_write_that_the_quota_refuses_leaves_no_namespace_and_says_so_in_its_type() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("default.pipkin");
        let builder = || WasiKeyValueCtx::builder().directory(folder.path()).store("");
        let mut table = ResourceTable::new();
        let ctx = builder().quota("", Quota::default().file_bytes(200 << 10).records(50).namespaces(2)).build();
        let mut view = WasiKeyValue::new(&ctx, &mut table);
        let db = HostDb::open(&mut view, String::new(), options(false)).unwrap();
        let mut write = |ops: Vec<Op>| HostDb::write(&mut view, Resource::new_own(db.rep()), ops, Durability::Written);
        let reason = |answer: Result<(), Error>| answer.unwrap_err().reason;
        write(vec![op("a", b"k", Some(vec![1]))]).unwrap();
        assert!(matches!(reason(write(vec![op("b", b"k", Some(vec![7; 1 << 20]))])), Reason::Quota));
        let many = (0..60_u8).map(|n| op("b", &[n], Some(vec![]))).collect();
        assert!(matches!(reason(write(many)), Reason::Quota));
        let names = ["b", "c", "d"].map(|name| op(name, b"k", Some(vec![]))).into();
        assert!(matches!(reason(write(names)), Reason::Quota));
        assert!(matches!(reason(write(vec![op("b", &[0; KEY_LEN_MAX + 1], Some(vec![]))])), Reason::KeyTooLong(_)));
        write(vec![op("nothing is in there", b"k", None)]).unwrap();
        drop(table);
        drop(ctx);
        let db = pipkin::Db::open(&path).unwrap();
        assert_eq!(db.list_namespaces(), ["a"]);
        assert!(db.verify().unwrap().is_ok());
    }

    #[test]
    fn a_copy_counts_as_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let names = |quota| WasiKeyValueCtx::builder().directory(folder.path()).store("a").store("b").total_quota(quota).build();
        let source = pipkin::Db::open(folder.path().join("a.pipkin")).unwrap();
        source.insert("k", vec![7; 100 << 10]).unwrap();
        source.close().unwrap();
        let used = folder.path().join("a.pipkin").metadata().unwrap().len();
        for (most, fits) in [(used + used / 2, false), (4 * used, true)] {
            let ctx = names(Quota::default().file_bytes(most));
            let mut table = ResourceTable::new();
            let mut view = WasiKeyValue::new(&ctx, &mut table);
            let db = HostDb::open(&mut view, "a".to_owned(), options(false)).unwrap();
            let own = || Resource::new_own(db.rep());
            let copied = wit::pipkin::kv::admin::Host::backup(&mut view, own(), "b".to_owned());
            assert_eq!((copied.is_ok(), folder.path().join("b.pipkin").exists()), (fits, fits), "{copied:?}");
            assert!(fits || matches!(copied.unwrap_err().reason, Reason::Quota));
        }
    }

    #[test]
    fn a_prefix_that_no_key_has_is_an_empty_walk_and_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("").build();
        let mut table = ResourceTable::new();
        let mut view = WasiKeyValue::new(&ctx, &mut table);
        let db = HostDb::open(&mut view, String::new(), options(false)).unwrap();
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
