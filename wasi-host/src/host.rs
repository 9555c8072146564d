//! The component, compiled and ready, and the directory that its instances see.

use crate::bindings::ProviderBasePre as ProviderPre;
use crate::files::{limit_files, private_files};
use crate::machine::Machine;
use crate::sandbox::{config, linker};
use crate::session::verify_closed;
use crate::{Db, Error, Options, Result, compiled};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wasmtime::Engine;

/// The component and a directory. Cheap to clone; every store that it opens runs in an instance of its own.
///
/// All calls block: a program of tasks that must not wait for a disk makes them in `spawn_blocking`.
///
/// ```no_run
/// # fn main() -> pipkin_wasi_host::Result<()> {
/// let host = pipkin_wasi_host::Host::builder().component("pipkin_wasi_guest.wasm").directory("data").build()?;
/// let mut db = host.open("app.pipkin")?;
/// db.insert(b"key", b"value")?; // survives the end of the process
/// db.flush()?; //                  survives a power cut
/// assert_eq!(db.get(b"key")?.as_deref(), Some(&b"value"[..]));
/// db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Host(Arc<Machine>);

/// What a [`Host`] is made of; from [`Host::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    component: Option<PathBuf>,
    bytes: Option<Vec<u8>>,
    directory: Option<PathBuf>,
    cache: Option<PathBuf>,
    memory_bytes: Option<usize>,
    file_bytes: Option<u64>,
    fuel: Option<u64>,
}

impl Builder {
    /// The file of the component, `pipkin_wasi_guest.wasm`.
    pub fn component(mut self, path: impl AsRef<Path>) -> Self {
        self.component = Some(path.as_ref().into());
        self
    }

    /// The component itself, for those who have it in their program.
    pub fn component_bytes(mut self, wasm: impl Into<Vec<u8>>) -> Self {
        self.bytes = Some(wasm.into());
        self
    }

    /// The directory with the stores: all of the host's files that the component can reach. Made when the first store is.
    pub fn directory(mut self, path: impl AsRef<Path>) -> Self {
        self.directory = Some(path.as_ref().into());
        self
    }

    /// A folder that keeps the compiled component, made if need be: the next start is quicker. Only whoever may run code in this process
    /// may be able to write there. Default: none.
    pub fn cache(mut self, folder: impl AsRef<Path>) -> Self {
        self.cache = Some(folder.as_ref().into());
        self
    }

    /// The most memory that an instance may have, in bytes. It needs some for each key, see [`Stats::index_bytes`](crate::Stats).
    /// A call that wants more ends with [`Error::Trapped`]. Default: no limit but the 4 GiB of WebAssembly.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// The longest that a file of a store may be, in bytes. What would make it longer is refused with [`Reason::NoSpace`](crate::Reason), and
    /// nothing is written; reads and removals go on. Default: no limit but the medium.
    pub fn file_limit(mut self, bytes: u64) -> Self {
        self.file_bytes = Some(bytes);
        self
    }

    /// The most work that a single call may do, in Wasmtime's units of fuel, about one for an instruction. A call that wants more ends
    /// with [`Error::Trapped`]. Opening, compaction and verifying take more with the size of the store. Default: no limit, and calls
    /// that are quicker for it.
    pub fn fuel_limit(mut self, fuel: u64) -> Self {
        self.fuel = Some(fuel);
        self
    }

    /// Loads and compiles the component.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] without a component or a directory, [`Error::Component`] when it cannot be read, compiled or linked.
    pub fn build(self) -> Result<Host> {
        let directory =
            self.directory.ok_or(Error::Missing("a host needs a place for its stores: give the builder a `directory`"))?;
        let wasm = match (self.bytes, self.component) {
            (Some(bytes), _) => bytes,
            (None, Some(path)) => std::fs::read(&path).map_err(|error| {
                Error::Component(wasmtime::Error::from(error).context(format!("{} cannot be read", path.display())))
            })?,
            (None, None) => return Err(Error::Missing("a host needs the component: give the builder its path with `component`")),
        };
        let mut config = config();
        config.consume_fuel(self.fuel.is_some());
        let load = || -> wasmtime::Result<_> {
            let engine = Engine::new(&config)?;
            let component = compiled::component(&engine, &wasm, self.cache.as_deref())?;
            let mut linker = linker(&engine)?;
            private_files(&mut linker)?;
            if let Some(bytes) = self.file_bytes {
                limit_files(&mut linker, bytes)?;
            }
            let component = ProviderPre::new(linker.instantiate_pre(&component)?)?;
            Ok((engine, component))
        };
        let (engine, component) = load().map_err(Error::Component)?;
        Ok(Host(Arc::new(Machine { engine, component, directory, memory_bytes: self.memory_bytes, fuel: self.fuel })))
    }
}

impl Host {
    /// What a host is made of.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a store of the directory, which is created if need be.
    ///
    /// # Errors
    ///
    /// As for [`Self::open_with`].
    pub fn open(&self, name: &str) -> Result<Db> {
        self.open_with(name, Options::default())
    }

    /// Opens a store of the directory.
    ///
    /// # Errors
    ///
    /// [`Error::Lock`] when another process, or another handle in this one, has it open; [`Error::Store`] when there is no store of that
    /// name that this build can open; the file is as it was then. [`Error::Trapped`] when the limits are too narrow for it.
    pub fn open_with(&self, name: &str, options: Options) -> Result<Db> {
        Db::open(self.0.clone(), name, options)
    }

    /// Holds every byte of a store that is not open, and that may not open at all, against its checksums. Damage is no error: it is in
    /// the report.
    ///
    /// # Errors
    ///
    /// As for [`Self::open_with`].
    pub fn verify(&self, name: &str) -> Result<crate::Report> {
        verify_closed(&self.0, name)
    }

    /// The directory with the stores.
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }
}
