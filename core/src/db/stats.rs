//! Figures about a store.

use super::handle::Db;
use crate::error::Result;
use crate::log::Occupant;
use crate::nested::Held;
use crate::store::Store;
use crate::sync::{AtomicU64, Ordering};
use alloc::vec::Vec;

/// Figures about a store. All sizes are in bytes.
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert_many([("a", "1"), ("b", "2")])?;
/// let stats = db.stats()?;
/// assert_eq!(stats.records, 2);
/// let worth_it = stats.dead_bytes > stats.live_bytes; // time for `compact`?
/// # assert!(!worth_it || stats.file_bytes > 0);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The store was opened to [follow](crate::Builder::follow) another process.
    pub follows: bool,
    /// How often this follower has looked for what the writer has appended.
    pub refreshes: u64,
    /// How often it had to read the whole store again, because the writer had freed the log that it had not read.
    pub rebuilds: u64,
    /// Live records in all namespaces, except the system namespaces that a host of pipkin keeps.
    pub records: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// Bytes of the live records, headers included.
    pub live_bytes: u64,
    /// Bytes that are not live: overwritten and removed records, tombstones, padding, book-keeping, and what sessions that ended without a
    /// close left unused. Compaction frees most of it: it skips segments with too little to gain, and cannot avoid the padding after values
    /// that fill their segment.
    pub dead_bytes: u64,
    /// Live segments of the log.
    pub segments: u64,
    /// Segments that are free for new records.
    pub free_segments: u64,
    /// Bytes of the free segments. After a compaction about this plus [`Self::dead_bytes`] is free; free segments at the end of the file
    /// are cut off.
    pub free_bytes: u64,
    /// Size of a segment.
    pub segment_size: u64,
    /// Times that the [ordered index](crate::Builder::ordered) was built anew since the store was opened, as a part of it in the index
    /// snapshot could not be read. It cost time; no record is lost. [`Db::verify`](super::Db::verify) says where the damage is, and the
    /// next checkpoint replaces it.
    pub orders_rebuilt: u64,
    /// Bytes of memory that the index takes.
    pub index_bytes: u64,
    /// Bytes of the file that are read as a part of the index, see [`Builder::index_memory`](crate::Builder::index_memory).
    pub index_file_bytes: u64,
    /// Parts of the index, of 256, that were built anew from the log since the store was opened, as they were damaged in the file. It cost time; no
    /// record is lost.
    pub index_rebuilt: u64,
    /// Bytes of log that opening after a crash would replay.
    pub replay_debt: u64,
    /// Number of named namespaces.
    pub namespaces: u64,
    /// Segments that compaction could not free, because they hold a damaged record that still counts: they can be freed once its key is
    /// written again or removed. [`Db::verify`](super::Db::verify) reports where it is.
    pub damaged_segments: u64,
    /// Values of [`get_zerocopy_owned`](crate::Namespace::get_zerocopy_owned) that are kept somewhere without having been copied.
    pub owned_values: u64,
    /// Bytes of the segments that compaction has emptied, and that cannot be reused while such values of them are kept.
    pub held_bytes: u64,
    /// Records that expire and have not yet. Some that were replaced a short time ago may be among them.
    pub expiring: u64,
    /// Milliseconds by which the host's clock is behind the latest expiry that the store has acted on; see
    /// [`OpenReport::clock_behind_ms`](crate::OpenReport::clock_behind_ms).
    pub clock_behind_ms: u64,
    /// The most milliseconds, if more than a day, by which the host's clock went forward between two looks at it in this session. 0 in a
    /// store without records that expire.
    pub clock_jumped_ms: u64,
    /// Living [snapshots](Db::snapshot) and [transactions](crate::Transaction), each of which has one.
    pub snapshots: u64,
    /// Age of the oldest snapshot: bytes of log that were written since.
    pub snapshot_age_bytes: u64,
    /// Bytes of segments that compaction has emptied, and that only snapshots keep from being free.
    pub snapshot_held_bytes: u64,
    /// Bytes of memory that are kept for snapshots: at most 24 for each record that was overwritten or removed since. Those for the checks of
    /// transactions are among them: 16 for each write since the oldest began, with the ordered index its key, too.
    pub snapshot_memory_bytes: u64,
    /// Bytes of segments that compaction has emptied, and that are kept for those who read [changes](Db::changes).
    pub history_bytes: u64,
    /// Bytes of such segments that this session has given up although somebody had not read them: further behind than its limit, or because
    /// removals needed the space.
    pub history_given_up_bytes: u64,
    /// Living readers of changes, [consumers](Db::consumer) that are being read included.
    pub readers_of_changes: u64,
    /// Events that [retention](crate::Events::set_retention) has removed in this session.
    #[cfg(feature = "events")]
    pub events_removed: u64,
}

