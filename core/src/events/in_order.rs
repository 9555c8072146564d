//! Reading events one after the other: the next one most often stands right behind the last.

use super::places::STRIDE;
use super::read::Walked;
use super::{EventIndex, Stored};
use crate::error::Result;
use crate::frame::event_number;
use crate::log::{Log, Published};

/// Where a walk along the numbers is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// File offset behind the last event, and the salt of its segment.
    behind: u64,
    salt: u64,
    /// The anchor of the last event, the salt of its segment, and the last number that has the same one; 0: it has to be asked for.
    anchor: u64,
    anchor_salt: u64,
    until: u64,
}

impl Place {
    pub(crate) const fn new() -> Self {
        Self { behind: 0, salt: 0, anchor: 0, anchor_salt: 0, until: 0 }
    }

    /// There may be an event with this number, as far as this place knows.
    pub(crate) const fn covers(&self, number: u64) -> bool {
        number <= self.until
    }

    /// To be called with each new pin: under an earlier one the anchors may have been others.
    pub(crate) const fn repinned(&mut self) {
        self.until = 0;
    }
}

impl EventIndex {
    /// [`Self::by_number`] of a walk, whose numbers rise under one pin. `published` is what it has read of before, under this pin.
    #[inline]
    pub(crate) fn next_number<'a>(
        &self,
        log: &'a Log,
        published: &mut Published<'a>,
        place: &mut Place,
        number: u64,
    ) -> Result<Option<Stored<'a>>> {
        if !place.covers(number) {
            let Some((anchor, until)) = self.state.read().places.run_of(number) else { return self.by_number(log, number) };
            (place.anchor, place.until) = (anchor, until);
            place.anchor_salt = log.segment_stats.salt(log.geometry.extent_of(anchor));
        }
        let anchor = place.anchor;
        let is_near = place.salt == place.anchor_salt && anchor <= place.behind && place.behind <= anchor + STRIDE;
        let from = if is_near { place.behind } else { anchor };
        if !published.holds(from) && log.geometry.extent_of(from) == log.geometry.extent_of(anchor) {
            *published = log.published(from);
        }
        let stored = match Self::at_guess(log, published, from, place.anchor_salt, number) {
            Some(stored) => Some(stored),
            None => match Self::walk(log, from, anchor + STRIDE, number)? {
                Walked::At(offset) if let Ok(found) = Self::verified(log, offset) => Some(found),
                // It stands in front of the one before, or something is damaged, or this was the end of a segment.
                Walked::At(_) | Walked::NotThere | Walked::Bad => self.by_number(log, number)?,
            },
        };
        if let Some(Stored(frame)) = &stored {
            (place.behind, place.salt) = (frame.offset + frame.header.frame_len() as u64, frame.salt);
        }
        Ok(stored)
    }

    /// The event, if it begins at `guess`, where there may be anything.
    #[inline]
    fn at_guess<'a>(log: &Log, published: &Published<'a>, guess: u64, salt: u64, number: u64) -> Option<Stored<'a>> {
        let frame = published.frame(guess, salt)?;
        let is_it = frame.header.kind.is_carried() && event_number(frame.value()) == number && frame.is_readable().is_ok();
        (is_it && log.check(&frame).is_ok()).then_some(Stored(frame))
    }
}
