//! Event streams.

use super::followed::{Followed, Follows};
use super::groups::Groups;
use super::handle::{AsyncDb, AsyncNamespace};
use crate::db::events::{Appended, Condition, Event, EventIter, EventReader, Events, NewEvent, Subscription};
use crate::error::{Error, Result};
use crate::expected::Expected;
use crate::log::FollowerId;
use crate::retention::Retention;
use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Most events that are read at a time.
const GROUP: usize = 64;

/// A log of events, for async code: see [`Events`]. From [`AsyncDb::events`].
///
/// ```
/// use futures_lite::StreamExt;
/// use pipkin::{Expected, NewEvent};
///
/// # let db = pipkin::Db::open_in_memory()?.to_async();
/// # futures_lite::future::block_on(async {
/// let bank = db.events("bank").await?.durable();
/// bank.append("account:ada", Expected::NoStream, [NewEvent::new("Opened", "")]).await?;
/// let mut history = bank.read(&bank.stream("account:ada")).await?;
/// assert_eq!(history.try_next().await?.expect("an event").kind(), "Opened");
/// let mut projection = bank.cursor(&bank.all(), "balances").await?;
/// let event = projection.try_next().await?.expect("the store is open");
/// let seen = projection.at(&event);
/// db.transaction(move |tx| {
///     tx.insert(event.stream(), event.payload())?;
///     tx.ack(&seen, event.number()) // both, or neither
/// })
/// .await?;
/// # Ok::<(), pipkin::Error>(())
/// # })?;
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncEvents {
    events: Events,
    home: AsyncNamespace,
}

/// Events that there are, as a stream. From [`AsyncEvents::read`]. They are read in a thread of the pool when the stream is polled, up to 64 at a
/// time.
pub struct EventStream(Groups<EventIter, Result<Event>>);

/// Events that there are, and then those that come, once they are durable, as a stream: see [`Subscription`]. From [`AsyncEvents::follow`] and
/// [`AsyncEvents::cursor`]. It ends when the store is closed. On a [follower](crate::Builder::follow) it looks for what the writer has appended once a
/// millisecond at first, and once in ten where nothing has come for a second.
pub struct SubscriptionStream {
    followed: Followed<Subscribed>,
    /// Its cursor: at no event.
    cursor: Subscription,
}

struct Subscribed {
    subscription: Subscription,
    waiter: FollowerId,
    ready: VecDeque<Result<Event>>,
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.subscription.log().forget_waiter(self.waiter);
    }
}

impl fmt::Debug for AsyncEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncEvents").field(&self.events).finish()
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}

impl fmt::Debug for SubscriptionStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionStream").finish_non_exhaustive()
    }
}

impl Stream for EventStream {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(cx)
    }
}

impl Stream for SubscriptionStream {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.followed.poll_next(cx)
    }
}

impl Follows for Subscribed {
    type Item = Event;

    fn take_read(&mut self, _cx: &mut Context<'_>) -> Option<Poll<Option<Result<Event>>>> {
        self.ready.pop_front().map(|event| Poll::Ready(Some(event)))
    }

