//! Finding the log: the segments that the newest checkpoint lists, and those behind it, up to the end.

use crate::Refusal;
use crate::bytes::{Bytes, part};
use crate::frame::{Frame, Kind};
use crate::list::{self, Entry, List};
use crate::segment::{self, Extents, FIRST_FRAME, Segment};
use crate::superblock::Superblock;

/// A part of the log: frames that stand one behind the other, from one offset to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) salt: u64,
    /// Of its segment.
    pub(crate) base: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// The log, with the checkpoint between its two halves.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The segments in front of the checkpoint whose records count.
    pub(crate) listed: Vec<Stretch>,
    /// What stands behind the checkpoint, up to the last whole commit.
    pub(crate) tail: Vec<Stretch>,
    /// Bytes behind the end that are given up, and where they begin.
    pub(crate) torn: Option<u64>,
    /// The number that the next event gets, as the newest checkpoint has it.
    pub(crate) next_event: u64,
    /// Segments that are kept, and of which no record counts.
    pub(crate) history: Vec<Stretch>,
    /// The floor at the end of the log; 0: there is none.
    pub(crate) floor: u64,
    /// What the tail says about history, in its order.
    said: Vec<Said>,
    /// Segments that the next frame of the trailer before names, which agrees with their header.
    pub(crate) linked: usize,
    /// The latest expiry that was acted on, according to the marks behind the checkpoint.
    pub(crate) clock: u64,
}

/// A frame of the tail that is about history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Retired(u64),
    Floor(u64),
}

const MARK_SHAPE: [u8; 3] = [3, 0, 16];
const FRAME_LEN_MIN: u64 = 7;

/// Finds the log by its list.
pub(crate) fn find(file: &[u8], superblock: &Superblock, List { entries, next_event, floor }: List) -> Result<Log, Refusal> {
    let headers = segment::all(file, superblock);
    let finder = Finder { file, superblock, headers };
    let mut log = Log { next_event, ..Log::default() };
    let first = match (entries.last(), superblock.checkpoint) {
        (Some(last), Some(place)) => Some((finder.listed(last)?, place.offset)),
        _ => finder.next(None, &[]).map(|first| (first, first.start + FIRST_FRAME)),
    };
    let Some((first, from)) = first else { return Ok(log) };
    let retired = finder.follow(first, from, &mut log)?;
    for entry in entries.iter().filter(|entry| !entry.is_history && !retired.contains(&entry.base)) {
        let listed = finder.listed(entry)?;
        log.listed.push(Stretch { salt: entry.salt, base: entry.base, from: listed.start + FIRST_FRAME, to: entry.end });
    }
    (log.floor, log.history) = finder.history(&entries, floor, &log)?;
    Ok(log)
}

/// The list of the newest checkpoint; an empty one where there is none.
pub(crate) fn read_list(file: &[u8], superblock: &Superblock) -> Result<List, Refusal> {
    let Some(place) = superblock.checkpoint else { return Ok(List::default()) };
    let damaged = || Refusal::Damaged { offset: place.offset, what: "the checkpoint" };
    let bytes = usize::try_from(place.offset).ok().and_then(|start| file.get(start..)).ok_or_else(damaged)?;
    let frame = Frame::decode(bytes, place.salt, place.offset).filter(|frame| frame.kind == Kind::Checkpoint);
    let list = frame.and_then(|frame| list::decode(frame.value, Extents::new(superblock))).ok_or_else(damaged)?;
    let holds_it = |last: &Entry| (last.base, last.salt, last.end) == (place.base, place.salt, place.offset);
    if list.entries.last().is_some_and(holds_it) { Ok(list) } else { Err(damaged()) }
}

pub(crate) struct Finder<'a> {
    pub(crate) file: &'a [u8],
    pub(crate) superblock: &'a Superblock,
    pub(crate) headers: Vec<Segment>,
}

/// A place between two commits.
#[derive(Clone, Copy)]
struct CommitEnd {
    /// Stretches of the tail up to and including the one that holds it.
    stretches: usize,
    offset: u64,
}

