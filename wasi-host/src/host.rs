//! A [`Host`]: the compiled component, and the directory that its instances see.

use crate::bindings::ProviderBasePre as ProviderPre;
use crate::bindings::exports::pipkin::kv::store::Secret;
use crate::files::{limit_files, private_files};
use crate::machine::{Machine, Secrets};
use crate::sandbox::{config, linker};
use crate::session::verify_closed;
use crate::{Db, Error, Options, Result, compiled};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wasmtime::Engine;

/// The compiled component and a directory of stores. Cheap to clone; each store that it opens runs in a separate instance.
///
/// All calls block: async programs should make them in `spawn_blocking`.
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

/// Settings of a [`Host`]; from [`Host::builder`].
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
    secrets: Secrets,
}

impl Builder {
    /// The file of the component, `pipkin_wasi_guest.wasm`.
    pub fn component(mut self, path: impl AsRef<Path>) -> Self {
        self.component = Some(path.as_ref().into());
        self
    }

    /// The bytes of the component, for programs that embed it.
    pub fn component_bytes(mut self, wasm: impl Into<Vec<u8>>) -> Self {
        self.bytes = Some(wasm.into());
        self
    }

    /// The directory with the stores: the only files of the host that the component can reach. Created with the first store.
    pub fn directory(mut self, path: impl AsRef<Path>) -> Self {
        self.directory = Some(path.as_ref().into());
        self
    }

    /// A folder that keeps the compiled component, which makes the next start faster; created if missing. Anyone who can write to this
    /// folder can run code in this process, so restrict access to it. Default: none.
    pub fn cache(mut self, folder: impl AsRef<Path>) -> Self {
        self.cache = Some(folder.as_ref().into());
        self
    }

    /// The most memory that an instance may have, in bytes. It needs memory for each key, see [`Stats::index_bytes`](crate::Stats).
    /// A call that needs more ends with [`Error::Trapped`]. Default: no limit but the 4 GiB of WebAssembly.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// The maximum length of a store's file, in bytes. A write that would make it longer is refused with
    /// [`Reason::NoSpace`](crate::Reason), and nothing is written; reads and removals still work. Default: no limit but the medium.
    pub fn file_limit(mut self, bytes: u64) -> Self {
        self.file_bytes = Some(bytes);
        self
    }

    /// The most work that a single call may do, in Wasmtime's units of fuel, about one per instruction. A call that needs more ends
    /// with [`Error::Trapped`]. Opening, compacting and verifying a store take more the larger it is. Default: no limit, which also
    /// makes calls faster.
    pub fn fuel_limit(mut self, fuel: u64) -> Self {
        self.fuel = Some(fuel);
        self
    }

    /// Seals the store `name` under a key of 32 random bytes: a new one is created with it, and one that is there is opened. The component needs its
    /// feature `encrypt`; another one answers [`Reason::InvalidArgument`](crate::Reason). Without the key that the store was created with, and with one for a
    /// store that is not sealed, opening fails with [`Reason::AccessDenied`](crate::Reason).
    pub fn encryption_key(mut self, name: impl Into<String>, key: [u8; 32]) -> Self {
        self.secrets.insert(name.into(), Secret::Key(key.into()));
        self
    }

    /// As [`Self::encryption_key`], with a passphrase. Each opening takes 64 MiB of the instance's memory, a second or more, and fuel for it.
    pub fn encryption_passphrase(mut self, name: impl Into<String>, passphrase: impl Into<Vec<u8>>) -> Self {
        self.secrets.insert(name.into(), Secret::Passphrase(passphrase.into()));
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
        let (memory_bytes, fuel, secrets) = (self.memory_bytes, self.fuel, self.secrets);
        Ok(Host(Arc::new(Machine { engine, component, directory, memory_bytes, fuel, secrets })))
    }
}

impl Host {
    /// Starts a builder without a component and a directory; [`Builder::build`] needs both.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a store of the directory; it is created if there is none.
    ///
    /// # Errors
    ///
    /// As for [`Self::open_with`].
    pub fn open(&self, name: &str) -> Result<Db> {
        self.open_with(name, Options::default())
    }

    /// Opens a store of the directory with the given options.
    ///
    /// # Errors
    ///
    /// [`Error::Lock`] when another process, or another handle in this one, has it open; [`Error::Store`] when there is no store of that
    /// name that this build can open; the file is unchanged then. [`Error::Trapped`] when the limits are too low for it.
    pub fn open_with(&self, name: &str, options: Options) -> Result<Db> {
        Db::open(self.0.clone(), name, options)
    }

    /// Checks every byte of a store against its checksum. The store must not be open, and may be too damaged to open. Damage is not an
    /// error: the report lists it.
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
