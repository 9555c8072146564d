//! Reading events one after the other: the next one most often stands right behind the last.

use super::places::STRIDE;
use super::read::{EVENT_PREFETCH, Walked};
use super::{EventIndex, In, Stored};
use crate::error::Result;
use crate::log::{Log, Plain, Published};

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

    /// The last event stands where those that share the anchor may.
    const fn is_near(&self) -> bool {
        self.salt == self.anchor_salt && self.anchor <= self.behind && self.behind <= self.anchor + STRIDE
    }

    /// The last event is one that stands right behind the one before, and whose frame is so long.
    #[inline]
    pub(crate) const fn pass(&mut self, len: usize) {
        self.behind += len as u64;
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
        if !place.covers(number) && !self.go_on(log, published, place, number) {
            return self.by_number(log, number);
        }
        let (from, anchor) = (place.behind, place.anchor);
        if !published.holds(from) && log.geometry.extent_of(from) == log.geometry.extent_of(anchor) {
            *published = log.published(from);
        }
        let stored = match Self::published(log, published, (from, anchor + STRIDE), place.anchor_salt, number) {
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

    /// The same, if the event is of this log and stands in one piece right behind the last one, or at its anchor; `place` does not pass it. `None` is no
    /// result: [`Self::next_number`] tells. It returns the bytes alone: a [`Stored`] is a hundred bytes, which would be moved from call to call.
    #[inline]
    pub(crate) fn right_behind<'a>(
        &self,
        log: &'a Log,
        published: &mut Published<'a>,
        place: &mut Place,
        of: In,
        number: u64,
    ) -> Option<Plain<'a>> {
        if !place.covers(number) && !self.go_on(log, published, place, number) || !place.is_near() || log.remembers_checks() {
            return None;
        }
        published.plain_event(place.behind, place.salt, number, of.namespace)
    }

    /// Goes on to the events that share the anchor of this one: to the anchor, unless the last event is a better place to begin. False if there is no such
    /// event.
    fn go_on<'a>(&self, log: &'a Log, published: &mut Published<'a>, place: &mut Place, number: u64) -> bool {
        let Some(run) = self.state.read().places.run_of(number) else { return false };
        (place.anchor, place.until) = (run.anchor, run.last);
        place.anchor_salt = log.segment_stats.salt(log.geometry.extent_of(run.anchor));
        if !place.is_near() {
            (place.behind, place.salt) = (run.anchor, place.anchor_salt);
        }
        if !published.holds(run.anchor) {
            *published = log.published(run.anchor);
        }
        published.prefetch(run.ahead, EVENT_PREFETCH);
        true
    }

    /// The event, if it stands at `offset`, as it did under this pin.
    #[inline]
    pub(crate) fn at_offset<'a>(log: &'a Log, published: &mut Published<'a>, offset: u64, number: u64) -> Option<Stored<'a>> {
        if !published.holds(offset) {
            *published = log.published(offset);
        }
        Self::published(log, published, (offset, offset), log.segment_stats.salt(log.geometry.extent_of(offset)), number)
    }
}
