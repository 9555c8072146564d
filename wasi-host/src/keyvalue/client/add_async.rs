//! `pipkin:kv/store` with functions that wait for the device in another thread.

use super::wit::pipkin::kv::store::Options;
use super::wit::pipkin::kv::types::{Compression, Durability, Error, Op, Packed, Position, Ttl, Version};
use super::{ClientDb, ClientNamespace, ClientTransaction, lost};
use crate::keyvalue::off_thread::{Later, off_thread};
use crate::keyvalue::view::WasiKeyValue;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result as Outcome, StoreContextMut};

/// Adds methods of a handle that may wait for a device, off the thread of the caller when they `$waits`.
macro_rules! methods {
    ($instance:ident, $view:ident, $kind:ty: $($name:literal ($($given:ident: $type:ty),*) -> $answer:ty, $waits:expr, $work:expr;)*) => {
        $($instance.func_wrap_async(
            $name,
            move |mut store: StoreContextMut<'_, T>,
                  (handle, $($given,)*): (Resource<$kind>, $($type,)*)|
                  -> Later<'_, (Result<$answer, Error>,)> {
                let handle = $view(store.data_mut()).table.get(&handle).cloned().map_err(lost);
                Box::new(async move {
                    let waits: &dyn Fn(&$kind) -> bool = &$waits;
                    let waits = handle.as_ref().is_ok_and(waits);
                    let work = move || {
                        let work: &dyn Fn(&$kind, $($type),*) -> Result<$answer, Error> = &$work;
                        work(&handle?, $($given),*)
                    };
                    Ok((off_thread(waits, work).await,))
                })
            },
        )?;)*
    };
}
pub(super) use methods;

/// Replaces the functions that wait for the device by ones that wait in another thread.
pub(in crate::keyvalue) fn add_async_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> WasiKeyValue<'_>,
) -> Outcome<()> {
    let mut instance = linker.instance("pipkin:kv/store@0.1.0")?;
    instance.func_wrap_async(
        "[static]db.open",
        move |mut store: StoreContextMut<'_, T>,
              (name, options): (String, Options)|
              -> Later<'_, (Result<Resource<ClientDb>, Error>,)> {
            let found = view(store.data_mut()).find(&name);
            Box::new(async move {
                let db = off_thread(true, move || ClientDb::open(found?, options)).await;
                Ok((db.and_then(|db| view(store.data_mut()).table.push(db).map_err(lost)),))
            })
        },
    )?;
    instance.func_wrap_async(
        "[static]db.close",
        move |mut store: StoreContextMut<'_, T>, (db,): (Resource<ClientDb>,)| -> Later<'_, (Result<(), Error>,)> {
            let db = view(store.data_mut()).table.delete(db).map_err(lost);
            Box::new(async move { Ok((off_thread(true, move || db?.close()).await,)) })
        },
    )?;
    instance.func_wrap_async(
        "[static]transaction.commit",
        move |mut store: StoreContextMut<'_, T>,
              (transaction,): (Resource<ClientTransaction>,)|
              -> Later<'_, (Result<Position, Error>,)> {
            let transaction = view(store.data_mut()).table.delete(transaction).map_err(lost);
            let waits = transaction.as_ref().is_ok_and(ClientTransaction::waits);
            Box::new(async move { Ok((off_thread(waits, move || transaction?.commit()).await,)) })
        },
    )?;
    instance.func_wrap_async(
        "[static]transaction.commit-durably",
        move |mut store: StoreContextMut<'_, T>,
              (transaction,): (Resource<ClientTransaction>,)|
              -> Later<'_, (Result<Durability, Error>,)> {
            let transaction = view(store.data_mut()).table.delete(transaction).map_err(lost);
            Box::new(async move { Ok((off_thread(true, move || transaction?.commit_durably()).await,)) })
        },
    )?;
    methods!(instance, view, ClientDb:
        "[method]db.refresh"() -> bool, |_| true, |db| db.refresh();
        "[method]db.drop-namespace"(name: String) -> bool, |db| db.waits(), |db, name| db.drop_namespace(&name);
        "[method]db.write"(ops: Vec<Op>, durability: Durability) -> (), move |db| db.waits_for(durability),
            |db, ops, durability| db.write_all(&ops, durability);
        "[method]db.flush"(durability: Durability) -> Durability, move |db| db.waits_for(durability), |db, durability| db.flush(durability);
        "[method]db.flush-to"(position: Position) -> Durability, |_| true, |db, position| db.flush_to(position);
    );
    methods!(instance, view, ClientNamespace:
        "[method]namespace.put"(key: Vec<u8>, value: Vec<u8>) -> (), |space| space.store.waits(), |space, key, value| space.put(&key, &value);
        "[method]namespace.put-with-ttl"(key: Vec<u8>, value: Vec<u8>, ttl: Ttl) -> (), |space| space.store.waits(),
            |space, key, value, ttl| space.put_with_ttl(&key, &value, ttl);
        "[method]namespace.persist"(key: Vec<u8>) -> bool, |space| space.store.waits(), |space, key| space.persist(&key);
        "[method]namespace.set-default-ttl"(ttl: Option<u64>) -> (), |space| space.store.waits(), |space, ttl| space.set_default_ttl(ttl);
        "[method]namespace.set-compression"(compression: Compression) -> (), |space| space.store.waits(),
            |space, compression| space.set_compression(compression);
        "[method]namespace.put-packed"(packed: Packed, durability: Durability) -> (), move |space| space.store.waits_for(durability),
            |space, packed, durability| space.put_packed(&packed, durability);
        "[method]namespace.delete"(key: Vec<u8>) -> bool, |space| space.store.waits(), |space, key| space.delete(&key);
        "[method]namespace.compare-and-swap"(key: Vec<u8>, expected: Option<Vec<u8>>, new: Option<Vec<u8>>) -> bool,
            |space| space.store.waits(), |space, key, expected, new| space.swap(&key, expected.as_deref(), new.as_deref());
        "[method]namespace.compare-version-and-swap"(key: Vec<u8>, expected: Option<Version>, new: Option<Vec<u8>>) -> bool,
            |space| space.store.waits(), |space, key, expected, new| space.swap_version(&key, expected, new.as_deref());
        "[method]namespace.delete-group"(name: Vec<u8>) -> u64, |space| space.store.waits(), |space, name| space.delete_group(&name);
        "[method]namespace.clear"() -> (), |space| space.store.waits(), |space| space.clear();
    );
    Ok(())
}
