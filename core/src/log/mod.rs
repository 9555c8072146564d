//! The append-only log: one file of superblocks and segments, appended to at the tail and read at any offset.

mod acted;
mod announce;
mod append;
#[cfg(feature = "async")]
mod at_once;
mod begin;
mod copies;
mod cut;
#[cfg(feature = "encrypt")]
mod disable;
#[cfg(feature = "encrypt")]
mod enable;
mod feed;
mod fence;
mod followed;
mod frames;
mod geometry;
mod history;
mod hold;
#[cfg(feature = "encrypt")]
mod key_page;
mod live;
mod mark;
#[cfg(feature = "encrypt")]
mod opened;
#[cfg(feature = "encrypt")]
mod plain;
mod positions;
mod publish;
mod read;
mod resume;
mod retire;
mod room;
mod run;
#[cfg(feature = "encrypt")]
mod sealed;
mod segment;
mod segment_list;
mod segment_stats;
mod settle;
mod shrink;
mod single;
mod space;
mod start;
mod stranded;
mod superblock;
mod sync;
#[cfg(test)]
mod tests;
mod together;
mod walk;
mod window;
mod write_behind;
mod zeros;

pub(crate) use acted::FEATURE_EXPIRY;
pub(crate) use append::{Placed, RETIRE_ROOM};
pub(crate) use copies::Dated;
pub(crate) use cut::Cut;
#[cfg(feature = "encrypt")]
pub(crate) use enable::NO_CELL;
pub(crate) use fence::{Fence, REMEMBERED_MOST, Standing, read_slots};
pub(crate) use followed::{EventChange, SegmentChange, take_over};
pub(crate) use frames::Frames;
pub(crate) use geometry::Geometry;
pub(crate) use history::FollowerId;
pub(crate) use hold::ExtentHolds;
pub(crate) use live::Occupant;
pub(crate) use mark::MARK_LEN;
#[cfg(feature = "encrypt")]
pub(crate) use opened::{is_plain_from, is_sealed, is_sealed_segment, keys as keys_of, open as open_frame, seals};
#[cfg(feature = "encrypt")]
pub(crate) use plain::{Digests, is_as_listed};
pub(crate) use positions::{Contained, EndPlace};
pub(crate) use read::{Frame, ValueBytes};
#[cfg(feature = "events")]
pub(crate) use read::{Plain, Published};
pub(crate) use run::{SEGMENT_HEADER_LEN, Segment, SnapshotSegment, TRAILER_LEN};
pub(crate) use segment::{HEADER_COPIES, SegmentHeader, SegmentKind, named_without_header, read_next};
pub(crate) use segment_list::{Figures, LIST_ENTRY_LEN_MAX, LIST_SEAL_LEN, SegmentList};
pub(crate) use segment_stats::{SegmentStats, Tally};
pub(crate) use space::{Barred, Purpose, Space};
pub(crate) use start::LogEnd;
pub(crate) use stranded::{Holds, Stranded, in_segment as stranded_in};
#[cfg(feature = "encrypt")]
pub(crate) use superblock::GENERATIONS_OF_CREATION;
pub(crate) use superblock::{
    ActivePlace, CheckpointPlace, DirectoryPlace, FORMAT_VERSION, Front, SLOT_LEN, Slots, Superblock, SuperblockPair,
    SuperblockSlot, read_superblocks,
};
pub(crate) use together::Copies;
pub(crate) use walk::{PIECE, Step, Walk};
pub(crate) use window::Window;
pub(crate) use zeros::without_last_zeros;

use crate::clock::StoreClock;
use crate::error::{Error, Result};
use crate::frame::FrameSpec;
use crate::limits::LOG_POSITION_FIRST;
use crate::recent::Recent;
use crate::sorted::Map;
use crate::storage::Storage;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use once_cell::race::OnceBox;

/// What the next segment header records about its predecessor.
#[derive(Clone, Copy, Debug, Default)]
struct Previous {
    pub(crate) base: u64,
    /// File offset of the end of its last frame.
    pub(crate) end: u64,
    pub(crate) salt: u64,
    /// File offset of its trailer, the frame that names the next segment; `None` when that is not known to be unwritten, or when there is
    /// no previous segment.
    pub(crate) trailer: Option<u64>,
}

