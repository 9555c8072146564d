//! The append-only log: one file of superblocks and segments, appended to at one end and read anywhere.

mod append;
mod cut;
mod fence;
mod geometry;
mod live;
mod publish;
mod read;
mod resume;
mod retire;
mod room;
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
mod walk;
mod window;
mod write_behind;
mod zeros;

pub(crate) use append::{MARK_LEN, Placed, RETIRE_ROOM};
pub(crate) use cut::{Cut, LIST_ENTRY_LEN, list_len};
pub(crate) use fence::{Fence, REMEMBERED, Standing, read_slots};
pub(crate) use geometry::Geometry;
pub(crate) use live::Occupant;
pub(crate) use read::{Frame, ValueBytes};
pub(crate) use segment::{HEADER_COPIES, SEGMENT_HEADER_LEN, SegmentHeader, SegmentKind, TRAILER_LEN, read_next};
pub(crate) use segment_list::{Figures, LIST_ENTRY_LEN_MAX, SegmentList};
pub(crate) use segment_stats::{SegmentStats, Tally};
pub(crate) use space::{Barred, Purpose, Space};
pub(crate) use start::LogEnd;
pub(crate) use stranded::{Holds, Stranded, in_segment as stranded_in};
pub(crate) use superblock::{
    ActivePlace, CheckpointPlace, DirectoryPlace, FORMAT_VERSION, Front, SLOT_LEN, Slots, Superblock, SuperblockPair,
    SuperblockSlot, read_superblocks,
};
pub(crate) use walk::{Step, Walk};
pub(crate) use window::Window;
pub(crate) use zeros::without_last_zeros;

use crate::error::{Error, Result};
use crate::limits::LOG_POSITION_FIRST;
use crate::sorted::Map;
use crate::storage::Storage;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use once_cell::race::OnceBox;

/// A live segment of the log: a run of neighbouring extents, the log positions of its bytes following each other.
///
/// A log position ("lsn") counts bytes in log order. It only ever grows, while an offset in the file comes back when an extent is used
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Log position of its first byte.
    pub(crate) base: u64,
    pub(crate) extent: u32,
    pub(crate) extents: u32,
    /// Offset in the file behind its last frame; for the active segment the tail knows better.
    pub(crate) end: u64,
    pub(crate) salt: u64,
    /// Its trailer names the segment behind it.
    pub(crate) linked: bool,
}

impl Segment {
    /// Offset of the first frame.
    pub(crate) const fn first_frame(&self, geometry: Geometry) -> u64 {
        geometry.start(self.extent) + SEGMENT_HEADER_LEN as u64
    }

    /// Offset behind the place of its last frame: there stands the trailer.
    pub(crate) const fn limit(&self, geometry: Geometry) -> u64 {
        self.behind(geometry) - TRAILER_LEN
    }

    /// Offset behind its last extent.
    pub(crate) const fn behind(&self, geometry: Geometry) -> u64 {
        geometry.start(self.extent.saturating_add(self.extents))
    }

    /// Its bytes, header and trailer included.
    pub(crate) const fn len(&self, geometry: Geometry) -> u64 {
        geometry.len_of(self.extent, self.extents)
    }

    /// Log position behind it: where the next segment may begin.
    pub(crate) const fn next_base(&self, geometry: Geometry) -> u64 {
        self.base + self.len(geometry)
    }

    /// The log position of `offset`, which lies in this segment.
    pub(crate) const fn lsn(&self, geometry: Geometry, offset: u64) -> u64 {
        self.base + (offset - geometry.start(self.extent))
    }
}

/// A segment that holds parts of the index snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotSegment {
    pub(crate) extent: u32,
    pub(crate) extents: u32,
    pub(crate) salt: u64,
    /// Offset in the file behind its last part.
    pub(crate) end: u64,
    /// This session has set its space aside.
    pub(crate) own: bool,
}

impl SnapshotSegment {
    /// Offset behind its last extent.
    pub(crate) const fn behind(&self, geometry: Geometry) -> u64 {
        geometry.start(self.extent.saturating_add(self.extents))
    }

    /// Bytes of the file that it takes.
    pub(crate) const fn len(&self, geometry: Geometry) -> u64 {
        geometry.len_of(self.extent, self.extents)
    }

    /// Itself without the extents behind its last part.
    pub(crate) const fn used(self, geometry: Geometry) -> Self {
        Self { extents: geometry.extent_of(self.end - 1) + 1 - self.extent, ..self }
    }
}

