//! Event streams: the handle to a log of events, and appending to it.

mod appends;
#[cfg(feature = "rkyv")]
mod archived;
mod condition;
mod cursor;
mod event;
mod event_ref;
mod iter;
mod new_event;
mod reader;
mod retention;
mod subscription;
#[cfg(feature = "typed")]
mod typed;
mod waiting;
mod walk;

pub(super) use appends::{Appends, Staging, check_event};
pub use condition::Condition;
pub(super) use cursor::Cursor;
pub use event::Event;
pub use event_ref::EventRef;
pub use iter::EventIter;
pub use new_event::NewEvent;
pub use reader::EventReader;
pub use subscription::Subscription;
pub(super) use waiting::{BatchAppends, OwnAppend, planned};

use super::handle::{Db, Namespace};
use crate::error::{Error, Result};
use crate::events::{Chain, EVENTS_PREFIX, EventIndex, In, Planned, Range};
use crate::expected::{Expected, FailedCheck};
use alloc::string::String;
use alloc::vec::Vec;
use appends::check_text;
use core::fmt;

/// A log of events: any number of streams, read by stream, by type, by tag, or all of it in one order; from [`Db::events`].
///
/// Each event has a *number*, which rises over all events of the store in the order of their commits, and a *version* in its stream, from 1 and
/// without gaps. An append says what it [expects](Expected) of the stream, so that two writers that decide on the same state cannot both win;
/// [`Self::append_if`] checks a [`Condition`] over types and tags instead. Events can be appended in the same commit as records, by
/// [`Batch::append`](crate::Batch::append) and [`Transaction::append`](crate::Transaction::append), so that a projection never differs from its
/// events.
///
/// ```
/// use pipkin::{Expected, NewEvent};
///
/// let db = pipkin::Db::open_in_memory()?;
/// let orders = db.events("orders")?;
/// let placed = NewEvent::new("Placed", "3 apples").tag("customer:ada");
/// orders.append("order-7", Expected::NoStream, [placed, NewEvent::new("Paid", "")])?;
/// let types: Vec<String> = orders.stream("order-7").iter()?.map(|event| Ok(event?.kind().to_owned())).collect::<pipkin::Result<_>>()?;
/// assert_eq!(types, ["Placed", "Paid"]);
/// assert_eq!(orders.tagged("customer:ada").iter()?.count(), 1);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone)]
pub struct Events {
    pub(super) space: Namespace,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// What an append has got: numbers and versions of the first and of the last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// Number of the first event.
    pub first_number: u64,
    /// Number of the last event.
    pub last_number: u64,
    /// Version of the last event: what the next append to the stream may expect.
    pub version: u64,
    /// The same events were there already: an earlier append of them had succeeded, and nothing was written this time.
    pub repeated: bool,
}

impl Appended {
    pub(super) const fn new(range: &Range, repeated: bool) -> Self {
        Self { first_number: range.numbers.0, last_number: range.numbers.1, version: range.versions.1, repeated }
    }
}

impl Db {
    /// The log of events with this name; created if there is none. Names of logs and of namespaces are independent.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// let orders = db.events("orders")?;
    /// assert_eq!(orders.last_number()?, 0); // empty
    /// assert_eq!(db.list_events(), ["orders"]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NamespaceName`] for an empty or long name; [`Error::ReadOnly`] where it would have to be created, as on a
    /// [follower](crate::Builder::follow) of a store that has none of this name.
    pub fn events(&self, name: &str) -> Result<Events> {
        if name.is_empty() {
            return Err(Error::NamespaceName { len: 0 });
        }
        Ok(Events { space: self.any_namespace(&alloc::format!("{EVENTS_PREFIX}{name}"), &[])? })
    }

    /// The names of all logs of events, in order.
    pub fn list_events(&self) -> Vec<String> {
        self.store.names.read().with_prefix(EVENTS_PREFIX)
    }
}

impl Events {
    /// Its name.
    pub fn name(&self) -> &str {
        self.space.name().strip_prefix(EVENTS_PREFIX).unwrap_or_default()
    }

    pub(super) fn index(&self) -> Result<(&EventIndex, In)> {
        let number = self.space.name.number().ok_or(Error::NamespaceDropped)?;
        let engine = &self.space.store.engine;
        if self.space.store.is_closed() {
            return Err(Error::Closed);
        }
        Ok((engine.events()?, engine.events_of(number)))
    }

