//! The interface `events`.

use crate::Component;
use crate::bindings::exports::pipkin::kv::events::{
    Appended, CursorState, DbBorrow, Event, Guest, GuestLog, GuestReader, GuestSubscription, Log, NewEvent, Page, QueryItem,
    Reader, Retention, Selection, Subscription, TransactionBorrow,
};
use crate::bindings::exports::pipkin::kv::types::{Durability, Error, Expected, Reason};
use crate::kept::Kept;
use crate::open::Open;
use crate::store::Handle;
use crate::transactions::InMemory;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use pipkin::{EventReader, Events};
use pipkin_wasi_shared::{EventPages, Following, TOO_MANY_CURSORS, condition, has_room_for_cursor};

impl Guest for Component {
    type Log = LogOf;
    type Reader = Walk;
    type Subscription = Follower;

    fn logs(db: DbBorrow<'_>) -> Result<Vec<String>, Error> {
        Ok(db.get::<Handle>().open.db()?.list_events())
    }
}

/// A log, as one handle has opened it.
pub(crate) struct LogOf {
    events: Events,
    open: Arc<Open>,
    durability: Durability,
}

/// What these events take in the memory of a transaction, about.
fn bytes_of(events: &[NewEvent]) -> usize {
    let of_tags = |tags: &[String]| tags.iter().map(|tag| tag.len() + 32).sum::<usize>();
    events.iter().map(|event| 128 + event.kind.len() + event.payload.len() + event.metadata.len() + of_tags(&event.tags)).sum()
}

fn items(query: Vec<QueryItem>) -> Vec<(Vec<String>, Vec<String>)> {
    query.into_iter().map(|item| (item.kinds, item.tags)).collect()
}

impl LogOf {
    /// The engine's handle, for one call of it.
    fn events(&self) -> Result<&Events, Error> {
        self.open.end_call()?;
        Ok(&self.events)
    }

    /// A call of the engine that may write.
    fn write<T>(&self, call: impl FnOnce(&Events) -> pipkin::Result<T>) -> Result<T, Error> {
        self.open.writable()?;
        let answer = call(self.events()?)?;
        self.open.settle(self.durability)?;
        Ok(answer)
    }

    fn reader(&self, selection: Selection, after: u64) -> Result<EventReader, Error> {
        Ok(pipkin_wasi_shared::Selection::from(selection).of(self.events()?)?.from(after.saturating_add(1)))
    }

    fn subscribed(&self, subscription: pipkin::Subscription) -> Subscription {
        let following = RefCell::new(Following::new(subscription));
        Subscription::new(Follower { following, open: self.open.clone(), durability: self.durability })
    }
}

impl GuestLog for LogOf {
    fn open(db: DbBorrow<'_>, name: String) -> Result<Log, Error> {
        let db = db.get::<Handle>();
        let events = db.open.db()?.events(&name)?;
        // Creating a log writes its name.
        db.settle()?;
        Ok(Log::new(Self { events, open: db.open.clone(), durability: db.durability }))
    }

    fn append(&self, stream: String, expected: Expected, events: Vec<NewEvent>) -> Result<Appended, Error> {
        Ok(self.write(|log| log.append(&stream, expected.into(), events.iter().map(Into::into)))?.into())
    }

    fn append_if(&self, query: Vec<QueryItem>, after: u64, stream: String, events: Vec<NewEvent>) -> Result<Appended, Error> {
        let condition = condition(items(query), after)?;
        Ok(self.write(|log| log.append_if(&condition, &stream, events.iter().map(Into::into)))?.into())
    }

