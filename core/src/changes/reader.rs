//! Reading commits from the log, from a position on. Segment by segment: each names the one before it, so that a missing one is noticed.

use super::{Change, Commit};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::frame::{FRAME_LEN_MIN, Header, Kind};
use crate::limits::LOG_POSITION_FIRST;
use crate::log::{Contained, Log, PIECE, Segment, SegmentHeader, SegmentList, Step, Walk};
use crate::planted::{Bug, is};
use crate::position::Position;
use alloc::vec::Vec;

/// A record as the log has it.
pub(crate) struct Item<'a> {
    pub(crate) kind: Kind,
    /// Number of its namespace.
    pub(crate) namespace: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) value: &'a [u8],
    /// When it expires, in milliseconds since 1970.
    pub(crate) expires_at: Option<u64>,
}

/// What a record is to its reader; `None` where it is not asked for.
type Select<'a> = dyn FnMut(Item<'_>) -> Result<Option<Change>> + 'a;

/// Where a reader is in the log.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Everything before has been read: a place between two commits, or [`Position::START`].
    place: Position,
    /// Number of records in front of the place in its segment, if it is known.
    records: Option<u64>,
}

/// A walk from segment to segment.
struct Chain<'a> {
    log: &'a Log,
    /// Base of the segment in which it is.
    base: u64,
    /// Base of the one that it has looked at last.
    seen: u64,
    /// Base and salt of that segment, and of those without frames behind it: the next one names one of them.
    before: Vec<(u64, u64)>,
}

impl Reader {
    /// A reader of everything after `position`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownPosition`] when the log does not contain it, [`Error::Compacted`] when it cannot tell, or does not have all that follows.
    pub(crate) fn new(engine: &Engine, position: Position) -> Result<Self> {
        let _pin = engine.pins.pin();
        let log = &engine.log;
        match log.contains(position.lsn, position.salt) {
            Contained::Yes => match records_in_front(log, position) {
                Ok(Some(records)) => Ok(Self { place: position, records }),
                Ok(None) => Err(Error::UnknownPosition),
                Err(error) if log.follows() && error.may_be_reuse() && is_gone_by_now(log, position) => Err(compacted(log)?),
                Err(error) => Err(error),
            },
            Contained::No => Err(Error::UnknownPosition),
            Contained::Gone => Err(compacted(log)?),
        }
    }

    pub(crate) const fn place(&self) -> Position {
        self.place
    }

    /// Reads the commits up to the log position `limit`, or until they take about `most` bytes of log.
    ///
    /// # Errors
    ///
    /// [`Error::Compacted`] when a part of the log that follows is no longer there. What was read in front of an error is in `out`.
    pub(crate) fn read(
        &mut self,
        engine: &Engine,
        limit: u64,
        most: u64,
        select: &mut Select<'_>,
        out: &mut Vec<Commit>,
    ) -> Result<()> {
        // Nothing that the pin can reach is reused while this reads.
        let _pin = engine.pins.pin();
        let log = &engine.log;
        loop {
            let mut chain = Chain::new(log);
            match self.read_along(engine, &mut chain, limit, most, select, out) {
                Err(Error::Compacted { oldest }) if log.follows() => {
                    if !self.skips_what_is_gone(log)? {
                        return Err(Error::Compacted { oldest });
                    }
                }
                Err(error) if log.follows() && error.may_be_reuse() && log.forget_retired(chain.seen) => {}
                result => return result,
            }
        }
    }

    /// Goes on behind a part of a follower's log that is gone, if nothing in it has changed anything.
    fn skips_what_is_gone(&mut self, log: &Log) -> Result<bool> {
        if let Some(place) = log.quiet_behind(self.place).filter(|place| log.segment_of(place.lsn, place.salt).is_some()) {
            *self = Self { place, records: records_in_front(log, place).ok().flatten().flatten() };
            return Ok(true);
        }
        let Some(records) = self.records else { return Ok(false) };
        let next = match behind_a_whole_segment(log, self.place, records) {
            Err(error) if error.may_be_reuse() => None,
            next => next?,
        };
        if let Some(place) = next {
            *self = Self { place, records: Some(0) };
        }
        Ok(next.is_some())
    }

