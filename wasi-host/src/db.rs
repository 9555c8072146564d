//! A store that is open in an instance of the component.

use crate::bindings::exports::pipkin::kv::admin;
use crate::machine::Machine;
use crate::records::Records;
use crate::sandbox::Sandbox;
use crate::session::{Answer, Session};
use crate::{Durability, Error, Op, Options, Report, Result, Scan, Stats, Step};
use std::sync::Arc;
use wasmtime::Store;
use wasmtime::component::ResourceAny;

/// An open store, and the lock on its file. Dropping it closes the store; [`close`](Self::close) also reports errors.
///
/// When a call ends with [`Error::Trapped`], the instance is gone, and with it every write that it had not yet handed to the host: none,
/// unless the store was opened with [`Durability::Buffered`]. The next call starts a new instance. The lock is held throughout.
pub struct Db(Session);

impl Db {
    pub(crate) fn open(machine: Arc<Machine>, name: &str, options: Options) -> Result<Self> {
        Session::open(machine, name, options).map(Self)
    }

    /// The records of a namespace. A named one is created when it is first written to or read; `None` is the default namespace, which the
    /// methods of this handle work on.
    pub fn records<'a>(&'a mut self, namespace: Option<&'a str>) -> Records<'a> {
        Records::new(&mut self.0, namespace)
    }

    /// Sets the fuel limit for the calls of this handle, instead of the host's, for calls that are known to take more. Has no effect when
    /// the host was built without [`Builder::fuel_limit`](crate::Builder::fuel_limit): fuel is not counted then. After an instance was
    /// stopped, the store is opened again with the larger of the two limits.
    pub fn set_fuel_limit(&mut self, fuel: u64) {
        self.0.set_fuel_limit(fuel);
    }

    /// Stores a value, replacing the one that the key had.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] with the reasons that `pipkin:kv/types.error` lists, and [`Error::Trapped`]. The same holds for all calls.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.records(None).insert(key, value)
    }

    /// Stores a value that lives for some time or until a time, as a [`Ttl`](crate::Ttl) says.
    pub fn insert_with_ttl(&mut self, key: &[u8], value: &[u8], ttl: impl Into<crate::Ttl>) -> Result<()> {
        self.records(None).insert_with_ttl(key, value, ttl)
    }

    /// When a record expires, in milliseconds since 1970; `None` if it never does, or if there is none.
    pub fn expires_at(&mut self, key: &[u8]) -> Result<Option<u64>> {
        self.records(None).expires_at(key)
    }

    /// Lets a record live for ever that would expire; returns whether there was such a one.
    pub fn persist(&mut self, key: &[u8]) -> Result<bool> {
        self.records(None).persist(key)
    }

    /// Stores many records as one commit, in one call: the fastest way to write.
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

    /// Writes `new` (`None` removes the key) if the current value is `expected`. Returns whether it did.
    pub fn compare_and_swap(&mut self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        self.records(None).compare_and_swap(key, expected, new)
    }

    /// The number of records in the default namespace.
    pub fn len(&mut self) -> Result<u64> {
        self.records(None).len()
    }

    /// True when the default namespace has no record.
    pub fn is_empty(&mut self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// All records whose keys begin with `prefix`, in no particular order.
    pub fn scan(&mut self, prefix: &[u8]) -> Result<Scan<'_>> {
        Scan::new(&mut self.0, None, prefix)
    }

    /// Stores and removes records of any number of namespaces as one commit.
    pub fn write(&mut self, ops: &[Op], durability: Durability) -> Result<()> {
        self.0.call(|instance, db| instance.provider.pipkin_kv_store().db().call_write(&mut instance.store, db, ops, durability))
    }

    /// Makes everything durable that was written before the call. Returns the durability that was reached.
    pub fn flush(&mut self) -> Result<Durability> {
        self.0
            .call(|instance, db| instance.provider.pipkin_kv_store().db().call_flush(&mut instance.store, db, Durability::Synced))
    }

    /// Brings a store that was opened with [`Options::follow`] up to what its writer has appended since, in whole commits. Returns true if
    /// there was anything. Until then reads answer from the state at the open; one that meets space which the writer has used again
    /// refreshes by itself.
    ///
    /// # Errors
    ///
    /// [`Reason::Overtaken`](crate::Reason) and [`Reason::Diverged`](crate::Reason), [`Reason::Io`](crate::Reason) when the name is another
    /// file's by now, [`Reason::InvalidArgument`](crate::Reason) for a store that was not opened to follow.
    pub fn refresh(&mut self) -> Result<bool> {
        self.0.call(|instance, db| instance.provider.pipkin_kv_store().db().call_refresh(&mut instance.store, db))
    }

    /// The names of the named namespaces, in order.
    pub fn namespaces(&mut self) -> Result<Vec<String>> {
        self.0.call(|instance, db| Ok(Ok(instance.provider.pipkin_kv_store().db().call_namespaces(&mut instance.store, db)?)))
    }

    /// Drops a namespace with all its records; returns false when there is none of that name.
    pub fn drop_namespace(&mut self, name: &str) -> Result<bool> {
        self.0.call(|instance, db| {
            let dropped = instance.provider.pipkin_kv_store().db().call_drop_namespace(&mut instance.store, db, name)?;
            instance.forget(name)?;
            Ok(dropped)
        })
    }

    /// Figures about the store: records, bytes, segments.
    pub fn stats(&mut self) -> Result<Stats> {
        self.admin(|admin, store, db| admin.call_get_stats(store, db))
    }

    /// Checks every byte of the store against its checksum. Damage is not an error: the report lists it.
    pub fn verify(&mut self) -> Result<Report> {
        self.admin(|admin, store, db| admin.call_verify(store, db))
    }

    /// Compacts the one segment from which most is gained; returns `None` when no segment is worth it.
    pub fn compact_step(&mut self) -> Result<Option<Step>> {
        self.admin(|admin, store, db| admin.call_compact_step(store, db))
    }

    /// Writes the index to the file, so that opening after a crash has less to replay.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.admin(|admin, store, db| admin.call_checkpoint(store, db))
    }

    /// Forgets all records that have expired, so that their memory is free at once; maintenance does so now and then. Returns how many there
    /// were.
    pub fn sweep_expired(&mut self) -> Result<u64> {
        self.admin(|admin, store, db| admin.call_sweep_expired(store, db))
    }

    /// Sets the time of the store back to the clock of the host, after that was wrong; returns how many records live again. Meanwhile
    /// [`Stats::clock_behind_ms`] says how far it is behind.
    pub fn reset_clock(&mut self) -> Result<u64> {
        self.admin(|admin, store, db| admin.call_reset_clock(store, db))
    }

    /// Copies the store into a new file of the same directory. Returns the number of bytes written.
    pub fn backup(&mut self, name: &str) -> Result<u64> {
        let path = self.0.path_of(name)?;
        let is_new = !path.exists();
        let done = self.admin(|admin, store, db| admin.call_backup(store, db, name));
        if is_new && matches!(done, Err(Error::Trapped(_))) {
            // The component removes an unfinished copy itself, unless it was stopped.
            let _ = std::fs::remove_file(path);
        }
        done
    }

    fn admin<T>(&mut self, call: impl FnOnce(&admin::Guest, &mut Store<Sandbox>, ResourceAny) -> Answer<T>) -> Result<T> {
        self.0.call(|instance, db| call(instance.provider.pipkin_kv_admin(), &mut instance.store, db))
    }

    /// Syncs and closes the store, and reports an error that dropping would ignore.
    pub fn close(self) -> Result<()> {
        self.0.close()
    }
}
