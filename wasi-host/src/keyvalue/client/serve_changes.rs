//! Implements the readers of changes of the interface `store` for Wasmtime: looks handles up in the resource table of the embedder.

use super::wit::pipkin::kv::store;
use super::wit::pipkin::kv::types::{ChangesPage, Error, Position};
use super::{ClientChanges, ClientConsumer, lost};
use crate::keyvalue::view::WasiKeyValue;
use wasmtime::Result as Outcome;
use wasmtime::component::Resource;

impl store::HostChanges for WasiKeyValue<'_> {
    fn next(&mut self, changes: Resource<ClientChanges>, max_commits: u32, max_bytes: u32) -> Result<ChangesPage, Error> {
        self.table.get_mut(&changes).map_err(lost)?.page(max_commits, max_bytes)
    }

    fn position(&mut self, changes: Resource<ClientChanges>) -> Outcome<Position> {
        Ok(self.table.get(&changes)?.position().into())
    }

    fn drop(&mut self, changes: Resource<ClientChanges>) -> Outcome<()> {
        self.table.delete(changes)?;
        Ok(())
    }
}

impl store::HostConsumer for WasiKeyValue<'_> {
    fn next(&mut self, consumer: Resource<ClientConsumer>, max_commits: u32, max_bytes: u32) -> Result<ChangesPage, Error> {
        self.table.get(&consumer).map_err(lost)?.page(max_commits, max_bytes)
    }

    fn position(&mut self, consumer: Resource<ClientConsumer>) -> Outcome<Position> {
        Ok(self.table.get(&consumer)?.position().into())
    }

    fn ack(&mut self, consumer: Resource<ClientConsumer>, position: Position) -> Result<(), Error> {
        self.table.get(&consumer).map_err(lost)?.ack(position.into())
    }

    fn drop(&mut self, consumer: Resource<ClientConsumer>) -> Outcome<()> {
        self.table.delete(consumer)?;
        Ok(())
    }
}