    fn append_in(
        &self,
        transaction: TransactionBorrow<'_>,
        stream: String,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<(), Error> {
        let log = self.events()?;
        let more = stream.len().saturating_add(bytes_of(&events));
        let append = |transaction: &mut pipkin::Transaction| {
            transaction.append(log, stream, expected.into(), events.iter().map(Into::into))
        };
        transaction.get::<InMemory>().run(more, append)
    }

    fn get(&self, stream: String, version: u64) -> Result<Option<Event>, Error> {
        Ok(self.events()?.get(&stream, version)?.map(Into::into))
    }

    fn get_by_number(&self, number: u64) -> Result<Option<Event>, Error> {
        Ok(self.events()?.get_by_number(number)?.map(Into::into))
    }

    fn version(&self, stream: String) -> Result<u64, Error> {
        Ok(self.events()?.version(&stream)?)
    }

    fn last_number(&self) -> Result<u64, Error> {
        Ok(self.events()?.last_number()?)
    }

    fn read(&self, selection: Selection, from: u64, backwards: bool) -> Result<Reader, Error> {
        let pages = EventPages::new(self.events()?, selection.into(), from, backwards)?;
        let kept = Kept::new();
        kept.admit(pages.memory_bytes(), 0)?;
        Ok(Reader::new(Walk { pages: RefCell::new(pages), kept, open: self.open.clone() }))
    }

    fn follow(&self, selection: Selection, after: u64) -> Result<Subscription, Error> {
        Ok(self.subscribed(self.reader(selection, after)?.follow()?))
    }

    fn cursor(&self, name: String, selection: Selection, after: u64) -> Result<Subscription, Error> {
        self.open.writable()?;
        let reader = self.reader(selection, after)?;
        if !has_room_for_cursor(self.events()?, &name)? {
            return Err(Error { reason: Reason::Quota, message: TOO_MANY_CURSORS.to_string() });
        }
        Ok(self.subscribed(self.write(|_| reader.cursor(name))?))
    }

    fn cursors(&self) -> Result<Vec<CursorState>, Error> {
        let known = self.events()?.cursors()?;
        Ok(known.into_iter().map(|(name, number)| CursorState { name, number }).collect())
    }

    fn remove_cursor(&self, name: String) -> Result<bool, Error> {
        self.write(|log| log.remove_cursor(&name))
    }

    fn truncate(&self, stream: String, before: u64) -> Result<u64, Error> {
        self.write(|log| log.truncate(&stream, before))
    }

    fn keep_last(&self, stream: String, count: u64) -> Result<u64, Error> {
        self.write(|log| log.keep_last(&stream, count))
    }

    fn delete_stream(&self, stream: String) -> Result<u64, Error> {
        self.write(|log| log.delete_stream(&stream))
    }

    fn remove_before(&self, time_ms: u64) -> Result<u64, Error> {
        self.write(|log| log.remove_before_ms(time_ms))
    }

    fn set_retention(&self, retention: Retention) -> Result<(), Error> {
        self.write(|log| log.set_retention(retention.into()))
    }

    fn retention(&self) -> Result<Retention, Error> {
        Ok(self.events()?.retention().into())
    }

    fn retain(&self) -> Result<u64, Error> {
        self.write(Events::retain)
    }
}

/// A walk over events, and the store that it reads. Declared in this order: the walk ends before the store may close.
pub(crate) struct Walk {
    pages: RefCell<EventPages>,
    kept: Kept,
    open: Arc<Open>,
}

impl GuestReader for Walk {
    fn next(&self, max_events: u32, max_bytes: u32) -> Result<Vec<Event>, Error> {
        let pages = &mut *self.pages.borrow_mut();
        let page = pages.page(max_events, max_bytes, || Ok::<(), Error>(self.open.end_call()?));
        self.kept.count(pages.memory_bytes());
        Ok(page?.into_iter().map(Into::into).collect())
    }
}

/// A subscription, and the store that it is of. Declared in this order: it ends before the store may close.
pub(crate) struct Follower {
    following: RefCell<Following>,
    open: Arc<Open>,
    durability: Durability,
}

impl GuestSubscription for Follower {
    fn next(&self, max_events: u32, max_bytes: u32) -> Result<Page, Error> {
        let page = self.following.borrow_mut().page(max_events, max_bytes, || Ok::<(), Error>(self.open.end_call()?));
        Ok(page?.into())
    }

    fn number(&self) -> u64 {
        self.following.borrow().number()
    }

    fn ack(&self, number: u64) -> Result<(), Error> {
        self.open.writable()?;
        self.open.end_call()?;
        let following = self.following.borrow();
        following.check(number)?;
        following.subscription().ack(number)?;
        self.open.settle(self.durability)?;
        Ok(())
    }

    fn ack_in(&self, transaction: TransactionBorrow<'_>, number: u64) -> Result<(), Error> {
        let following = self.following.borrow();
        following.check(number)?;
        transaction.get::<InMemory>().run(512, |transaction| transaction.ack(following.subscription(), number))
    }
}
