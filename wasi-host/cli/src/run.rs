//! The verb `run`: a component of somebody else, with stores that remember behind its `wasi:keyvalue`.

use crate::keys::KeyArgs;
use pipkin_wasi_host::keyvalue::{self, SyncPolicy, WasiKeyValue, WasiKeyValueCtx, WasiKeyValueCtxBuilder};
use std::path::{Path, PathBuf};
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Engine, Result, Store, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::p2::bindings::sync::Command;
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtx, WasiCtxView, WasiView};

/// Runs a command component that imports `wasi:keyvalue` or `pipkin:kv`. It gets stdin, stdout, stderr, its arguments, the listed stores and, with
/// `--root`, a folder, and nothing else of this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The component
    program: PathBuf,
    /// The folder of the stores
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    directory: PathBuf,
    /// A store that the component may open, by its name; the file is NAME.pipkin in the folder [default: one without a name, default.pipkin]
    #[arg(long = "store", value_name = "NAME")]
    stores: Vec<String>,
    /// Read the stores while another process writes them: without a lock, and refusing every write
    #[arg(long, conflicts_with = "sync")]
    follow: bool,
    /// A folder that becomes the component's root: for one that has its store in itself, composed with pipkin's component
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// Make every set durable to a power cut before it returns
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    key: KeyArgs,
    /// Arguments of the component
    #[arg(last = true)]
    args: Vec<String>,
}

struct Ctx {
    wasi: WasiCtx,
    table: ResourceTable,
    keyvalue: WasiKeyValueCtx,
    limits: StoreLimits,
}

/// The most that a program may hand over in one call: a value of any length that a store takes, and its key.
const TRANSFER_BYTES_MAX: usize = keyvalue::hostcall_fuel(1 << 30);

impl WasiView for Ctx {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl RunArgs {
    /// The exit code of the component, which may have so much memory.
    pub(crate) fn run(&self, memory_bytes: Option<usize>) -> Result<u8> {
        let engine = pipkin_wasi_host::engine()?;
        let mut linker = Linker::<Ctx>::new(&engine);
        wasmtime_wasi::p2::add_to_linker_sync(&mut linker)?;
        let component = Component::from_file(&engine, &self.program)?;
        if keyvalue::speaks_spin(&component) {
            keyvalue::add_spin_to_linker(&mut linker, view)?;
        } else {
            keyvalue::add_to_linker(&mut linker, view)?;
        }
        keyvalue::add_client_to_linker(&mut linker, view)?;
        let keyvalue = self.stores()?;
        let code = self.call(&engine, &linker, &component, keyvalue.clone(), memory_bytes)?;
        keyvalue.flush()?;
        Ok(code)
    }

    fn stores(&self) -> Result<WasiKeyValueCtx> {
        let secret = self.key.read()?;
        let policy = if self.sync { SyncPolicy::EachSet } else { SyncPolicy::Manual };
        let unnamed = [String::new()];
        let names = if self.stores.is_empty() { &unnamed[..] } else { &self.stores };
        let listed = |builder: WasiKeyValueCtxBuilder, name: &String| {
            let builder =
                builder.store_with(name, policy).on_error(|name, error| eprintln!("pipkin-host: store {name:?}: {error:#}"));
            let builder = secret.iter().fold(builder, |builder, secret| secret.open(builder, name));
            if self.follow { builder.follow(name) } else { builder }
        };
        Ok(names.iter().fold(WasiKeyValueCtx::builder().directory(&self.directory), listed).build())
    }

    fn call(
        &self,
        engine: &Engine,
        linker: &Linker<Ctx>,
        component: &Component,
        keyvalue: WasiKeyValueCtx,
        memory_bytes: Option<usize>,
    ) -> Result<u8> {
        let name = self.program.file_name().unwrap_or(Path::new("program").as_os_str());
        let mut wasi = WasiCtx::builder();
        wasi.inherit_stdio().arg(name.to_string_lossy()).args(&self.args);
        if let Some(root) = &self.root {
            wasi.allow_blocking_current_thread(true).preopened_dir(root, "/", FsPerms::ReadWrite)?;
        }
        let wasi = wasi.build();
        let limits = memory_bytes.map_or_else(StoreLimits::default, |bytes| StoreLimitsBuilder::new().memory_size(bytes).build());
        let mut store = Store::new(engine, Ctx { wasi, table: ResourceTable::new(), keyvalue, limits });
        store.limiter(|ctx| &mut ctx.limits);
        store.set_hostcall_fuel(TRANSFER_BYTES_MAX);
        let command = Command::instantiate(&mut store, component, linker)?;
        match command.wasi_cli_run().call_run(&mut store) {
            Ok(ended) => Ok(u8::from(ended.is_err())),
            Err(error) => match error.downcast_ref::<I32Exit>() {
                Some(exit) => Ok(u8::try_from(exit.0).unwrap_or(1)),
                None => Err(error),
            },
        }
    }
}

fn view(ctx: &mut Ctx) -> WasiKeyValue<'_> {
    WasiKeyValue::new(&ctx.keyvalue, &mut ctx.table)
}
