//! A store that is open in an instance of the component.

use crate::bindings::ProviderBase as Provider;
use crate::bindings::exports::pipkin::kv::admin;
use crate::lock::Lock;
use crate::records::Records;
use crate::sandbox::Sandbox;
use crate::{Durability, Error, Host, Op, Options, Reason, Report, Result, Scan, Stats, Step, StoreError};
use std::collections::HashMap;
use std::path::Path;
use wasmtime::Store;
use wasmtime::component::ResourceAny;

/// An open store, and the lock on its file. Dropping it closes the store; [`close`](Self::close) also says what went wrong then.
///
/// When a call ends with [`Error::Trapped`], the instance is gone with what it had not handed over: nothing, unless the store was opened with
/// [`Durability::Buffered`]. The next call starts another one. The lock stays.
pub struct Db {
    host: Host,
    name: String,
    options: Options,
    fuel: Option<u64>,
    instance: Option<Instance>,
    // Last: the file is free only once the instance has gone.
    lock: Lock,
}

/// What is lost when the component is stopped.
pub(crate) struct Instance {
    pub(crate) store: Store<Sandbox>,
    pub(crate) provider: Provider,
    db: ResourceAny,
    unnamed: Option<ResourceAny>,
    namespaces: HashMap<String, Known>,
    /// Calls for named namespaces so far.
    asked: u64,
}

/// A handle in the component, and when it was asked for last.
struct Known {
    handle: ResourceAny,
    asked: u64,
}

/// An instance can have only so many handles, and whoever names namespaces may do so without end.
const NAMESPACES_MAX: usize = 1000;

/// What the component answers: a failure of the call, or of the store.
pub(crate) type Answer<T> = wasmtime::Result<Result<T, StoreError>>;

impl Instance {
    fn open(host: &Host, name: &str, options: Options, fuel: Option<u64>) -> Result<Self> {
        let (mut store, provider) = host.instantiate(options.read_only)?;
        refuel(&mut store, fuel).map_err(Error::Component)?;
        let answer = provider.pipkin_kv_store().db().call_open(&mut store, name, options.into());
        let db = answer.map_err(Error::Trapped)??;
        Ok(Self { store, provider, db, unnamed: None, namespaces: HashMap::new(), asked: 0 })
    }

    /// The handle of a namespace, asked for once.
    pub(crate) fn namespace(&mut self, name: Option<&str>) -> Answer<ResourceAny> {
        self.asked += 1;
        let asked = self.asked;
        let known = name.map_or(self.unnamed, |name| {
            let known = self.namespaces.get_mut(name)?;
            known.asked = asked;
            Some(known.handle)
        });
        if let Some(found) = known {
            return Ok(Ok(found));
        }
        if self.namespaces.len() == NAMESPACES_MAX {
            let oldest = self.namespaces.iter().min_by_key(|(_, known)| known.asked).map(|(name, _)| name.clone());
            oldest.map_or(Ok(()), |name| self.forget(&name))?;
        }
        let answer = self.provider.pipkin_kv_store().db().call_namespace(&mut self.store, self.db, name)?;
        match (name, &answer) {
            (Some(name), &Ok(handle)) => drop(self.namespaces.insert(name.to_owned(), Known { handle, asked })),
            (None, Ok(handle)) => self.unnamed = Some(*handle),
            (_, Err(_)) => {}
        }
        Ok(answer)
    }

    /// Gives the handle of a namespace back.
    fn forget(&mut self, name: &str) -> wasmtime::Result<()> {
        self.namespaces.remove(name).map_or(Ok(()), |known| known.handle.resource_drop(&mut self.store))
    }
}

impl Db {
    pub(crate) fn open(host: Host, name: &str, options: Options) -> Result<Self> {
        let path = host.directory().join(inside(name)?);
        if options.create && !options.read_only {
            // What is wrong with the folder, opening the file will say.
            let _ = std::fs::create_dir_all(host.directory());
        }
        let lock = Lock::take(&path, &options)?;
        let instance = Instance::open(&host, name, options, host.fuel_limit())?;
        lock.sign()?;
        Ok(Self { name: name.to_owned(), options, fuel: host.fuel_limit(), instance: Some(instance), lock, host })
    }

