//! Implements the interface `events` for Wasmtime: looks handles up in the resource table of the embedder and calls their methods.

use super::events::Items;
use super::wit::pipkin::kv::events::{self, Appended, CursorState, Event, NewEvent, Page, QueryItem, Retention, Selection};
use super::wit::pipkin::kv::types::{Error, Expected};
use super::{ClientDb, ClientEventReader, ClientLog, ClientSubscription, ClientTransaction, lost, over_quota};
use crate::keyvalue::context::Kept;
use crate::keyvalue::view::{View, WasiKeyValue};
use wasmtime::Result as Outcome;
use wasmtime::component::{Linker, Resource};

pub(in crate::keyvalue) fn add_events_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> WasiKeyValue<'_>,
) -> Outcome<()> {
    events::add_to_linker::<_, View>(linker, view)
}

type Own = Resource<ClientLog>;

/// What the items of a query name.
pub(super) fn items(query: Vec<QueryItem>) -> Items {
    query.into_iter().map(|item| (item.kinds, item.tags)).collect()
}

impl WasiKeyValue<'_> {
    fn log(&self, log: &Own) -> Result<&ClientLog, Error> {
        self.table.get(log).map_err(lost)
    }

    /// A store, and the count of a log that is to be opened in it.
    pub(super) fn log_to_open(&self, db: &Resource<ClientDb>, name: &str) -> Result<(ClientDb, Kept), Error> {
        Ok((self.db(db)?.clone(), self.ctx.keep(name.len()).map_err(over_quota)?))
    }

    /// A log, and the count of what is to read it.
    pub(super) fn log_to_read(&self, log: &Own, selection: &Selection) -> Result<(ClientLog, Kept), Error> {
        let of_item =
            |item: &QueryItem| item.kinds.iter().chain(&item.tags).map(|text| text.len() + size_of::<String>()).sum::<usize>();
        let asked_for = match selection {
            Selection::All => 0,
            Selection::InStream(text) | Selection::OfKind(text) | Selection::Tagged(text) => text.len(),
            Selection::Matching(items) => items.iter().map(of_item).sum::<usize>(),
        };
        Ok((self.log(log)?.clone(), self.ctx.keep(asked_for).map_err(over_quota)?))
    }

    /// A transaction, and the log or subscription that a call of it works with.
    fn with_transaction<T: Clone + 'static>(
        &mut self,
        handle: &Resource<T>,
        transaction: &Resource<ClientTransaction>,
    ) -> Result<(T, &mut ClientTransaction), Error> {
        let handle = self.table.get(handle).map_err(lost)?.clone();
        Ok((handle, self.table.get_mut(transaction).map_err(lost)?))
    }
}

impl events::Host for WasiKeyValue<'_> {
    fn logs(&mut self, db: Resource<ClientDb>) -> Result<Vec<String>, Error> {
        self.db(&db)?.logs()
    }
}

