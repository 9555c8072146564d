//! `pipkin:kv/events` with functions that wait for the device in another thread. Reads are not among them: they wait for nobody.

use super::add_async::methods;
use super::serve_events::items;
use super::wit::pipkin::kv::events::{Appended, NewEvent, QueryItem, Retention, Selection};
use super::wit::pipkin::kv::types::{Error, Expected};
use super::{ClientDb, ClientLog, ClientSubscription, lost};
use crate::keyvalue::off_thread::{Later, off_thread};
use crate::keyvalue::view::WasiKeyValue;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result as Outcome, StoreContextMut};

/// Replaces the functions that wait for the device by ones that wait in another thread.
pub(in crate::keyvalue) fn add_async_events_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> WasiKeyValue<'_>,
) -> Outcome<()> {
    let mut instance = linker.instance("pipkin:kv/events@0.1.0")?;
    instance.func_wrap_async(
        "[static]log.open",
        move |mut store: StoreContextMut<'_, T>,
              (db, name): (Resource<ClientDb>, String)|
              -> Later<'_, (Result<Resource<ClientLog>, Error>,)> {
            let begin = view(store.data_mut()).log_to_open(&db, &name);
            Box::new(async move {
                let log = off_thread(true, move || begin.and_then(|(db, kept)| db.log(&name, kept))).await;
                Ok((log.and_then(|log| view(store.data_mut()).table.push(log).map_err(lost)),))
            })
        },
    )?;
    instance.func_wrap_async(
        "[method]log.cursor",
        move |mut store: StoreContextMut<'_, T>,
              (log, name, selection, after): (Resource<ClientLog>, String, Selection, u64)|
              -> Later<'_, (Result<Resource<ClientSubscription>, Error>,)> {
            let begin = view(store.data_mut()).log_to_read(&log, &selection);
            Box::new(async move {
                let work = move || begin.and_then(|(log, kept)| log.cursor(&name, selection, after, kept));
                let subscription = off_thread(true, work).await;
                Ok((subscription.and_then(|subscription| view(store.data_mut()).table.push(subscription).map_err(lost)),))
            })
        },
    )?;
    methods!(instance, view, ClientLog:
        "[method]log.append"(stream: String, expected: Expected, events: Vec<NewEvent>) -> Appended, |log| log.store.waits(),
            |log, stream, expected, events| log.append(&stream, expected, &events);
        "[method]log.append-if"(query: Vec<QueryItem>, after: u64, stream: String, events: Vec<NewEvent>) -> Appended,
            |log| log.store.waits(), |log, query, after, stream, events| log.append_if(items(query), after, &stream, &events);
        "[method]log.remove-cursor"(name: String) -> bool, |log| log.store.waits(), |log, name| log.remove(|log| log.remove_cursor(&name));
        "[method]log.truncate"(stream: String, before: u64) -> u64, |_| true, |log, stream, before| log.remove(|log| log.truncate(&stream, before));
        "[method]log.keep-last"(stream: String, count: u64) -> u64, |_| true, |log, stream, count| log.remove(|log| log.keep_last(&stream, count));
        "[method]log.delete-stream"(stream: String) -> u64, |_| true, |log, stream| log.remove(|log| log.delete_stream(&stream));
        "[method]log.remove-before"(time: u64) -> u64, |_| true, |log, time| log.remove(|log| log.remove_before_ms(time));
        "[method]log.set-retention"(retention: Retention) -> (), |log| log.store.waits(), |log, retention| log.remove(|log| log.set_retention(retention.into()));
        "[method]log.retain"() -> u64, |_| true, |log| log.remove(pipkin::Events::retain);
    );
    methods!(instance, view, ClientSubscription:
        "[method]subscription.ack"(number: u64) -> (), |subscription| subscription.waits(), |subscription, number| subscription.ack(number);
    );
    Ok(())
}
