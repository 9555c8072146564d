//! Walking events: along the numbers, or along the chains that lead back from the newest one.

use super::reader::{EventReader, Source};
use super::{Event, Events};
use crate::error::Result;
use crate::events::{Chain, Place, QueryItem, Stored};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Numbers of a stream's events that are found at a time: each batch is walked back from its last event.
const TOGETHER: u64 = 64;
/// Events that are read together end with the one that brings them to this many bytes.
const TOGETHER_BYTES: usize = 64 * 1024;

/// Events, in their order; from [`EventReader::iter`].
pub struct EventIter {
    events: Events,
    walk: Walk,
    left: u64,
}

/// How the next event is found.
enum Walk {
    /// All events whose numbers are in a range.
    Numbers { next: u64, last: u64, ready: VecDeque<Result<Event>>, place: Place },
    /// The same, from the last one on.
    NumbersBack { first: u64, last: u64 },
    /// Versions of a stream, in rising order, and the numbers of the next ones.
    Versions { stream: String, next: u64, last: u64, found: VecDeque<u64> },
    /// Back along a stream.
    Back { stream: String, number: u64, least: u64 },
    /// Numbers that were found along chains, the first one last.
    Found { numbers: Vec<u64> },
    /// Back along several chains at once: the numbers that come next.
    Chains { numbers: BTreeSet<u64>, items: Vec<QueryItem>, least: u64 },
}

impl fmt::Debug for EventIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventIter").field("events", &self.events).finish_non_exhaustive()
    }
}

impl EventReader {
    /// The events that there are now. What is appended later does not come: see [`Self::follow`].
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the index of events cannot be built.
    pub fn iter(&self) -> Result<EventIter> {
        EventIter::new(self)
    }
}

impl EventIter {
    fn new(reader: &EventReader) -> Result<Self> {
        let EventReader { events, source, from, backwards, limit } = reader;
        let walk = match source {
            Source::All => Walk::numbers(events, *from, *backwards)?,
            Source::Stream(stream) if *backwards => {
                let number = events.newest_in(Chain::Stream(stream.as_bytes()))?;
                Walk::Back { stream: stream.clone(), number, least: *from }
            }
            Source::Stream(stream) => {
                let (next, last) = ((*from).max(1), events.version(stream)?);
                Walk::Versions { stream: stream.clone(), next, last, found: VecDeque::new() }
            }
            Source::Matching(condition) => Self::matching(events, &condition.items, *from, *backwards)?,
        };
        Ok(Self { events: events.clone(), walk, left: *limit })
    }

    fn matching(events: &Events, items: &[QueryItem], from: u64, backwards: bool) -> Result<Walk> {
        let items = items.to_vec();
        if items.iter().any(|item| item.types.is_empty() && item.tags.is_empty()) {
            return Walk::numbers(events, from, backwards);
        }
        let mut numbers = BTreeSet::new();
        for chain in chains(&items) {
            numbers.extend(Some(events.newest_in(chain)?).filter(|&number| number != 0));
        }
        let mut back = Walk::Chains { numbers, items, least: from };
        if backwards {
            return Ok(back);
        }
        let mut numbers = Vec::new();
        while let Some(event) = back.step(events)? {
            numbers.push(event.number());
        }
        Ok(Walk::Found { numbers })
    }
}

/// The chains on which every match of a query is: a tag of each item, or all of its types.
fn chains(items: &[QueryItem]) -> impl Iterator<Item = Chain<'_>> {
    items.iter().flat_map(|item| {
        let types = if item.tags.is_empty() { &item.types[..] } else { &[] };
        let tag = item.tags.first().map(|tag| Chain::Tag(tag.as_bytes()));
        tag.into_iter().chain(types.iter().map(|kind| Chain::Type(kind.as_bytes())))
    })
}

impl Events {
    /// The number of the newest event of a chain; 0: there is none.
    fn newest_in(&self, chain: Chain<'_>) -> Result<u64> {
        let (index, of) = self.index()?;
        let engine = &self.space.store.engine;
        let _pin = engine.pins.pin();
        let newest = index.newest(&engine.log, of.seed, of.namespace, chain)?;
        newest.map_or(Ok(0), |stored| Ok(stored.event()?.number))
    }

