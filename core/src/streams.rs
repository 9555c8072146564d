//! Events of an open store: their index, once it is needed, and what compaction moves.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::events::{EventIndex, In, Stub};
use crate::frame::{FrameSpec, HEADER_LEN_MAX, Kind, Meta, event_number};
use crate::log::{EventChange, Frame, Purpose, Window};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

impl Engine {
    /// The index of events, which is built first where it is not.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub(crate) fn events(&self) -> Result<&EventIndex> {
        if !self.events.is_loaded() {
            // As long as nothing is loaded, no checkpoint drops these parts: it loads them first.
            let origin = self.origin.get();
            let parts = origin.map(|origin| &origin.snapshot.events).filter(|parts| !parts.is_empty());
            let extent = |offset: u64| u64::from(self.log.geometry.extent_of(offset));
            let is_stale = |offset: u64| offset != 0 && origin.is_some_and(|origin| origin.retired.contains(extent(offset)));
            let _pin = self.pins.pin();
            let loaded = self.events.load(&self.log, self.seed, parts, &is_stale, origin.is_none());
            loaded.map_err(|error| self.log.or_fenced(error))?;
        }
        Ok(&self.events)
    }

    /// Builds the index of events if the store has any: maintenance needs it then.
    pub(crate) fn load_events(&self) -> Result<()> {
        if self.log.next_event() > 1 { self.events().map(drop) } else { Ok(()) }
    }

    /// Has the index of events of a follower, which the log behind it brings up to date: from now on, as what it is built of may be used again.
    pub(crate) fn load_followed_events(&self) -> Result<()> {
        if self.log.next_event() > 1 {
            return self.events().map(drop);
        }
        self.events.begin_empty();
        Ok(())
    }

    /// Applies what a follower has read of events. False if one of them cannot be read any more.
    pub(crate) fn follow_events(&self, changes: &[EventChange]) -> Result<bool> {
        if changes.is_empty() {
            return Ok(true);
        }
        match self.events.follow(&self.log, self.seed, changes) {
            Ok(last) => {
                self.log.saw_event(last);
                Ok(true)
            }
            Err(error) if error.may_be_reuse() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// [`Self::load_events`] before a segment is emptied.
    pub(crate) fn before_moving_events(&self) -> Result<()> {
        if self.log.next_event() > 1 {
            let _pin = self.pins.pin();
            self.events()?.find_first(&self.log)?;
        }
        Ok(())
    }

    /// A log of events.
    pub(crate) const fn events_of(&self, namespace: u32) -> In {
        In { seed: self.seed, namespace }
    }

    /// True when compaction must copy an event or a stub: it is read there, and not in a later copy, and it is still needed. A stub hides its event,
    /// which stands in front of it in the log: it is needed until its segment is the `oldest`.
    pub(crate) fn needs_event(&self, frame: &Frame<'_>, oldest: bool) -> Result<bool> {
        let oldest = oldest || is(Bug::StubDroppedEarly);
        if self.events()?.is_gone(event_number(frame.value())) && !is(Bug::GoneEventsCopied) {
            // A session has dropped its stub, and ended before it could retire their segments.
            return Ok(frame.header.kind == Kind::Stub && !oldest);
        }
        if !self.is_events_place(frame)? {
            return Ok(false);
        }
        Ok(frame.header.kind != Kind::Stub || !oldest || !self.events()?.drop_stub(&self.log, self.seed, frame)?)
    }

    fn is_events_place(&self, frame: &Frame<'_>) -> Result<bool> {
        match self.events()?.by_number(&self.log, event_number(frame.value())) {
            Ok(found) => Ok(found.is_none_or(|found| found.frame().offset == frame.offset)),
            // What the index points at is damaged, and this one is whole. But if that was the stub of this event, it was removed.
            Err(Error::Corrupt { offset, .. }) => Ok(frame.header.kind == Kind::Stub || self.was_a_copy(offset)),
            Err(error) => Err(error),
        }
    }

    /// True when the damaged frame at this offset says that it is a copy of an event.
    fn was_a_copy(&self, offset: u64) -> bool {
        let end = offset + HEADER_LEN_MAX as u64;
        let header = Window::new(&*self.log.storage, end).header(offset);
        header.is_ok_and(|header| header.kind == Kind::Event && header.copied)
    }

    /// Removes events of a log in one commit, where they are more than stubs. Returns how many were.
    pub(crate) fn remove_events(&self, of: In, numbers: &[u64]) -> Result<u64> {
        let index = self.events()?;
        let _appending = index.lock();
        let _pin = self.pins.pin();
        let mut stubs = Vec::with_capacity(numbers.len());
        for &number in numbers {
            let stored = index.by_number(&self.log, number)?;
            if let Some(stored) = stored.filter(|stored| stored.namespace() == of.namespace && !stored.is_stub()) {
                stubs.push(Stub::of(&stored)?);
            }
        }
        let last = stubs.len().saturating_sub(1);
        let frames: Vec<FrameSpec<'_>> = stubs.iter().enumerate().map(|(place, stub)| frame_of(stub, place != last)).collect();
        if frames.is_empty() {
            return Ok(0);
        }
        let mut placed = Vec::with_capacity(frames.len());
        self.log.append(&frames, Purpose::MakeSpace, &mut placed)?;
        index.publish_stubs(&self.log, &stubs, &placed);
        Ok(stubs.len() as u64)
    }
}

fn frame_of(stub: &Stub, continues: bool) -> FrameSpec<'_> {
    let meta = Meta::plain(stub.namespace);
    FrameSpec { kind: Kind::Stub, continues, meta, key: &stub.stream, value: &stub.value }
}
