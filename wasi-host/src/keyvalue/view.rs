//! The view of one call into the embedder's state.

use super::bucket::{Bucket, Refused};
use super::context::WasiKeyValueCtx;
use wasmtime::component::{HasData, Resource, ResourceTable};

/// The view of a call into the embedder's state: the stores, and the table with the guest's handles.
pub struct WasiKeyValue<'a> {
    pub(super) ctx: &'a WasiKeyValueCtx,
    pub(super) table: &'a mut ResourceTable,
}

impl<'a> WasiKeyValue<'a> {
    /// Borrows the stores and the table for one call.
    pub fn new(ctx: &'a WasiKeyValueCtx, table: &'a mut ResourceTable) -> Self {
        Self { ctx, table }
    }

    pub(super) fn bucket(&self, bucket: &Resource<Bucket>) -> std::result::Result<&Bucket, Refused> {
        Ok(self.table.get(bucket)?)
    }
}

/// Tells the linker that the state of a call is a [`WasiKeyValue`].
pub(super) struct View;

impl HasData for View {
    type Data<'a> = WasiKeyValue<'a>;
}
