//! A store in a component: one instance, with one store open in it.

use crate::Outcome;
use std::path::Path;
use wasmtime::component::{Component, Linker, ResourceAny, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};

mod wit {
    #![allow(missing_docs, clippy::all, reason = "generated; the WIT has the documents")]
    wasmtime::component::bindgen!({ path: "wit", world: "pipkin:peers/guest" });
}

pub(crate) use wit::exports::pipkin::peers::peer::Work;

/// A key and its value.
pub(crate) type Entry = (Vec<u8>, Vec<u8>);

/// Who stands behind the `wasi:keyvalue` that a guest imports.
pub(crate) enum Served {
    ByPipkin(pipkin_wasi_host::keyvalue::WasiKeyValueCtx),
    /// Wasmtime's own provider: a map, gone with the handle.
    InMemory,
    /// By nobody: the guest has a store of its own.
    Not,
}

struct Ctx {
    wasi: WasiCtx,
    table: ResourceTable,
    lasting: pipkin_wasi_host::keyvalue::WasiKeyValueCtx,
    fleeting: wasmtime_wasi_keyvalue::WasiKeyValueCtx,
}

impl WasiView for Ctx {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// An instance with its open store.
pub(crate) struct Peer {
    store: Store<Ctx>,
    guest: wit::Guest,
    handle: ResourceAny,
}

impl Peer {
    /// Starts the component with `folder` as its only directory, and fills its store.
    pub(crate) fn start(engine: &Engine, wasm: &Path, folder: &Path, served: Served, records: u32) -> Outcome<Self> {
        let component = Component::from_file(engine, wasm)?;
        let mut linker = Linker::<Ctx>::new(engine);
        wasmtime_wasi::p2::add_to_linker_sync(&mut linker)?;
        pipkin_wasi_host::add_files_to_linker(&mut linker)?;
        linker.instance("pipkin:peers/empty@0.1.0")?.func_wrap("nothing", |_, ()| Ok(()))?;
        let mut lasting = pipkin_wasi_host::keyvalue::WasiKeyValueCtx::builder().build();
        match served {
            Served::ByPipkin(stores) => {
                use pipkin_wasi_host::keyvalue::{WasiKeyValue, add_to_linker};
                lasting = stores;
                add_to_linker(&mut linker, |ctx: &mut Ctx| WasiKeyValue::new(&ctx.lasting, &mut ctx.table))?;
            }
            Served::InMemory => {
                use wasmtime_wasi_keyvalue::{WasiKeyValue, add_to_linker};
                add_to_linker(&mut linker, |ctx: &mut Ctx| WasiKeyValue::new(&ctx.fleeting, &mut ctx.table))?;
            }
            Served::Not => {}
        }
        let mut wasi = WasiCtx::builder();
        // Everybody gets the quick way to files, in front of the directory that takes it over.
        wasi.allow_blocking_current_thread(true).inherit_stderr();
        wasi.preopened_dir(folder, "/", FsPerms::ReadWrite)?;
        let fleeting = wasmtime_wasi_keyvalue::WasiKeyValueCtx::builder().build();
        let ctx = Ctx { wasi: wasi.build(), table: ResourceTable::new(), lasting, fleeting };
        let mut store = Store::new(engine, ctx);
        let guest = wit::Guest::instantiate(&mut store, &component, &linker)?;
        let opened = guest.pipkin_peers_peer().store().call_open(&mut store, records)?;
        let handle = opened.map_err(|words| format!("{}: {words}", wasm.display()))?;
        Ok(Self { store, guest, handle })
    }

    /// Nanoseconds that the guest measured.
    pub(crate) fn measure(&mut self, work: Work, count: u32) -> Outcome<u64> {
        Ok(self.guest.pipkin_peers_peer().store().call_measure(&mut self.store, self.handle, work, count)??)
    }

    pub(crate) fn nothing(&mut self) -> Outcome {
        Ok(self.guest.pipkin_peers_peer().call_nothing(&mut self.store)?)
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        Ok(self.guest.pipkin_peers_peer().store().call_put(&mut self.store, self.handle, key, value)??)
    }

    pub(crate) fn put_many(&mut self, entries: &[Entry]) -> Outcome {
        Ok(self.guest.pipkin_peers_peer().store().call_put_many(&mut self.store, self.handle, entries)??)
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.guest.pipkin_peers_peer().store().call_get(&mut self.store, self.handle, key)??)
    }

    pub(crate) fn get_many(&mut self, keys: &[Vec<u8>]) -> Outcome<Vec<Option<Vec<u8>>>> {
        Ok(self.guest.pipkin_peers_peer().store().call_get_many(&mut self.store, self.handle, keys)??)
    }

    pub(crate) fn page(&mut self, behind: Option<&[u8]>, count: u32) -> Outcome<Vec<Entry>> {
        Ok(self.guest.pipkin_peers_peer().store().call_page(&mut self.store, self.handle, behind, count)??)
    }
}
