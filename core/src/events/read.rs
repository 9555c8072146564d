//! Reading events: by number, along a chain, and by the version in a stream. The caller holds a pin, taken before.

use super::places::{STRIDE, Steps};
use super::{Chain, EventIndex, In};
use crate::error::{Error, Result};
use crate::few::Few;
use crate::frame::{
    EVENT_NUMBER_LEN, EventView, FRAME_LEN_MIN, HEADER_LEN_MAX, Header, Kind, event_number, event_version, jump_version, own_tags,
};
use crate::log::{Frame, Log, Published, Window};
use crate::scan::{Found, Stretch, scan};

/// Bytes that are read of the last frame of a walk: its header, and the name of a stream as they usually are.
const FRONT: usize = HEADER_LEN_MAX + 64 + EVENT_NUMBER_LEN;

/// Bytes of an event to prefetch: all of a small one.
pub(super) const EVENT_PREFETCH: usize = 200;

/// What a walk has found.
pub(super) enum Walked {
    At(u64),
    NotThere,
    /// A frame that cannot be read.
    Bad,
}

/// An event in the log, verified.
#[derive(Debug)]
pub(crate) struct Stored<'a>(pub(super) Frame<'a>);

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
    #[inline]
    pub(crate) fn event(&self) -> Result<EventView<'_>> {
        EventView::decode(self.0.value()).ok_or_else(|| Error::corrupt(self.0.offset, "an event that is none"))
    }
}

impl Stored<'_> {
    /// The version of the event, without a look at the rest of it; fails as [`Self::event`] does.
    #[inline]
    pub(crate) fn version(&self) -> Result<u64> {
        event_version(self.0.value()).ok_or_else(|| Error::corrupt(self.0.offset, "an event that is none"))
    }
}

