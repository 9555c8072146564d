//! A guest's handles to a log of events and to a walk over it, and their operations.

use super::wit::pipkin::kv::events::{Appended, Event, NewEvent, Selection};
use super::wit::pipkin::kv::types::{Error, Expected};
use super::{ClientDb, ClientSubscription, ClientTransaction, over_quota};
use crate::keyvalue::context::Kept;
use crate::keyvalue::quota::{Admitted, Failure};
use crate::keyvalue::store_file::Call;
use pipkin::{Error as Native, EventReader, Events, NewEvent as NewNative};
use pipkin_wasi_shared::{EventPages, TOO_MANY_CURSORS, condition, has_room_for_cursor};
use std::sync::Arc;

/// Kinds and tags: what a query item names.
pub(super) type Items = Vec<(Vec<String>, Vec<String>)>;

/// A guest's handle to a log of events, in the resource table of the embedder.
#[derive(Clone)]
pub struct ClientLog {
    events: Events,
    pub(super) store: ClientDb,
    _kept: Arc<Kept>,
}

fn native(events: &[NewEvent]) -> impl Iterator<Item = NewNative<'_>> {
    events.iter().map(Into::into)
}

/// The entries of the index that events make at most: one for each stream, kind and tag.
fn entries(events: &[NewEvent]) -> usize {
    1 + events.iter().map(|event| 2 + event.tags.len()).sum::<usize>()
}

/// An append needs room for its events as for new records, and memory for their entries.
fn admit<'a>(db: &Call<'a>, events: &[NewEvent]) -> Result<Admitted<'a>, Failure> {
    db.admit(entries(events), || Ok(events.len() as u64))
}

/// What events take in the memory of a transaction, about.
fn bytes_of(events: &[NewEvent]) -> usize {
    let of_tags = |tags: &[String]| tags.iter().map(|tag| tag.len() + 32).sum::<usize>();
    events.iter().map(|event| 128 + event.kind.len() + event.payload.len() + event.metadata.len() + of_tags(&event.tags)).sum()
}

impl ClientDb {
    /// Writes, and makes the write durable. The host hears of errors, but of those that are answers.
    pub(super) fn write_events<'a, T>(
        &'a self,
        admit: impl FnOnce(&Call<'a>) -> Result<Admitted<'a>, Failure>,
        write: impl Fn() -> pipkin::Result<T>,
    ) -> Result<T, Error> {
        self.writable()?;
        let db = self.engine.call()?;
        let admitted = admit(&db)?;
        let written = db.limits().with_room(&db, || write().map_err(Failure::from)).map_err(|failure| match failure {
            Failure::Engine(
                answer @ (Native::AppendRefused { .. }
                | Native::CursorTaken
                | Native::InvalidArgument(_)
                | Native::ValueTooLong { .. }
                | Native::NoClock
                | Native::Nested),
            ) => answer.into(),
            failure => self.entry.failed(failure, db.limits()),
        })?;
        drop(admitted);
        self.settle(&db, self.durability)?;
        Ok(written)
    }

    pub(super) fn logs(&self) -> Result<Vec<String>, Error> {
        Ok(self.engine.call()?.list_events())
    }

    pub(super) fn log(&self, name: &str, kept: Kept) -> Result<ClientLog, Error> {
        let db = self.engine.call()?;
        let _names = db.names();
        let is_there = db.list_events().iter().any(|known| known == name);
        if !is_there {
            self.writable()?;
            db.limits().admit_namespace(&db)?;
        }
        let events = db.limits().with_room(&db, || db.events(name).map_err(Failure::from)).map_err(|failure| match failure {
            Failure::Engine(answer @ (Native::NamespaceName { .. } | Native::InvalidArgument(_))) => answer.into(),
            failure => self.entry.failed(failure, db.limits()),
        })?;
        if !is_there {
            self.settle(&db, self.durability)?;
        }
        Ok(ClientLog { events, store: self.clone(), _kept: Arc::new(kept) })
    }
}

