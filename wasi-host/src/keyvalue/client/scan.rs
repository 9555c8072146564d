//! A guest's walk over records.

use super::lost;
use super::wit::pipkin::kv::types::Error;
use crate::keyvalue::context::Kept;
use crate::keyvalue::store_file::Engine;
use crate::keyvalue::view::WasiKeyValue;
use pipkin_wasi_shared::Walk;
use wasmtime::component::Resource;

/// A guest's scan, in the resource table of the embedder.
pub struct ClientScan {
    walk: Walk,
    engine: Engine,
    _kept: Kept,
}

impl ClientScan {
    pub(super) fn new(walk: Walk, engine: Engine, kept: Kept) -> Self {
        Self { walk, engine, _kept: kept }
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.walk.kept_bytes()
    }
}

impl WasiKeyValue<'_> {
    pub(super) fn page(
        &mut self,
        scan: &Resource<ClientScan>,
        max_entries: u32,
        max_bytes: u32,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let ClientScan { walk, engine, .. } = self.table.get_mut(scan).map_err(lost)?;
        let _in = engine.call()?;
        walk.page(max_entries, max_bytes, || Ok(()), take)
    }
}