impl<'a> Finder<'a> {
    /// The floor at the end of the log, and the segments that are history there.
    fn history(&self, entries: &[Entry], floor: u64, log: &Log) -> Result<(u64, Vec<Stretch>), Refusal> {
        let mut floor = floor;
        let mut kept: Vec<&Entry> = entries.iter().filter(|entry| entry.is_history).collect();
        for said in &log.said {
            match *said {
                Said::Floor(now) => {
                    floor = now;
                    kept.retain(|entry| floor != 0 && entry.behind > floor);
                }
                Said::Retired(base) => {
                    let retired = entries.iter().find(|entry| entry.base == base && !kept.contains(entry));
                    kept.extend(retired.filter(|entry| floor != 0 && entry.behind > floor));
                }
            }
        }
        let tail = log.tail.iter().filter_map(|stretch| self.headers.iter().find(|header| header.salt == stretch.salt));
        let tail: Vec<&Segment> = tail.collect();
        let mut history = Vec::new();
        for entry in kept {
            let listed = self.listed(entry)?;
            if tail.iter().any(|segment| segment.overlaps(&listed)) {
                return Err(Refusal::Damaged { offset: listed.start, what: "history that was written over" });
            }
            history.push(Stretch { salt: entry.salt, base: entry.base, from: listed.start + FIRST_FRAME, to: entry.end });
        }
        Ok((floor, history))
    }

    /// A segment that the list names.
    fn listed(&self, entry: &Entry) -> Result<Segment, Refusal> {
        let extents = Extents::new(self.superblock);
        let fits = |header: &Segment| (header.base, header.salt, header.extents) == (entry.base, entry.salt, entry.extents);
        let header = segment::read(self.file, self.superblock, entry.extent).filter(fits);
        header.ok_or(Refusal::Damaged { offset: extents.start(entry.extent), what: "the header of a segment" })
    }

