//! Following the log from the newest checkpoint to its end.

use super::evidence::Evidence;
use crate::error::{Error, Result};
use crate::frame::{DecodeError, Kind, Mark, Next, event_number};
use crate::index::{KeyHash, seed_of};
use crate::limits::{DATA_START, LOG_POSITION_FIRST, LOG_POSITION_MAX, SEGMENT_SIZE_MAX, VALUE_LEN_MAX};
use crate::log::{
    ActivePlace, Barred, Figures, Geometry, REMEMBERED, Roster, Segment, SegmentHeader, SegmentKind, Standing, Step, Stranded,
    Superblock, SuperblockPair, Walk, read_next, stranded_in,
};
use crate::planted::{Bug, is};
use crate::sorted::{Map, Set};
use crate::storage::Storage;
use alloc::vec::Vec;

/// A record of the tail, to be applied once the whole tail is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) offset: u64,
    pub(crate) namespace: u32,
    pub(crate) hash: KeyHash,
    /// Of a record that no index of this build points at: its bytes.
    pub(crate) carried: Option<u64>,
}

/// The log behind the newest checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The segments that the checkpoint lists, in log order; the last one holds the checkpoint itself.
    pub(crate) listed: Roster,
    /// Segments of the tail in log order. The first one is the last of `listed`, where there is one.
    pub(crate) tail: Vec<Segment>,
    /// Records of whole commits behind the checkpoint, in log order.
    pub(crate) ops: Vec<Op>,
    /// Bases of segments that were retired behind the checkpoint.
    pub(crate) retired: Set,
    /// The log position behind every segment that was ever begun.
    pub(crate) next_base: u64,
    /// The number behind that of every header that was ever written.
    pub(crate) next_header: u64,
    /// The number of the newest header that counts.
    pub(crate) headers: u64,
    /// The number behind that of every event.
    pub(crate) next_event: u64,
    /// Log position of the end.
    pub(crate) end: u64,
    /// The log is known to have been synced up to here.
    pub(crate) proven: u64,
    /// The last writer closed the store.
    pub(crate) clean: bool,
    /// Where the unfinished end begins, and its bytes.
    pub(crate) torn: Option<(u64, u64)>,
    /// Bytes of log behind the checkpoint.
    pub(crate) tail_bytes: u64,
    /// Headers of which the crash has left one copy, and where: nothing proves that they had been synced.
    pub(crate) torn_headers: Vec<(u64, SegmentHeader)>,
    /// Segments whose trailer a crash took, each with the segment that it named.
    pub(crate) lost_trailers: Vec<(Segment, Segment)>,
    /// Records that check behind the end, or in segments that an earlier recovery has given up and that no checkpoint has listed since.
    pub(crate) stranded: Stranded,
    /// Those segments, whole ones, as they are kept: nothing in them counts.
    pub(crate) kept: Vec<Segment>,
    /// Segments, or the last parts of them, that nothing proves to be synced.
    pub(crate) unproven: Vec<Segment>,
    /// Extents whose headers name the last segment as the one before theirs: the log does not go on there.
    pub(crate) given_up: Vec<u32>,
    /// Runs that the tail names without being on them.
    pub(crate) claims: Vec<Next>,
}

/// Every segment header in the file, by the extent at which it stands, but for those inside of records: these are parts of values.
pub(crate) fn find_headers(
    storage: &dyn Storage,
    geometry: Geometry,
    store_id: [u8; 16],
    listed: &Roster,
) -> Result<Map<u32, SegmentHeader>> {
    let mut headers = Map::default();
    for extent in 0..geometry.extents_in(storage.len()?) {
        if let Some(header) = SegmentHeader::read(storage, store_id, geometry.start(extent))? {
            headers.insert(extent, header);
        }
    }
    for segment in listed.segments.iter().filter(|segment| segment.extents > 1) {
        drop_inside(storage, geometry, &mut headers, segment)?;
    }
    // What stands in free space may be such a value, too, and a header in there would pass for evidence.
    let runs = headers.iter().filter(|(_, header)| header.extents > 1);
    let runs: Vec<Segment> = runs.map(|(extent, header)| header.segment(geometry, extent)).collect();
    for run in runs {
        if headers.contains(run.extent) {
            drop_inside(storage, geometry, &mut headers, &run)?;
        }
    }
    Ok(headers)
}

