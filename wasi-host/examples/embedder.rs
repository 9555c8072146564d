//! A program that runs components and gives them a store that remembers: `cargo run -p pipkin-wasi-host --example embedder -- COUNTER.wasm DATA`,
//! twice. The component can be any command that imports `wasi:keyvalue`, such as `wasi-host/programs/src/bin/counter.rs`.
use pipkin_wasi_host::keyvalue::{WasiKeyValue, WasiKeyValueCtx, add_to_linker, hostcall_fuel};
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Engine, Result, Store, format_err};
use wasmtime_wasi::p2::{add_to_linker_sync, bindings::sync::Command};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

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

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, component, directory] = args.as_slice() else { return Err(format_err!("usage: embedder COMPONENT DIRECTORY")) };
    let engine = Engine::default();
    let mut linker = Linker::<Ctx>::new(&engine);
    add_to_linker_sync(&mut linker)?;
    add_to_linker(&mut linker, |ctx| WasiKeyValue::new(&ctx.keyvalue, &mut ctx.table))?;
    let keyvalue = WasiKeyValueCtx::builder().directory(directory).store("").build();
    let wasi = WasiCtx::builder().inherit_stdio().build();
    let mut store = Store::new(&engine, Ctx { wasi, table: ResourceTable::new(), keyvalue });
    // Otherwise a guest that stores more than 128 MiB in one call is ended.
    store.set_hostcall_fuel(hostcall_fuel(1 << 30));
    let command = Command::instantiate(&mut store, &Component::from_file(&engine, component)?, &linker)?;
    command.wasi_cli_run().call_run(&mut store)?.map_err(|()| format_err!("the component failed"))
}
