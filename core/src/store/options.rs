//! The options of a store that do not depend on its storage, as the builder hands them to the open store.

use crate::clock::HostClock;
use crate::error::{Error, Result};
use crate::limits::{REPLAY_DEBT_MAX_DEFAULT, SEGMENT_SIZE_DEFAULT, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN};
use crate::merge::Operators;

/// Smallest allowed share of dead bytes for automatic compaction.
const DEAD_SHARE_MIN: f64 = 0.1;

/// When writes become durable. Under each policy a write that has returned survives the end of the process.
///
/// ```
/// use pipkin::{Db, FlushPolicy};
///
/// let db = Db::builder().flush_policy(FlushPolicy::OnEachFlush).in_memory()?;
/// db.insert("color", "green")?;
/// db.flush()?;
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushPolicy {
    /// [`Db::flush`](crate::Db::flush) makes everything durable that was written before it. A single caller syncs at once, without a timer;
    /// callers that arrive during a sync share the next one.
    #[default]
    Group,
    /// Every flush runs a sync of its own, even when another one has just covered all writes.
    OnEachFlush,
    /// Every write is durable when it returns, as if followed by a flush under [`Self::Group`]. On Windows the file is also opened with
    /// write-through. A write whose sync fails returns an error, though the record may be there.
    WriteThrough,
}

/// Where the index of a store is, see [`Builder::index_memory`](crate::Builder::index_memory).
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexMemory {
    /// In memory: 9 to 14 bytes a record.
    #[default]
    Resident,
    /// In the file, as the index snapshot has it, and in memory as far as it is newer than that.
    InFile {
        /// Bytes of memory above which a checkpoint writes the whole index to the file. What is written between two checkpoints comes on top.
        newer_max: u64,
    },
}

#[cfg(feature = "std")]
impl IndexMemory {
    /// In the file, with at most about 128 MiB of memory for what is newer.
    #[must_use]
    pub const fn in_file() -> Self {
        Self::InFile { newer_max: 128 << 20 }
    }

    /// Most bytes for what is newer than the file has; `None` in memory.
    pub(crate) const fn newer_max(self) -> Option<u64> {
        match self {
            Self::Resident => None,
            Self::InFile { newer_max } => Some(newer_max),
        }
    }
}

/// The options that [`Builder`](crate::Builder) sets; its methods document them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) read_only: bool,
    /// Another session writes to the file.
    pub(crate) follow: bool,
    pub(crate) create: bool,
    pub(crate) verify_on_read: bool,
    pub(crate) flush_policy: FlushPolicy,
    #[cfg(feature = "ordered")]
    pub(crate) ordered: bool,
    pub(crate) segment_size: u32,
    pub(crate) replay_debt_max: u64,
    /// Share of dead bytes from which a segment is compacted automatically; more than 1 for never.
    pub(crate) compact_dead_share: f64,
    /// Most bytes per second that automatic compaction copies.
    #[cfg(feature = "std")]
    pub(crate) compact_rate: Option<u64>,
    /// `None`: true for a native file, false for other storages.
    #[cfg(feature = "std")]
    pub(crate) background: Option<bool>,
    pub(crate) entropy: Option<[u8; 32]>,
    /// Automatic maintenance sweeps what has expired, at most so many records per second.
    pub(crate) sweep: bool,
    pub(crate) sweep_rate: Option<u64>,
    /// Bytes that snapshots may hold; beyond it the oldest is ended.
    pub(crate) snapshot_limit: Option<u64>,
    #[cfg(feature = "std")]
    pub(crate) index_memory: IndexMemory,
}

/// What else the builder hands to the open store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attached {
    pub(crate) operators: Operators,
    pub(crate) clock: HostClock,
    /// Milliseconds that a record lives if neither the write nor its namespace says; 0: for ever.
    pub(crate) default_ttl: u64,
    /// When values are compressed where their namespace does not say.
    #[cfg(feature = "compress")]
    pub(crate) compression: crate::compression::Compression,
    /// Values are compressed in a sealed store, too.
    #[cfg(all(feature = "compress", feature = "encrypt"))]
    pub(crate) compress_sealed: bool,
    /// The cipher of a store that is sealed while it is open.
    #[cfg(feature = "encrypt")]
    pub(crate) cipher: Option<crate::Cipher>,
    /// The store is new, and its front has just been written.
    #[cfg(feature = "encrypt")]
    pub(crate) created: bool,
    /// The absolute path of the file; `None` for another storage.
    #[cfg(feature = "native")]
    pub(crate) path: Option<std::path::PathBuf>,
    /// Whether the file is read through io_uring; `None` if that was not asked for.
    #[cfg(feature = "io-uring")]
    pub(crate) io_uring: Option<crate::storage::IoUringState>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: false,
            follow: false,
            create: true,
            verify_on_read: true,
            flush_policy: FlushPolicy::Group,
            #[cfg(feature = "ordered")]
            ordered: false,
            segment_size: SEGMENT_SIZE_DEFAULT,
            replay_debt_max: REPLAY_DEBT_MAX_DEFAULT,
            compact_dead_share: 0.5,
            #[cfg(feature = "std")]
            compact_rate: None,
            #[cfg(feature = "std")]
            background: None,
            entropy: None,
            sweep: true,
            sweep_rate: None,
            snapshot_limit: None,
            #[cfg(feature = "std")]
            index_memory: IndexMemory::Resident,
        }
    }
}

impl Options {
    /// Opens a store that another session writes. Constant false without the feature `followers`.
    pub(crate) const fn follows(&self) -> bool {
        cfg!(feature = "followers") && self.follow
    }

    /// True if a background thread maintains the store; otherwise the write that finds it due does.
    #[cfg(feature = "std")]
    pub(crate) fn has_thread(&self) -> bool {
        self.background.unwrap_or(false) && !self.read_only
    }

    /// Refuses invalid options, before any file is opened or created.
    pub(crate) fn check(&self) -> Result<()> {
        if !(SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(&self.segment_size) || !self.segment_size.is_power_of_two() {
            return Err(Error::InvalidArgument("the segment size must be a power of two from 4 KiB to 256 MiB"));
        }
        if self.compact_dead_share.is_nan() || self.compact_dead_share < DEAD_SHARE_MIN {
            return Err(Error::InvalidArgument("the share of dead bytes must be a number from 0.1 on; more than 1 is for never"));
        }
        Ok(())
    }
}