/// The headers of the tail of a closed store, found by going along it: one look at the end of each segment. `None` when the way does not lead to
/// the end that the superblock names.
fn headers_along(
    storage: &dyn Storage,
    geometry: Geometry,
    pair: &SuperblockPair,
    listed: &Roster,
) -> Result<Option<Map<u32, SegmentHeader>>> {
    let superblock = pair.current;
    let (Some(end), Some(&last)) = (superblock.clean_end, listed.segments.last()) else { return Ok(None) };
    if pair.other_damaged || superblock.torn_end {
        return Ok(None);
    }
    let mut headers = Map::default();
    let mut segment = last;
    loop {
        let Some(header) = SegmentHeader::read(storage, superblock.store_id, geometry.start(segment.extent))? else {
            return Ok(None);
        };
        let fits = (header.kind, header.base, header.salt, header.extents)
            == (SegmentKind::Log, segment.base, segment.salt, segment.extents);
        if !fits || headers.contains(segment.extent) {
            return Ok(None);
        }
        headers.insert(segment.extent, header);
        let limit = segment.lsn(geometry, segment.limit(geometry));
        if end < limit {
            return Ok((end >= segment.base).then_some(headers));
        }
        match read_next(storage, geometry, &segment)? {
            Some(next) => {
                segment = Segment {
                    base: next.base,
                    extent: next.extent,
                    extents: next.extents,
                    end: 0,
                    salt: next.salt,
                    linked: false,
                };
            }
            None if end == limit => return Ok(Some(headers)),
            _ => return Ok(None),
        }
    }
}

/// Forgets the headers that stand inside of a record of `segment`: whatever they say, they are parts of a value. Where the place has been used
/// again since, no such record checks any more.
pub(crate) fn drop_inside(
    storage: &dyn Storage,
    geometry: Geometry,
    headers: &mut Map<u32, SegmentHeader>,
    segment: &Segment,
) -> Result<()> {
    let behind = segment.extent.saturating_add(segment.extents);
    let inside = |extent: &u32| *extent > segment.extent && *extent < behind;
    let mut left: Vec<u32> = headers.iter().map(|(extent, _)| extent).filter(inside).collect();
    // From the front on: the last one is the next that the walk comes to.
    left.reverse();
    let mut walk = Walk::new(storage, segment.salt, segment.first_frame(geometry), segment.limit(geometry).min(storage.len()?));
    while !left.is_empty()
        && !is(Bug::HeadersInValuesCount)
        && let Step::Frame { offset, .. } = walk.step()?
    {
        while let Some(extent) = left.pop_if(|extent| geometry.start(*extent) < walk.position()) {
            if offset <= geometry.start(extent) {
                headers.remove(extent);
            }
        }
    }
    Ok(())
}

/// The same for a segment of the tail. All of it is its own, whole or torn: no segment behind the checkpoint has been retired.
fn drop_within(headers: &mut Map<u32, SegmentHeader>, segment: &Segment) {
    let behind = segment.extent.saturating_add(segment.extents);
    headers.retain(|extent| extent <= segment.extent || extent >= behind || is(Bug::HeadersInValuesCount));
}

/// True when the two have no extent in common.
fn are_apart(one: &Segment, other: &Segment) -> bool {
    one.extent + one.extents <= other.extent || other.extent + other.extents <= one.extent
}

/// True when a record of `segment` that checks lies across the start of `extent`.
fn is_inside_a_record(storage: &dyn Storage, geometry: Geometry, segment: &Segment, extent: u32) -> Result<bool> {
    let place = geometry.start(extent);
    let mut walk = Walk::new(storage, segment.salt, segment.first_frame(geometry), segment.limit(geometry).min(storage.len()?));
    while let Step::Frame { offset, .. } = walk.step()? {
        if walk.position() > place {
            return Ok(offset <= place);
        }
    }
    Ok(false)
}

