//! The events of a commit.

use super::{Condition, Events, NewEvent};
use crate::error::{Error, Result};
use crate::events::{NoMatch, Planned, Staged, Written};
use crate::expected::Expected;
use crate::frame::{FrameSpec, Kind, Meta};
use crate::limits::VALUE_LEN_MAX;
use crate::log::{Log, Placed, Purpose};
use crate::pins::Pin;
use crate::planted::{Bug, dawdle, is};
use crate::store::Store;
use crate::sync::MutexGuard;
use alloc::vec::Vec;

/// Longest name of a stream, a type or a tag, in bytes.
const TEXT_LEN_MAX: usize = 1024;
/// Most tags of an event.
const TAGS_MAX: usize = 64;
/// Longest metadata, in bytes.
const METADATA_LEN_MAX: usize = 60 * 1024;
/// Latest time, in milliseconds since 1970: it takes six bytes of the file.
const TIME_MS_MAX: u64 = (1 << 48) - 1;

/// Events to append, and conditions.
#[derive(Debug, Default)]
pub(in crate::db) struct Appends<'a> {
    planned: Vec<Planned<'a>>,
    conditions: Vec<NoMatch<'a>>,
    /// Number of events.
    count: usize,
}

/// Refuses the name of a stream, a type or a tag that cannot be one.
pub(super) fn check_text(what: &'static str, text: &str) -> Result<()> {
    let is_fine = !text.is_empty() && text.len() <= TEXT_LEN_MAX && !text.starts_with('\0');
    let refused = match what {
        "stream" => "the name of a stream needs 1 to 1024 bytes, of which the first one is not 0",
        "type" => "the type of an event needs 1 to 1024 bytes, of which the first one is not 0",
        _ => "a tag needs 1 to 1024 bytes, of which the first one is not 0",
    };
    if is_fine { Ok(()) } else { Err(Error::InvalidArgument(refused)) }
}

pub(in crate::db) fn check_event(event: &NewEvent<'_>) -> Result<()> {
    check_text("type", &event.kind)?;
    event.tags.iter().try_for_each(|tag| check_text("tag", tag))?;
    if event.tags.len() > TAGS_MAX {
        return Err(Error::InvalidArgument("an event has at most 64 tags"));
    }
    if event.metadata.len() > METADATA_LEN_MAX {
        return Err(Error::InvalidArgument("the metadata of an event has at most 60 KiB; put more into its payload"));
    }
    if event.time.is_some_and(|time| time > TIME_MS_MAX) {
        return Err(Error::InvalidArgument("the time of an event is in milliseconds since 1970, and at most 281474976710655"));
    }
    // What stands around the payload is shorter than this.
    let len = event.payload.len() + (TAGS_MAX + 4) * (TEXT_LEN_MAX + 32) + METADATA_LEN_MAX;
    if len > VALUE_LEN_MAX { Err(Error::ValueTooLong { len: event.payload.len() }) } else { Ok(()) }
}

impl<'a> Appends<'a> {
    pub(in crate::db) const fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    /// Number of events.
    pub(in crate::db) const fn count(&self) -> usize {
        self.count
    }

    /// The only stream, if there is one, and no condition.
    pub(super) fn only(&self) -> Option<&Planned<'a>> {
        match &self.planned[..] {
            [planned] if self.conditions.is_empty() => Some(planned),
            _ => None,
        }
    }

    /// Adds events for a stream.
    pub(in crate::db) fn add(
        &mut self,
        to: &Events,
        stream: &'a str,
        expected: Expected,
        events: &'a [NewEvent<'_>],
    ) -> Result<()> {
        check_text("stream", stream)?;
        if events.is_empty() {
            return Err(Error::InvalidArgument("an append needs an event"));
        }
        events.iter().try_for_each(check_event)?;
        let namespace = to.space.name.number().ok_or(Error::NamespaceDropped)?;
        let now = to.space.store.engine.log.clock.host_time();
        let written = |event: &'a NewEvent<'_>| Written {
            kind: &event.kind,
            tags: event.tags.iter().map(|tag| &**tag).collect(),
            metadata: &event.metadata,
            payload: &event.payload,
            id: event.id,
            time: event.time.unwrap_or(now),
        };
        self.count += events.len();
        self.planned.push(Planned { namespace, stream, expected, events: events.iter().map(written).collect() });
        Ok(())
    }

    pub(in crate::db) fn add_condition(&mut self, of: &Events, condition: &'a Condition) -> Result<()> {
        let namespace = of.space.name.number().ok_or(Error::NamespaceDropped)?;
        self.conditions.push(NoMatch { namespace, items: &condition.items, after: condition.after });
        Ok(())
    }
}

/// Events that have their numbers and versions: until this is dropped, nobody else appends any.
pub(in crate::db) struct Staging<'s, 'a> {
    pub(in crate::db) staged: Staged<'a>,
    store: &'s Store,
    _pin: Pin<'s>,
    _appending: Option<MutexGuard<'s, ()>>,
}

impl Store {
    /// Builds the index of events if a commit has any: not while it holds its shards.
    pub(in crate::db) fn before_events(&self, appends: &Appends<'_>) -> Result<()> {
        if appends.is_empty() { Ok(()) } else { self.engine.events().map(drop) }
    }

    /// Gives the events of a commit their numbers and versions, if all is as expected; `None` for one without events. The caller has locked
    /// the shards of the commit.
    pub(in crate::db) fn stage<'a>(&self, appends: &Appends<'a>) -> Result<Option<Staging<'_, 'a>>> {
        if appends.is_empty() {
            return Ok(None);
        }
        let index = self.engine.events()?;
        let appending = index.lock();
        let pin = self.engine.pins.pin();
        let (log, seed) = (&self.engine.log, self.engine.seed);
        let staged = index.stage(log, seed, log.next_event(), &appends.planned, &appends.conditions)?;
        let appending = (!is(Bug::AppendsPreparedTogether)).then_some(appending);
        if appending.is_none() {
            dawdle();
        }
        Ok(Some(Staging { staged, store: self, _pin: pin, _appending: appending }))
    }
}

impl Staging<'_, '_> {
    /// The frames of the events, the last ones of the commit.
    pub(in crate::db) fn frames(&self) -> impl Iterator<Item = FrameSpec<'_>> {
        let last = self.staged.frames.len() - 1;
        self.staged.frames.iter().enumerate().map(move |(index, (namespace, stream, value))| FrameSpec {
            kind: Kind::Event,
            continues: index != last,
            meta: Meta::plain(*namespace),
            key: stream.as_bytes(),
            value,
        })
    }

    /// Appends the commit, and raises the number of the next event with it.
    pub(in crate::db) fn append(
        &self,
        log: &Log,
        check: &dyn Fn() -> Result<()>,
        frames: &[FrameSpec<'_>],
        purpose: Purpose,
        placed: &mut Vec<Placed>,
    ) -> Result<()> {
        log.append_events(check, frames, self.staged.next(), purpose, placed)
    }

    /// Enters the events, which are in the log, into their index.
    pub(in crate::db) fn publish(&self, placed: &[Placed]) {
        let engine = &self.store.engine;
        engine.events.publish(&engine.log, &self.staged, placed);
    }
}