    pub(crate) fn verify_closed(host: &Host, name: &str) -> Result<Report> {
        let options = Options { read_only: true, create: false, ..Options::default() };
        let _lock = Lock::take(&host.directory().join(inside(name)?), &options)?;
        let (mut store, provider) = host.instantiate(true)?;
        Ok(provider.pipkin_kv_admin().call_verify_closed(&mut store, name).map_err(Error::Trapped)??)
    }

    /// Makes a call, in a new instance if the last one was stopped. An instance that is stopped in this call is dropped.
    pub(crate) fn call<T>(&mut self, call: impl FnOnce(&mut Instance, ResourceAny) -> Answer<T>) -> Result<T> {
        let mut instance = match self.instance.take() {
            Some(instance) => instance,
            None => {
                // Made anew, the file would be an unlocked one with nothing in it.
                self.lock.is_still_named()?;
                let options = Options { create: false, ..self.options };
                let instance = Instance::open(&self.host, &self.name, options, self.fuel.max(self.host.fuel_limit()))?;
                self.lock.sign()?;
                instance
            }
        };
        let db = instance.db;
        let answer = refuel(&mut instance.store, self.fuel).and_then(|()| call(&mut instance, db)).map_err(Error::Trapped)?;
        self.instance = Some(instance);
        Ok(answer?)
    }

    /// What writes survive that do not say it themselves.
    pub(crate) fn durability(&self) -> Durability {
        self.options.durability
    }

    /// The records of a named namespace, which is created when it is first written to or read; none for the one without a name, which the
    /// methods of this handle work on.
    pub fn records<'a>(&'a mut self, namespace: Option<&'a str>) -> Records<'a> {
        Records::new(self, namespace)
    }

    /// Another limit of fuel for the calls of this handle than that of the host, for calls that are known to take more. Without effect when the host
    /// was built without [`Builder::fuel_limit`](crate::Builder::fuel_limit): then nothing is counted. After a stop the store is opened again
    /// with the larger one of the two.
    pub fn set_fuel_limit(&mut self, fuel: u64) {
        if self.fuel.is_some() {
            self.fuel = Some(fuel);
        }
    }