    fn read_along(
        &mut self,
        engine: &Engine,
        chain: &mut Chain<'_>,
        limit: u64,
        most: u64,
        select: &mut Select<'_>,
        out: &mut Vec<Commit>,
    ) -> Result<()> {
        let log = &engine.log;
        let mut current = if is_start(self.place) { None } else { Some(chain.enter(self.place)?) };
        let mut commit = Open::default();
        let mut records = self.records;
        let mut read = 0;
        let mut is_at_border = false;
        loop {
            if let Some((segment, from)) = current {
                let mut walk = Walk::new(&*log.storage, segment.salt, from, segment.end);
                loop {
                    let (offset, header) = match walk.step()? {
                        Step::Frame { offset, header } => (offset, header),
                        Step::End => break,
                        Step::Bad { .. } if is(Bug::ReusedIsTheEnd) && log.follows() => break,
                        Step::Bad { offset, error } => return Err(log.or_fenced(Error::corrupt(offset, error.what()))),
                    };
                    let lsn = segment.lsn(log.geometry, walk.position());
                    if lsn > limit {
                        return Ok(());
                    }
                    read += header.frame_len() as u64;
                    if log.follows() {
                        records = records.map(|records| records + u64::from(!header.kind.is_control()));
                    }
                    // Copies are commits of their own, and belong to nobody's.
                    if !header.kind.is_control() && (!header.copied || is(Bug::CopiesShown)) {
                        if !header.kind.is_carried() {
                            commit.changes.extend(change(engine, &mut walk, (offset, segment.salt), &header, select)?);
                        }
                        commit.is_open = header.continues;
                    }
                    if commit.is_open {
                        continue;
                    }
                    *self = Self { place: Position::new(lsn, segment.salt), records };
                    let changes = core::mem::take(&mut commit.changes);
                    if !changes.is_empty() && !(is(Bug::BorderSkipped) && core::mem::take(&mut is_at_border)) {
                        let (unique, salt) = log.unique_before(lsn, segment.salt);
                        out.push(Commit::new(changes, Position::new(unique, salt), unique != lsn));
                    }
                    if read >= most {
                        return Ok(());
                    }
                }
            }
            let Some((segment, from)) = chain.next(limit, commit.is_open)? else { return Ok(()) };
            records = (from == segment.first_frame(log.geometry)).then_some(0);
            if !commit.is_open {
                *self = Self { place: Position::new(segment.lsn(log.geometry, from), segment.salt), records };
            }
            is_at_border = true;
            current = Some((segment, from));
        }
    }
}

/// What the record of a frame that a step returned is to the reader.
fn change(
    engine: &Engine,
    walk: &mut Walk<'_>,
    (offset, salt): (u64, u64),
    header: &Header,
    select: &mut Select<'_>,
) -> Result<Option<Change>> {
    let (kind, namespace) = (header.kind, header.namespace);
    // A long record is read a second time: another process may use its space again in between.
    let is_read_again = engine.log.follows() && header.frame_len() > PIECE;
    if header.unsupported().is_none() && !is_read_again {
        let (key, expires_at) = (walk.key(offset, header)?.to_vec(), walk.expiry(offset, header)?);
        return select(Item { kind, namespace, key, value: walk.value(offset, header)?, expires_at });
    }
    let frame = engine.log.frame(offset)?;
    if engine.log.follows() {
        frame.check()?;
        if frame.salt != salt {
            return Err(Error::Overtaken);
        }
    }
    let (key, expires_at) = (frame.key().to_vec(), frame.expiry());
    let frame = engine.decoded(frame)?;
    select(Item { kind, namespace, key, value: frame.value(), expires_at })
}

/// A commit of which the last frame has not been read yet.
#[derive(Default)]
struct Open {
    changes: Vec<Change>,
    is_open: bool,
}

impl<'a> Chain<'a> {
    fn new(log: &'a Log) -> Self {
        Self { log, base: 0, seen: 0, before: alloc::vec![(0, 0)] }
    }

    /// The segment of a place, and the offset of what follows that.
    fn enter(&mut self, place: Position) -> Result<(Segment, u64)> {
        match self.log.segment_of(place.lsn, place.salt) {
            Some(segment) => {
                self.go_to(&segment);
                Ok((segment, self.log.geometry.start(segment.extent) + (place.lsn - segment.base)))
            }
            None => Err(compacted(self.log)?),
        }
    }

    fn go_to(&mut self, segment: &Segment) {
        // What follows a segment without frames may name the one in front of that.
        if segment.end > segment.first_frame(self.log.geometry) {
            self.before.clear();
        }
        self.before.push((segment.base, segment.salt));
        (self.base, self.seen) = (segment.base, segment.base);
    }

    /// The next segment that begins before the log position `limit`, and the offset at which to go on in it: behind the rest of a commit that
    /// began earlier, unless that is the one being read.
    fn next(&mut self, limit: u64, is_in_a_commit: bool) -> Result<Option<(Segment, u64)>> {
        while let Some((segment, is_active)) = self.log.segment_behind(self.base).filter(|(next, _)| next.base < limit) {
            self.seen = segment.base;
            let header = header_of(self.log, &segment)?;
            if self.before.contains(&(header.previous_base, header.previous_salt)) || is(Bug::GapNotNoticed) {
                self.go_to(&segment);
                let carried_over = if is_in_a_commit { 0 } else { u64::from(header.carried_over) };
                return Ok(Some((segment, (segment.first_frame(self.log.geometry) + carried_over).min(segment.end))));
            }
            if is_active || segment.end > segment.first_frame(self.log.geometry) {
                return Err(compacted(self.log)?);
            }
            // An earlier recovery has given it up: nothing in it counts.
            self.base = segment.base;
        }
        Ok(None)
    }
}

