//! A persistent store behind the imports of a component: the standard `wasi:keyvalue` in both drafts that are in use, and pipkin's own
//! `pipkin:kv`, served by the native engine.
//!
//! Names and shape are those of the crate `wasmtime-wasi-keyvalue`, which forgets everything with the instance; to swap it for this
//! one, change the import and say where the stores are:
//!
//! ```
//! use pipkin_wasi_host::keyvalue::{WasiKeyValue, WasiKeyValueCtx, WasiKeyValueCtxBuilder};
//! use wasmtime::component::{Linker, ResourceTable};
//! use wasmtime::{Engine, Result, Store};
//!
//! struct Ctx {
//!     table: ResourceTable,
//!     keyvalue: WasiKeyValueCtx,
//! }
//!
//! fn main() -> Result<()> {
//!     # let folder = tempfile::tempdir()?;
//!     # let data = folder.path();
//!     let engine = Engine::default();
//!     let keyvalue = WasiKeyValueCtxBuilder::new().directory(data).store("").store("sessions").build();
//!     let _store = Store::new(&engine, Ctx { table: ResourceTable::new(), keyvalue });
//!     let mut linker = Linker::<Ctx>::new(&engine);
//!     pipkin_wasi_host::keyvalue::add_to_linker(&mut linker, |ctx: &mut Ctx| WasiKeyValue::new(&ctx.keyvalue, &mut ctx.table))?;
//!     Ok(())
//! }
//! ```
//!
//! # What a guest gets
//!
//! - **Stores** by the names that the embedder lists, never by paths. Any other name is `no-such-store`. All handles of all instances and
//!   Wasmtime stores that share a context, or clones of it, share one engine.
//! - **Durability**: a set survives the end of the process when it returns, or a power cut if the store was listed with
//!   [`SyncPolicy::EachSet`]. What is open closes with the last clone of the context; a process that ends without that loses nothing, and
//!   the next open reads the end of the log again.
//! - **Long values**: Wasmtime ends a guest that hands over more than 128 MiB in one call, unless the embedder allows it with
//!   `store.set_hostcall_fuel(bytes)`.
//! - **Failures**: after a write or sync that failed, a store is read-only until a guest opens it again. Handles of before that are closed
//!   then. A store that the embedder has opened itself, it opens again itself.
//! - **Bounds**: a handle keeps no value, and all handles of a context together at most 64 MiB of keys. How many there can be is a matter of
//!   `ResourceTable::set_max_capacity`. How long a call takes has no bound: a `scan.next` whose prefix few keys have, or a `list-keys` of a
//!   store whose keys are not text, walks all of the store inside one call of the host, which neither fuel nor epochs stop.
//! - **Batches** are one commit: more than the standard asks for.
//! - **Counters** are decimal text. A value that is none, or a sum that leaves the range, is an error, and nothing changes.
//! - **Compare and swap** goes by the version of the record: a value that was changed and changed back does not pass.
//! - **`list-keys`** gives pages of up to 1000 keys in an order that never changes, and ends, however much is written meanwhile. Keys that
//!   are not UTF-8, which `wasi:keyvalue` cannot have written, are left out.

mod bucket;
mod client;
mod context;
mod draft;
mod draft2;
mod store_file;
mod wire;

pub use bucket::Bucket;
pub use client::{ClientDb, ClientNamespace, ClientScan};
pub use context::{SyncPolicy, WasiKeyValueCtx, WasiKeyValueCtxBuilder};
pub use draft2::Cas;

use bucket::Refused;
use wasmtime::Result;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};

/// The view of a call into the embedder's state: the stores, and the table with the guest's handles.
pub struct WasiKeyValue<'a> {
    ctx: &'a WasiKeyValueCtx,
    table: &'a mut ResourceTable,
}

impl<'a> WasiKeyValue<'a> {
    /// The view of one call.
    pub fn new(ctx: &'a WasiKeyValueCtx, table: &'a mut ResourceTable) -> Self {
        Self { ctx, table }
    }

    fn bucket(&self, bucket: &Resource<Bucket>) -> std::result::Result<&Bucket, Refused> {
        Ok(self.table.get(bucket)?)
    }
}

struct View;

impl HasData for View {
    type Data<'a> = WasiKeyValue<'a>;
}

/// Serves `wasi:keyvalue/{store, atomics, batch}` in both drafts, `0.2.0-draft` and `0.2.0-draft2`.
///
/// # Errors
///
/// When the linker already has something of these names.
pub fn add_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    draft::add_to_linker(linker, view)?;
    draft2::add_to_linker(linker, view)
}

/// Serves `pipkin:kv/store` for components of the world `client`: bytes as keys, namespaces, commits of many, scans.
///
/// # Errors
///
/// When the linker already has something of that name.
pub fn add_client_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    client::add_to_linker(linker, view)
}

/// Serves `pipkin:kv/admin` to components that may also look after the stores: figures, verifying, compaction, backups into other listed
/// names.
///
/// # Errors
///
/// When the linker already has something of that name.
pub fn add_admin_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    client::add_admin_to_linker(linker, view)
}