    /// Stores a value; a value that the key had is gone.
    ///
    /// # Errors
    ///
    /// [`Error::Store`], as `pipkin:kv/types.error` lists them, and [`Error::Trapped`]. The same goes for all calls.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.records(None).insert(key, value)
    }

    /// Stores many records as one commit, in one call: the quickest way in.
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, records: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        self.records(None).insert_many(records)
    }

    /// The value of a key.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.records(None).get(key)
    }

    /// The values of many keys, in their order, in one call.
    pub fn get_many<K: AsRef<[u8]>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        self.records(None).get_many(keys)
    }

    /// Removes a key; true if it had a value.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.records(None).remove(key)
    }

    /// True if the key has a value.
    pub fn contains_key(&mut self, key: &[u8]) -> Result<bool> {
        self.records(None).contains_key(key)
    }

    /// Writes `new` (`None` removes the key) if the value still is `expected`. Says whether it did.
    pub fn compare_and_swap(&mut self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        self.records(None).compare_and_swap(key, expected, new)
    }

    /// How many records there are.
    pub fn len(&mut self) -> Result<u64> {
        self.records(None).len()
    }

    /// True when there is no record.
    pub fn is_empty(&mut self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// All records whose keys begin with `prefix`, in no order.
    pub fn scan(&mut self, prefix: &[u8]) -> Result<Scan<'_>> {
        Scan::new(self, None, prefix)
    }

    /// Stores and removes records of any namespaces as one commit.
    pub fn write(&mut self, ops: &[Op], durability: Durability) -> Result<()> {
        self.call(|instance, db| instance.provider.pipkin_kv_store().db().call_write(&mut instance.store, db, ops, durability))
    }

    /// Makes everything durable that was written before the call, and says how durable that is.
    pub fn flush(&mut self) -> Result<Durability> {
        self.call(|instance, db| instance.provider.pipkin_kv_store().db().call_flush(&mut instance.store, db, Durability::Synced))
    }

    /// Names of the named namespaces, in order.
    pub fn namespaces(&mut self) -> Result<Vec<String>> {
        self.call(|instance, db| Ok(Ok(instance.provider.pipkin_kv_store().db().call_namespaces(&mut instance.store, db)?)))
    }

    /// Drops a namespace with all its records; false when there is none of that name.
    pub fn drop_namespace(&mut self, name: &str) -> Result<bool> {
        self.call(|instance, db| {
            let dropped = instance.provider.pipkin_kv_store().db().call_drop_namespace(&mut instance.store, db, name)?;
            instance.forget(name)?;
            Ok(dropped)
        })
    }

    /// Figures about the store.
    pub fn stats(&mut self) -> Result<Stats> {
        self.admin(|admin, store, db| admin.call_get_stats(store, db))
    }

    /// Holds every byte of the store against its checksums. Damage is no error: it is in the report.
    pub fn verify(&mut self) -> Result<Report> {
        self.admin(|admin, store, db| admin.call_verify(store, db))
    }

    /// Compacts the one segment that is worth it most; `None` when none is.
    pub fn compact_step(&mut self) -> Result<Option<Step>> {
        self.admin(|admin, store, db| admin.call_compact_step(store, db))
    }

    /// Writes the index down, so that opening after a crash has less to replay.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.admin(|admin, store, db| admin.call_checkpoint(store, db))
    }

    /// Copies the store into a new file of the same directory. Returns the number of bytes written.
    pub fn backup(&mut self, name: &str) -> Result<u64> {
        let path = self.host.directory().join(inside(name)?);
        let is_new = !path.exists();
        let done = self.admin(|admin, store, db| admin.call_backup(store, db, name));
        if is_new && matches!(done, Err(Error::Trapped(_))) {
            // The component takes away what it has not finished, unless it was stopped.
            let _ = std::fs::remove_file(path);
        }
        done
    }

    fn admin<T>(&mut self, call: impl FnOnce(&admin::Guest, &mut Store<Sandbox>, ResourceAny) -> Answer<T>) -> Result<T> {
        self.call(|instance, db| call(instance.provider.pipkin_kv_admin(), &mut instance.store, db))
    }

    /// Syncs and closes the store.
    pub fn close(mut self) -> Result<()> {
        let closed = self.call(|instance, db| instance.provider.pipkin_kv_store().db().call_close(&mut instance.store, db));
        // Nothing is left for dropping to close.
        self.instance = None;
        closed
    }
}

impl Drop for Db {
    /// Closes the store, so that it opens fast. Nobody is left to hear of an error.
    fn drop(&mut self) {
        let Some(mut instance) = self.instance.take() else { return };
        let closed = refuel(&mut instance.store, self.fuel);
        let _ = closed.map(|()| instance.provider.pipkin_kv_store().db().call_close(&mut instance.store, instance.db));
    }
}

/// Gives an instance what it may burn in the next call.
pub(crate) fn refuel(store: &mut Store<Sandbox>, fuel: Option<u64>) -> wasmtime::Result<()> {
    fuel.map_or(Ok(()), |fuel| store.set_fuel(fuel))
}

/// A path inside the directory that the component will take, before the host makes a file of that name to lock it.
fn inside(name: &str) -> Result<&Path> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    // Behind a colon, Windows looks for a stream of the file, or for the file on another drive.
    let is_odd = |c: char| c == '\\' || c.is_control() || (cfg!(windows) && c == ':');
    if name.split('/').all(is_plain) && !name.contains(is_odd) {
        return Ok(Path::new(name));
    }
    let message = format!("{name:?} is no path inside the directory; name a file in it, such as app.pipkin");
    Err(StoreError { reason: Reason::AccessDenied, message }.into())
}