/// The end of the log and everything that changes with it; guarded by one lock.
#[derive(Debug)]
struct Tail {
    /// Live segments by base; the last one is active if `active` is set.
    pub(crate) segments: Map<u64, Segment>,
    /// The segment that takes appends.
    pub(crate) active: Option<Active>,
    /// The log position at which the next segment begins.
    pub(crate) next_base: u64,
    /// Number of the next segment header, of the log or of a snapshot.
    pub(crate) next_header: u64,
    /// Number of the next event.
    pub(crate) next_event: u64,
    /// Segments from this base on were begun by this session, in space that it reserved. Earlier ones may have holes, or lie in
    /// part past the end of the file, where closing cut it.
    pub(crate) first_own_base: u64,
    /// Log position of the end of the log when the store was opened.
    pub(crate) found_end: u64,
    /// The segments of the snapshot that the newest checkpoint names.
    pub(crate) snapshot: Vec<SnapshotSegment>,
    /// What the next segment header records about its predecessor.
    pub(crate) previous: Previous,
    pub(crate) space: Space,
    /// The log is synced up to this position, and no sync mark records it yet.
    pub(crate) mark_due: Option<u64>,
    /// The latest expiry that the file says was acted on.
    pub(crate) clock_said: u64,
    /// The superblock records that this session writes. Until then nothing may be appended.
    pub(crate) announced: bool,
    /// Segments of earlier sessions, each up to its end, that are not proven to be wholly synced.
    pub(crate) unproven: Vec<Segment>,
    /// Segment headers of which a crash has left only a part.
    pub(crate) torn_headers: Vec<(u64, SegmentHeader)>,
    /// Segments whose trailer was lost in a crash, each with the segment that it named.
    pub(crate) lost_trailers: Vec<(Segment, Segment)>,
    /// Extents of headers that name the last segment as their predecessor, and that recovery gave up.
    pub(crate) given_up: Vec<u32>,
    /// Segments without records that count, kept for their stranded records, that no checkpoint lists.
    pub(crate) unlisted: Vec<Segment>,
    /// Retired segments whose retirement is not durable yet.
    pub(crate) retired: Vec<retire::Retired>,
    /// Retired segments that are kept for those who follow the log.
    history: history::History,
    /// The last tag of the log.
    #[cfg(feature = "encrypt")]
    pub(crate) last_tag: [u8; crate::frame::TAG_LEN],
    /// Gathered frames. Reused between appends, so that an append allocates nothing.
    pub(crate) scratch: Vec<u8>,
}

impl Tail {
    /// The active segment as a superblock records it.
    fn active_place(&self) -> ActivePlace {
        let Some(Active { segment: Segment { base, salt, extent, extents, .. }, .. }) = self.active else {
            return ActivePlace::default();
        };
        ActivePlace { base, salt, extent, extents }
    }
}

/// Where the next frame goes.
#[derive(Clone, Copy, Debug)]
struct Active {
    pub(crate) segment: Segment,
    pub(crate) position: u64,
    /// File offset of its trailer.
    pub(crate) limit: u64,
    /// The space from `position` on has never been written: it reads as zeros.
    pub(crate) fresh: bool,
    /// Records that this session has appended to it.
    pub(crate) records: u64,
}

impl Active {
    pub(crate) const fn new(segment: Segment, position: u64, geometry: Geometry, fresh: bool) -> Self {
        Self { segment, position, limit: segment.limit(geometry), fresh, records: 0 }
    }

    /// Frames were appended to it, of which so many are records.
    #[inline]
    pub(crate) const fn goes_on(&mut self, position: u64, records: u64) {
        self.position = position;
        if cfg!(feature = "followers") {
            self.records += records;
        }
    }

    /// Bytes left for frames.
    #[inline]
    pub(crate) const fn room(&self) -> u64 {
        self.limit - self.position
    }
}