/// The list of live segments at the checkpoint that the superblock points at.
pub(crate) fn read_roster(storage: &dyn Storage, geometry: Geometry, superblock: &Superblock) -> Result<Roster> {
    let Some(place) = superblock.checkpoint else {
        return Ok(Roster::default());
    };
    let what = "the checkpoint that the superblock points at";
    let len = storage.len()?;
    if !(DATA_START..len).contains(&place.offset) {
        return Err(Error::corrupt(place.offset.min(len), what));
    }
    let mut walk = Walk::new(storage, place.salt, place.offset, len);
    let Step::Frame { offset, header } = walk.step()? else {
        return Err(Error::corrupt(place.offset, what));
    };
    if header.kind != Kind::Checkpoint {
        return Err(Error::corrupt(offset, what));
    }
    let roster = Roster::decode(walk.value(offset, &header)?, geometry, geometry.extents_in(len));
    let holds_it = |roster: &Roster| {
        roster.segments.last().is_some_and(|last| {
            (last.base, last.end, last.salt) == (place.base, place.offset, place.salt)
                && last.extent <= geometry.extent_of(offset)
        })
    };
    roster.filter(holds_it).ok_or(Error::corrupt(offset, what))
}

/// Where a segment of the tail ends, as far as others say so.
enum KnownEnd {
    /// The header of the next segment, or the superblock of a closed store, names the place.
    At(u64),
    /// Nobody says: the segment was active when the writer went away.
    Unknown,
}

impl Chain {
    /// Follows the log to its end.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when something in front of a sync mark does not check.
    pub(crate) fn follow(storage: &dyn Storage, pair: &SuperblockPair) -> Result<Self> {
        let superblock = pair.current;
        let geometry = superblock.geometry();
        let listed = read_roster(storage, geometry, &superblock)?;
        let headers = match headers_along(storage, geometry, pair, &listed)? {
            Some(headers) => headers,
            None => find_headers(storage, geometry, superblock.store_id, &listed)?,
        };
        let seed = seed_of(&superblock.seed);
        let chain = Self::default();
        let mut follower = Follower {
            storage,
            geometry,
            seed,
            headers,
            superblock,
            pair,
            chain,
            pending: Vec::new(),
            retired: Vec::new(),
            late: Vec::new(),
            stopped: None,
        };
        follower.run(listed)?;
        Ok(follower.chain)
    }
}

/// So many of the runs that a tail names count, the last ones: a session names few between two checkpoints.
const CLAIMS_MAX: usize = 256;
/// And only those that begin this close behind the end of the file, or behind another one ...
const CLAIMS_BEYOND: u32 = 4;
/// ... and are no longer than the longest record with the shortest extents.
const EXTENTS_MAX: u32 = 1 << 19;

/// How the log stands behind a superblock.
pub(crate) fn standing(storage: &dyn Storage, pair: &SuperblockPair) -> Result<Standing> {
    Chain::follow(storage, pair)?.standing(storage, &pair.current)
}

impl Chain {
    /// All live segments in log order, each with its end.
    pub(crate) fn live_segments(&self) -> Vec<Segment> {
        let first = self.tail.first().map_or(u64::MAX, |segment| segment.base);
        let before = self.listed.segments.iter().filter(|segment| segment.base < first && !self.retired.contains(segment.base));
        before.chain(&self.tail).copied().collect()
    }

    /// The listed segments whose records count: neither retired since nor kept for those alone who read history.
    pub(crate) fn counting_segments(&self) -> Vec<Segment> {
        let listed = self.listed.segments.iter().zip(&self.listed.figures);
        let counts = |(segment, figures): &(&Segment, &Figures)| !figures.history && !self.retired.contains(segment.base);
        listed.filter(counts).map(|(segment, _)| *segment).collect()
    }

