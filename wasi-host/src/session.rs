//! An instance of the component with one store open in it, and the lock on the file: the part that survives when the instance is stopped.

use crate::bindings::ProviderBase as Provider;
use crate::lock::Lock;
use crate::machine::{Machine, refuel};
use crate::sandbox::Sandbox;
use crate::{Durability, Error, Options, Reason, Report, Result, StoreError};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wasmtime::Store;
use wasmtime::component::ResourceAny;

/// A store that is open, whether or not its instance still runs.
pub(crate) struct Session {
    machine: Arc<Machine>,
    name: String,
    options: Options,
    fuel: Option<u64>,
    instance: Option<Instance>,
    // Declared last, so that the file is unlocked only after the instance has been dropped.
    lock: Option<Lock>,
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

/// A handle in the component, and the count of calls when it was last used.
struct Known {
    handle: ResourceAny,
    asked: u64,
}

/// The most handles of namespaces that are kept: the table of an instance is limited, the number of names is not. The least recently used
/// is released.
const NAMESPACES_MAX: usize = 1000;

/// What the component answers: a failure of the call, or of the store.
pub(crate) type Answer<T> = wasmtime::Result<Result<T, StoreError>>;

impl Instance {
    fn open(machine: &Machine, name: &str, options: Options, fuel: Option<u64>) -> Result<Self> {
        let (mut store, provider) = machine.instantiate(options.read_only || options.follow)?;
        refuel(&mut store, fuel).map_err(Error::Component)?;
        let db = provider.pipkin_kv_store().db();
        let answer = match machine.secrets.get(name) {
            Some(secret) => db.call_open_sealed(&mut store, name, options.into(), secret),
            None => db.call_open(&mut store, name, options.into()),
        };
        let db = answer.map_err(Error::Trapped)??;
        Ok(Self { store, provider, db, unnamed: None, namespaces: HashMap::new(), asked: 0 })
    }

    /// The handle of a namespace, from the component at first use and cached from then on.
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

    /// Releases the handle of a namespace.
    pub(crate) fn forget(&mut self, name: &str) -> wasmtime::Result<()> {
        self.namespaces.remove(name).map_or(Ok(()), |known| known.handle.resource_drop(&mut self.store))
    }
}

impl Session {
    pub(crate) fn open(machine: Arc<Machine>, name: &str, options: Options) -> Result<Self> {
        let path = machine.directory.join(inside(name)?);
        if options.create && !options.read_only && !options.follow {
            // Ignored: if the folder cannot be created, opening the file reports why.
            let _ = std::fs::create_dir_all(&machine.directory);
        }
        // Who follows reads beside whoever holds the lock.
        let lock = (!options.follow).then(|| Lock::take(&path, &options)).transpose()?;
        let instance = Instance::open(&machine, name, options, machine.fuel)?;
        lock.as_ref().map_or(Ok(()), Lock::sign)?;
        Ok(Self { name: name.to_owned(), options, fuel: machine.fuel, instance: Some(instance), lock, machine })
    }

    /// Makes a call, in a new instance if the last one was stopped. An instance that is stopped in this call is dropped.
    pub(crate) fn call<T>(&mut self, call: impl FnOnce(&mut Instance, ResourceAny) -> Answer<T>) -> Result<T> {
        let mut instance = match self.instance.take() {
            Some(instance) => instance,
            None => {
                // Checked here, and opened without `create`: a new file in its place would be empty and not locked.
                self.lock.as_ref().map(Lock::is_still_named).transpose()?;
                let options = Options { create: false, ..self.options };
                let instance = Instance::open(&self.machine, &self.name, options, self.fuel.max(self.machine.fuel))?;
                self.lock.as_ref().map_or(Ok(()), Lock::sign)?;
                instance
            }
        };
        let db = instance.db;
        let answer = refuel(&mut instance.store, self.fuel).and_then(|()| call(&mut instance, db)).map_err(Error::Trapped)?;
        self.instance = Some(instance);
        Ok(answer?)
    }

    /// The durability of writes that do not name one.
    pub(crate) fn durability(&self) -> Durability {
        self.options.durability
    }

    /// Has no effect when fuel is not counted.
    pub(crate) fn set_fuel_limit(&mut self, fuel: u64) {
        if self.fuel.is_some() {
            self.fuel = Some(fuel);
        }
    }

    /// The host's path of the file that the component knows as `name`.
    pub(crate) fn path_of(&self, name: &str) -> Result<PathBuf> {
        Ok(self.machine.directory.join(inside(name)?))
    }

    /// Closes the store and reports errors.
    pub(crate) fn close(mut self) -> Result<()> {
        let closed = self.call(|instance, db| instance.provider.pipkin_kv_store().db().call_close(&mut instance.store, db));
        // Dropping must not close the store again.
        self.instance = None;
        closed
    }
}

impl Drop for Session {
    /// Closes the store, so that the next open is fast. An error has no caller to go to and is ignored.
    fn drop(&mut self) {
        let Some(mut instance) = self.instance.take() else { return };
        let closed = refuel(&mut instance.store, self.fuel);
        let _ = closed.map(|()| instance.provider.pipkin_kv_store().db().call_close(&mut instance.store, instance.db));
    }
}

/// Checks every byte of a store that is not open against its checksum.
pub(crate) fn verify_closed(machine: &Machine, name: &str) -> Result<Report> {
    let options = Options { read_only: true, create: false, ..Options::default() };
    let _lock = Lock::take(&machine.directory.join(inside(name)?), &options)?;
    let (mut store, provider) = machine.instantiate(true)?;
    Ok(provider.pipkin_kv_admin().call_verify_closed(&mut store, name).map_err(Error::Trapped)??)
}

/// Checks that `name` is a path inside the directory that the component accepts, before the host creates a file of that name to lock it.
fn inside(name: &str) -> Result<&Path> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    // On Windows a colon addresses an alternate stream of the file, or a file on another drive.
    let is_odd = |c: char| c == '\\' || c.is_control() || (cfg!(windows) && c == ':');
    if name.split('/').all(is_plain) && !name.contains(is_odd) {
        return Ok(Path::new(name));
    }
    let message = format!("{name:?} is no path inside the directory; name a file in it, such as app.pipkin");
    Err(StoreError { reason: Reason::AccessDenied, message }.into())
}
