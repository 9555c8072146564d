//! Reading commits from the log, from a position on. Segment by segment: each names the one before it, so that a missing one is noticed.

use super::{Change, Commit};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::frame::{FRAME_LEN_MIN, Header, Kind};
use crate::limits::LOG_POSITION_FIRST;
use crate::log::{Contained, Log, Segment, SegmentHeader, Step, Walk};
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
}

/// A walk from segment to segment.
struct Chain<'a> {
    log: &'a Log,
    /// Base of the segment in which it is.
    base: u64,
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
        match engine.log.contains(position.lsn, position.salt) {
            Contained::Yes if is_between_commits(&engine.log, position)? => Ok(Self { place: position }),
            Contained::Yes | Contained::No => Err(Error::UnknownPosition),
            Contained::Gone => Err(compacted(&engine.log)?),
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
        let mut chain = Chain { log, base: 0, before: alloc::vec![(0, 0)] };
        let mut current = if is_start(self.place) { None } else { Some(chain.enter(self.place)?) };
        let mut commit = Open::default();
        let mut read = 0;
        let mut is_at_border = false;
        loop {
            if let Some((segment, from)) = current {
                let mut walk = Walk::new(&*log.storage, segment.salt, from, segment.end);
                loop {
                    let (offset, header) = match walk.step()? {
                        Step::Frame { offset, header } => (offset, header),
                        Step::End => break,
                        Step::Bad { offset, error } => return Err(log.or_fenced(Error::corrupt(offset, error.what()))),
                    };
                    let lsn = segment.lsn(log.geometry, walk.position());
                    if lsn > limit {
                        return Ok(());
                    }
                    read += header.frame_len() as u64;
                    // Copies are commits of their own, and belong to nobody's.
                    if !header.kind.is_control() && (!header.copied || is(Bug::CopiesShown)) {
                        if !header.kind.is_carried() {
                            commit.changes.extend(change(engine, &mut walk, offset, &header, select)?);
                        }
                        commit.is_open = header.continues;
                    }
                    if commit.is_open {
                        continue;
                    }
                    self.place = Position::new(lsn, segment.salt);
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
            if !commit.is_open {
                self.place = Position::new(segment.lsn(log.geometry, from), segment.salt);
            }
            is_at_border = true;
            current = Some((segment, from));
        }
    }
}

/// What the record of a frame that a step returned is to the reader.
fn change(engine: &Engine, walk: &mut Walk<'_>, offset: u64, header: &Header, select: &mut Select<'_>) -> Result<Option<Change>> {
    let (namespace, key) = (header.namespace, walk.key(offset, header)?.to_vec());
    let expires_at = walk.expiry(offset, header)?;
    if header.unsupported().is_none() {
        let value = walk.value(offset, header)?;
        return select(Item { kind: header.kind, namespace, key, value, expires_at });
    }
    let frame = engine.decoded(engine.log.frame(offset)?)?;
    select(Item { kind: header.kind, namespace, key, value: frame.value(), expires_at })
}

/// A commit of which the last frame has not been read yet.
#[derive(Default)]
struct Open {
    changes: Vec<Change>,
    is_open: bool,
}

impl Chain<'_> {
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
        self.base = segment.base;
    }

    /// The next segment that begins before the log position `limit`, and the offset at which to go on in it: behind the rest of a commit that
    /// began earlier, unless that is the one being read.
    fn next(&mut self, limit: u64, is_in_a_commit: bool) -> Result<Option<(Segment, u64)>> {
        while let Some((segment, is_active)) = self.log.segment_behind(self.base).filter(|(next, _)| next.base < limit) {
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

/// True when a frame ends at a position of the log, and a commit with it. Where damage in front of it hides that, what follows is checked all the
/// same.
fn is_between_commits(log: &Log, position: Position) -> Result<bool> {
    if is_start(position) {
        return Ok(true);
    }
    let Some(segment) = log.segment_of(position.lsn, position.salt) else { return Ok(false) };
    let end = log.geometry.start(segment.extent) + (position.lsn - segment.base);
    let first = segment.first_frame(log.geometry);
    let mut is_open = false;
    let mut walk = Walk::new(&*log.storage, segment.salt, first, segment.end);
    while walk.position() < end {
        match walk.step()? {
            Step::Frame { header, .. } if !header.kind.is_control() => is_open = header.continues,
            Step::Frame { .. } => {}
            Step::End => return Ok(end < segment.end + FRAME_LEN_MIN as u64),
            Step::Bad { .. } => return Ok(true),
        }
    }
    Ok(walk.position() == end && !is_open)
}

fn compacted(log: &Log) -> Result<Error> {
    Ok(Error::Compacted { oldest: oldest(log)? })
}

/// The oldest position from which the log has everything up to its end.
fn oldest(log: &Log) -> Result<Position> {
    let mut chain = Chain { log, base: 0, before: alloc::vec![(0, 0)] };
    let mut oldest = Position::START;
    while let Some((segment, is_active)) = log.segment_behind(chain.base) {
        let header = header_of(log, &segment)?;
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
