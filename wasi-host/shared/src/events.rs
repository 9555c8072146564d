//! Events in pages, and which of them a guest asks for.

use crate::answer::BYTES_MAX;
use alloc::string::String;
use alloc::vec::Vec;
use pipkin::{Condition, Error, Event, EventIter, EventReader, Events, Result, Subscription};

/// The most cursors of a log that guests may have. `wit/events.wit` says so.
const CURSORS_MAX: usize = 256;

/// What a guest is told that wants one more.
pub const TOO_MANY_CURSORS: &str = "the log has 256 cursors, which is the most; remove one that is no longer needed";

/// The most items of a query, and the most kinds and tags of each: every event is held against all of them.
const QUERY_MAX: usize = 64;
/// Longest name of a stream, a kind or a tag, in bytes.
const TEXT_LEN_MAX: usize = 1024;

/// Bytes that an event takes beside its texts and bytes, in a page, and each of its tags.
const EVENT_BYTES: usize = 64;
const TAG_BYTES: usize = 16;

/// Which events a guest asks for.
#[derive(Debug)]
pub enum Selection {
    /// All of the log.
    All,
    /// Those of a stream.
    Stream(String),
    /// Those that match one of these items: kinds and tags.
    Matching(Vec<(Vec<String>, Vec<String>)>),
}

fn checked(text: &str) -> Result<()> {
    if text.is_empty() || text.len() > TEXT_LEN_MAX || text.starts_with('\0') {
        return Err(Error::InvalidArgument(
            "names of streams, kinds and tags need 1 to 1024 bytes, of which the first one is not 0",
        ));
    }
    Ok(())
}

/// The condition that says what these items do.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for too many of them, or none, and for texts that no event can have.
pub fn condition(items: Vec<(Vec<String>, Vec<String>)>, after: u64) -> Result<Condition> {
    let is_short = |(kinds, tags): &(Vec<String>, Vec<String>)| kinds.len() <= QUERY_MAX && tags.len() <= QUERY_MAX;
    if items.len() > QUERY_MAX || !items.iter().all(is_short) {
        return Err(Error::InvalidArgument("a query has at most 64 items, each of at most 64 kinds and 64 tags"));
    }
    items.iter().flat_map(|(kinds, tags)| kinds.iter().chain(tags)).try_for_each(|text| checked(text))?;
    let mut items = items.into_iter();
    let Some((kinds, tags)) = items.next() else {
        return Err(Error::InvalidArgument("a query needs an item; one without kinds and tags is every event"));
    };
    Ok(items.fold(Condition::new(kinds, tags), |all, (kinds, tags)| all.or(kinds, tags)).after(after))
}

impl Selection {
    /// What reads these events.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for what no event can have.
    pub fn of(self, log: &Events) -> Result<EventReader> {
        Ok(match self {
            Self::All => log.all(),
            Self::Stream(stream) => {
                checked(&stream)?;
                log.stream(stream)
            }
            Self::Matching(items) => log.matching(&condition(items, 0)?),
        })
    }
}

/// Whether a log may have the cursor of this name: it has it, or not too many others.
///
/// # Errors
///
/// Those of the engine.
pub fn has_room_for_cursor(log: &Events, name: &str) -> Result<bool> {
    let cursors = log.cursors()?;
    Ok(cursors.len() < CURSORS_MAX || cursors.iter().any(|(known, _)| known == name))
}