const fn is_start(place: Position) -> bool {
    place.salt == 0 && place.lsn <= LOG_POSITION_FIRST
}

fn header_of(log: &Log, segment: &Segment) -> Result<SegmentHeader> {
    let start = log.geometry.start(segment.extent);
    let header = SegmentHeader::read(&*log.storage, log.store_id, start)?.filter(|header| header.salt == segment.salt);
    header.ok_or_else(|| log.or_fenced(Error::corrupt(start, "the header of a segment")))
}

/// The number of records in front of a position in its segment; `None` if no commit ends there. Where damage in front of it hides that, what
/// follows is checked all the same, and the number is not known.
fn records_in_front(log: &Log, position: Position) -> Result<Option<Option<u64>>> {
    if is_start(position) {
        return Ok(Some(None));
    }
    let Some(segment) = log.segment_of(position.lsn, position.salt) else { return Ok(None) };
    let end = log.geometry.start(segment.extent) + (position.lsn - segment.base);
    let first = segment.first_frame(log.geometry);
    let (mut is_open, mut records) = (false, 0_u64);
    let mut walk = Walk::new(&*log.storage, segment.salt, first, segment.end);
    while walk.position() < end {
        match walk.step()? {
            Step::Frame { header, .. } if !header.kind.is_control() => {
                is_open = header.continues;
                records += 1;
            }
            Step::Frame { .. } => {}
            Step::End => return Ok((end < segment.end + FRAME_LEN_MIN as u64).then_some(None)),
            Step::Bad { .. } => return Ok(Some(None)),
        }
    }
    Ok((walk.position() == end && !is_open).then_some(Some(records)))
}

/// Where a follower could read its segment until the writer used its space again.
fn is_gone_by_now(log: &Log, position: Position) -> bool {
    log.segment_of(position.lsn, position.salt).is_some_and(|segment| log.forget_retired(segment.base))
}

/// Where the segment behind that of a position begins, if the position is behind all `records` of its segment, which is gone: a list that was
/// written in between says how many there were.
#[cold]
fn behind_a_whole_segment(log: &Log, position: Position, records: u64) -> Result<Option<Position>> {
    let Some((next, _)) = log.segment_behind(position.lsn) else { return Ok(None) };
    let header = header_of(log, &next)?;
    if header.previous_salt != position.salt || header.carried_over > 0 || records == 0 {
        return Ok(None);
    }
    let begin = Position::new(next.lsn(log.geometry, next.first_frame(log.geometry)), next.salt);
    let mut current = Some(next);
    while let Some(segment) = current {
        let mut walk = Walk::new(&*log.storage, segment.salt, segment.first_frame(log.geometry), segment.end);
        while let Step::Frame { offset, header: frame } = walk.step()? {
            match frame.kind {
                Kind::Checkpoint => {
                    let list = SegmentList::decode(walk.value(offset, &frame)?, log.geometry, u32::MAX);
                    let listed = list.as_ref().and_then(|list| list.records_of(position.salt));
                    return Ok((listed == Some(records) || is(Bug::ChangesAreQuiet)).then_some(begin));
                }
                Kind::Retire if walk.value_u64(offset, &frame)? == Some(header.previous_base) => return Ok(None),
                _ => {}
            }
        }
        current = log.segment_behind(segment.base).map(|(next, _)| next);
    }
    Ok(None)
}

fn compacted(log: &Log) -> Result<Error> {
    Ok(Error::Compacted { oldest: oldest(log)? })
}

/// The oldest position from which the log has everything up to its end.
fn oldest(log: &Log) -> Result<Position> {
    let mut chain = Chain::new(log);
    let mut oldest = Position::START;
    while let Some((segment, is_active)) = log.segment_behind(chain.base) {
        let header = match header_of(log, &segment) {
            Err(error) if log.follows() && error.may_be_reuse() && log.forget_retired(segment.base) => continue,
            header => header?,
        };
        let follows = chain.before.contains(&(header.previous_base, header.previous_salt));
        if !follows && !is_active && segment.end <= segment.first_frame(log.geometry) {
            chain.base = segment.base;
            continue;
        }
        if !follows {
            chain.before.clear();
            let from = segment.first_frame(log.geometry) + u64::from(header.carried_over);
            oldest = Position::new(segment.lsn(log.geometry, from.min(segment.end)), segment.salt);
        }
        chain.go_to(&segment);
    }
    Ok(oldest)
}