/// What one stretch of the file is used for. Sizes are in bytes.
///
/// ```
/// use pipkin::{Db, SegmentUse};
///
/// let db = Db::open_in_memory()?;
/// db.insert("color", "green")?;
/// let live = |segment: &SegmentUse| if let SegmentUse::Log { live, .. } = segment { *live } else { 0 };
/// assert!(db.segments()?.iter().map(live).sum::<u64>() > 0);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentUse {
    /// A segment of the log; longer than the segment size if it holds a record that is larger.
    Log {
        /// Where it begins in the file.
        offset: u64,
        /// Its length.
        len: u64,
        /// Bytes of it that are written, dead records included.
        used: u64,
        /// Bytes of its live records.
        live: u64,
    },
    /// Free for new records.
    Free {
        /// Where it begins in the file.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// Part of the index snapshot, or retired and not yet reusable because of readers or a pending sync.
    Other {
        /// Where it begins in the file.
        offset: u64,
        /// Its length.
        len: u64,
    },
}

impl Db {
    /// Returns figures about the store. Builds the parts of the index that are not built yet.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("color", "green")?;
    /// db.insert("color", "red")?;
    /// let stats = db.stats()?;
    /// assert!(stats.dead_bytes > 0 && stats.file_bytes > 0);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn stats(&self) -> Result<Stats> {
        let stats = || self.store.seen(self.store.stats());
        stats().or_else(|error| self.store.read_again(error, &mut || stats()))
    }

    /// The cipher that seals this store; `None` for a plain one.
    ///
    /// ```
    /// use pipkin::{Cipher, Db};
    ///
    /// let db = Db::builder().encryption_key([7; 32]).cipher(Cipher::ChaCha20Poly1305).in_memory()?;
    /// assert_eq!(db.cipher(), Some(Cipher::ChaCha20Poly1305));
    /// assert_eq!(Db::open_in_memory()?.cipher(), None);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[cfg(feature = "encrypt")]
    pub fn cipher(&self) -> Option<crate::Cipher> {
        // Where the page of keys says it.
        const SUITE_AT: usize = 16;
        let page = crate::log::keys_of(&*self.store.engine.log.storage)?.page();
        page.get(SUITE_AT).copied().and_then(crate::Cipher::of_code)
    }

    /// Counts the live records in all namespaces, the system namespaces included.
    #[cfg(feature = "salvage")]
    pub(crate) fn count_all(&self) -> Result<u64> {
        self.store.engine.build_all(&|| false)?;
        self.store.count_all()
    }

    /// What each part of the file is used for, in file order. Like [`Db::stats`] it builds the parts of the index that are not built yet.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("color", "green")?;
    /// for part in db.segments()? {
    ///     println!("{part:?}");
    /// }
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) and errors of the storage, when a part of the index cannot be built.
    pub fn segments(&self) -> Result<Vec<SegmentUse>> {
        self.store.seen(self.store.segments())
    }
}

