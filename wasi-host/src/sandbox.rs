//! What one instance of the component may touch, and the engine and linker for it.

use crate::files::add_files_to_linker;
use std::path::Path;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime::{Config, Engine, Result, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};

/// Creates a Wasmtime engine for components that make synchronous calls only.
pub fn engine() -> Result<Engine> {
    Engine::new(&config())
}

/// The settings of [`engine`].
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    // Otherwise every call does bookkeeping for concurrent tasks: an empty call costs 0.56 us with it, 0.21 us without, in Wasmtime 48.
    config.concurrency_support(false);
    config
}

/// Creates a linker that serves WASI 0.2 out of a [`Sandbox`], with the faster file functions of this crate.
pub fn linker(engine: &Engine) -> Result<Linker<Sandbox>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_sync(&mut linker)?;
    add_files_to_linker(&mut linker)?;
    Ok(linker)
}

/// The state of one instance: access to a single directory, and to nothing else of the host.
pub struct Sandbox {
    wasi: WasiCtx,
    table: ResourceTable,
    pub(crate) limits: StoreLimits,
}

impl Sandbox {
    /// Creates a sandbox in which `directory` is the root, to read and to write.
    ///
    /// Two instances must not have the same store open. WASI has no file lock, so the caller must ensure this; [`Host`](crate::Host) does.
    pub fn new(directory: &Path) -> Result<Self> {
        Self::limited(directory, FsPerms::ReadWrite, None)
    }

    /// The same with at most `memory_bytes` of memory for the instance.
    pub(crate) fn limited(directory: &Path, permissions: FsPerms, memory_bytes: Option<usize>) -> Result<Self> {
        let mut wasi = WasiCtx::builder();
        // Otherwise every file call hops to a thread of Tokio: 7 us for a put instead of 1.2. The directory copies the
        // setting when it is added, so this line must come first.
        wasi.allow_blocking_current_thread(true);
        wasi.preopened_dir(directory, "/", permissions)?;
        let limits = memory_bytes.map_or_else(StoreLimits::default, |bytes| StoreLimitsBuilder::new().memory_size(bytes).build());
        Ok(Self { wasi: wasi.build(), table: ResourceTable::new(), limits })
    }
}

impl WasiView for Sandbox {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}