/// What the next segment header says of the one before it.
#[derive(Clone, Copy, Debug, Default)]
struct Previous {
    pub(crate) base: u64,
    /// Where its last frame ends.
    pub(crate) end: u64,
    pub(crate) salt: u64,
    /// Where the frame goes that names the next segment; `None` when that is not known to be unwritten, or there is no such segment.
    pub(crate) trailer: Option<u64>,
}

/// The end of the log and everything that changes with it; one writer at a time.
#[derive(Debug)]
struct Tail {
    /// Live segments by base; the last one is active when `active` says so.
    pub(crate) segments: Map<u64, Segment>,
    /// The segment that takes appends.
    pub(crate) active: Option<Active>,
    /// The log position at which the next segment begins.
    pub(crate) next_base: u64,
    /// The number that the next segment header gets, of the log or of a snapshot.
    pub(crate) next_header: u64,
    /// The number that the next event gets.
    pub(crate) next_event: u64,
    /// Segments from this base on were begun by this session, on space that it set aside. What it found may have holes, or lie in
    /// part behind the end of the file, where closing cut it.
    pub(crate) first_own_base: u64,
    /// The segments of the snapshot that the newest checkpoint names.
    pub(crate) snapshot: Vec<SnapshotSegment>,
    /// What the next segment header says about its predecessor.
    pub(crate) previous: Previous,
    pub(crate) space: Space,
    /// A sync reached this log position and no mark says so yet.
    pub(crate) mark_due: Option<u64>,
    /// The file says that a writer is at work. Until then nothing may be appended.
    pub(crate) announced: bool,
    /// Segments of what an earlier session has left, each with its end, that nothing proves to be synced as a whole.
    pub(crate) unproven: Vec<Segment>,
    /// Headers of which a crash has left one copy.
    pub(crate) torn_headers: Vec<(u64, SegmentHeader)>,
    /// Segments whose trailer a crash took, each with the segment that it named.
    pub(crate) lost_trailers: Vec<(Segment, Segment)>,
    /// Places of headers that name the last segment as the one before theirs, and that recovery gave up.
    pub(crate) given_up: Vec<u32>,
    /// Segments in which nothing counts, kept for what is stranded in them, that no checkpoint lists.
    pub(crate) unlisted: Vec<Segment>,
    /// Retired segments whose retirement is not durable yet.
    pub(crate) retired: Vec<retire::Retired>,
    /// Reused between appends, so that an append allocates nothing.
    pub(crate) scratch: Vec<u8>,
}

impl Tail {
    /// What a superblock says of the segment that takes appends.
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
    /// Where its trailer stands.
    pub(crate) limit: u64,
    /// The space behind `position` has never been written: it reads as zeros.
    pub(crate) fresh: bool,
}

impl Active {
    pub(crate) const fn new(segment: Segment, position: u64, geometry: Geometry, fresh: bool) -> Self {
        Self { segment, position, limit: segment.limit(geometry), fresh }
    }

    /// Bytes that are left for frames.
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
    pub(crate) verify_on_read: bool,
    /// The storage remembers which records have been checked.
    remembers_checks: bool,
    /// Somebody else may write to the file, too.
    pub(crate) fence: Option<Fence>,
    /// Randomness of this session, mixed into the salts.
    pub(crate) entropy: u64,
    /// Salt and live bytes of every extent, readable without a lock.
    pub(crate) segment_stats: SegmentStats,
    tail: Mutex<Tail>,
    /// Held while one is written and synced: nothing that a writer does waits for it.
    superblocks: Mutex<SuperblockPair>,
    /// The newest generation of the superblocks.
    generation: AtomicU64,
    /// Generation of the one that announced the session.
    session: AtomicU64,
    /// Number of the newest segment header.
    headers: AtomicU64,
    pub(crate) sync_state: sync::SyncState,
    stranded: stranded::StrandedState,
    /// What an earlier session has left is known to be on the medium.
    settled: AtomicBool,
    /// Log position behind the last append.
    appended: AtomicU64,
    /// Log position of the newest checkpoint.
    checkpoint: AtomicU64,
    closed: AtomicBool,
    /// The host was told up to this log position what a sync will be for.
    told_behind: AtomicU64,
    /// The last free segment was taken: whoever can should compact.
    pub(crate) space_low: AtomicBool,
    /// The host had no space for the file when it was last asked for some.
    pub(crate) medium_full: AtomicBool,
    /// The first failed write or sync; set once.
    latch: OnceBox<Arc<Error>>,
}

