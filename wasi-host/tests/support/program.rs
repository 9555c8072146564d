//! Programs that import a store, run with the provider or composed with the component.

use pipkin_wasi_host::keyvalue::{self, WasiKeyValue, WasiKeyValueCtx};
use std::path::Path;
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::p2::bindings::sync::Command;
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

struct Ctx {
    wasi: WasiCtx,
    table: ResourceTable,
    keyvalue: WasiKeyValueCtx,
}

impl WasiView for Ctx {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

fn view(ctx: &mut Ctx) -> WasiKeyValue<'_> {
    WasiKeyValue::new(&ctx.keyvalue, &mut ctx.table)
}

/// A program, compiled.
pub(crate) struct Program {
    engine: Engine,
    component: Component,
}

impl Program {
    pub(crate) fn new(path: &Path) -> Self {
        Self::of(&std::fs::read(path).unwrap())
    }

    pub(crate) fn of(wasm: &[u8]) -> Self {
        let engine = pipkin_wasi_host::engine().unwrap();
        let component = Component::new(&engine, wasm).unwrap();
        Self { engine, component }
    }

    /// Runs it with stores of the host. What it printed; on failure with what it said of that.
    pub(crate) fn run(&self, keyvalue: &WasiKeyValueCtx, args: &[&str]) -> Result<String, String> {
        self.start(keyvalue.clone(), WasiCtx::builder(), args)
    }

    /// Runs it with a directory, and nothing else.
    pub(crate) fn run_in(&self, directory: &Path, args: &[&str]) -> Result<String, String> {
        let mut wasi = WasiCtx::builder();
        wasi.allow_blocking_current_thread(true);
        wasi.preopened_dir(directory, "/", FsPerms::ReadWrite).unwrap();
        self.start(WasiKeyValueCtx::builder().build(), wasi, args)
    }

    fn start(&self, keyvalue: WasiKeyValueCtx, mut wasi: WasiCtxBuilder, args: &[&str]) -> Result<String, String> {
        let mut linker = Linker::<Ctx>::new(&self.engine);
        wasmtime_wasi::p2::add_to_linker_sync(&mut linker).unwrap();
        keyvalue::add_to_linker(&mut linker, view).unwrap();
        keyvalue::add_client_to_linker(&mut linker, view).unwrap();
        keyvalue::add_admin_to_linker(&mut linker, view).unwrap();
        let (out, words) = (MemoryOutputPipe::new(1 << 20), MemoryOutputPipe::new(1 << 20));
        let wasi = wasi.arg("program").args(args).stdout(out.clone()).stderr(words.clone()).build();
        let mut store = Store::new(&self.engine, Ctx { wasi, table: ResourceTable::new(), keyvalue });
        let ended = Command::instantiate(&mut store, &self.component, &linker)
            .and_then(|command| command.wasi_cli_run().call_run(&mut store));
        let text = |pipe: MemoryOutputPipe| String::from_utf8(pipe.contents().to_vec()).unwrap();
        match ended {
            Ok(Ok(())) => Ok(text(out)),
            failed => Err(format!("{}{}{failed:?}", text(out), text(words))),
        }
    }
}
