//! Following the log from the newest checkpoint, segment by segment.

use super::chain::{Chain, Op};
#[cfg(feature = "encrypt")]
use super::headers::Noted;
use super::headers::{are_apart, drop_within, is_inside_a_record};
use crate::error::{Error, Result};
use crate::frame::{DecodeError, Header, Kind, Mark, Next, event_number};
use crate::index::{KeyHash, seed_of};
use crate::limits::{AHEAD_MAX, DATA_START, LOG_POSITION_FIRST, LOG_POSITION_MAX};
use crate::log::{Geometry, Segment, SegmentHeader, SegmentKind, SegmentList, Step, Superblock, SuperblockPair, Walk, read_next};
use crate::planted::{Bug, is};
use crate::sorted::{Map, Set};
use crate::storage::Storage;
use alloc::vec::Vec;

/// Where a segment of the tail ends, as recorded outside of it.
enum KnownEnd {
    /// The header of the next segment, or the superblock of a closed store, names the offset.
    At(u64),
    /// Not recorded: the segment was active when the session ended.
    Unknown,
}

pub(super) struct Follower<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) geometry: Geometry,
    pub(super) seed: u64,
    pub(super) headers: Map<u32, SegmentHeader>,
    pub(super) superblock: Superblock,
    pub(super) pair: &'a SuperblockPair,
    pub(super) chain: Chain,
    /// Records of a commit whose last frame has not been read yet.
    pub(super) pending: Vec<Op>,
    /// A number higher than that of every event so far, those of that commit included.
    pub(super) pending_event: u64,
    /// Bases of retired segments, as they are met.
    pub(super) retired: Vec<u64>,
    /// Those of the listed segments that are kept as history so far, and where each ends.
    pub(super) kept_history: Vec<(u64, u64)>,
    /// Headers that an earlier session has written after the last session began: not part of the log, but their numbers are used up.
    pub(super) late: Vec<(u32, SegmentHeader)>,
    /// The segment in which the walk met a frame that is not valid; its `end` is the offset of that frame.
    pub(super) stopped: Option<Segment>,
    #[cfg(feature = "encrypt")]
    pub(super) noted: Noted,
}

/// Where the log would end if nothing followed.
#[derive(Clone, Copy)]
pub(super) struct CommitEnd {
    /// Number of segments of the tail up to and including the one that holds it.
    pub(super) segments: usize,
    pub(super) offset: u64,
    /// The last tag in front of it.
    #[cfg(feature = "encrypt")]
    pub(super) tag: [u8; crate::frame::TAG_LEN],
}

impl<'a> Follower<'a> {
    pub(super) fn new(storage: &'a dyn Storage, pair: &'a SuperblockPair, headers: Map<u32, SegmentHeader>) -> Self {
        let superblock = pair.current;
        Self {
            storage,
            geometry: superblock.geometry(),
            seed: seed_of(&superblock.seed),
            headers,
            superblock,
            pair,
            chain: Chain::default(),
            pending: Vec::new(),
            pending_event: 0,
            retired: Vec::new(),
            kept_history: Vec::new(),
            late: Vec::new(),
            stopped: None,
            #[cfg(feature = "encrypt")]
            noted: Noted::default(),
        }
    }

    /// Follows the log after the checkpoint: from the frame that holds the list, or from `behind` if that frame is damaged.
    pub(super) fn run(&mut self, listed: SegmentList, behind: Option<u64>) -> Result<()> {
        #[cfg(feature = "encrypt")]
        {
            self.check_age()?;
            self.note_headers();
        }
        self.drop_far_headers(&listed);
        let late = self.headers.iter().filter(|(_, header)| self.came_late(header));
        self.late = late.map(|(extent, header)| (extent, *header)).collect();
        self.headers.retain(|extent| !self.late.iter().any(|(late, _)| *late == extent));
        let mut position = 0;
        if let Some(&last) = listed.segments.last() {
            position = behind.unwrap_or(last.end);
            let limit = last.limit(self.geometry).min(self.storage.len()?.max(position));
            drop_within(&mut self.headers, &last);
            self.chain.tail.push(Segment { end: limit, ..last });
        } else if let Some(first) = self.next_after(None)? {
            position = first.first_frame(self.geometry);
            drop_within(&mut self.headers, &first);
            self.chain.tail.push(first);
        }
        self.chain.next_event = listed.next_event;
        self.chain.floor = listed.floor.min(LOG_POSITION_MAX);
        let history = listed.segments.iter().zip(&listed.figures).filter(|(_, figures)| figures.history);
        self.kept_history = history.map(|(segment, _)| (segment.base, segment.next_base(self.geometry))).collect();
        self.chain.listed = listed;
        self.chain.clock = self.superblock.clock;
        self.chain.proven = self.superblock.synced.max(self.superblock.clean_end.unwrap_or(0));
        self.chain.clean = self.superblock.clean_end.is_some() && !self.pair.other_damaged;
        if self.chain.tail.is_empty() {
            self.judge_nothing()?;
        } else {
            self.walk_tail(position)?;
        }
        self.count_headers();
        self.chain.retired = Set::collect(self.retired.drain(..));
        // An extent is reused only after the frame that retires its old segment.
        self.chain.kept_history = Set::collect(self.kept_history.drain(..).map(|(base, _)| base));
        let gone = Set::collect(self.chain.gone().iter().map(|segment| segment.base));
        let listed = self.chain.listed.segments.iter().filter(|listed| !gone.contains(listed.base));
        for (used, segment) in listed.flat_map(|used| self.chain.tail.iter().map(move |segment| (used, segment))) {
            if used.base != segment.base && !are_apart(used, segment) {
                return Err(Error::corrupt(self.geometry.start(segment.extent), "a segment that lies across another one"));
            }
        }
        if self.superblock.clean_end.is_some_and(|end| self.chain.end < end) {
            // A closed store was synced to its end, so anything missing is damage.
            let at = self.chain.tail.last().map_or(DATA_START, |segment| segment.end);
            return Err(Error::corrupt(at, "the end of the log is missing"));
        }
        Ok(())
    }