impl ClientLog {
    pub(super) fn read_log<T>(&self, read: impl FnOnce(&Events) -> pipkin::Result<T>) -> Result<T, Error> {
        let _in = self.store.engine.call()?;
        Ok(read(&self.events)?)
    }

    pub(super) fn append(&self, stream: &str, expected: Expected, events: &[NewEvent]) -> Result<Appended, Error> {
        let append = || self.events.append(stream, expected.into(), native(events));
        Ok(self.store.write_events(|db| admit(db, events), append)?.into())
    }

    pub(super) fn append_if(&self, query: Items, after: u64, stream: &str, events: &[NewEvent]) -> Result<Appended, Error> {
        let condition = condition(query, after)?;
        let append = || self.events.append_if(&condition, stream, native(events));
        Ok(self.store.write_events(|db| admit(db, events), append)?.into())
    }

    pub(super) fn append_in(
        &self,
        transaction: &mut ClientTransaction,
        stream: String,
        expected: Expected,
        events: &[NewEvent],
    ) -> Result<(), Error> {
        let more = stream.len().saturating_add(bytes_of(events));
        transaction.append(more, (entries(events), events.len()), |transaction| {
            transaction.append(&self.events, stream, expected.into(), native(events))
        })
    }

    pub(super) fn get(&self, stream: &str, version: u64) -> Result<Option<Event>, Error> {
        Ok(self.read_log(|log| log.get(stream, version))?.map(Into::into))
    }

    pub(super) fn get_by_number(&self, number: u64) -> Result<Option<Event>, Error> {
        Ok(self.read_log(|log| log.get_by_number(number))?.map(Into::into))
    }

    pub(super) fn walk(
        &self,
        selection: Selection,
        from: u64,
        backwards: bool,
        mut kept: Kept,
    ) -> Result<ClientEventReader, Error> {
        let pages = self.read_log(|log| EventPages::new(log, selection.into(), from, backwards))?;
        kept.reserve(pages.memory_bytes()).map_err(over_quota)?;
        Ok(ClientEventReader { pages, store: self.store.clone(), kept })
    }

    fn reader(&self, selection: Selection, after: u64) -> Result<EventReader, Error> {
        self.read_log(|log| Ok(pipkin_wasi_shared::Selection::from(selection).of(log)?.from(after.saturating_add(1))))
    }

    pub(super) fn follow(&self, selection: Selection, after: u64, kept: Kept) -> Result<ClientSubscription, Error> {
        let reader = self.reader(selection, after)?;
        let subscription = self.read_log(|_| reader.follow())?;
        Ok(ClientSubscription::new(subscription, self.store.clone(), kept))
    }

    pub(super) fn cursor(&self, name: &str, selection: Selection, after: u64, kept: Kept) -> Result<ClientSubscription, Error> {
        self.store.writable()?;
        let reader = self.reader(selection, after)?;
        if !self.read_log(|log| has_room_for_cursor(log, name))? {
            return Err(over_quota(TOO_MANY_CURSORS));
        }
        let subscription = self.store.write_events(|_| Ok(Admitted::none()), || reader.cursor(name))?;
        Ok(ClientSubscription::new(subscription, self.store.clone(), kept))
    }

    /// A call that writes and makes no entry of the index.
    pub(super) fn remove<T>(&self, remove: impl Fn(&Events) -> pipkin::Result<T>) -> Result<T, Error> {
        self.store.write_events(|_| Ok(Admitted::none()), || remove(&self.events))
    }
}

/// A guest's walk over events, in the resource table of the embedder.
pub struct ClientEventReader {
    pages: EventPages,
    store: ClientDb,
    kept: Kept,
}

impl ClientEventReader {
    pub(super) fn page(&mut self, max_events: u32, max_bytes: u32) -> Result<Vec<Event>, Error> {
        let Self { pages, store, kept } = self;
        let _in = store.engine.call()?;
        let page = pages.page(max_events, max_bytes, || Ok::<(), Error>(()));
        kept.set(pages.memory_bytes());
        Ok(page?.into_iter().map(Into::into).collect())
    }
}