/// The log of one open store.
pub(crate) struct Log {
    pub(crate) storage: Box<dyn Storage>,
    pub(crate) geometry: Geometry,
    pub(crate) store_id: [u8; 16],
    pub(crate) read_only: bool,
    /// Bytes of a tag where what is appended is sealed, else 0. Changes with the tail locked.
    #[cfg(feature = "encrypt")]
    tag_len: AtomicU64,
    /// What was appended may be sealed.
    #[cfg(feature = "encrypt")]
    holds_sealed: AtomicBool,
    /// Another session writes to the file, and this one follows it.
    is_follower: bool,
    pub(crate) verify_on_read: bool,
    pub(crate) clock: StoreClock,
    /// The storage remembers which records have been verified.
    remembers_checks: bool,
    /// The length of a record that was read lately: so many bytes of the next ones are announced.
    usual_len: AtomicUsize,
    /// Set when another session may write to the file, too. In a box: it is 1 KiB, and most stores have none.
    pub(crate) fence: Option<Box<Fence>>,
    /// Randomness of this session, mixed into the salts.
    pub(crate) entropy: u64,
    /// Salt and live bytes of every extent, readable without a lock.
    pub(crate) segment_stats: SegmentStats,
    /// What the values hold that callers keep.
    pub(crate) holds: ExtentHolds,
    /// What living transactions are checked against.
    pub(crate) recent: Recent,
    tail: Mutex<Tail>,
    /// Held while a superblock is written and synced; ordinary appends do not wait for it.
    superblocks: Mutex<SuperblockPair>,
    /// The newest generation of the superblocks.
    generation: AtomicU64,
    /// Generation of the superblock that announced this session.
    session: AtomicU64,
    /// Number of the newest segment header.
    headers: AtomicU64,
    pub(crate) sync_state: sync::SyncState,
    /// Who waits for commits.
    pub(crate) feed: feed::Feed,
    stranded: stranded::StrandedState,
    /// Everything that an earlier session has left is known to be on the medium.
    settled: AtomicBool,
    /// Log position of the end of the last append.
    appended: AtomicU64,
    /// Log position of the newest checkpoint.
    checkpoint: AtomicU64,
    closed: AtomicBool,
    /// Log position up to which `will_sync` has been called.
    told_behind: AtomicU64,
    /// The log goes on in segments that this session has begun.
    named: AtomicBool,
    /// The last free segment was taken: compaction is due.
    pub(crate) space_low: AtomicBool,
    /// The last reservation of space failed.
    pub(crate) medium_full: AtomicBool,
    /// A reservation of this session has failed.
    medium_was_full: AtomicBool,
    /// The first failed write or sync; set once.
    latch: OnceBox<Arc<Error>>,
}

impl Log {
    pub(crate) fn new(storage: Box<dyn Storage>, superblocks: SuperblockPair, options: LogOptions) -> Self {
        let geometry = superblocks.current.geometry();
        Self {
            remembers_checks: storage.is_checked(0, 0).is_some(),
            usual_len: AtomicUsize::new(0),
            #[cfg(feature = "encrypt")]
            tag_len: AtomicU64::new(if seals(&*storage) { crate::frame::TAG_LEN as u64 } else { 0 }),
            #[cfg(feature = "encrypt")]
            holds_sealed: AtomicBool::new(is_sealed(&*storage)),
            storage,
            geometry,
            store_id: superblocks.current.store_id,
            read_only: options.read_only,
            is_follower: options.follows,
            verify_on_read: options.verify_on_read,
            fence: options.fence,
            entropy: options.entropy,
            segment_stats: SegmentStats::default(),
            holds: ExtentHolds::default(),
            recent: Recent::default(),
            tail: Mutex::new(Tail {
                segments: Map::default(),
                active: None,
                next_base: LOG_POSITION_FIRST,
                next_header: 1,
                next_event: 0,
                first_own_base: LOG_POSITION_FIRST,
                found_end: 0,
                snapshot: Vec::new(),
                previous: Previous::default(),
                space: Space::new(geometry),
                mark_due: None,
                clock_said: options.clock.floor(),
                announced: false,
                unproven: Vec::new(),
                torn_headers: Vec::new(),
                lost_trailers: Vec::new(),
                given_up: Vec::new(),
                unlisted: Vec::new(),
                retired: Vec::new(),
                history: history::History::default(),
                #[cfg(feature = "encrypt")]
                last_tag: Default::default(),
                scratch: Vec::new(),
            }),
            superblocks: Mutex::new(superblocks),
            generation: AtomicU64::new(superblocks.current.generation),
            session: AtomicU64::new(superblocks.current.session),
            headers: AtomicU64::new(superblocks.current.headers),
            sync_state: sync::SyncState::default(),
            feed: feed::Feed::default(),
            stranded: stranded::StrandedState::default(),
            settled: AtomicBool::new(true),
            appended: AtomicU64::new(0),
            checkpoint: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            told_behind: AtomicU64::new(0),
            named: AtomicBool::new(false),
            space_low: AtomicBool::new(false),
            medium_full: AtomicBool::new(false),
            medium_was_full: AtomicBool::new(false),
            latch: OnceBox::new(),
            clock: options.clock,
        }
    }

    /// True if what is appended is sealed. What was appended earlier may be plain, in a store that is being sealed, or the other way round: of that the
    /// head of each frame tells.
    #[inline]
    pub(crate) fn is_sealed(&self) -> bool {
        self.tag_len() != 0
    }

