//! A guest's walk over records.

use super::wit::pipkin::kv::types::Error;
use super::{lost, over_quota};
use crate::keyvalue::context::Kept;
use crate::keyvalue::store_file::Engine;
use crate::keyvalue::view::WasiKeyValue;
use pipkin_wasi_shared::Walk;
use wasmtime::component::Resource;

/// A guest's scan, in the resource table of the embedder.
pub struct ClientScan {
    walk: Walk,
    engine: Engine,
    kept: Kept,
}

impl ClientScan {
    pub(super) fn new(walk: Walk, engine: Engine, kept: Kept) -> Self {
        Self { walk, engine, kept }
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.walk.kept_bytes()
    }
}

impl WasiKeyValue<'_> {
    /// A handle to a walk that has just begun.
    pub(super) fn walk(&mut self, (walk, engine): (Walk, Engine)) -> Result<Resource<ClientScan>, Error> {
        let kept = self.ctx.keep(walk.kept_bytes()).map_err(over_quota)?;
        self.table.push(ClientScan::new(walk, engine, kept)).map_err(lost)
    }

    pub(super) fn page(
        &mut self,
        scan: &Resource<ClientScan>,
        max_entries: u32,
        max_bytes: u32,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let ClientScan { walk, engine, kept } = self.table.get_mut(scan).map_err(lost)?;
        let _in = engine.call()?;
        let before = walk.kept_bytes();
        let page = walk.page(max_entries, max_bytes, || Ok(()), take);
        let bytes = walk.kept_bytes();
        if bytes <= before {
            kept.set(bytes);
        } else if let Err(message) = kept.reserve(bytes) {
            walk.forget_keys();
            return Err(over_quota(message));
        }
        page
    }
}
