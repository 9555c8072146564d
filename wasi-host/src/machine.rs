//! The compiled component, and the limits of its instances.

use crate::bindings::exports::pipkin::kv::store::Secret;
use crate::bindings::{ProviderBase as Provider, ProviderBasePre as ProviderPre};
use crate::sandbox::Sandbox;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use wasmtime::{Engine, Store};
use wasmtime_wasi::FsPerms;

/// The most that the component may hand over in one call: a value, a page, a long answer of `get_many`.
const TRANSFER_BYTES_MAX: usize = 2 << 30;

/// The secrets of sealed stores, by name. Never printed.
#[derive(Clone, Default)]
pub(crate) struct Secrets(BTreeMap<String, Secret>);

impl Secrets {
    pub(crate) fn insert(&mut self, name: String, secret: Secret) {
        self.0.insert(name, secret);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Secret> {
        self.0.get(name)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What all stores of a host share: engine, linked component, directory and limits.
pub(crate) struct Machine {
    pub(crate) engine: Engine,
    pub(crate) component: ProviderPre<Sandbox>,
    pub(crate) directory: PathBuf,
    pub(crate) memory_bytes: Option<usize>,
    pub(crate) fuel: Option<u64>,
    pub(crate) secrets: Secrets,
}

impl Machine {
    /// Creates an instance, with no store open in it.
    pub(crate) fn instantiate(&self, read_only: bool) -> Result<(Store<Sandbox>, Provider)> {
        let permissions = if read_only { FsPerms::ReadOnly } else { FsPerms::ReadWrite };
        let start = || -> wasmtime::Result<_> {
            let sandbox = Sandbox::limited(&self.directory, permissions, self.memory_bytes)?;
            let mut store = Store::new(&self.engine, sandbox);
            store.limiter(|sandbox| &mut sandbox.limits);
            store.set_hostcall_fuel(TRANSFER_BYTES_MAX);
            refuel(&mut store, self.fuel)?;
            let provider = self.component.instantiate(&mut store)?;
            Ok((store, provider))
        };
        start().map_err(Error::Component)
    }
}

/// Sets the fuel of an instance for the next call. `None`: fuel is not counted.
pub(crate) fn refuel(store: &mut Store<Sandbox>, fuel: Option<u64>) -> wasmtime::Result<()> {
    fuel.map_or(Ok(()), |fuel| store.set_fuel(fuel))
}