impl EventIndex {
    /// The event with this number; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when it is damaged, or is not where the index says.
    pub(crate) fn by_number<'a>(&self, log: &'a Log, number: u64) -> Result<Option<Stored<'a>>> {
        let (steps, damage) = {
            let state = self.state.read();
            (state.places.steps_to(number), state.damage.filter(|_| number >= state.first.max(1)))
        };
        let found = match steps {
            Some(Steps { anchor, count, bytes }) => {
                let published = log.published(anchor);
                // The headers on the way, and the event, are requested before the first one is waited for.
                (0..count).for_each(|step| published.prefetch(anchor + step * bytes, 1));
                published.prefetch(anchor + count * bytes, EVENT_PREFETCH);
                let salt = log.segment_stats.salt(log.geometry.extent_of(anchor));
                let found = match Self::published(log, &published, (anchor, anchor + STRIDE), salt, number) {
                    None => Self::search(log, anchor, number)?,
                    found => found,
                };
                match found {
                    None if log.follows() => Self::search_followed(log, anchor, number)?,
                    None => Self::search_verified(log, anchor, number)?,
                    found => found,
                }
            }
            None => None,
        };
        match (&found, damage) {
            (None, Some(offset)) if number < log.next_event() => {
                Err(Error::corrupt(offset, "damage that may have held the event"))
            }
            _ => Ok(found),
        }
    }

    /// The event, if it begins in `from..=last`, all in front of it can be read, and all that is published; there may be anything. `None` is no
    /// result: [`Self::search`] tells.
    #[inline]
    pub(super) fn published<'a>(
        log: &Log,
        published: &Published<'a>,
        (from, last): (u64, u64),
        salt: u64,
        number: u64,
    ) -> Option<Stored<'a>> {
        let frame = published.event(from, last, salt, number)?;
        (frame.is_readable().is_ok() && log.check(&frame).is_ok()).then_some(Stored(frame))
    }

    /// Walks the frames from an anchor on.
    pub(super) fn search(log: &Log, anchor: u64, number: u64) -> Result<Option<Stored<'_>>> {
        match Self::walk(log, anchor, anchor + STRIDE, number)? {
            Walked::At(offset) if let Ok(found) = Self::verified(log, offset) => Ok(Some(found)),
            Walked::NotThere => Ok(None),
            Walked::At(_) | Walked::Bad => Self::search_verified(log, anchor, number),
        }
    }

    /// Looks for an event among the frames that begin in `from..=last`. Nothing is verified: behind the end of a segment there may be anything,
    /// also what looks like this event.
    pub(super) fn walk(log: &Log, from: u64, last: u64, number: u64) -> Result<Walked> {
        let end = (last + FRONT as u64).min(log.storage.len()?);
        let mut window = Window::new(&*log.storage, end);
        let bytes = window.bytes(from, end.saturating_sub(from) as usize)?;
        let mut at = 0;
        while from + at as u64 <= last {
            let front = bytes.get(at..).unwrap_or_default();
            let Ok(header) = Header::decode(front) else { return Ok(Walked::Bad) };
            if header.is_sealed() {
                return Ok(Walked::Bad);
            }
            if header.kind.is_carried() {
                let value = at + header.header_len() + header.key_len();
                let found = match bytes.get(value..).and_then(<[u8]>::first_chunk::<EVENT_NUMBER_LEN>) {
                    Some(found) => event_number(found),
                    // The number of an event with a long name of its stream.
                    None => match Window::new(&*log.storage, end).bytes(from + value as u64, EVENT_NUMBER_LEN) {
                        Ok(found) => event_number(found),
                        Err(Error::Corrupt { .. }) => return Ok(Walked::Bad),
                        Err(error) => return Err(error),
                    },
                };
                if found == number {
                    return Ok(Walked::At(from + at as u64));
                }
            }
            at += header.frame_len();
        }
        Ok(Walked::NotThere)
    }

    /// [`Self::search_verified`] on a follower: where the writer may have used the space again, what is not found says nothing.
    #[cold]
    fn search_followed(log: &Log, anchor: u64, number: u64) -> Result<Option<Stored<'_>>> {
        let salt = log.segment_stats.salt(log.geometry.extent_of(anchor));
        if !log.segments().iter().any(|segment| segment.salt == salt) {
            return Err(Error::Overtaken);
        }
        Self::search_verified(log, anchor, number)
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
        // Behind the last frame of a segment there is none.
        if from + FRAME_LEN_MIN as u64 > end {
            return Ok(None);
        }
        let mut at = None;
        let stretch = Stretch { salt, from, to: end.min(last + 2 * STRIDE).max(from), full: true };
        scan(&*log.storage, stretch, &mut |found| {
            if let Found::Frame { offset, header } = found
                && header.kind.is_carried()
            {
                let (found, _) = super::load::event_at(log, &mut Window::new(&*log.storage, offset), offset)?;
                at = at.or((found == number).then_some(offset));
            }
            Ok(())
        })?;
        match at {
            Some(offset) => Self::verified(log, offset).map(Some),
            None => Err(Error::corrupt(from, "an event, or what stands in front of it")),
        }
    }

    pub(super) fn verified(log: &Log, offset: u64) -> Result<Stored<'_>> {
        let frame = log.frame(offset)?;
        log.check(&frame)?;
        frame.is_readable()?;
        Ok(Stored(frame))
    }

    /// The newest event of a chain.
    pub(crate) fn newest<'a>(&self, log: &'a Log, seed: u64, namespace: u32, chain: Chain<'_>) -> Result<Option<Stored<'a>>> {
        let hash = chain.hash(seed, namespace);
        let (mut candidates, unread): (Few<u64, 2>, _) = {
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

    /// The event of a stream at `version`; `None` if the stream has none, or it is gone. Near a version that was looked up before this takes few
    /// steps along the stream, or none where events of one stream follow each other.
    pub(crate) fn by_version<'a>(&self, log: &'a Log, of: In, stream: &[u8], version: u64) -> Result<Option<Stored<'a>>> {
        let hash = Chain::Stream(stream).hash(of.seed, of.namespace);
        let is_it = |stored: &Stored<'_>, version: u64| -> Result<bool> {
            // One that was removed may be of the stream as it was before it began anew.
            let is_there = !stored.is_stub() && stored.namespace() == of.namespace && stored.stream() == stream;
            Ok(is_there && stored.version()? == version)
        };
        let (step, front, behind) = {
            let milestones = self.milestones.read();
            let get = |place: u64| place.checked_mul(milestones.step()).and_then(|version| milestones.get(hash, version));
            (milestones.step(), get(version / milestones.step()), get(version.div_ceil(milestones.step())))
        };
        // As if the events from the milestone on were all of this stream: looking is cheaper than knowing.
        if let Some(front) = front
            && let Ok(Some(stored)) = self.by_number(log, front + version % step)
            && is_it(&stored, version)?
        {
            return Ok(Some(stored));
        }
        let Some(milestone) = version.div_ceil(step).checked_mul(step) else { return Ok(None) };
        let known = behind.map(|number| self.by_number(log, number)).transpose()?.flatten();
        let from = match known {
            Some(stored) if is_it(&stored, milestone)? => stored,
            _ => match self.newest(log, of.seed, of.namespace, Chain::Stream(stream))? {
                Some(newest) if newest.event()?.version >= milestone => {
                    let (number, last) = newest.event().map(|event| (event.number, event.version))?;
                    // As if all events behind it were of this stream.
                    let guessed = self.by_number(log, number.saturating_sub(last - milestone));
                    let found = match guessed {
                        Ok(Some(stored)) if is_it(&stored, milestone)? => Some(stored),
                        _ => self.at_version(log, newest, milestone)?,
                    };
                    let Some(found) = found else { return Ok(None) };
                    self.milestones.write().set(hash, milestone, found.event()?.number);
                    found
                }
                Some(newest) => newest,
                None => return Ok(None),
            },
        };
        let found = self.at_version(log, from, version)?;
        if let Some(found) = &found
            && version.is_multiple_of(step)
        {
            self.milestones.write().set(hash, version, found.event()?.number);
        }
        Ok(found)
    }

    /// The event of a stream at `version`, which is not above that of `from`, an event of the same stream.
    pub(crate) fn at_version<'a>(&self, log: &'a Log, from: Stored<'a>, version: u64) -> Result<Option<Stored<'a>>> {
        let mut stored = from;
        loop {
            let event = stored.event()?;
            if event.version <= version {
                return Ok((event.version == version).then_some(stored));
            }
            let is_front = |number: &u64| *number != 0 && *number < event.number;
            let jump = event.before(own_tags::JUMP).filter(|_| jump_version(event.version) >= version).filter(is_front);
            let jumped = jump.map(|number| self.by_number(log, number)).transpose()?.flatten();
            let earlier = match jumped {
                Some(earlier) => Some(earlier),
                None => self.in_front(log, Chain::Stream(stored.stream()), &stored)?,
            };
            match earlier {
                Some(earlier) => stored = earlier,
                None => return Ok(None),
            }
        }
    }
}
