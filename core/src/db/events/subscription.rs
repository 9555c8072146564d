//! Following a log of events: what is there, then what comes.

use super::cursor::Cursor;
use super::reader::{EventReader, Source};
use super::{Event, EventRef, Events};
#[cfg(feature = "std")]
use crate::db::waiting::pause;
use crate::error::{Error, Result};
use crate::events::{QueryItem, Stored};
use crate::planted::{Bug, is};
use alloc::string::String;
use core::fmt;

/// Follows events: hands out those that there are, then waits for more; from [`EventReader::follow`] and [`EventReader::cursor`].
///
/// Events come once they are durable ([`Db::flush`](crate::Db::flush), or a flush of anybody): what has come is not lost to a power cut.
/// A subscription with a cursor goes on, in a later session too, behind the last event that was [acknowledged](Self::ack). Where the
/// acknowledgement is in the commit that the event has led to ([`Transaction::ack`](crate::Transaction::ack)), each event counts exactly once.
///
/// ```
/// use pipkin::{Expected, NewEvent};
///
/// let db = pipkin::Db::open_in_memory()?;
/// let orders = db.events("orders")?;
/// orders.append("order-7", Expected::Any, [NewEvent::new("Placed", "3 apples")])?;
/// db.flush()?;
/// let mut counter = orders.all().cursor("counter")?;
/// while let Some(event) = counter.try_next()? {
///     db.transaction(|tx| {
///         let placed = tx.get("placed")?.map_or(0, |count| count[0]);
///         tx.insert("placed", [placed + 1])?;
///         tx.ack(&counter, event.number()) // both, or none
///     })?;
/// }
/// assert_eq!(db.get("placed")?, Some(vec![1]));
/// assert_eq!(orders.all().cursor("counter")?.try_next()?, None); // it is acknowledged
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct Subscription {
    pub(in crate::db) events: Events,
    wanted: Wanted,
    /// Name and token of its cursor, if it has one.
    cursor: Option<(String, u64)>,
    /// The number of the next event that it looks at.
    next: u64,
    /// The number of the last event that it has handed out, or passed over.
    passed: u64,
}

/// Which events it hands out.
enum Wanted {
    All,
    Stream(String),
    Matching(alloc::vec::Vec<QueryItem>),
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("events", &self.events).field("next", &self.next).finish_non_exhaustive()
    }
}

impl EventReader {
    /// Follows the events from where it [begins](Self::from) on; its other settings do not count.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] where it reads a stream from a version: a subscription begins at a number.
    pub fn follow(&self) -> Result<Subscription> {
        self.subscription(None, self.from.max(1))
    }

    /// Follows the events behind those that were acknowledged under this name; a new cursor begins where this reader [begins](Self::from). Whoever
    /// has followed by this cursor before can acknowledge nothing any more.
    ///
    /// # Errors
    ///
    /// Those of [`Self::follow`] and of a write; [`Error::InvalidArgument`] for a name that is empty or longer than 255 bytes.
    pub fn cursor(&self, name: impl Into<String>) -> Result<Subscription> {
        let name = name.into();
        self.subscription(None, 1)?;
        let Cursor { number, token } = self.events.take_cursor(&name, self.from.saturating_sub(1))?;
        self.subscription(Some((name, token)), number.saturating_add(1))
    }

    /// Goes on behind the event with this number, with the cursor of this name and token or without one: for hosts that keep that themselves.
    ///
    /// # Errors
    ///
    /// Those of [`Self::follow`].
    #[doc(hidden)]
    pub fn resume(&self, number: u64, cursor: Option<(String, u64)>) -> Result<Subscription> {
        let whole = Self { from: 0, ..self.clone() };
        whole.subscription(cursor, number.saturating_add(1))
    }

    fn subscription(&self, cursor: Option<(String, u64)>, next: u64) -> Result<Subscription> {
        let wanted = match &self.source {
            Source::All => Wanted::All,
            Source::Stream(_) if self.from > 1 => {
                return Err(Error::InvalidArgument("a subscription to a stream begins at its first event: leave `from` out"));
            }
            Source::Stream(stream) => Wanted::Stream(stream.clone()),
            Source::Matching(condition) => Wanted::Matching(condition.items.clone()),
        };
        self.events.index()?;
        Ok(Subscription { events: self.events.clone(), wanted, cursor, next, passed: next - 1 })
    }
}

impl Wanted {
    fn has(&self, stored: &Stored<'_>) -> Result<bool> {
        Ok(match self {
            Self::All => true,
            Self::Stream(stream) => stream.as_bytes() == stored.stream(),
            Self::Matching(items) => {
                let event = stored.event()?;
                items.iter().any(|item| item.matches(&event))
            }
        })
    }
}

/// What stands at a number.
enum Found {
    Event(Event),
    Another,
    NotYet,
}

impl Subscription {
    /// The next event; `None` when none is there that is durable.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for an event that is damaged: the next call goes on behind it. [`Error::Closed`].
    pub fn try_next(&mut self) -> Result<Option<Event>> {
        let next = self.next_known()?;
        let store = &self.events.space.store;
        if next.is_some() || !store.engine.log.follows() {
            return Ok(next);
        }
        // There may be more by now, and what was there may be durable.
        store.refresh()?;
        self.next_known()
    }

