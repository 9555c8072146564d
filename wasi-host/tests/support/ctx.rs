//! What the tests' hosts keep for a guest.

use pipkin_wasi_host::keyvalue::{WasiKeyValue, WasiKeyValueCtx};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

pub(crate) struct Ctx {
    pub(crate) wasi: WasiCtx,
    pub(crate) table: ResourceTable,
    pub(crate) keyvalue: WasiKeyValueCtx,
}

impl WasiView for Ctx {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

pub(crate) fn view(ctx: &mut Ctx) -> WasiKeyValue<'_> {
    WasiKeyValue::new(&ctx.keyvalue, &mut ctx.table)
}