    /// True if what was appended may be sealed. It changes to false when no slot points to a sealed frame any more, and nobody who may have such a slot
    /// reads.
    #[inline]
    pub(crate) fn holds_sealed(&self) -> bool {
        // Whoever has a slot of a sealed frame has met the publication behind its change.
        #[cfg(feature = "encrypt")]
        return self.holds_sealed.load(Ordering::Relaxed);
        #[cfg(not(feature = "encrypt"))]
        false
    }

    /// Bytes that a control frame is longer than in a plain store.
    #[inline]
    pub(crate) fn tag_len(&self) -> u64 {
        #[cfg(feature = "encrypt")]
        return self.tag_len.load(Ordering::Relaxed);
        #[cfg(not(feature = "encrypt"))]
        0
    }

    /// Bytes of a frame in this log.
    #[inline]
    pub(crate) fn len_of(&self, frame: &FrameSpec<'_>) -> u64 {
        #[cfg(feature = "encrypt")]
        if self.is_sealed() {
            return frame.sealed_len() as u64;
        }
        frame.len() as u64
    }

    /// Refuses writes after the first failed one, and always in a read-only store.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        match self.latch.get() {
            Some(first) => Err(poisoned(first)),
            None => Ok(()),
        }
    }

    /// Recovery found a header with this number.
    fn found_headers(&self, newest: u64) {
        self.headers.fetch_max(newest, Ordering::Relaxed);
    }

    /// Number of the newest segment header.
    pub(crate) fn headers_so_far(&self) -> u64 {
        self.headers.load(Ordering::Relaxed)
    }

    /// Closes the store to later writes: after a failed write or sync it is unknown what the file holds after the last sync.
    /// [`Error::NoSpace`] is replaced, since it promises that nothing was written.
    pub(crate) fn poison(&self, error: Error) -> Error {
        let error = error.half_way();
        let _ = self.latch.set(Box::new(Arc::new(error.clone())));
        self.feed.wake();
        error
    }

    /// A write or a sync has failed.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.latch.get().is_some()
    }

    /// Closes the store: writes through handles that still exist fail with [`Error::Closed`].
    pub(crate) fn close_to_writes(&self) {
        self.closed.store(true, Ordering::Release);
        self.feed.wake();
    }

    /// Counts a header that has been given the next number.
    fn took_header(&self, tail: &mut Tail) {
        self.headers.fetch_max(tail.next_header, Ordering::Relaxed);
        tail.next_header += 1;
    }

    /// Generation of the superblock that announced this session.
    pub(crate) fn session(&self) -> u64 {
        self.session.load(Ordering::Relaxed)
    }

    fn set_checkpoint(&self, lsn: u64) {
        self.checkpoint.store(lsn, Ordering::Release);
    }

    /// Bytes of log that a reopen would have to replay.
    pub(crate) fn replay_debt(&self) -> u64 {
        self.end().saturating_sub(self.checkpoint.load(Ordering::Acquire))
    }

    /// Log position of the end of the last frame: a sync mark may follow the last append.
    pub(crate) fn position(&self) -> u64 {
        let tail = self.tail.lock();
        let position = |active: Active| active.segment.lsn(self.geometry, active.position);
        tail.active.map_or(0, position).max(self.end())
    }

    /// Log position of the end of the last append.
    pub(crate) fn end(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }
}

/// The error of writes after the one that closed the store.
fn poisoned(first: &Arc<Error>) -> Error {
    if matches!(**first, Error::Fenced) { Error::Fenced } else { Error::Poisoned(first.clone()) }
}

/// How a log is opened.
pub(crate) struct LogOptions {
    pub(crate) fence: Option<Box<Fence>>,
    pub(crate) read_only: bool,
    pub(crate) follows: bool,
    pub(crate) verify_on_read: bool,
    pub(crate) entropy: u64,
    pub(crate) clock: StoreClock,
}

/// A salt that no other session, segment or store is likely to have. It hashes the generation of the superblock, which grows and
/// is durable before a session writes its first segment, and the number of the header, which is unique in the session: even
/// without entropy no two segments of a file have the same inputs.
pub(crate) fn salt(store_id: [u8; 16], generation: u64, header: u64, entropy: u64) -> u64 {
    let (low, high) = (u128::from_le_bytes(store_id) as u64, (u128::from_le_bytes(store_id) >> 64) as u64);
    let mut bytes = [0; 40];
    for (place, field) in bytes.as_chunks_mut().0.iter_mut().zip([low, high, generation, header, entropy]) {
        *place = field.to_le_bytes();
    }
    xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, 0)
}
