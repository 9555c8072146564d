//! Everything that a store can be opened with, whatever its storage: one value from the builder to the open store.

use crate::error::{Error, Result};
use crate::limits::{REPLAY_DEBT_MAX_DEFAULT, SEGMENT_SIZE_DEFAULT, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN};

/// What is dead of a segment, at least, for compaction to take it unasked.
const DEAD_SHARE_MIN: f64 = 0.1;

/// When writes become durable. A write that has returned survives the end of the process under each of them.
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
    /// [`Db::flush`](crate::Db::flush) makes everything durable that was written before it. A lone caller syncs at once, without a
    /// timer; callers that arrive during a sync share the next one.
    #[default]
    Group,
    /// Every flush syncs for itself, even when another one has just covered all that there is.
    OnEachFlush,
    /// Every write is durable when it returns, as if a flush under [`Self::Group`] came right behind it. On Windows the file is opened
    /// for writing through, too. A write whose sync fails returns an error, though the record may be there.
    WriteThrough,
}

/// What [`Builder`](crate::Builder) sets; its methods say what each is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) read_only: bool,
    pub(crate) create: bool,
    pub(crate) verify_on_read: bool,
    pub(crate) flush_policy: FlushPolicy,
    #[cfg(feature = "ordered")]
    pub(crate) ordered: bool,
    pub(crate) segment_size: u32,
    pub(crate) replay_debt_max: u64,
    /// Share of dead bytes in a segment from which on it is compacted; more than 1 for never.
    pub(crate) compact_dead_share: f64,
    /// Bytes a second that compaction copies at most when nobody asked for it.
    #[cfg(feature = "std")]
    pub(crate) compact_rate: Option<u64>,
    /// `None` leaves it to the way the store is opened.
    #[cfg(feature = "std")]
    pub(crate) background: Option<bool>,
    pub(crate) entropy: Option<[u8; 32]>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: false,
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
        }
    }
}

impl Options {
    /// A thread maintains the store; otherwise the write that finds it due.
    #[cfg(feature = "std")]
    pub(crate) fn has_thread(&self) -> bool {
        self.background.unwrap_or(false) && !self.read_only
    }

    /// Refuses options that make no sense: before anything is opened, or made.
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
