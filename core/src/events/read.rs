//! Reading events: by number, along a chain, and by the version in a stream. The caller holds a pin, taken before.

use super::places::STRIDE;
use super::{Chain, EventIndex};
use crate::error::{Error, Result};
use crate::frame::{EVENT_NUMBER_LEN, EventView, HEADER_LEN_MAX, Header, Kind, event_number, jump_version, own_tags};
use crate::log::{Frame, Log, Window};
use crate::scan::{Found, Stretch, scan};
use alloc::vec::Vec;

/// An event in the log, verified.
#[derive(Debug)]
pub(crate) struct Stored<'a>(Frame<'a>);

impl<'a> Stored<'a> {
    pub(crate) fn namespace(&self) -> u32 {
        self.0.header.namespace
    }

    pub(crate) fn stream(&self) -> &[u8] {
        self.0.key()
    }

    /// What retention has left of an event.
    pub(crate) fn is_stub(&self) -> bool {
        self.0.header.kind == Kind::Stub
    }

    /// Synced, and so no power cut takes it. What compaction has copied was synced before.
    pub(crate) fn is_durable(&self, log: &Log) -> bool {
        let Frame { header, offset, .. } = &self.0;
        header.copied || log.lsn(*offset) + header.frame_len() as u64 <= log.sync_state.synced()
    }

    pub(crate) fn frame(&self) -> &Frame<'a> {
        &self.0
    }

    /// The event itself.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when a file that was made by hand has something else there.
    pub(crate) fn event(&self) -> Result<EventView<'_>> {
        EventView::decode(self.0.value()).ok_or_else(|| Error::corrupt(self.0.offset, "an event that is none"))
    }
}

/// The number of the event whose frame begins at `offset`; `None` if it is a record of another kind.
fn number_at(window: &mut Window<'_>, offset: u64, header: &Header) -> Result<Option<u64>> {
    if !header.kind.is_carried() {
        return Ok(None);
    }
    let value = offset + (header.header_len() + header.key_len()) as u64;
    Ok(Some(event_number(window.bytes(value, EVENT_NUMBER_LEN)?)))
}

impl EventIndex {
    /// The event with this number; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when it is damaged, or is not where the index says.
    pub(crate) fn by_number<'a>(&self, log: &'a Log, number: u64) -> Result<Option<Stored<'a>>> {
        let (anchor, damage) = {
            let state = self.state.read();
            (state.places.anchor_of(number), state.damage.filter(|_| number >= state.first.max(1)))
        };
        let found = match anchor {
            Some(anchor) => Self::search(log, anchor, number)?
                .map_or_else(|| Self::search_verified(log, anchor, number), |found| Ok(Some(found)))?,
            None => None,
        };
        match (&found, damage) {
            (None, Some(offset)) if number < log.next_event() => {
                Err(Error::corrupt(offset, "damage that may have held the event"))
            }
            _ => Ok(found),
        }
    }

    /// Walks the frames from an anchor on.
    pub(super) fn search(log: &Log, anchor: u64, number: u64) -> Result<Option<Stored<'_>>> {
        let last = anchor + STRIDE;
        let mut window = Window::new(&*log.storage, last + HEADER_LEN_MAX as u64);
        let mut offset = anchor;
        while offset <= last {
            let Ok(header) = window.header(offset) else { return Self::search_verified(log, anchor, number) };
            if number_at(&mut window, offset, &header)? == Some(number) {
                return Self::verified(log, offset).map(Some);
            }
            offset += header.frame_len() as u64;
        }
        Ok(None)
    }

    /// Walks the frames from an anchor on, and verifies each: a damaged one may be the event, or may have led past it.
    #[cold]
    fn search_verified(log: &Log, anchor: u64, number: u64) -> Result<Option<Stored<'_>>> {
        let salt = log.segment_stats.salt(log.geometry.extent_of(anchor));
        let end = log.segments().into_iter().find(|segment| segment.salt == salt).map_or(u64::MAX, |segment| segment.end);
        let (mut offset, last) = (anchor, anchor + STRIDE);
        while offset <= last && offset < end {
            match log.frame(offset).and_then(|frame| frame.check().map(|()| frame)) {
                Ok(frame) if frame.header.kind.is_carried() && event_number(frame.value()) == number => {
                    frame.is_readable()?;
                    return Ok(Some(Stored(frame)));
                }
                Ok(frame) => offset += frame.header.frame_len() as u64,
                Err(Error::Corrupt { .. }) => return Self::behind_damage(log, offset, last, number),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Looks behind a frame that cannot be read for the next ones that check.
    #[cold]
    fn behind_damage(log: &Log, from: u64, last: u64, number: u64) -> Result<Option<Stored<'_>>> {
        let extent = log.geometry.extent_of(from);
        let salt = log.segment_stats.salt(extent);
        let end = log.segments().into_iter().find(|segment| segment.salt == salt).map_or(from, |segment| segment.end);
        let mut at = None;
        let stretch = Stretch { salt, from, to: end.min(last + 2 * STRIDE).max(from), full: true };
        scan(&*log.storage, stretch, &mut |found| {
            if let Found::Frame { offset, header } = found {
                let mut window = Window::new(&*log.storage, offset);
                at = at.or(number_at(&mut window, offset, &header)?.filter(|found| *found == number).map(|_| offset));
            }
            Ok(())
        })?;
        match at {
            Some(offset) => Self::verified(log, offset).map(Some),
            None => Err(Error::corrupt(from, "an event, or what stands in front of it")),
        }
    }

    fn verified(log: &Log, offset: u64) -> Result<Stored<'_>> {
        let frame = log.frame(offset)?;
        log.check(&frame)?;
        frame.is_readable()?;
        Ok(Stored(frame))
    }

    /// The newest event of a chain.
    pub(crate) fn newest<'a>(&self, log: &'a Log, seed: u64, namespace: u32, chain: Chain<'_>) -> Result<Option<Stored<'a>>> {
        let hash = chain.hash(seed, namespace);
        let (mut candidates, unread): (Vec<u64>, _) = {
            let state = self.state.read();
            (state.heads.of(hash).collect(), state.unread)
        };
        // Behind a damaged event a chain has two: the newest one counts.
        candidates.sort_unstable();
        for number in candidates.into_iter().rev() {
            if unread.0 > number {
                break;
            }
            if let Some(stored) = self.by_number(log, number)?
                && stored.namespace() == namespace
                && chain.before(stored.stream(), &stored.event()?).is_some()
            {
                return Ok(Some(stored));
            }
        }
        match unread {
            (0, _) => Ok(None),
            (_, offset) => Err(Error::corrupt(offset, "an event that may be a newer one of the stream, the type or the tag")),
        }
    }

    /// The event of a stream at `version`, which is not above that of `from`, an event of the same stream.
    pub(crate) fn at_version<'a>(&self, log: &'a Log, from: Stored<'a>, version: u64) -> Result<Option<Stored<'a>>> {
        let mut stored = from;
        loop {
            let event = stored.event()?;
            if event.version <= version {
                return Ok((event.version == version).then_some(stored));
            }
            let jump = event.before(own_tags::JUMP).filter(|_| jump_version(event.version) >= version);
            let Some(number) = jump.or(event.before(own_tags::STREAM)).filter(|&number| number != 0 && number < event.number)
            else {
                return Ok(None);
            };
            match self.by_number(log, number)? {
                Some(earlier) => stored = earlier,
                None => return Ok(None),
            }
        }
    }
}
