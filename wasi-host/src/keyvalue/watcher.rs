//! The export `watcher` of `wasi:keyvalue`: a component is told which keys of a store were set and deleted.

use super::bucket::Bucket;
use super::context::WasiKeyValueCtx;
use super::view::WasiKeyValue;
use super::{draft, draft2};
use pipkin::{Change, Changes, Commit, Consumer};
use std::time::Duration;
use wasmtime::component::{Instance, Resource};
use wasmtime::{AsContextMut, Result, format_err};

/// The functions that a component exports, of the draft that it was built for.
enum Exports {
    Draft(draft::wit::WatchService),
    Draft2(draft2::wit::WatchService),
}

/// What was read of a store.
enum Reader {
    FromNow(Changes),
    Named(Consumer),
}

impl Reader {
    fn next(&mut self, wait: Duration) -> pipkin::Result<Option<Commit>> {
        match self {
            Self::FromNow(changes) => changes.next_timeout(wait),
            Self::Named(consumer) => consumer.next_timeout(wait),
        }
    }
}

/// Tells a component that exports `wasi:keyvalue/watcher`, in either draft, of the changes of one store: of those of every guest, and of programs
/// that share the engine with the host.
///
/// Each commit is told once it is durable, key by key in the order of its writes: `on-set` with the value that the commit has written, though there may be a
/// newer one by now, and `on-delete`. Nothing tells of what the standard has no word for: that a store was emptied as a whole, that a record has
/// expired, and keys that are not UTF-8. A function that writes to the store is told of that, too.
///
/// ```no_run
/// use pipkin_wasi_host::keyvalue::{WasiKeyValue, WasiKeyValueCtx, Watcher};
/// use std::time::Duration;
/// use wasmtime::component::{Component, Linker, ResourceTable};
/// use wasmtime::{Engine, Result, Store};
///
/// struct Ctx {
///     table: ResourceTable,
///     keyvalue: WasiKeyValueCtx,
/// }
///
/// fn view(ctx: &mut Ctx) -> WasiKeyValue<'_> {
///     WasiKeyValue::new(&ctx.keyvalue, &mut ctx.table)
/// }
///
/// fn watch(engine: &Engine, linker: &Linker<Ctx>, component: &Component, keyvalue: WasiKeyValueCtx) -> Result<()> {
///     let mut store = Store::new(engine, Ctx { table: ResourceTable::new(), keyvalue });
///     let instance = linker.instantiate(&mut store, component)?;
///     let mut watcher = Watcher::new(&mut store, &instance, view, "orders", Some("mailer"))?;
///     loop {
///         watcher.tell(&mut store, Duration::from_secs(1))?;
///     }
/// }
/// ```
pub struct Watcher<T: 'static> {
    exports: Exports,
    reader: Reader,
    bucket: Bucket,
    view: fn(&mut T) -> WasiKeyValue<'_>,
}

impl<T> std::fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Watcher<T> {
    /// Begins to read the changes of a listed store, from now on. With the name of a `consumer`, the store keeps what the component has not been
    /// told of, also while no process has it open: the next `Watcher` of that name goes on there, and may tell of the last commit a second time.
    ///
    /// # Errors
    ///
    /// When the component exports no `watcher`, the context does not list the store, or the store cannot be opened to write.
    pub fn new(
        mut store: impl AsContextMut<Data = T>,
        instance: &Instance,
        view: fn(&mut T) -> WasiKeyValue<'_>,
        name: &str,
        consumer: Option<&str>,
    ) -> Result<Self> {
        let exports = match draft2::wit::WatchService::new(&mut store, instance) {
            Ok(exports) => Exports::Draft2(exports),
            Err(_) => Exports::Draft(draft::wit::WatchService::new(&mut store, instance)?),
        };
        let bucket = Self::opened(view(store.as_context_mut().data_mut()).ctx, name)?;
        let db = bucket.engine().map_err(|refused| format_err!("{refused:?}"))?;
        let reader = match consumer {
            Some(consumer) => Reader::Named(db.consumer(consumer).namespace("").start()?),
            None => Reader::FromNow(db.changes().namespace("").start()?),
        };
        drop(db);
        Ok(Self { exports, reader, bucket, view })
    }

    fn opened(ctx: &WasiKeyValueCtx, name: &str) -> Result<Bucket> {
        Bucket::find(ctx, name).and_then(Bucket::open).map_err(|refused| format_err!("the store `{name}`: {refused:?}"))
    }

    /// Waits until a commit is durable, at most so long, and calls the component for each key that it has changed. Returns the number of calls. A
    /// store that another process writes is looked at in between.
    ///
    /// # Errors
    ///
    /// [`pipkin::Error::Compacted`] when the component has fallen so far behind that what follows is no longer kept, and what a call of the
    /// component ends with. For a consumer the commit then comes again.
    pub fn tell(&mut self, mut store: impl AsContextMut<Data = T>, wait: Duration) -> Result<usize> {
        let Some(commit) = self.reader.next(wait)? else { return Ok(0) };
        let position = commit.position();
        let mut calls = 0;
        for change in commit.into_changes() {
            let (key, value) = match change {
                Change::Put { key, value, .. } => (key, Some(value)),
                Change::Remove { key, .. } => (key, None),
                _ => continue,
            };
            let Ok(key) = String::from_utf8(key) else { continue };
            self.call(&mut store, &key, value.as_deref())?;
            calls += 1;
        }
        if let Reader::Named(consumer) = &self.reader {
            consumer.ack(position)?;
        }
        Ok(calls)
    }

    fn call(&self, mut store: impl AsContextMut<Data = T>, key: &str, value: Option<&[u8]>) -> Result<()> {
        let bucket: Resource<Bucket> = (self.view)(store.as_context_mut().data_mut()).table.push(self.bucket.clone())?;
        match (&self.exports, value) {
            (Exports::Draft(exports), Some(value)) => exports.wasi_keyvalue_watcher().call_on_set(&mut store, bucket, key, value),
            (Exports::Draft(exports), None) => exports.wasi_keyvalue_watcher().call_on_delete(&mut store, bucket, key),
            (Exports::Draft2(exports), Some(value)) => {
                exports.wasi_keyvalue_watcher().call_on_set(&mut store, bucket, key, value)
            }
            (Exports::Draft2(exports), None) => exports.wasi_keyvalue_watcher().call_on_delete(&mut store, bucket, key),
        }
    }
}