    /// What `read` makes of the event with this number, if it is one of this log that retention has left.
    pub(super) fn with<T>(&self, number: u64, read: impl FnOnce(&Stored<'_>) -> Result<T>) -> Result<Option<T>> {
        let (index, of) = self.index()?;
        let engine = &self.space.store.engine;
        let _pin = engine.pins.pin();
        let stored = index.by_number(&engine.log, number)?;
        stored.filter(|stored| stored.namespace() == of.namespace).map(|stored| read(&stored)).transpose()
    }

    /// Reads the events that follow, some at a time: `next` is the number behind them.
    fn fill(&self, next: &mut u64, last: u64, ready: &mut VecDeque<Result<Event>>, place: &mut Place) -> Result<()> {
        let (index, of) = self.index()?;
        let engine = &self.space.store.engine;
        let _pin = engine.pins.pin();
        let mut bytes = 0;
        *next = index.next_from(*next).unwrap_or(u64::MAX).min(last + 1);
        let until = last.min(*next + TOGETHER - 1);
        while *next <= until && bytes < TOGETHER_BYTES {
            let read = index.next_number(&engine.log, place, *next).and_then(|stored| match stored {
                Some(stored) if stored.namespace() == of.namespace => {
                    bytes += stored.frame().header.frame_len();
                    whole(&stored)
                }
                _ => Ok(None),
            });
            *next += 1;
            ready.extend(read.transpose());
        }
        Ok(())
    }

    /// Numbers of the events `first` to `last` of a stream, by versions.
    fn numbers_of(&self, stream: &str, (first, last): (u64, u64)) -> Result<VecDeque<u64>> {
        let (index, of) = self.index()?;
        let engine = &self.space.store.engine;
        let _pin = engine.pins.pin();
        let chain = Chain::Stream(stream.as_bytes());
        let mut numbers = VecDeque::new();
        let mut next = index.by_version(&engine.log, of, stream.as_bytes(), last)?;
        while let Some(stored) = next {
            let event = stored.event()?;
            if event.version < first {
                break;
            }
            numbers.push_front(event.number);
            next = index.in_front(&engine.log, chain, &stored)?;
        }
        Ok(numbers)
    }
}

/// The event, unless retention has left only a stub of it.
fn whole(stored: &Stored<'_>) -> Result<Option<Event>> {
    if stored.is_stub() { Ok(None) } else { Event::of(stored).map(Some) }
}

impl Walk {
    fn numbers(events: &Events, from: u64, backwards: bool) -> Result<Self> {
        let (first, last) = (from.max(1), events.last_number()?);
        Ok(if backwards {
            Self::NumbersBack { first, last }
        } else {
            Self::Numbers { next: first, last, ready: VecDeque::new(), place: Place::default() }
        })
    }

    /// The next event.
    fn step(&mut self, events: &Events) -> Result<Option<Event>> {
        loop {
            let found = match self {
                Self::Numbers { next, last, ready, place } => {
                    if ready.is_empty() && *next <= *last {
                        events.fill(next, *last, ready, place)?;
                    }
                    match ready.pop_front() {
                        Some(event) => Some(event?),
                        None if *next > *last => return Ok(None),
                        None => None,
                    }
                }
                Self::NumbersBack { first, last } if *first > *last => return Ok(None),
                Self::NumbersBack { first, last } => {
                    let Some(number) = events.index()?.0.next_back_from(*last).filter(|number| number >= first) else {
                        return Ok(None);
                    };
                    *last = number - 1;
                    events.with(number, whole)?.flatten()
                }
                Self::Versions { stream, next, last, found } => {
                    if found.is_empty() && next <= last {
                        let end = (*next + TOGETHER - 1).min(*last);
                        *found = events.numbers_of(stream, (*next, end))?;
                        *next = end + 1;
                    }
                    let Some(number) = found.pop_front() else {
                        if next > last {
                            return Ok(None);
                        }
                        continue;
                    };
                    events.with(number, whole)?.flatten()
                }
                Self::Back { number: 0, .. } => return Ok(None),
                Self::Back { stream, number, least } => {
                    let read = |stored: &Stored<'_>| {
                        let view = stored.event()?;
                        let before = Chain::Stream(stream.as_bytes()).before(stored.stream(), &view).unwrap_or(0);
                        Ok((view.version, before.min(view.number - 1), whole(stored)?))
                    };
                    let Some((version, before, event)) = events.with(*number, read)? else { return Ok(None) };
                    if version < *least {
                        return Ok(None);
                    }
                    *number = before;
                    event
                }
                Self::Found { numbers } => match numbers.pop() {
                    Some(number) => events.with(number, whole)?.flatten(),
                    None => return Ok(None),
                },
                Self::Chains { numbers, items, least } => {
                    let Some(number) = numbers.pop_last().filter(|number| number >= least) else { return Ok(None) };
                    let read = |stored: &Stored<'_>| {
                        let view = stored.event()?;
                        let before = chains(items).filter_map(|chain| chain.before(stored.stream(), &view));
                        let before: Vec<u64> = before.filter(|&before| before != 0 && before < number).collect();
                        let matches = items.iter().any(|item| item.matches(&view));
                        Ok((before, if matches { whole(stored)? } else { None }))
                    };
                    let Some((before, event)) = events.with(number, read)? else { continue };
                    numbers.extend(before);
                    event
                }
            };
            if let Some(event) = found {
                return Ok(Some(event));
            }
        }
    }
}

impl Iterator for EventIter {
    type Item = Result<Event>;

    /// After an error the walk goes on behind the event, if it is damaged; along a chain it ends.
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.walk.step(&self.events).transpose()
    }
}