    fn read(&mut self, waker: &Waker) -> Poll<Option<Result<Event>>> {
        // Asked first: what was written before the end is handed out.
        let writable = self.subscription.log().writable();
        while self.ready.len() < GROUP {
            match self.subscription.try_next() {
                Ok(Some(event)) => self.ready.push_back(Ok(event)),
                Ok(None) => break,
                Err(Error::Closed) if self.ready.is_empty() => return Poll::Ready(None),
                Err(error) => {
                    self.ready.push_back(Err(error));
                    break;
                }
            }
        }
        if let Some(first) = self.ready.pop_front() {
            return Poll::Ready(Some(first));
        }
        match writable {
            Ok(()) => {
                self.wake(waker);
                Poll::Pending
            }
            Err(Error::ReadOnly) if self.subscription.may_look() => Poll::Pending,
            Err(Error::Closed | Error::ReadOnly) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn wake(&self, waker: &Waker) -> bool {
        self.subscription.log().wake_at_commits(self.waiter, false, waker);
        true
    }

    fn is_waiting(&self) -> bool {
        self.subscription.log().wakes_at_commits(self.waiter)
    }

    fn has_more(&self) -> bool {
        self.subscription.may_have_more()
    }
}

impl AsyncDb {
    /// [`Db::events`](crate::Db::events).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn events(&self, name: &str) -> Result<AsyncEvents> {
        let name = name.to_owned();
        let events = self.in_lane(move |namespace| namespace.db().events(&name)).await?;
        Ok(AsyncEvents { events, home: self.default_namespace() })
    }

    /// [`Db::list_events`](crate::Db::list_events).
    pub async fn list_events(&self) -> Vec<String> {
        self.call(|namespace| namespace.db().list_events()).await
    }
}

impl AsyncEvents {
    /// [`Events::name`].
    pub fn name(&self) -> &str {
        self.events.name()
    }

    /// The same log, whose appends return once they are durable. See [`AsyncNamespace::durable`].
    #[must_use = "it changes nothing of this handle"]
    pub fn durable(&self) -> Self {
        Self { events: self.events.clone(), home: self.home.durable() }
    }

    /// The log itself, whose calls block.
    pub fn to_sync(&self) -> Events {
        self.events.clone()
    }

    /// [`Events::append`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn append<'a>(
        &self,
        stream: &str,
        expected: Expected,
        events: impl IntoIterator<Item = NewEvent<'a>>,
    ) -> Result<Appended> {
        let (stream, events) = (stream.to_owned(), owned(events));
        self.write(move |to| to.append(&stream, expected, events)).await
    }