impl events::HostLog for WasiKeyValue<'_> {
    fn open(&mut self, db: Resource<ClientDb>, name: String) -> Result<Own, Error> {
        let (store, kept) = self.log_to_open(&db, &name)?;
        let log = store.log(&name, kept)?;
        self.table.push(log).map_err(lost)
    }

    fn append(&mut self, log: Own, stream: String, expected: Expected, events: Vec<NewEvent>) -> Result<Appended, Error> {
        self.log(&log)?.append(&stream, expected, &events)
    }

    fn append_if(
        &mut self,
        log: Own,
        query: Vec<QueryItem>,
        after: u64,
        stream: String,
        events: Vec<NewEvent>,
    ) -> Result<Appended, Error> {
        self.log(&log)?.append_if(items(query), after, &stream, &events)
    }

    fn append_in(
        &mut self,
        log: Own,
        transaction: Resource<ClientTransaction>,
        stream: String,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<(), Error> {
        let (log, transaction) = self.with_transaction(&log, &transaction)?;
        log.append_in(transaction, stream, expected, &events)
    }

    fn get(&mut self, log: Own, stream: String, version: u64) -> Result<Option<Event>, Error> {
        self.log(&log)?.get(&stream, version)
    }

    fn get_by_number(&mut self, log: Own, number: u64) -> Result<Option<Event>, Error> {
        self.log(&log)?.get_by_number(number)
    }

    fn version(&mut self, log: Own, stream: String) -> Result<u64, Error> {
        self.log(&log)?.read_log(|log| log.version(&stream))
    }

    fn last_number(&mut self, log: Own) -> Result<u64, Error> {
        self.log(&log)?.read_log(pipkin::Events::last_number)
    }

    fn read(&mut self, log: Own, selection: Selection, from: u64, backwards: bool) -> Result<Resource<ClientEventReader>, Error> {
        let (log, kept) = self.log_to_read(&log, &selection)?;
        let walk = log.walk(selection, from, backwards, kept)?;
        self.table.push(walk).map_err(lost)
    }

    fn follow(&mut self, log: Own, selection: Selection, after: u64) -> Result<Resource<ClientSubscription>, Error> {
        let (log, kept) = self.log_to_read(&log, &selection)?;
        let subscription = log.follow(selection, after, kept)?;
        self.table.push(subscription).map_err(lost)
    }

    fn cursor(
        &mut self,
        log: Own,
        name: String,
        selection: Selection,
        after: u64,
    ) -> Result<Resource<ClientSubscription>, Error> {
        let (log, kept) = self.log_to_read(&log, &selection)?;
        let subscription = log.cursor(&name, selection, after, kept)?;
        self.table.push(subscription).map_err(lost)
    }

    fn cursors(&mut self, log: Own) -> Result<Vec<CursorState>, Error> {
        let known = self.log(&log)?.read_log(pipkin::Events::cursors)?;
        Ok(known.into_iter().map(|(name, number)| CursorState { name, number }).collect())
    }

    fn remove_cursor(&mut self, log: Own, name: String) -> Result<bool, Error> {
        self.log(&log)?.remove(|log| log.remove_cursor(&name))
    }

    fn truncate(&mut self, log: Own, stream: String, before: u64) -> Result<u64, Error> {
        self.log(&log)?.remove(|log| log.truncate(&stream, before))
    }

    fn keep_last(&mut self, log: Own, stream: String, count: u64) -> Result<u64, Error> {
        self.log(&log)?.remove(|log| log.keep_last(&stream, count))
    }

    fn delete_stream(&mut self, log: Own, stream: String) -> Result<u64, Error> {
        self.log(&log)?.remove(|log| log.delete_stream(&stream))
    }

    fn remove_before(&mut self, log: Own, time_ms: u64) -> Result<u64, Error> {
        self.log(&log)?.remove(|log| log.remove_before_ms(time_ms))
    }

    fn set_retention(&mut self, log: Own, retention: Retention) -> Result<(), Error> {
        self.log(&log)?.remove(|log| log.set_retention(retention.into()))
    }

    fn retention(&mut self, log: Own) -> Result<Retention, Error> {
        self.log(&log)?.read_log(|log| Ok(log.retention().into()))
    }

    fn retain(&mut self, log: Own) -> Result<u64, Error> {
        self.log(&log)?.remove(pipkin::Events::retain)
    }

    fn drop(&mut self, log: Own) -> Outcome<()> {
        self.table.delete(log)?;
        Ok(())
    }
}

impl events::HostReader for WasiKeyValue<'_> {
    fn next(&mut self, reader: Resource<ClientEventReader>, max_events: u32, max_bytes: u32) -> Result<Vec<Event>, Error> {
        self.table.get_mut(&reader).map_err(lost)?.page(max_events, max_bytes)
    }

    fn drop(&mut self, reader: Resource<ClientEventReader>) -> Outcome<()> {
        self.table.delete(reader)?;
        Ok(())
    }
}

impl events::HostSubscription for WasiKeyValue<'_> {
    fn next(&mut self, subscription: Resource<ClientSubscription>, max_events: u32, max_bytes: u32) -> Result<Page, Error> {
        self.table.get(&subscription).map_err(lost)?.page(max_events, max_bytes)
    }

    fn number(&mut self, subscription: Resource<ClientSubscription>) -> Outcome<u64> {
        Ok(self.table.get(&subscription)?.number())
    }

    fn ack(&mut self, subscription: Resource<ClientSubscription>, number: u64) -> Result<(), Error> {
        self.table.get(&subscription).map_err(lost)?.ack(number)
    }

    fn ack_in(
        &mut self,
        subscription: Resource<ClientSubscription>,
        transaction: Resource<ClientTransaction>,
        number: u64,
    ) -> Result<(), Error> {
        let (subscription, transaction) = self.with_transaction(&subscription, &transaction)?;
        subscription.ack_in(transaction, number)
    }

    fn drop(&mut self, subscription: Resource<ClientSubscription>) -> Outcome<()> {
        self.table.delete(subscription)?;
        Ok(())
    }
}
