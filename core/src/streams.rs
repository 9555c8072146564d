//! Events of an open store: their index, once it is needed, and what compaction moves.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::events::{EventIndex, In};
use crate::frame::event_number;
use crate::log::Frame;

impl Engine {
    /// The index of events, which is built first where it is not.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub(crate) fn events(&self) -> Result<&EventIndex> {
        if !self.events.is_loaded() {
            // As long as nothing is loaded, no checkpoint drops these parts: it loads them first.
            let parts = self.origin.get().map(|origin| &origin.snapshot.events).filter(|parts| !parts.is_empty());
            let _pin = self.pins.pin();
            self.events.load(&self.log, self.seed, parts).map_err(|error| self.log.or_fenced(error))?;
        }
        Ok(&self.events)
    }

    /// Builds the index of events if the store has any: maintenance needs it then.
    pub(crate) fn load_events(&self) -> Result<()> {
        if self.log.next_event() > 1 { self.events().map(drop) } else { Ok(()) }
    }

    /// A log of events.
    pub(crate) const fn events_of(&self, namespace: u32) -> In {
        In { seed: self.seed, namespace }
    }

    /// True when the event that a frame holds is read there, and not in a later copy.
    pub(crate) fn is_events_place(&self, frame: &Frame<'_>) -> Result<bool> {
        match self.events()?.by_number(&self.log, event_number(frame.value())) {
            Ok(found) => Ok(found.is_none_or(|found| found.frame().offset == frame.offset)),
            // What the index points at is damaged: this one is whole.
            Err(Error::Corrupt { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