    /// True for a header of an earlier session that still wrote when a later one had begun: it uses a number that is not counted yet.
    pub(super) fn came_late(&self, header: &SegmentHeader) -> bool {
        let Superblock { headers, session, .. } = self.superblock;
        header.number > headers && header.session < session
    }

    /// Drops the headers that are further ahead than any session comes between two superblocks: what a value has left in free space. A few
    /// of them would use up all positions.
    fn drop_far_headers(&mut self, listed: &SegmentList) {
        let Superblock { headers, synced, clean_end, active, checkpoint, .. } = self.superblock;
        let known = synced.max(clean_end.unwrap_or(0)).max(active.base).max(checkpoint.map_or(0, |place| place.base));
        let is_far = |(extent, header): &(u32, &SegmentHeader)| {
            let begun = header.segment(self.geometry, *extent).next_base(self.geometry);
            header.number >= headers.saturating_add(AHEAD_MAX) || begun >= known.saturating_add(AHEAD_MAX)
        };
        if !self.headers.iter().any(|place| is_far(&place)) {
            return;
        }
        let salts = Set::collect(listed.segments.iter().map(|segment| segment.salt));
        let dropped = self.headers.iter().filter(|place| is_far(place) && !salts.contains(place.1.salt));
        let dropped = Set::collect(dropped.map(|(extent, _)| extent.into()));
        self.headers.retain(|extent| !dropped.contains(extent.into()));
    }

    /// Finds the next free base and header number. By now it is known which headers are parts of values.
    fn count_headers(&mut self) {
        let is_part = |extent: u32| {
            let holds = |run: &Segment| extent > run.extent && extent < run.extent.saturating_add(run.extents);
            self.chain.tail.iter().any(holds) && !is(Bug::HeadersInValuesCount)
        };
        let late = self.late.iter().filter(|(extent, _)| !is_part(*extent)).map(|(extent, header)| (*extent, header));
        let all = || self.headers.iter().chain(late.clone());
        let begun = |(extent, header): (u32, &SegmentHeader)| header.segment(self.geometry, extent).next_base(self.geometry);
        let begun = all().filter(|(_, header)| header.kind != SegmentKind::Snapshot).map(begun).max().unwrap_or(0);
        let last = self.chain.listed.segments.last().map_or(0, |last| last.next_base(self.geometry));
        let written = all().map(|(_, header)| header.number).max().unwrap_or(0);
        self.chain.next_base = begun.max(last).max(LOG_POSITION_FIRST);
        self.chain.headers = self.headers.values().map(|header| header.number).max().unwrap_or(0).max(self.superblock.headers);
        self.chain.next_header = written.max(self.superblock.headers) + 1;
        #[cfg(feature = "encrypt")]
        {
            self.chain.next_base = self.chain.next_base.max(self.noted.base);
            self.chain.headers = self.chain.headers.max(self.noted.number);
            self.chain.next_header = self.chain.next_header.max(self.noted.number + 1);
        }
    }