    /// [`Events::append_if`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn append_if<'a>(
        &self,
        condition: &Condition,
        stream: &str,
        events: impl IntoIterator<Item = NewEvent<'a>>,
    ) -> Result<Appended> {
        let (condition, stream, events) = (condition.clone(), stream.to_owned(), owned(events));
        self.write(move |to| to.append_if(&condition, &stream, events)).await
    }

    /// [`Events::stream`]: what to read, for [`Self::read`], [`Self::follow`] and [`Self::cursor`].
    pub fn stream(&self, stream: impl Into<String>) -> EventReader {
        self.events.stream(stream)
    }

    /// [`Events::of_type`]: what to read.
    pub fn of_type(&self, kind: impl Into<String>) -> EventReader {
        self.events.of_type(kind)
    }

    /// [`Events::tagged`]: what to read.
    pub fn tagged(&self, tag: impl Into<String>) -> EventReader {
        self.events.tagged(tag)
    }

    /// [`Events::matching`]: what to read.
    pub fn matching(&self, condition: &Condition) -> EventReader {
        self.events.matching(condition)
    }

    /// [`Events::all`]: what to read.
    pub fn all(&self) -> EventReader {
        self.events.all()
    }

    /// [`EventReader::iter`], as a stream.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn read(&self, reader: &EventReader) -> Result<EventStream> {
        let reader = reader.clone();
        let events = self.home.call(move |_| reader.iter()).await?;
        let fetch = |mut events: EventIter| {
            let group: Vec<_> = events.by_ref().take(GROUP).collect();
            ((group.len() == GROUP).then_some(events), group)
        };
        Ok(EventStream(Groups::new(&self.home, events, fetch)))
    }

    /// [`EventReader::follow`], as a stream.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn follow(&self, reader: &EventReader) -> Result<SubscriptionStream> {
        let reader = reader.clone();
        self.subscribe(move || reader.follow()).await
    }

    /// [`EventReader::cursor`], as a stream.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn cursor(&self, reader: &EventReader, name: impl Into<String>) -> Result<SubscriptionStream> {
        let (reader, name) = (reader.clone(), name.into());
        self.subscribe(move || reader.cursor(name)).await
    }

    async fn subscribe(&self, begin: impl FnOnce() -> Result<Subscription> + Send + 'static) -> Result<SubscriptionStream> {
        let begin = move |_: &crate::Namespace| -> Result<_> {
            let subscription = begin()?;
            let cursor = subscription.at(0);
            let waiter = subscription.log().waiter();
            Ok((Subscribed { subscription, waiter, ready: VecDeque::new() }, cursor))
        };
        let (subscribed, cursor) = self.home.in_lane(begin).await?;
        Ok(SubscriptionStream { followed: Followed::new(subscribed, &self.home), cursor })
    }

    /// [`Events::get`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn get(&self, stream: &str, version: u64) -> Result<Option<Event>> {
        let stream = stream.to_owned();
        self.call(move |events| events.get(&stream, version)).await
    }

    /// [`Events::get_by_number`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn get_by_number(&self, number: u64) -> Result<Option<Event>> {
        self.call(move |events| events.get_by_number(number)).await
    }

    /// [`Events::version`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn version(&self, stream: &str) -> Result<u64> {
        let stream = stream.to_owned();
        self.call(move |events| events.version(&stream)).await
    }

    /// [`Events::last_number`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn last_number(&self) -> Result<u64> {
        self.call(Events::last_number).await
    }

    /// [`Events::cursors`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn cursors(&self) -> Result<Vec<(String, u64)>> {
        self.call(Events::cursors).await
    }

    /// [`Events::remove_cursor`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn remove_cursor(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.write(move |events| events.remove_cursor(&name)).await
    }

    /// [`Events::truncate`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn truncate(&self, stream: &str, before: u64) -> Result<u64> {
        let stream = stream.to_owned();
        self.write(move |events| events.truncate(&stream, before)).await
    }

    /// [`Events::delete_stream`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn delete_stream(&self, stream: &str) -> Result<u64> {
        let stream = stream.to_owned();
        self.write(move |events| events.delete_stream(&stream)).await
    }

    /// [`Events::keep_last`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn keep_last(&self, stream: &str, count: u64) -> Result<u64> {
        let stream = stream.to_owned();
        self.write(move |events| events.keep_last(&stream, count)).await
    }

    /// [`Events::remove_before_ms`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn remove_before_ms(&self, time: u64) -> Result<u64> {
        self.write(move |events| events.remove_before_ms(time)).await
    }

    /// [`Events::set_retention`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn set_retention(&self, retention: Retention) -> Result<()> {
        self.write(move |events| events.set_retention(retention)).await
    }

    /// [`Events::retention`].
    pub async fn retention(&self) -> Retention {
        self.call(Events::retention).await
    }

    /// [`Events::retain`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn retain(&self) -> Result<u64> {
        self.write(Events::retain).await
    }

    async fn call<T: Send + 'static>(&self, call: impl FnOnce(&Events) -> T + Send + 'static) -> T {
        let events = self.events.clone();
        self.home.call(move |_| call(&events)).await
    }

    async fn write<T: Send + 'static>(&self, write: impl FnOnce(&Events) -> Result<T> + Send + 'static) -> Result<T> {
        let events = self.events.clone();
        let written = self.home.in_lane(move |_| write(&events)).await;
        self.home.settled(written).await
    }
}

impl SubscriptionStream {
    /// The subscription as it is behind this event, to acknowledge it in the commit that it leads to
    /// ([`Transaction::ack`](crate::Transaction::ack)).
    pub fn at(&self, event: &Event) -> Subscription {
        self.cursor.at(event.number())
    }

    /// [`Subscription::ack`]: a commit of its own.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn ack(&self, event: &Event) -> Result<()> {
        let (at, number, home) = (self.at(event), event.number(), &self.followed.home);
        let written = home.in_lane(move |_| at.ack(number)).await;
        home.settled(written).await
    }
}

fn owned<'a>(events: impl IntoIterator<Item = NewEvent<'a>>) -> Vec<NewEvent<'static>> {
    events.into_iter().map(NewEvent::into_owned).collect()
}
