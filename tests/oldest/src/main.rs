//! What a program does first with each crate, built with the oldest Rust and the oldest Wasmtime that they take:
//! `oldest COMPONENT DIRECTORY`, in an empty directory.

use pipkin_wasi_host::keyvalue::{WasiKeyValue, WasiKeyValueCtx, add_client_to_linker, add_to_linker};
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    keyvalue: WasiKeyValueCtx,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, component, directory] = args.as_slice() else { return Err("usage: oldest COMPONENT DIRECTORY".into()) };

    let db = pipkin::Db::open(format!("{directory}/app.pipkin"))?;
    db.insert("from", "native")?;
    db.close()?;

    let host = pipkin_wasi_host::Host::builder().component(component).directory(directory).build()?;
    let mut db = host.open("app.pipkin")?;
    assert_eq!(db.get(b"from")?.as_deref(), Some(&b"native"[..]));
    db.insert(b"from", b"component")?;
    db.close()?;

    // An embedder with a state of its own: everything that this crate adds links, and is enough for the component.
    let engine = pipkin_wasi_host::engine()?;
    let mut linker = Linker::<State>::new(&engine);
    wasmtime_wasi::p2::add_to_linker_sync(&mut linker)?;
    pipkin_wasi_host::add_files_to_linker(&mut linker)?;
    add_to_linker(&mut linker, |state| WasiKeyValue::new(&state.keyvalue, &mut state.table))?;
    add_client_to_linker(&mut linker, |state| WasiKeyValue::new(&state.keyvalue, &mut state.table))?;
    linker.instantiate_pre(&Component::from_file(&engine, component)?)?;
    Ok(())
}