impl Store {
    /// Live records in all namespaces.
    fn count_all(&self) -> Result<u64> {
        // Records of namespaces that were cleared or dropped may stay in the index for snapshots.
        let dead = self.engine.moments.unpurged().into_iter().chain([crate::frame::NAMESPACE_OF_NAMES]);
        let dead = dead.map(|number| self.engine.count(number)).sum::<Result<u64>>()?;
        let hidden = self.engine.count_hidden()?;
        Ok(self.engine.index.len_all().saturating_sub(dead + hidden))
    }

    pub(super) fn segments(&self) -> Result<Vec<SegmentUse>> {
        self.engine.refuse_inside(&[Held::Shard])?;
        self.engine.build_all(&|| false)?;
        let log = &self.engine.log;
        let geometry = log.geometry;
        let of = |(extent, occupant)| {
            let (offset, len) = (geometry.start(extent), geometry.size_of(extent));
            match occupant {
                Occupant::Segment(segment) => SegmentUse::Log {
                    offset,
                    len: segment.len(geometry),
                    used: segment.end - segment.first_frame(geometry),
                    live: log.segment_stats.live(extent),
                },
                Occupant::Free => SegmentUse::Free { offset, len },
                Occupant::Other => SegmentUse::Other { offset, len },
            }
        };
        Ok(log.layout().into_iter().map(of).collect())
    }

    pub(super) fn stats(&self) -> Result<Stats> {
        let engine = &self.engine;
        engine.refuse_inside(&[Held::Shard])?;
        engine.build_all(&|| false)?;
        self.end_purges()?;
        let namespaces = self.names.read().list().len() as u64;
        let system = self.names.read().system_numbers();
        let system = system.into_iter().try_fold(0, |sum, number| engine.count(number).map(|count| sum + count))?;
        let records = self.count_all()?.saturating_sub(system);
        #[cfg(feature = "events")]
        let index_bytes = engine.index.bytes() + engine.events.bytes();
        #[cfg(not(feature = "events"))]
        let index_bytes = engine.index.bytes();
        #[cfg(feature = "std")]
        let (index_file_bytes, index_rebuilt) = (engine.index.file_bytes(), engine.bases.built_anew.load(Ordering::Relaxed));
        #[cfg(not(feature = "std"))]
        let (index_file_bytes, index_rebuilt) = (0, 0);
        let damaged_segments = engine.count_set_aside();
        let log = &engine.log;
        let usage = log.usage();
        let moments = engine.moments.figures();
        let (clock_behind_ms, clock_jumped_ms) = log.clock.state();
        let history = log.history_figures();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let following = self.following.get();
        Ok(Stats {
            follows: following.is_some(),
            refreshes: following.map_or(0, |following| count(&following.refreshes)),
            rebuilds: following.map_or(0, |following| count(&following.rebuilds)),
            records,
            file_bytes: log.storage.len()?,
            live_bytes: usage.live,
            dead_bytes: usage.kept.saturating_sub(usage.live),
            segments: usage.segments,
            free_segments: usage.free_extents.into(),
            free_bytes: usage.free_bytes,
            segment_size: log.geometry.segment_size(),
            index_bytes,
            index_file_bytes,
            index_rebuilt,
            #[cfg(feature = "ordered")]
            orders_rebuilt: engine.orders_lost.load(Ordering::Relaxed),
            #[cfg(not(feature = "ordered"))]
            orders_rebuilt: 0,
            replay_debt: log.replay_debt(),
            namespaces,
            damaged_segments,
            owned_values: log.holds.count(),
            held_bytes: log.held_bytes(),
            expiring: engine.count_expiring(),
            clock_behind_ms,
            clock_jumped_ms,
            snapshots: moments.living,
            snapshot_age_bytes: if moments.oldest == 0 { 0 } else { log.end().saturating_sub(moments.oldest) },
            snapshot_held_bytes: log.noted_bytes(),
            snapshot_memory_bytes: moments.bytes + log.recent.bytes() as u64,
            history_bytes: history.bytes,
            history_given_up_bytes: history.given_up,
            readers_of_changes: history.followers,
            #[cfg(feature = "events")]
            events_removed: count(&self.events_removed),
        })
    }
}
