//! What is to be read of a log of events.

use super::{Condition, Events};
use alloc::string::String;

/// Which events.
#[derive(Clone, Debug)]
pub(super) enum Source {
    All,
    Stream(String),
    Matching(Condition),
}

/// Reads events; from [`Events::stream`], [`Events::all`], [`Events::of_type`], [`Events::tagged`] and [`Events::matching`].
///
/// ```
/// use pipkin::{Expected, NewEvent};
///
/// let db = pipkin::Db::open_in_memory()?;
/// let orders = db.events("orders")?;
/// orders.append("order-7", Expected::Any, (0..5).map(|part| NewEvent::new("Packed", vec![part])))?;
/// let versions = |reader: pipkin::EventReader| reader.iter()?.map(|event| Ok(event?.version())).collect::<pipkin::Result<Vec<u64>>>();
/// assert_eq!(versions(orders.stream("order-7").from(4))?, [4, 5]);
/// assert_eq!(versions(orders.stream("order-7").backwards(true).limit(2))?, [5, 4]);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it reads nothing until `iter`"]
pub struct EventReader {
    pub(super) events: Events,
    pub(super) source: Source,
    pub(super) from: u64,
    pub(super) backwards: bool,
    pub(super) limit: u64,
}

impl EventReader {
    fn new(events: &Events, source: Source) -> Self {
        Self { events: events.clone(), source, from: 0, backwards: false, limit: u64::MAX }
    }

    pub(super) fn of_all(events: &Events) -> Self {
        Self::new(events, Source::All)
    }

    pub(super) fn of_stream(events: &Events, stream: String) -> Self {
        Self::new(events, Source::Stream(stream))
    }

    pub(super) fn matching(events: &Events, condition: &Condition) -> Self {
        Self { from: condition.after.saturating_add(1), ..Self::new(events, Source::Matching(condition.clone())) }
    }

    /// Where it begins: a version where it reads a stream, a number otherwise. Backwards, where it ends.
    pub const fn from(mut self, from: u64) -> Self {
        self.from = from;
        self
    }

    /// Newest event first.
    pub const fn backwards(mut self, backwards: bool) -> Self {
        self.backwards = backwards;
        self
    }

    /// At most so many events.
    pub const fn limit(mut self, events: u64) -> Self {
        self.limit = events;
        self
    }
}