    fn next_known(&mut self) -> Result<Option<Event>> {
        let last = self.events.last_number()?;
        while self.next <= last {
            let next = self.events.index()?.0.next_from(self.next).unwrap_or(u64::MAX).min(last + 1);
            if next > self.next {
                (self.passed, self.next) = (next - 1, next);
                continue;
            }
            let log = &self.events.space.store.engine.log;
            let read = |stored: &Stored<'_>| {
                if !stored.is_durable(log) && !is(Bug::EventsBeforeDurable) {
                    return Ok(Found::NotYet);
                }
                let is_wanted = !stored.is_stub() && self.wanted.has(stored)?;
                if is_wanted { EventRef::of(stored).map(|event| Found::Event(event.to_event())) } else { Ok(Found::Another) }
            };
            let found = self.events.with(self.next, read);
            match found {
                Ok(Some(Found::NotYet)) => return Ok(None),
                Ok(Some(Found::Event(event))) => {
                    self.pass();
                    return Ok(Some(event));
                }
                Ok(Some(Found::Another) | None) => self.pass(),
                Err(error) => {
                    if matches!(error, Error::Corrupt { .. } | Error::Unsupported { .. }) {
                        self.pass();
                    }
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    const fn pass(&mut self) {
        self.passed = self.next;
        self.next += 1;
    }

    /// What tells it from others that have begun with its cursor; 0 without one.
    #[doc(hidden)]
    pub fn token(&self) -> u64 {
        self.cursor.as_ref().map_or(0, |(_, token)| *token)
    }

    /// The number of the last event that it has handed out or passed over.
    pub const fn number(&self) -> u64 {
        self.passed
    }

    /// Moves the cursor: the event with this number and all before it do not come again. A commit of its own, durable with the next flush.
    ///
    /// # Errors
    ///
    /// [`Error::CursorTaken`] when another subscription has begun with this cursor since: it may have dealt with the event, too.
    /// [`Error::InvalidArgument`] without a cursor, and for an event that has not come yet; those of a write.
    pub fn ack(&self, number: u64) -> Result<()> {
        let (name, token) = self.may_ack(number)?;
        self.events.move_cursor(name, Cursor { number, token })
    }

    pub(in crate::db) fn may_ack(&self, number: u64) -> Result<(&str, u64)> {
        let Some((name, token)) = &self.cursor else {
            return Err(Error::InvalidArgument("this subscription has no cursor; make it with `cursor(name)`"));
        };
        if number > self.passed {
            return Err(Error::InvalidArgument("an event that has not been handed out cannot be acknowledged"));
        }
        Ok((name, *token))
    }

    /// The same cursor behind the event with this number.
    #[cfg(feature = "async")]
    pub(in crate::db) fn at(&self, number: u64) -> Self {
        let (events, cursor) = (self.events.clone(), self.cursor.clone());
        Self { events, wanted: Wanted::All, cursor, next: number.saturating_add(1), passed: number }
    }

    #[cfg(feature = "async")]
    pub(in crate::db) fn log(&self) -> &crate::log::Log {
        &self.events.space.store.engine.log
    }

    /// This is a follower that is open: its writer may append more.
    #[cfg(feature = "std")]
    pub(in crate::db) fn may_look(&self) -> bool {
        let store = &self.events.space.store;
        store.engine.log.follows() && !store.is_closed()
    }

    /// There may be an event, or the end.
    #[cfg(feature = "async")]
    pub(in crate::db) fn may_have_more(&self) -> bool {
        self.has_more() || self.log().writable().is_err()
    }

    #[cfg(feature = "std")]
    fn has_more(&self) -> bool {
        let durable = |stored: &Stored<'_>| Ok(stored.is_durable(&self.events.space.store.engine.log));
        self.events.last_number().map_or(true, |last| self.next <= last)
            && self.events.with(self.next, durable).map_or(true, |durable| durable.unwrap_or(true))
    }
}

#[cfg(feature = "std")]
impl Subscription {
    /// The next event, for which this waits so long; `None` if there is none by then, or the store was closed.
    ///
    /// # Errors
    ///
    /// Those of [`Self::try_next`], and [`Error::Poisoned`] when a failed write or sync has ended the session.
    pub fn next_timeout(&mut self, timeout: std::time::Duration) -> Result<Option<Event>> {
        // One that no clock can show never comes.
        let begun = std::time::Instant::now();
        let until = begun.checked_add(timeout);
        loop {
            let store = self.events.space.store.clone();
            // Asked first: what was written before the end is handed out.
            let writable = store.engine.log.writable();
            match self.try_next() {
                Ok(None) => {}
                Err(Error::Closed) => return Ok(None),
                result => return result,
            }
            match writable {
                Ok(()) => {}
                Err(Error::ReadOnly) if self.may_look() => {
                    let Some(pause) = pause(begun, until) else { return Ok(None) };
                    std::thread::sleep(pause);
                    continue;
                }
                Err(Error::Closed | Error::ReadOnly) => return Ok(None),
                Err(error) => return Err(error),
            }
            let left = until.map(|until| until.saturating_duration_since(std::time::Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let log = &store.engine.log;
            log.wait_for_commits(false, left, &|| self.has_more() || log.writable().is_err());
        }
    }
}