    /// The segment whose header names `before`, or no segment at all: of several the one with the highest base, unless it is a part of a value
    /// of another one. What overlaps the tail so far is a part of a value, too.
    fn next(&self, before: Option<&Segment>, tail: &[Segment]) -> Option<Segment> {
        let named = before.map_or((0, 0), |before| (before.base, before.salt));
        let lowest = before.map_or(0, |before| before.base + before.len());
        let follows = |header: &&Segment| {
            header.kind == segment::Kind::Log
                && header.before == named
                && header.base >= lowest
                && !tail.iter().any(|used| used.overlaps(header))
        };
        let mut candidates: Vec<Segment> = self.headers.iter().filter(follows).copied().collect();
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.base));
        let is_in_a_record = |candidate: &&Segment| {
            let around = candidates.iter().filter(|other| other.holds(candidate.extent));
            around.into_iter().any(|other| self.has_frame_across(other, candidate.start))
        };
        candidates.iter().find(|candidate| !is_in_a_record(candidate)).copied()
    }

    fn has_frame_across(&self, segment: &Segment, place: u64) -> bool {
        let mut at = segment.start + FIRST_FRAME;
        while let Some(frame) = self.frame(segment, at, segment.trailer()) {
            let behind = at + frame.len as u64;
            if behind > place {
                return at <= place;
            }
            at = behind;
        }
        false
    }

    /// The frame at `at`, if one checks that ends in front of `limit`.
    pub(crate) fn frame(&self, segment: &Segment, at: u64, limit: u64) -> Option<Frame<'a>> {
        let limit = limit.min(self.file.len() as u64);
        let len = usize::try_from(limit.checked_sub(at)?).ok()?;
        Frame::decode(part(self.file, at, len)?.0, segment.salt, at)
    }

    /// Goes along the log from `from` in `first` to its end. Returns the bases of the segments that it retires.
    pub(crate) fn follow(&self, first: Segment, from: u64, log: &mut Log) -> Result<Vec<u64>, Refusal> {
        let (mut retired, mut segments) = (Vec::new(), vec![first]);
        let (mut segment, mut from) = (first, from);
        let mut proven = self.superblock.synced.max(self.superblock.closed.unwrap_or(0));
        let mut commit_end = CommitEnd { stretches: 1, offset: from };
        let mut is_between_commits = true;
        loop {
            proven = proven.max(segment.synced);
            let next = self.next(Some(&segment), &segments).filter(|next| !self.is_closed_before(next));
            let to = next.map_or(segment.trailer(), |next| next.end_before);
            let mut at = from;
            while let Some(frame) = self.frame(&segment, at, to) {
                let value = || Bytes(frame.value).u64();
                match frame.kind {
                    Kind::Mark => {
                        let mut mark = Bytes(frame.value);
                        proven = proven.max(mark.u64().unwrap_or(0));
                        log.clock = log.clock.max(mark.u64().unwrap_or(0));
                    }
                    Kind::Retire => {
                        log.said.extend(value().map(Said::Retired));
                        retired.extend(value());
                    }
                    Kind::Floor => log.said.extend(value().map(Said::Floor)),
                    Kind::Adopt => return Err(Refusal::Newer),
                    _ => {}
                }
                at += frame.len as u64;
                if frame.kind.is_record() {
                    is_between_commits = !frame.continues;
                }
                if is_between_commits {
                    commit_end = CommitEnd { stretches: segments.len(), offset: at };
                }
            }
            log.tail.push(Stretch { salt: segment.salt, base: segment.base, from, to: at });
            match next {
                Some(next) if self.is_end(&segment, at, to) => {
                    log.linked += usize::from(self.names(&segment, &next));
                    segments.push(next);
                    segment = next;
                    from = next.start + FIRST_FRAME;
                    if is_between_commits {
                        commit_end = CommitEnd { stretches: segments.len(), offset: from };
                    }
                }
                _ => {
                    let end = self.finish(&segments, commit_end, log);
                    proven = proven.max(self.proof_behind(&segment, at));
                    return if proven > end.1 {
                        Err(Refusal::Damaged { offset: at, what: "something in the log that was synced" })
                    } else {
                        Ok(retired)
                    };
                }
            }
        }
    }

    /// The log of a closed store does not go on behind the end that the superblock names.
    fn is_closed_before(&self, next: &Segment) -> bool {
        self.superblock.closed.is_some_and(|end| next.base > end)
    }

    /// True when frames that reach to `at` fill a segment up to `to`: in front of the trailer a rest too short for a frame is zero.
    pub(crate) fn is_end(&self, segment: &Segment, at: u64, to: u64) -> bool {
        let rest = to.saturating_sub(at);
        let zeros = usize::try_from(rest).ok().and_then(|len| part(self.file, at, len));
        at == to
            || to == segment.trailer() && rest < FRAME_LEN_MIN && zeros.is_some_and(|zeros| zeros.0.iter().all(|&byte| byte == 0))
    }

    /// Cuts the log behind its last whole commit. Returns offset and log position of the end.
    fn finish(&self, segments: &[Segment], commit_end: CommitEnd, log: &mut Log) -> (u64, u64) {
        log.tail.truncate(commit_end.stretches);
        if let Some(last) = log.tail.last_mut() {
            last.to = commit_end.offset;
        }
        let last = commit_end.stretches.checked_sub(1).and_then(|index| segments.get(index));
        let position = last.map_or(0, |last| last.position(commit_end.offset));
        let is_closed = self.superblock.closed == Some(position);
        let behind = usize::try_from(commit_end.offset).ok().and_then(|start| self.file.get(start..));
        let limit = last.map_or(0, |last| last.end - commit_end.offset) as usize;
        let is_torn = behind.is_some_and(|bytes| bytes.iter().take(limit).any(|&byte| byte != 0));
        log.torn = (is_torn && !is_closed).then_some(commit_end.offset);
        (commit_end.offset, position)
    }

    /// The trailer of a segment names the one behind it.
    fn names(&self, segment: &Segment, next: &Segment) -> bool {
        let frame = self.frame(segment, segment.trailer(), segment.end).filter(|frame| frame.kind == Kind::Next);
        let Some(mut value) = frame.map(|frame| Bytes(frame.value)) else { return false };
        let named = (value.u32(), value.u32(), value.u64(), value.u64());
        named == (Some(next.extent), Some(next.extents), Some(next.base), Some(next.salt))
    }

    /// The highest log position that anything behind `offset` of a segment says was synced.
    fn proof_behind(&self, segment: &Segment, offset: u64) -> u64 {
        let later = self.headers.iter().filter(|header| header.kind == segment::Kind::Log && header.base > segment.base);
        let proofs = later.map(|header| header.synced.max(self.highest_mark(header, header.start)));
        proofs.max().unwrap_or(0).max(self.highest_mark(segment, offset))
    }

    fn highest_mark(&self, segment: &Segment, from: u64) -> u64 {
        let to = segment.end.min(self.file.len() as u64);
        let len = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
        let Some(bytes) = part(self.file, from, len) else { return 0 };
        let shaped = bytes.0.windows(MARK_SHAPE.len()).enumerate().filter(|(_, shape)| *shape == MARK_SHAPE);
        let places = shaped.filter_map(|(index, _)| index.checked_sub(4)).map(|index| from + index as u64);
        let marks = places.filter_map(|place| self.frame(segment, place, to)).filter(|frame| frame.kind == Kind::Mark);
        marks.filter_map(|mark| Bytes(mark.value).u64()).max().unwrap_or(0)
    }
}
