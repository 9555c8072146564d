//! The component, compiled, and what its instances may have.

use crate::bindings::{ProviderBase as Provider, ProviderBasePre as ProviderPre};
use crate::sandbox::Sandbox;
use crate::{Error, Result};
use std::path::PathBuf;
use wasmtime::{Engine, Store};
use wasmtime_wasi::FsPerms;

/// The most that the component may hand over in one call: a value, a page, a long answer of `get_many`.
const TRANSFER_BYTES_MAX: usize = 2 << 30;

/// What every store of a host runs in.
pub(crate) struct Machine {
    pub(crate) engine: Engine,
    pub(crate) component: ProviderPre<Sandbox>,
    pub(crate) directory: PathBuf,
    pub(crate) memory_bytes: Option<usize>,
    pub(crate) fuel: Option<u64>,
}

impl Machine {
    /// A new instance, with nothing open in it.
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

/// Gives an instance what it may burn in the next call.
pub(crate) fn refuel(store: &mut Store<Sandbox>, fuel: Option<u64>) -> wasmtime::Result<()> {
    fuel.map_or(Ok(()), |fuel| store.set_fuel(fuel))
}
