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
//!   Wasmtime stores that share a context, or clones of it, share one engine. Stores can be read-only, in memory, or begin with presets.
//! - **Durability**: a set survives the end of the process when it returns, or a power cut if the store was listed with
//!   [`SyncPolicy::EachSet`]. What is open closes with the last clone of the context, whether or not guests have dropped their buckets; a
//!   process that ends without that loses nothing, and the next open reads the end of the log again.
//! - **Long values**: Wasmtime ends a guest that hands over more than 128 MiB in one call, unless the embedder allows it with
//!   `store.set_hostcall_fuel(`[`hostcall_fuel`]`(value_bytes))`.
//! - **Failures**: after a write or sync that failed, a store is read-only until a guest opens it again. Handles of before that are closed
//!   then. A store that the embedder has opened itself, it opens again itself. What a guest is told names no path and no process;
//!   [`WasiKeyValueCtxBuilder::on_error`] hears the rest.
//! - **Bounds**: a [`Quota`] for each store and one for all of a context together; handles and what they keep for each clone of the context, which
//!   is one guest's. How long a call takes has no bound: a `scan.next` whose prefix few keys have, or a `list-keys` of a
//!   store whose keys are not text, walks all of the store inside one call of the host, which neither fuel nor epochs stop.
//! - **Batches** are one commit, whole after a crash: more than the standard asks for. Other guests that read beside it read record by record, and
//!   a `get-many` of theirs may see half of it.
//! - **Counters** are decimal text. A value that is none, or a sum that leaves the range, is an error, and nothing changes.
//! - **Compare and swap** (`cas`) goes by the version of the record: a value that was changed and changed back does not pass, and neither does
//!   one that was removed and set again. A key that was absent, set and removed again does pass: absence has no version. Compaction
//!   moves records, and gives them other versions, so a swap may fail though nobody wrote: try again with the handle that comes back.
//! - **`list-keys`** gives pages of up to 1000 keys in an order that never changes, and ends, however much is written meanwhile. Keys that
//!   are not UTF-8, which `wasi:keyvalue` cannot have written, are left out.
//!
//! # Which linker function
//!
//! Two texts of `wasi:keyvalue@0.2.0-draft2` are in use under one name: [`add_to_linker`] has the one that was published in 2024,
//! [`add_spin_to_linker`] the one that Spin has, in which `get-many` answers each key with or without a value. A component that was built against
//! the other one does not instantiate; [`speaks_spin`] says which one it was. Both functions have `0.2.0-draft` as well.
//!
//! The functions block: the thread of the caller waits while a store is opened, and while a set of a store with [`SyncPolicy::EachSet`] is synced. Those
//! whose names end in `_async` add functions that leave that to another thread; they need Wasmtime's calls that are `async`, and a Tokio runtime.
//! Sets that are not synced are written in the thread of the caller in both cases: handing them over would cost more than the write.
//!
//! There is none for imports under names of a program's own (`implements` in the component model): Wasmtime 50 has them off and calls its support a work
//! in progress (`Config::wasm_component_model_implements`), and its own provider of `wasi:keyvalue` does not serve them either. Name several stores
//! by `open` instead.

mod bucket;
mod client;
mod context;
mod draft;
mod draft2;
mod off_thread;
mod quota;
mod spin;
mod store_file;
mod view;
mod wire;

pub use bucket::Bucket;
pub use client::{ClientDb, ClientNamespace, ClientScan};
pub use context::{SyncPolicy, WasiKeyValueCtx, WasiKeyValueCtxBuilder};
pub use draft2::Cas;
pub use quota::Quota;
pub use view::WasiKeyValue;

use pipkin::limits::KEY_LEN_MAX;
use wasmtime::Result;
use wasmtime::component::{Component, Linker, types};

/// What to give `Store::set_hostcall_fuel`, so that a guest may store values of up to so many bytes under keys of any length, in one call each.
///
/// ```
/// assert!(pipkin_wasi_host::keyvalue::hostcall_fuel(1 << 30) > 1 << 30);
/// ```
pub const fn hostcall_fuel(value_bytes: usize) -> usize {
    /// What the names of a namespace and the like take, and Wasmtime's own accounts.
    const REST: usize = 64 * 1024;
    value_bytes.saturating_add(KEY_LEN_MAX + REST)
}