    /// Appends events to a stream as one commit, if the stream is as expected.
    ///
    /// An append whose answer was lost can be repeated: where the same events, with the [ids](NewEvent::id) that the caller gave them, stand
    /// behind the expected version already, it succeeds, says [`repeated`](Appended::repeated), and writes nothing.
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent};
    ///
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let orders = db.events("orders")?;
    /// let paid = || [NewEvent::new("Paid", "").id([7; 16])];
    /// let first = orders.append("order-7", Expected::Version(0), paid())?;
    /// let again = orders.append("order-7", Expected::Version(0), paid())?;
    /// assert_eq!((first.version, again.version, again.repeated), (1, 1, true));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::AppendRefused`] when the stream is not as expected; [`Error::InvalidArgument`] for no event, and for a name, type or tag that
    /// is too long; those of [`Namespace::insert`].
    pub fn append<'a>(
        &self,
        stream: &str,
        expected: Expected,
        events: impl IntoIterator<Item = NewEvent<'a>>,
    ) -> Result<Appended> {
        let events: Vec<NewEvent<'a>> = events.into_iter().collect();
        let mut appends = Appends::default();
        appends.add(self, stream, expected, &events)?;
        self.commit_alone(&appends)
    }

    /// Appends events if no event matches the condition: a decision about several streams, or about none in particular, holds until it is
    /// written (see [dcb.events](https://dcb.events)). An event that retention has removed matches no more, before compaction as behind it.
    ///
    /// ```
    /// use pipkin::{Condition, NewEvent};
    ///
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let courses = db.events("courses")?;
    /// let seats = courses.tagged("course:rust").iter()?.count();
    /// let seen = courses.last_number()?; // read after the decision's events, or take the number of the last one that was read
    /// if seats < 30 {
    ///     let nobody_since = Condition::tagged(["course:rust"]).after(seen);
    ///     courses.append_if(&nobody_since, "ada", [NewEvent::new("Subscribed", "").tag("course:rust").tag("student:ada")])?;
    /// }
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::AppendRefused`] when an event matches; those of [`Self::append`].
    pub fn append_if<'a>(
        &self,
        condition: &Condition,
        stream: &str,
        events: impl IntoIterator<Item = NewEvent<'a>>,
    ) -> Result<Appended> {
        let events: Vec<NewEvent<'a>> = events.into_iter().collect();
        let mut appends = Appends::default();
        appends.add(self, stream, Expected::Any, &events)?;
        appends.add_condition(self, condition)?;
        self.commit_alone(&appends)
    }

    fn commit_alone(&self, appends: &Appends<'_>) -> Result<Appended> {
        let store = &self.space.store;
        let written = store.commit_all(&[], &[], None, appends);
        let (range, repeated) = match written {
            Ok(committed) => (committed.ranges.first().copied(), false),
            Err(error) => match self.repeated(&error, appends)? {
                Some(range) => (Some(range), true),
                None => return Err(error),
            },
        };
        range.map(|range| Appended::new(&range, repeated)).ok_or(Error::Bug("an append without an event"))
    }

    /// What an earlier append of the same events has got, if that is why this one was refused.
    fn repeated(&self, error: &Error, appends: &Appends<'_>) -> Result<Option<Range>> {
        let Error::AppendRefused { failed } = error else { return Ok(None) };
        let (true, Some(planned)) = (failed.iter().all(|failed| matches!(failed, FailedCheck::Version { .. })), appends.only())
        else {
            return Ok(None);
        };
        let planned: &Planned<'_> = planned;
        let (index, of) = self.index()?;
        let engine = &self.space.store.engine;
        let _pin = engine.pins.pin();
        index.repeated(&engine.log, of.seed, planned)
    }

    /// Reads the events of a stream, from its first one on.
    pub fn stream(&self, stream: impl Into<String>) -> EventReader {
        EventReader::of_stream(self, stream.into())
    }

    /// Reads the events of a type, in the order of their numbers.
    pub fn of_type(&self, kind: impl Into<String>) -> EventReader {
        EventReader::matching(self, &Condition::of_types([kind.into()]))
    }

    /// Reads the events with a tag, in the order of their numbers.
    pub fn tagged(&self, tag: impl Into<String>) -> EventReader {
        EventReader::matching(self, &Condition::tagged([tag.into()]))
    }

    /// Reads the events that a condition names, in the order of their numbers.
    pub fn matching(&self, condition: &Condition) -> EventReader {
        EventReader::matching(self, condition)
    }

    /// Reads all events, in the order of their numbers.
    pub fn all(&self) -> EventReader {
        EventReader::of_all(self)
    }

    /// The event of a stream with this version; `None` if there is none.
    ///
    /// ```
    /// use pipkin::{Expected, NewEvent};
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let orders = db.events("orders")?;
    /// let got = orders.append("order-7", Expected::Any, [NewEvent::new("Placed", "3 apples")])?;
    /// let event = orders.get("order-7", 1)?.unwrap();
    /// assert_eq!((event.kind(), event.payload()), ("Placed", &b"3 apples"[..]));
    /// assert_eq!(orders.get_by_number(got.last_number)?, Some(event));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when the event is damaged, or one that leads to it.
    pub fn get(&self, stream: &str, version: u64) -> Result<Option<Event>> {
        self.get_with(stream, version, |event| event.to_event())
    }

    /// As [`Self::get`], in place: what `read` makes of the event. Where the host maps the file, nothing is copied.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get`].
    pub fn get_with<T>(&self, stream: &str, version: u64, read: impl FnOnce(EventRef<'_>) -> T) -> Result<Option<T>> {
        check_text("stream", stream)?;
        let mut read = Some(read);
        self.look(&mut |at| {
            let stored = at.index.by_version(at.log, at.of, stream.as_bytes(), version)?;
            let Some(stored) = stored.filter(|stored| !stored.is_stub()) else { return Ok(None) };
            let event = EventRef::of(&stored)?;
            Ok(read.take().map(|read| read(event)))
        })
    }

    /// The event with this number; `None` if there is none in this log.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when it is damaged.
    pub fn get_by_number(&self, number: u64) -> Result<Option<Event>> {
        self.look(&mut |at| {
            let stored = at.get(number)?.filter(|stored| !stored.is_stub());
            stored.map(|stored| EventRef::of(&stored).map(|event| event.to_event())).transpose()
        })
    }

    /// The version of the newest event of a stream; 0: it has none.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when that event is damaged.
    pub fn version(&self, stream: &str) -> Result<u64> {
        check_text("stream", stream)?;
        self.look(&mut |at| {
            let newest = at.newest(Chain::Stream(stream.as_bytes()))?;
            newest.map_or(Ok(0), |stored| Ok(stored.event()?.version))
        })
    }

    /// The highest number of any event of the store, of another log, too; 0: there is none. Later events have higher ones.
    pub fn last_number(&self) -> Result<u64> {
        Ok(self.index()?.0.last())
    }
}