/// Puts a page together out of what `next` returns. An error comes after the events in front of it: `failed` keeps it for the next page.
fn fill<E: From<Error>>(
    (max_events, max_bytes): (u32, u32),
    failed: &mut Option<Error>,
    mut next: impl FnMut() -> Result<Result<Option<Event>>, E>,
) -> Result<(Vec<Event>, bool), E> {
    if let Some(error) = failed.take() {
        return Err(error.into());
    }
    let (events_max, bytes_max) = (max_events.max(1) as usize, (max_bytes.max(1) as usize).min(BYTES_MAX));
    let (mut events, mut bytes) = (Vec::new(), 0_usize);
    while events.len() < events_max && bytes < bytes_max {
        match next() {
            Ok(Ok(Some(event))) => {
                bytes = bytes.saturating_add(bytes_of(&event));
                events.push(event);
            }
            Ok(Ok(None)) => return Ok((events, true)),
            Ok(Err(error)) if events.is_empty() => return Err(error.into()),
            Ok(Err(error)) => {
                *failed = Some(error);
                break;
            }
            Err(error) if events.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok((events, false))
}

fn bytes_of(event: &Event) -> usize {
    let tags: usize = event.tags().map(|tag| tag.len() + TAG_BYTES).sum();
    EVENT_BYTES + event.stream().len() + event.kind().len() + event.payload().len() + event.metadata().len() + tags
}

/// A walk over events, page by page.
#[derive(Debug)]
pub struct EventPages {
    walk: EventIter,
    failed: Option<Error>,
}

impl EventPages {
    /// Begins a walk.
    ///
    /// # Errors
    ///
    /// Those of the engine, and of [`Selection::of`].
    pub fn new(log: &Events, selection: Selection, from: u64, backwards: bool) -> Result<Self> {
        Ok(Self { walk: selection.of(log)?.from(from).backwards(backwards).iter()?, failed: None })
    }

    /// The memory that it takes, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.walk.memory_bytes()
    }

    /// The next page; an empty one at the end. `begin` is called before each call of the engine.
    ///
    /// # Errors
    ///
    /// Those of the engine, and of `begin`.
    pub fn page<E: From<Error>>(
        &mut self,
        max_events: u32,
        max_bytes: u32,
        mut begin: impl FnMut() -> Result<(), E>,
    ) -> Result<Vec<Event>, E> {
        let Self { walk, failed } = self;
        let next = || begin().map(|()| walk.next().transpose());
        Ok(fill((max_events, max_bytes), failed, next)?.0)
    }
}

/// Events in the order of their numbers.
#[derive(Debug)]
pub struct EventPage {
    /// The events.
    pub events: Vec<Event>,
    /// All events up to this number are among them, or were passed over.
    pub number: u64,
    /// There were no more.
    pub is_at_end: bool,
}

/// A subscription, page by page.
#[derive(Debug)]
pub struct Following {
    subscription: Subscription,
    failed: Option<Error>,
    /// What was handed out or passed over in front of `failed`.
    number: u64,
}

impl Following {
    /// Hands out what a subscription does.
    #[must_use]
    pub fn new(subscription: Subscription) -> Self {
        Self { number: subscription.number(), subscription, failed: None }
    }

    /// The subscription, for acknowledgements.
    #[must_use]
    pub const fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// The number of the last event that it has handed out or passed over.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Refuses to acknowledge an event that has not been handed out: one behind the damage that the guest has not heard of yet is none.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if it has not.
    pub fn check(&self, number: u64) -> Result<()> {
        if number > self.number {
            return Err(Error::InvalidArgument("an event that has not been handed out cannot be acknowledged"));
        }
        Ok(())
    }

    /// The next page. `begin` is called before each call of the engine.
    ///
    /// # Errors
    ///
    /// Those of the engine, and of `begin`.
    pub fn page<E: From<Error>>(
        &mut self,
        max_events: u32,
        max_bytes: u32,
        mut begin: impl FnMut() -> Result<(), E>,
    ) -> Result<EventPage, E> {
        let Self { subscription, failed, number } = self;
        let mut seen = *number;
        let next = || {
            begin()?;
            let event = subscription.try_next();
            if event.is_ok() {
                seen = subscription.number();
            }
            Ok::<_, E>(event)
        };
        let filled = fill((max_events, max_bytes), failed, next);
        // An error that is told now was passed over; one that waits was not.
        *number = if failed.is_some() { seen } else { subscription.number() };
        let (events, is_at_end) = filled?;
        Ok(EventPage { events, number: *number, is_at_end })
    }
}
