//! The readers of changes of `pipkin:kv/store` with functions that wait for the device in another thread. `next` is not among them: it reads,
//! as `get` and walks do, and waits for nobody.

use super::add_async::methods;
use super::wit::pipkin::kv::types::{ChangesOptions, Error, Position};
use super::{ClientChanges, ClientConsumer, ClientDb, ClientSnapshot, lost};
use crate::keyvalue::off_thread::{Later, off_thread};
use crate::keyvalue::view::WasiKeyValue;
use wasmtime::component::{Linker, LinkerInstance, Resource};
use wasmtime::{Result as Outcome, StoreContextMut};

/// A snapshot, and a reader of what comes after it.
type WithState<T> = (Resource<ClientSnapshot>, Resource<T>);

/// Replaces the functions that wait for the device by ones that wait in another thread.
pub(in crate::keyvalue) fn add_async_changes_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> WasiKeyValue<'_>,
) -> Outcome<()> {
    let mut instance = linker.instance("pipkin:kv/store@0.1.0")?;
    add_with_state(&mut instance, view)?;
    instance.func_wrap_async(
        "[method]db.consumer",
        move |mut store: StoreContextMut<'_, T>,
              (db, name, options): (Resource<ClientDb>, String, ChangesOptions)|
              -> Later<'_, (Result<Resource<ClientConsumer>, Error>,)> {
            let begin = view(store.data_mut()).reader(&db, &options);
            Box::new(async move {
                let work = move || begin.and_then(|(db, kept)| db.consumer(&name, options, kept));
                let consumer = off_thread(true, work).await;
                Ok((consumer.and_then(|consumer| view(store.data_mut()).table.push(consumer).map_err(lost)),))
            })
        },
    )?;
    methods!(instance, view, ClientDb:
        "[method]db.remove-consumer"(name: String) -> bool, |_| true, |db, name| db.remove_consumer(&name);
    );
    methods!(instance, view, ClientConsumer:
        "[method]consumer.ack"(position: Position) -> (), |consumer| consumer.waits(), |consumer, position| consumer.ack(position.into());
    );
    Ok(())
}

/// The readers that begin with the present state, which is made durable first.
fn add_with_state<T: Send + 'static>(instance: &mut LinkerInstance<'_, T>, view: fn(&mut T) -> WasiKeyValue<'_>) -> Outcome<()> {
    instance.func_wrap_async(
        "[method]db.changes-with-state",
        move |mut store: StoreContextMut<'_, T>,
              (db, options): (Resource<ClientDb>, ChangesOptions)|
              -> Later<'_, (Result<WithState<ClientChanges>, Error>,)> {
            let begin = view(store.data_mut()).reader_and_snapshot(&db, &options);
            Box::new(async move {
                let work = move || begin.and_then(|(db, kept)| db.changes_with_state(options, kept));
                let begun = off_thread(true, work).await;
                Ok((view(store.data_mut()).with_state(begun),))
            })
        },
    )?;
    instance.func_wrap_async(
        "[method]db.consumer-with-state",
        move |mut store: StoreContextMut<'_, T>,
              (db, name, options): (Resource<ClientDb>, String, ChangesOptions)|
              -> Later<'_, (Result<WithState<ClientConsumer>, Error>,)> {
            let begin = view(store.data_mut()).reader_and_snapshot(&db, &options);
            Box::new(async move {
                let work = move || begin.and_then(|(db, kept)| db.consumer_with_state(&name, options, kept));
                let begun = off_thread(true, work).await;
                Ok((view(store.data_mut()).with_state(begun),))
            })
        },
    )
}
