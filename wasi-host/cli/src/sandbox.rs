//! The component that does the work, and what it can reach.

use crate::exit::Outcome;
use clap::Args;
use pipkin_wasi_host::{Db, Error, Host, Options};
use std::path::{Path, PathBuf};

/// The component, with its limits.
#[derive(Debug, Args)]
pub(crate) struct Sandbox {
    /// The component; by default `pipkin_wasi_guest.wasm` beside this program
    #[arg(long, env = "PIPKIN_COMPONENT", value_name = "FILE", global = true)]
    component: Option<PathBuf>,
    /// Keep the compiled component in this folder; only you may be able to write there
    #[arg(long, env = "PIPKIN_CACHE", value_name = "FOLDER", global = true)]
    cache: Option<PathBuf>,
    /// The most memory that the component, or the program that runs, may have, in MiB
    #[arg(long, value_name = "MIB", global = true)]
    memory: Option<usize>,
}

/// The store.
#[derive(Debug, Args)]
pub(crate) struct Store {
    /// Path of the store
    pub(crate) store: PathBuf,
}

/// A store that is read.
#[derive(Debug, Args)]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) at: Store,
    /// Read it as it is now, also while another process has it open: without a lock, and without writing a byte
    #[arg(long)]
    pub(crate) follow: bool,
}

impl Sandbox {
    pub(crate) fn host(&self, store: &Path) -> Outcome<(Host, String)> {
        let name = store
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or(Error::Missing("the path of a store ends in the name of a file, in Unicode"));
        let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = || std::env::current_exe().map(|program| program.with_file_name("pipkin_wasi_guest.wasm"));
        let component = self.component.clone().map_or_else(beside, Ok)?;
        let mut builder = Host::builder().component(component).directory(folder);
        if let Some(cache) = &self.cache {
            builder = builder.cache(cache);
        }
        if let Some(bytes) = self.memory_bytes() {
            builder = builder.memory_limit(bytes);
        }
        Ok((builder.build()?, name?.to_owned()))
    }

    pub(crate) fn memory_bytes(&self) -> Option<usize> {
        self.memory.map(|mib| mib.saturating_mul(1 << 20))
    }

    pub(crate) fn read(&self, from: &Read) -> Outcome<Db> {
        // The store is there already.
        self.open(&from.at, Options { create: false, read_only: true, follow: from.follow, ..Options::default() })
    }

    pub(crate) fn open(&self, at: &Store, options: Options) -> Outcome<Db> {
        let (host, name) = self.host(&at.store)?;
        Ok(host.open_with(&name, options)?)
    }
}