/// Serves `wasi:keyvalue/{store, atomics, batch}` in both drafts, `0.2.0-draft` and `0.2.0-draft2` as it was published.
///
/// # Errors
///
/// When the linker already has something of these names.
pub fn add_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    draft::add_to_linker(linker, view)?;
    draft::add_batch_to_linker(linker, view)?;
    draft2::add_to_linker(linker, view)?;
    draft2::add_batch_to_linker(linker, view)
}

/// [`add_to_linker`] for components that were built against the text of `0.2.0-draft2` that Spin has.
///
/// # Errors
///
/// When the linker already has something of these names.
pub fn add_spin_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    draft::add_to_linker(linker, view)?;
    draft::add_batch_to_linker(linker, view)?;
    draft2::add_to_linker(linker, view)?;
    spin::add_batch_to_linker(linker, view)
}

/// [`add_to_linker`] with functions that wait for a device in another thread than that of the caller.
///
/// # Errors
///
/// When the linker already has something of these names.
pub fn add_to_linker_async<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    add_to_linker(linker, view)?;
    shadow(linker, view, draft2::add_async_batch_to_linker)
}

/// [`add_spin_to_linker`] with functions that wait for a device in another thread than that of the caller.
///
/// # Errors
///
/// When the linker already has something of these names.
pub fn add_spin_to_linker_async<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    add_spin_to_linker(linker, view)?;
    shadow(linker, view, spin::add_async_batch_to_linker)
}

/// Adds a part of an interface.
type Add<T> = fn(&mut Linker<T>, fn(&mut T) -> WasiKeyValue<'_>) -> Result<()>;

fn shadow<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>, batch: Add<T>) -> Result<()> {
    linker.allow_shadowing(true);
    draft::add_async_to_linker(linker, view)?;
    draft::add_async_batch_to_linker(linker, view)?;
    draft2::add_async_to_linker(linker, view)?;
    draft2::add_async_swap_to_linker(linker, view)?;
    batch(linker, view)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Whether a component was built against the text of `wasi:keyvalue@0.2.0-draft2` that Spin has, and so needs [`add_spin_to_linker`].
pub fn speaks_spin(component: &Component) -> bool {
    let engine = component.engine();
    let component = component.component_type();
    let batch = component.imports(engine).find(|(name, _)| *name == "wasi:keyvalue/batch@0.2.0-draft2");
    let Some(types::ComponentItem::ComponentInstance(batch)) = batch.map(|(_, item)| item.ty) else { return false };
    let get_many = batch.exports(engine).find(|(name, _)| *name == "get-many");
    let Some(types::ComponentItem::ComponentFunc(get_many)) = get_many.map(|(_, item)| item.ty) else { return false };
    let Some(types::Type::Result(answer)) = get_many.results().next() else { return false };
    let Some(types::Type::List(found)) = answer.ok() else { return false };
    matches!(found.ty(), types::Type::Tuple(_))
}

/// Serves `pipkin:kv/store` for components of the world `client`: bytes as keys, namespaces, commits of many, scans.
///
/// # Errors
///
/// When the linker already has something of that name.
pub fn add_client_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    client::add_to_linker(linker, view)
}

/// [`add_client_to_linker`] with functions that wait for a device in another thread than that of the caller.
///
/// # Errors
///
/// When the linker already has something of that name.
pub fn add_client_to_linker_async<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    client::add_to_linker(linker, view)?;
    linker.allow_shadowing(true);
    client::add_async_to_linker(linker, view)?;
    linker.allow_shadowing(false);
    Ok(())
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

/// [`add_admin_to_linker`] with functions that wait in another thread than that of the caller.
///
/// # Errors
///
/// When the linker already has something of that name.
pub fn add_admin_to_linker_async<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    client::add_admin_to_linker(linker, view)?;
    linker.allow_shadowing(true);
    client::add_async_admin_to_linker(linker, view)?;
    linker.allow_shadowing(false);
    Ok(())
}
