//! A persistent store behind the imports of a component: the standard `wasi:keyvalue` in both drafts that are in use, and pipkin's own
//! `pipkin:kv`, served by the native engine.
//!
//! Names and signatures are those of the crate `wasmtime-wasi-keyvalue`, whose data is lost with the instance. To replace it by this
//! crate, change the import and name the directory of the stores:
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
//! - **Durability**: once a set has returned, it survives the end of the process, and also a power cut if the store was listed with
//!   [`SyncPolicy::EachSet`]. Open stores are closed with the last clone of the context, whether or not guests have dropped their buckets;
//!   a process that ends without that loses nothing, but the next open reads the end of the log again.
//! - **Long values**: Wasmtime ends a guest that hands over more than 128 MiB in one call, unless the embedder allows it with
//!   `store.set_hostcall_fuel(`[`hostcall_fuel`]`(value_bytes))`.
//! - **Failures**: after a failed write or sync, a store is read-only until a guest opens it again, which closes all older handles to it. A
//!   store that the embedder has opened must be reopened by the embedder. Messages for guests contain no path and no process;
//!   [`WasiKeyValueCtxBuilder::on_error`] gets the full error.
//! - **Bounds**: a [`Quota`] for each store and one for all stores of a context together; limits on handles, and on the bytes that they
//!   keep, for each clone of the context, which stands for one guest. The time of a call is not bounded: a `scan.next` whose prefix few
//!   keys have, or a `list-keys` of a store whose keys are not text, walks the whole store inside one host call, which neither fuel nor
//!   epochs stop.
//! - **Batches** are one commit, which is whole or absent after a crash: more than the standard requires. Reads of other guests are not
//!   isolated from it: a `get-many` that runs at the same time may see half of it.
//! - **Counters** are stored as decimal text. A value that is not a number, or a sum outside of the range, is an error, and nothing
//!   changes.
//! - **Compare and swap** (`cas`) compares the version of the record: it fails for a value that was changed and changed back, and for one
//!   that was removed and set again. It succeeds for a key that was absent, set and removed again: absence has no version. Compaction moves
//!   records, which gives them new versions, so a swap may fail though nobody wrote: try again with the handle that the error returns.
//! - **`list-keys`** returns pages of up to 1000 keys in an order that never changes, and ends, however much is written meanwhile. Keys
//!   that are not UTF-8, which `wasi:keyvalue` cannot write, are left out.
//!
//! - **Watchers**: a component that exports `watcher` is told of each key that was set or deleted, by a [`Watcher`].
//!
//! # Which linker function
//!
//! Two versions of the WIT text of `wasi:keyvalue@0.2.0-draft2` are in use under the same name: [`add_to_linker`] serves the one that was
//! published in 2024, [`add_spin_to_linker`] the one of Spin, in which `get-many` answers each key with or without a value. A component
//! that was built against the other text does not instantiate; [`speaks_spin`] tells which one a component needs. Both functions serve
//! `0.2.0-draft` as well.
//!
//! The host functions block: the calling thread waits while a store is opened, and while a set of a store with [`SyncPolicy::EachSet`] is
//! synced. The linker functions whose names end in `_async` add host functions that wait in another thread; they need Wasmtime's `async`
//! calls and a Tokio runtime. Sets that are not synced are written in the calling thread in both cases: handing them over would cost more
//! than the write.
//!
//! No linker function serves imports under names that a program chooses (`implements` in the component model): Wasmtime 50 has them off by
//! default and calls its support a work in progress (`Config::wasm_component_model_implements`), and its own provider of `wasi:keyvalue`
//! does not serve them either. Programs can `open` several stores by name instead.

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
mod watcher;
mod wire;

pub use bucket::Bucket;
pub use client::{
    ClientChanges, ClientConsumer, ClientDb, ClientEventReader, ClientLog, ClientNamespace, ClientSavepoint, ClientScan,
    ClientSnapshot, ClientSnapshotNamespace, ClientSubscription, ClientTransaction,
};
pub use context::{SyncPolicy, WasiKeyValueCtx, WasiKeyValueCtxBuilder};
pub use draft2::Cas;
pub use quota::Quota;
pub use view::WasiKeyValue;
pub use watcher::Watcher;

use pipkin::limits::KEY_LEN_MAX;
use wasmtime::Result;
use wasmtime::component::{Component, Linker, types};

/// The argument of `Store::set_hostcall_fuel` with which a guest may store values of up to `value_bytes` bytes under keys of any length,
/// one value per call.
///
/// ```
/// assert!(pipkin_wasi_host::keyvalue::hostcall_fuel(1 << 30) > 1 << 30);
/// ```
pub const fn hostcall_fuel(value_bytes: usize) -> usize {
    /// Room for names of namespaces and the like, and for Wasmtime's own accounting.
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

/// [`add_to_linker`] for components that were built against Spin's text of `0.2.0-draft2`.
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

/// [`add_to_linker`] with host functions that wait for the device in another thread than the caller's.
///
/// # Errors
///
/// When the linker already has something of these names.
pub fn add_to_linker_async<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    add_to_linker(linker, view)?;
    shadow(linker, view, draft2::add_async_batch_to_linker)
}

/// [`add_spin_to_linker`] with host functions that wait for the device in another thread than the caller's.
///
/// # Errors
///
/// When the linker already has something of these names.
pub fn add_spin_to_linker_async<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    add_spin_to_linker(linker, view)?;
    shadow(linker, view, spin::add_async_batch_to_linker)
}

/// A function that adds a part of an interface to a linker.
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

/// Whether a component was built against Spin's text of `wasi:keyvalue@0.2.0-draft2`, and so needs [`add_spin_to_linker`].
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

/// Serves `pipkin:kv/store` and `pipkin:kv/events` for components of the worlds `client` and `events-client`: keys of bytes, namespaces, commits of
/// many records, scans, event streams.
///
/// # Errors
///
/// When the linker already has something of these names.
pub fn add_client_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    client::add_to_linker(linker, view)?;
    client::add_events_to_linker(linker, view)
}

/// [`add_client_to_linker`] with host functions that wait for the device in another thread than the caller's.
///
/// # Errors
///
/// When the linker already has something of that name.
pub fn add_client_to_linker_async<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    add_client_to_linker(linker, view)?;
    linker.allow_shadowing(true);
    client::add_async_to_linker(linker, view)?;
    client::add_async_changes_to_linker(linker, view)?;
    client::add_async_events_to_linker(linker, view)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Serves `pipkin:kv/admin` to components that may also administer the stores: figures, verification, compaction, backups into other
/// listed names.
///
/// # Errors
///
/// When the linker already has something of that name.
pub fn add_admin_to_linker<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Result<()> {
    client::add_admin_to_linker(linker, view)
}

/// [`add_admin_to_linker`] with host functions that wait in another thread than the caller's.
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