    /// The segment that follows `before` in the log, or the first one. Of several with that predecessor the youngest counts, since the
    /// others were given up by a recovery. A header inside of a record of another segment is part of a value.
    pub(super) fn next_after(&self, before: Option<&Segment>) -> Result<Option<Segment>> {
        let (base, salt, from) = before.map_or((0, 0, 0), |before| (before.base, before.salt, before.next_base(self.geometry)));
        let len = self.storage.len()?;
        let in_file = self.geometry.extents_in(len);
        let apart = |segment: &Segment| self.chain.tail.iter().all(|used| are_apart(used, segment));
        let mut candidates: Vec<Segment> = Vec::new();
        for (extent, header) in self.headers.iter() {
            let follows = header.kind == SegmentKind::Log && header.previous_base == base && header.previous_salt == salt;
            if !follows || header.base < from || !extent.checked_add(header.extents).is_some_and(|behind| behind <= in_file) {
                continue;
            }
            let segment = header.segment(self.geometry, extent);
            if apart(&segment) {
                candidates.push(segment);
            }
        }
        while let Some(index) = (0..candidates.len()).max_by_key(|&index| candidates.get(index).map(|segment| segment.base)) {
            let youngest = candidates.remove(index);
            let holds_it = |other: &Segment| (other.extent + 1..other.extent + other.extents).contains(&youngest.extent);
            let mut is_part = false;
            for other in candidates.iter().filter(|other| holds_it(other)) {
                is_part = is_part || self.is_part(other, &youngest)?;
            }
            if !is_part {
                return Ok(Some(Segment { end: youngest.end.min(len), ..youngest }));
            }
        }
        Ok(None)
    }

    /// True when the header `inner`, which lies inside of `run` and has the same predecessor, is part of a value. Only a later session
    /// reuses the space of a run that was given up, and the superblock records all sessions.
    fn is_part(&self, run: &Segment, inner: &Segment) -> Result<bool> {
        if is(Bug::HeadersInValuesCount) {
            return Ok(false);
        }
        let session = |segment: &Segment| self.header_of(segment).map_or(0, |header| header.session);
        let is_unknown = session(inner) > self.superblock.session && !self.pair.other_damaged;
        Ok(session(inner) <= session(run) || is_unknown || is_inside_a_record(self.storage, self.geometry, run, inner.extent)?)
    }

    pub(super) fn header_of(&self, segment: &Segment) -> Option<&SegmentHeader> {
        self.headers.get(segment.extent).filter(|header| (header.base, header.salt) == (segment.base, segment.salt))
    }

    fn known_end(&self, segment: &Segment, next: Option<&Segment>) -> KnownEnd {
        if self.chain.clean
            && let Some(end) = self.superblock.clean_end
        {
            let first = segment.lsn(self.geometry, self.geometry.start(segment.extent));
            if (first..=segment.next_base(self.geometry)).contains(&end) && next.is_none_or(|next| next.base > end) {
                return KnownEnd::At(self.geometry.start(segment.extent) + (end - first));
            }
        }
        match next.and_then(|next| self.header_of(next)) {
            Some(header) => KnownEnd::At(header.previous_end),
            None => KnownEnd::Unknown,
        }
    }

    fn walk_tail(&mut self, mut position: u64) -> Result<()> {
        let mut commit_end = CommitEnd {
            segments: 1,
            offset: position,
            #[cfg(feature = "encrypt")]
            tag: self.tag_before(position)?,
        };
        loop {
            let Some(&segment) = self.chain.tail.last() else {
                return Ok(());
            };
            if let Some(&SegmentHeader { synced, linked, .. }) = self.header_of(&segment) {
                self.chain.proven = self.chain.proven.max(synced);
                // The session that wrote the previous segment names the next one in its trailer; otherwise another session continued.
                self.chain.successions += u64::from(!linked);
            }
            let mut next = self.next_after(Some(&segment))?;
            let end = match self.known_end(&segment, next.as_ref()) {
                KnownEnd::At(end) if end >= position => end,
                KnownEnd::At(_) => {
                    return Err(Error::corrupt(position, "the end of a segment lies in front of its records"));
                }
                KnownEnd::Unknown => segment.end,
            };
            if self.chain.clean && self.superblock.clean_end == Some(segment.lsn(self.geometry, end)) {
                next = None;
            }
            // A crash may have shortened the file.
            let readable = end.min(segment.end);
            let mut stopped = self.walk_segment(&segment, position, readable, &mut commit_end)?;
            if stopped.is_none() && readable < end {
                stopped = Some((readable, DecodeError::Truncated));
            }
            if let Some((offset, error)) = stopped {
                self.judge(&segment, offset, error)?;
                next = None;
            }
            #[cfg(feature = "encrypt")]
            if let Some(next) = &next {
                self.check_chain(next)?;
            }
            match next {
                Some(next) => {
                    position = next.first_frame(self.geometry);
                    self.go_on(segment, end, next)?;
                    if self.pending.is_empty() {
                        commit_end = CommitEnd {
                            segments: self.chain.tail.len(),
                            offset: position,
                            #[cfg(feature = "encrypt")]
                            tag: [0; crate::frame::TAG_LEN],
                        };
                    }
                }
                None => return self.finish(commit_end),
            }
        }
    }