impl Log {
    pub(crate) fn new(storage: Box<dyn Storage>, superblocks: SuperblockPair, options: LogOptions) -> Self {
        let geometry = superblocks.current.geometry();
        Self {
            remembers_checks: storage.is_checked(0, 0).is_some(),
            storage,
            geometry,
            store_id: superblocks.current.store_id,
            read_only: options.read_only,
            verify_on_read: options.verify_on_read,
            fence: options.fence,
            entropy: options.entropy,
            segment_stats: SegmentStats::default(),
            tail: Mutex::new(Tail {
                segments: Map::default(),
                active: None,
                next_base: LOG_POSITION_FIRST,
                next_header: 1,
                next_event: 0,
                first_own_base: LOG_POSITION_FIRST,
                snapshot: Vec::new(),
                previous: Previous::default(),
                space: Space::new(geometry),
                mark_due: None,
                announced: false,
                unproven: Vec::new(),
                torn_headers: Vec::new(),
                lost_trailers: Vec::new(),
                given_up: Vec::new(),
                unlisted: Vec::new(),
                retired: Vec::new(),
                scratch: Vec::new(),
            }),
            superblocks: Mutex::new(superblocks),
            generation: AtomicU64::new(superblocks.current.generation),
            session: AtomicU64::new(superblocks.current.session),
            headers: AtomicU64::new(superblocks.current.headers),
            sync_state: sync::SyncState::default(),
            stranded: stranded::StrandedState::default(),
            settled: AtomicBool::new(true),
            appended: AtomicU64::new(0),
            checkpoint: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            told_behind: AtomicU64::new(0),
            space_low: AtomicBool::new(false),
            medium_full: AtomicBool::new(false),
            latch: OnceBox::new(),
        }
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

    /// The newest header that counts has this number.
    fn found_headers(&self, newest: u64) {
        self.headers.fetch_max(newest, Ordering::Relaxed);
    }

    /// Number of the newest segment header.
    pub(crate) fn headers_so_far(&self) -> u64 {
        self.headers.load(Ordering::Relaxed)
    }

    /// Closes the store to later writes: after a failed write or sync nobody knows what the file holds behind the last sync. "No space left"
    /// cannot say any more that nothing was written.
    pub(crate) fn poison(&self, error: Error) -> Error {
        let error = error.half_way();
        let _ = self.latch.set(Box::new(Arc::new(error.clone())));
        error
    }

    /// A write or a sync has failed.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.latch.get().is_some()
    }

    /// The store is closed: whoever still holds a handle cannot write any more.
    pub(crate) fn close_to_writes(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// The next header has its number from `tail`.
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

    /// Log position behind the last frame: a mark may stand behind the last append.
    pub(crate) fn position(&self) -> u64 {
        let tail = self.tail.lock();
        let position = |active: Active| active.segment.lsn(self.geometry, active.position);
        tail.active.map_or(0, position).max(self.end())
    }

    /// Log position behind the last append.
    pub(crate) fn end(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }
}

/// The error of a write behind the one that has closed the store to writes.
fn poisoned(first: &Arc<Error>) -> Error {
    if matches!(**first, Error::Fenced) { Error::Fenced } else { Error::Poisoned(first.clone()) }
}

/// How a log is opened.
pub(crate) struct LogOptions {
    pub(crate) fence: Option<Fence>,
    pub(crate) read_only: bool,
    pub(crate) verify_on_read: bool,
    pub(crate) entropy: u64,
}

/// A salt that no other session, segment or store is likely to have. The generation of the superblock is in it, which grows and
/// is durable before a session writes its first segment, and the number of the header, which no other header of the session has: even
/// without entropy no salt comes twice in one file.
pub(crate) fn salt(store_id: [u8; 16], generation: u64, header: u64, entropy: u64) -> u64 {
    let (low, high) = (u128::from_le_bytes(store_id) as u64, (u128::from_le_bytes(store_id) >> 64) as u64);
    let mut bytes = [0; 40];
    for (place, field) in bytes.as_chunks_mut().0.iter_mut().zip([low, high, generation, header, entropy]) {
        *place = field.to_le_bytes();
    }
    xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, 0)
}