    /// How the log stands, for a session that shares its file with others.
    pub(crate) fn standing(&self, storage: &dyn Storage, superblock: &Superblock) -> Result<Standing> {
        let geometry = superblock.geometry();
        let live = self.live_segments();
        let mut named = self.claims.iter().rev().take(CLAIMS_MAX).copied().collect::<Vec<_>>();
        for (index, segment) in live.iter().enumerate().filter(|(_, segment)| !segment.linked) {
            // A trailer may name a segment that never came, or came too late.
            let next = read_next(storage, geometry, segment)?;
            named.extend(next.filter(|next| live.get(index + 1).is_none_or(|real| real.salt != next.salt)));
        }
        let ActivePlace { base, salt, extent, extents } = superblock.active;
        if base > 0 && extents > 0 {
            named.push(Next { extent, extents, base, salt });
        }
        named.retain(|next| next.base >= LOG_POSITION_FIRST || next.base < REMEMBERED);
        let is_free = |next: &Next| live.iter().all(|segment| segment.extent != next.extent || segment.base != next.base);
        named.retain(is_free);
        named.sort_unstable_by_key(|next| next.extent);
        // Nobody takes more at once than the longest record needs, nor leaves much of the file out.
        let longest = VALUE_LEN_MAX as u64 + 2 * u64::from(SEGMENT_SIZE_MAX);
        let mut behind = geometry.extents_in(storage.len()?);
        let mut claims = Vec::new();
        for Next { extent, extents, base, .. } in named {
            let len = geometry.len_of(extent, extents.min(EXTENTS_MAX));
            if extent <= behind + CLAIMS_BEYOND && len <= longest && extents <= EXTENTS_MAX {
                behind = behind.max(extent + extents);
                // No segment has a base so low: it is a number of sessions.
                let is_old = base < LOG_POSITION_FIRST;
                let run = Barred { extent, extents, sessions: if is_old { base } else { 0 } };
                claims.push((run, if is_old { 0 } else { base.saturating_add(len).min(LOG_POSITION_MAX) }));
            }
        }
        Ok(Standing {
            end: self.end,
            records: self.ops.len(),
            retired: self.retired.len(),
            is_clean: self.clean,
            claims,
            last: live.last().map(|last| (last.extent, last.extents)),
            next_base: self.next_base,
            next_header: self.next_header,
            headers: self.headers,
        })
    }

    /// Some segments are kept for those alone who read history. A build that does not keep it may only read such a store.
    pub(crate) fn has_history(&self) -> bool {
        self.listed.floor != 0 || self.listed.figures.iter().any(|figures| figures.history)
    }
}

struct Follower<'a> {
    storage: &'a dyn Storage,
    geometry: Geometry,
    seed: u64,
    headers: Map<u32, SegmentHeader>,
    superblock: Superblock,
    pair: &'a SuperblockPair,
    chain: Chain,
    /// Records of a commit whose end has not come yet.
    pending: Vec<Op>,
    /// Bases of retired segments, as they are met.
    retired: Vec<u64>,
    /// Headers that an earlier session has written behind the beginning of the last one: they do not count, but are counted.
    late: Vec<(u32, SegmentHeader)>,
    /// The walk has met a frame that does not check, in this segment, whose end is here the place of that frame.
    stopped: Option<Segment>,
}

/// Where the log would end if nothing more came.
#[derive(Clone, Copy)]
struct CommitEnd {
    /// Segments of the tail in front of and including the one that holds it.
    segments: usize,
    offset: u64,
}