    /// The log goes on behind the last segment of the tail, which ends at `end`, in the next one.
    fn go_on(&mut self, segment: Segment, end: u64, next: Segment) -> Result<()> {
        drop_within(&mut self.headers, &next);
        let mut linked = self.header_of(&next).is_some_and(|header| header.linked);
        // After a crash the trailer may not have reached the medium, though what follows has.
        if linked && !self.chain.clean && read_next(self.storage, self.geometry, &segment)?.is_none() {
            self.chain.lost_trailers.push((segment, next));
            linked = false;
        }
        if let Some(last) = self.chain.tail.last_mut() {
            last.linked = linked;
            last.end = end;
        }
        self.chain.tail.push(next);
        Ok(())
    }

    /// A frame retires a segment: it is history if the floor holds it at this place of the log.
    fn retire(&mut self, base: u64) {
        self.retired.push(base);
        let listed = &self.chain.listed.segments;
        let place = listed.binary_search_by_key(&base, |segment| segment.base);
        let end = place.ok().and_then(|place| listed.get(place)).map_or(0, |segment| segment.next_base(self.geometry));
        if self.chain.floor != 0 && end > self.chain.floor && self.kept_history.iter().all(|(kept, _)| *kept != base) {
            self.kept_history.push((base, end));
        }
    }

    /// A floor frame frees what ends in front of it; what was free before stays so, even if the floor falls.
    fn set_floor(&mut self, value: &[u8]) {
        let Some(floor) = value.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)) else { return };
        // A higher one could not be written again.
        let floor = floor.min(LOG_POSITION_MAX);
        self.chain.floor = floor;
        self.kept_history.retain(|&(_, end)| floor != 0 && end > floor && !is(Bug::FloorForgotten));
    }

    /// Collects the effects of the frames in `position..end`. Returns where and why it stopped early.
    fn walk_segment(
        &mut self,
        segment: &Segment,
        position: u64,
        end: u64,
        commit_end: &mut CommitEnd,
    ) -> Result<Option<(u64, DecodeError)>> {
        let mut walk = Walk::new(self.storage, segment.salt, position, end);
        #[cfg(feature = "encrypt")]
        self.begin_tags(segment, position)?;
        loop {
            match walk.step()? {
                Step::End => return Ok(None),
                Step::Bad { offset, error } => return Ok(Some((offset, error))),
                Step::Frame { offset, header } => {
                    self.chain.tail_bytes += header.frame_len() as u64;
                    #[cfg(feature = "encrypt")]
                    {
                        self.chain.last_tag = walk.last_tag();
                    }
                    self.take_frame(&mut walk, offset, &header)?;
                    let whole = !header.continues || is(Bug::BatchEndIgnored);
                    if !header.kind.is_control() && whole {
                        self.chain.ops.append(&mut self.pending);
                        // A commit without its end was never made: its numbers are given again.
                        self.chain.next_event = self.chain.next_event.max(self.pending_event);
                    }
                    if self.pending.is_empty() {
                        *commit_end = CommitEnd {
                            segments: self.chain.tail.len(),
                            offset: walk.position(),
                            #[cfg(feature = "encrypt")]
                            tag: walk.last_tag(),
                        };
                    }
                }
            }
        }
    }

    /// Notes what a frame of the tail says. Records wait for the end of their commit.
    fn take_frame(&mut self, walk: &mut Walk<'_>, offset: u64, header: &Header) -> Result<()> {
        match header.kind {
            Kind::Mark => {
                if let Some(mark) = Mark::decode(walk.value(offset, header)?) {
                    self.chain.proven = self.chain.proven.max(mark.synced);
                    self.chain.clock = self.chain.clock.max(mark.clock);
                }
            }
            Kind::Retire => {
                if let Some(base) = walk.value_u64(offset, header)? {
                    self.retire(base);
                }
            }
            Kind::Floor => self.set_floor(walk.value(offset, header)?),
            Kind::Adopt => {
                return Err(Error::Unsupported { offset, what: "a segment that was written beside the log" });
            }
            Kind::Next => {
                let next = Next::decode(walk.value(offset, header)?);
                self.chain.claims.extend(next.map(|next| (next, self.chain.successions)));
            }
            Kind::Checkpoint | Kind::Pad => {}
            Kind::Put | Kind::Tombstone | Kind::Event | Kind::Stub => {
                if header.kind.is_carried() {
                    let number = event_number(walk.value(offset, header)?);
                    self.pending_event = self.pending_event.max(number.saturating_add(1));
                }
                let hash = KeyHash::new(self.seed, header.namespace, walk.key(offset, header)?);
                let carried = header.kind.is_carried().then_some(header.frame_len() as u64);
                self.pending.push(Op { offset, namespace: header.namespace, hash, carried });
            }
        }
        Ok(())
    }
}