impl Follower<'_> {
    fn run(&mut self, listed: Roster) -> Result<()> {
        // An earlier session that goes on behind the beginning of a later one writes what nobody has counted.
        let Superblock { headers, session, .. } = self.superblock;
        let came_late = |header: &SegmentHeader| header.number > headers && header.session < session;
        let late = self.headers.iter().filter(|(_, header)| came_late(header));
        self.late = late.map(|(extent, header)| (extent, *header)).collect();
        self.headers.retain(|extent| !self.late.iter().any(|(late, _)| *late == extent));
        let mut position = 0;
        if let Some(&last) = listed.segments.last() {
            position = last.end;
            let limit = last.limit(self.geometry).min(self.storage.len()?.max(position));
            drop_within(&mut self.headers, &last);
            self.chain.tail.push(Segment { end: limit, ..last });
        } else if let Some(first) = self.next_after(None)? {
            position = first.first_frame(self.geometry);
            drop_within(&mut self.headers, &first);
            self.chain.tail.push(first);
        }
        self.chain.next_event = listed.next_event;
        self.chain.listed = listed;
        self.chain.proven = self.superblock.synced.max(self.superblock.clean_end.unwrap_or(0));
        self.chain.clean = self.superblock.clean_end.is_some() && !self.pair.other_damaged;
        if self.chain.tail.is_empty() {
            self.judge_nothing()?;
        } else {
            self.walk_tail(position)?;
        }
        self.count_headers();
        self.chain.retired = Set::collect(self.retired.drain(..));
        // A place is used again only behind the frame that retires what stood there.
        let listed = self.chain.listed.segments.iter().filter(|listed| !self.chain.retired.contains(listed.base));
        for (used, segment) in listed.flat_map(|used| self.chain.tail.iter().map(move |segment| (used, segment))) {
            if used.base != segment.base && !are_apart(used, segment) {
                return Err(Error::corrupt(self.geometry.start(segment.extent), "a segment that lies across another one"));
            }
        }
        if self.superblock.clean_end.is_some_and(|end| self.chain.end < end) {
            // A closed store was synced to its end: what is missing has been damaged.
            let at = self.chain.tail.last().map_or(DATA_START, |segment| segment.end);
            return Err(Error::corrupt(at, "the end of the log is missing"));
        }
        Ok(())
    }

    /// What the next segment may begin with. By now it is known which headers are parts of values.
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
    }

    /// The segment that follows `before` in the log, or the first one: of several that say so the youngest, for the others were given up
    /// by a recovery. One that stands inside of a record of another one is a part of a value.
    fn next_after(&self, before: Option<&Segment>) -> Result<Option<Segment>> {
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

    /// True when a header that stands inside of `run`, and follows the same segment, is a part of a value. Nobody but a later session takes the
    /// space of a run that was given up, and the superblock knows all of them.
    fn is_part(&self, run: &Segment, inner: &Segment) -> Result<bool> {
        if is(Bug::HeadersInValuesCount) {
            return Ok(false);
        }
        let session = |segment: &Segment| self.header_of(segment).map_or(0, |header| header.session);
        let is_unknown = session(inner) > self.superblock.session && !self.pair.other_damaged;
        Ok(session(inner) <= session(run) || is_unknown || is_inside_a_record(self.storage, self.geometry, run, inner.extent)?)
    }

    fn header_of(&self, segment: &Segment) -> Option<&SegmentHeader> {
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
        let mut commit_end = CommitEnd { segments: 1, offset: position };
        loop {
            let Some(&segment) = self.chain.tail.last() else {
                return Ok(());
            };
            if let Some(header) = self.header_of(&segment) {
                self.chain.proven = self.chain.proven.max(header.synced);
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
            // The file may have lost its end in a crash.
            let readable = end.min(segment.end);
            let mut stopped = self.walk_segment(&segment, position, readable, &mut commit_end)?;
            if stopped.is_none() && readable < end {
                stopped = Some((readable, DecodeError::Truncated));
            }
            if let Some((offset, error)) = stopped {
                self.judge(&segment, offset, error)?;
                next = None;
            }
            match next {
                Some(next) => {
                    position = next.first_frame(self.geometry);
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
                    if self.pending.is_empty() {
                        commit_end = CommitEnd { segments: self.chain.tail.len(), offset: position };
                    }
                }
                None => return self.finish(commit_end),
            }
        }
    }

    /// Collects what the frames in `position..end` do. Says where and why it could not go on.
    fn walk_segment(
        &mut self,
        segment: &Segment,
        position: u64,
        end: u64,
        commit_end: &mut CommitEnd,
    ) -> Result<Option<(u64, DecodeError)>> {
        let mut walk = Walk::new(self.storage, segment.salt, position, end);
        loop {
            match walk.step()? {
                Step::End => return Ok(None),
                Step::Bad { offset, error } => return Ok(Some((offset, error))),
                Step::Frame { offset, header } => {
                    self.chain.tail_bytes += header.frame_len() as u64;
                    match header.kind {
                        Kind::Mark => {
                            if let Some(mark) = Mark::decode(walk.value(offset, &header)?) {
                                self.chain.proven = self.chain.proven.max(mark.synced);
                            }
                        }
                        Kind::Retire => {
                            self.retired.extend(walk.value_u64(offset, &header)?);
                        }
                        Kind::Adopt => {
                            return Err(Error::Unsupported { offset, what: "a segment that was written beside the log" });
                        }
                        Kind::Next => {
                            self.chain.claims.extend(Next::decode(walk.value(offset, &header)?));
                        }
                        Kind::Checkpoint | Kind::Pad | Kind::Floor => {}
                        Kind::Put | Kind::Tombstone | Kind::Event | Kind::Stub => {
                            if header.kind.is_carried() {
                                let number = event_number(walk.value(offset, &header)?);
                                self.chain.next_event = self.chain.next_event.max(number + 1);
                            }
                            let hash = KeyHash::new(self.seed, header.namespace, walk.key(offset, &header)?);
                            let carried = header.kind.is_carried().then_some(header.frame_len() as u64);
                            self.pending.push(Op { offset, namespace: header.namespace, hash, carried });
                        }
                    }
                    let whole = !header.continues || is(Bug::BatchEndIgnored);
                    if !header.kind.is_control() && whole {
                        self.chain.ops.append(&mut self.pending);
                    }
                    if self.pending.is_empty() {
                        *commit_end = CommitEnd { segments: self.chain.tail.len(), offset: walk.position() };
                    }
                }
            }
        }
    }

    /// A frame does not check: is that the torn tail of a crash, or has something been damaged that was safe?
    fn judge(&mut self, segment: &Segment, offset: u64, error: DecodeError) -> Result<()> {
        let evidence = Evidence { storage: self.storage, geometry: self.geometry, headers: &self.headers };
        let lsn = segment.lsn(self.geometry, offset);
        if self.chain.proven <= lsn {
            self.chain.proven = self.chain.proven.max(evidence.behind(segment, offset)?);
        }
        if self.chain.proven > lsn && !is(Bug::SyncMarkNever) {
            return Err(Error::corrupt(offset, error.what()));
        }
        self.stopped = Some(Segment { end: offset, ..*segment });
        Ok(())
    }

    /// No segment of the log is to be found. Was there never one, or is the first one lost?
    fn judge_nothing(&mut self) -> Result<()> {
        let before_all = Segment { base: 0, extent: 0, extents: 0, end: 0, salt: 0, linked: false };
        let evidence = Evidence { storage: self.storage, geometry: self.geometry, headers: &self.headers };
        self.chain.proven = self.chain.proven.max(evidence.behind(&before_all, u64::MAX)?);
        if self.chain.proven > 0 && !is(Bug::LostBeginningForgotten) {
            return Err(Error::corrupt(DATA_START, "the log begins behind this point, but its first part is missing"));
        }
        self.find_stranded(&[], 0, 0)
    }

    /// Looks at what stands behind the end: records of whole commits that check are counted and kept, the rest is counted in bytes. `walked`
    /// are the segments that the walk has seen, `torn` so many bytes behind the end in them.
    fn find_stranded(&mut self, walked: &[Segment], end: u64, mut torn: u64) -> Result<()> {
        if let Some(segment) = self.stopped {
            self.chain.stranded.add(stranded_in(self.storage, self.geometry, &segment)?);
        }
        let len = self.storage.len()?;
        let listed = self.chain.listed.segments.last().map_or(0, |last| last.base);
        let mut others: Vec<Segment> = Vec::new();
        for (extent, header) in self.headers.iter().filter(|(_, header)| header.kind == SegmentKind::Log && header.base > listed)
        {
            let segment = header.segment(self.geometry, extent);
            if walked.iter().all(|used| are_apart(used, &segment)) {
                others.push(segment);
            }
        }
        others.sort_unstable_by_key(|segment| segment.base);
        let mut before = Segment { base: 0, extent: 0, extents: 0, end: 0, salt: 0, linked: false };
        for segment in others {
            // One that stands inside of a record of the one before is a part of a value.
            let is_inside =
                !are_apart(&before, &segment) && is_inside_a_record(self.storage, self.geometry, &before, segment.extent)?;
            if is_inside || segment.base < before.next_base(self.geometry) {
                continue;
            }
            let start = self.geometry.start(segment.extent);
            if segment.base > end {
                torn += Evidence::used_bytes(self.storage, start, segment.end.min(len))?;
            }
            // As far as the file goes: a forged header names any number of extents.
            let there = self.geometry.extent_of(len.saturating_sub(1)).saturating_sub(segment.extent).saturating_add(1);
            let extents = segment.extents.min(there);
            let kept = Segment { end: segment.first_frame(self.geometry), extents, ..segment };
            let found = stranded_in(self.storage, self.geometry, &kept)?;
            if found.records > 0 {
                self.chain.stranded.add(found);
                self.chain.kept.push(kept);
                if let Some(&header) = self.header_of(&kept)
                    && !SegmentHeader::read_both(self.storage, self.superblock.store_id, start)?.is_whole()
                {
                    self.chain.torn_headers.push((start, header));
                }
            }
            before = segment;
        }
        if torn > 0 {
            let at = self.chain.tail.last().map_or(DATA_START, |last| last.end);
            self.chain.torn = Some((at, torn));
        }
        Ok(())
    }

    /// The log ends here. What an unfinished commit left behind is dropped with the rest of the tail.
    fn finish(&mut self, commit_end: CommitEnd) -> Result<()> {
        let walked = self.chain.tail.clone();
        let given_up = self.chain.tail.split_off(commit_end.segments.min(self.chain.tail.len()));
        let Some(last) = self.chain.tail.last_mut() else {
            return Ok(());
        };
        let limit = last.end;
        last.end = commit_end.offset;
        last.linked = false;
        let last = *last;
        self.chain.end = last.lsn(self.geometry, last.end);
        let names_it = |header: &SegmentHeader| (header.previous_base, header.previous_salt) == (last.base, last.salt);
        self.chain.given_up = self.headers.iter().filter(|(_, header)| names_it(header)).map(|(extent, _)| extent).collect();
        if self.chain.clean && self.superblock.clean_end == Some(self.chain.end) {
            return Ok(());
        }
        self.chain.clean = false;
        // A segment in the middle may have lost its header: what comes behind it would prove that.
        let evidence = Evidence { storage: self.storage, geometry: self.geometry, headers: &self.headers };
        self.chain.proven = self.chain.proven.max(evidence.behind(&last, limit)?);
        if self.chain.end < self.chain.proven && !is(Bug::SyncMarkNever) && !is(Bug::BatchEndIgnored) {
            return Err(Error::corrupt(last.end, "the log goes on behind this point, but its next part is missing"));
        }
        let mut torn = Evidence::used_bytes(self.storage, last.end, limit)?;
        for segment in &given_up {
            torn += Evidence::used_bytes(self.storage, self.geometry.start(segment.extent), segment.end)?;
        }
        self.find_stranded(&walked, walked.last().map_or(0, |segment| segment.base), torn)?;
        let unproven = self.chain.tail.iter().filter(|segment| segment.next_base(self.geometry) > self.chain.proven);
        self.chain.unproven = unproven.copied().collect();
        self.judge_lost_trailers();
        self.find_torn_headers()
    }

    /// A trailer that was proven to be synced has been damaged; the others a crash may have taken.
    fn judge_lost_trailers(&mut self) {
        let Chain { lost_trailers, tail, proven, .. } = &mut self.chain;
        lost_trailers.retain(|(segment, next)| {
            let damaged = segment.lsn(self.geometry, segment.limit(self.geometry)) < *proven;
            if let Some(segment) = tail.iter_mut().find(|known| known.base == segment.base) {
                segment.linked = damaged;
            }
            !damaged && tail.iter().any(|known| known.base == next.base)
        });
    }

    fn find_torn_headers(&mut self) -> Result<()> {
        for segment in &self.chain.tail {
            let start = self.geometry.start(segment.extent);
            if let Some(&header) = self.header_of(segment)
                && segment.lsn(self.geometry, start) >= self.chain.proven
                && !SegmentHeader::read_both(self.storage, self.superblock.store_id, start)?.is_whole()
            {
                self.chain.torn_headers.push((start, header));
            }
        }
        Ok(())
    }
}
