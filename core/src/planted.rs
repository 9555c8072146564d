//! Bugs that can be switched on at run time, so that the test suites can prove that they would see them.
//!
//! Without the feature `planted-bugs` every question is answered `false` at compile time.

/// A bug. Each stands at the one place where the right code would otherwise run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
#[cfg_attr(not(feature = "planted-bugs"), expect(unreachable_pub, reason = "public with the feature only"))]
pub enum Bug {
    /// `flush` reports what the last sync achieved without asking for another.
    FlushSkipsSync,
    /// A flush counts as done before its sync has returned.
    AckBeforeSync,
    /// A failed sync does not close the store to later writes.
    SyncErrorForgotten,
    /// A failed append does not close the store to later writes.
    WriteErrorForgotten,
    /// Recovery replays segments in the order of their place in the file, not of the log.
    ReplayByPlace,
    /// Compaction drops every tombstone, though an older segment may hold the key.
    TombstoneDroppedEarly,
    /// A segment gets the salt that its place always had.
    SaltNotRenewed,
    /// The checksum of a frame leaves out its key.
    ChecksumSkipsKey,
    /// Replay takes frames without holding the checksum against them.
    ReplayUnchecked,
    /// Reads do not hold the checksum against the bytes.
    ReadUnchecked,
    /// Recovery applies the records of a commit whose end is missing.
    BatchEndIgnored,
    /// Each record of a transaction is a commit of its own.
    TransactionSplit,
    /// After an unclean end the log goes on in the torn segment.
    TornTailKept,
    /// A retired segment is free before its retirement is durable.
    ReuseBeforeRetire,
    /// A checkpoint's superblock is written without a sync of what it points at.
    SuperblockBeforeData,
    /// A new superblock overwrites the current one.
    SuperblockInPlace,
    /// A sync mark claims the end of the log instead of what was synced.
    SyncMarkTooHigh,
    /// Recovery takes all damage for a torn tail.
    SyncMarkNever,
    /// Readers do not hold back the reuse of segments.
    ReaderNotPinned,
    /// Compaction signs damaged bytes anew.
    CompactUnchecked,
    /// Compaction publishes its copy even if the key was written since.
    CompactOvertakes,
    /// The index changes although the append failed.
    IndexBeforeAppend,
    /// Replay starts behind records that the snapshot does not hold.
    SnapshotCutTooLate,
    /// The snapshot's checksums are not held against its bytes.
    SnapshotUnchecked,
    /// Space that an earlier session left counts as set aside, though closing may have cut it off.
    FoundSpaceTrusted,
    /// What an unclean end has left is not written again before a sync counts as covering it.
    TailNotWrittenAgain,
    /// Nothing in the file says what a flush has synced, until something follows.
    FlushNotMarked,
    /// On a full medium, too, each unclean end takes a segment.
    TornEndKeepsItsSegment,
    /// What sessions that ended without a close have left undone, no later one does in its first write.
    DebtOfDeadSessions,
    /// Steps of a compaction go after what the steps before them have left, too.
    CompactionWithoutEnd,
    /// A write that finds no room on a full medium makes none out of what was removed.
    RemovalsMakeNoRoom,
    /// Whoever waits for a sync that is running counts as covered by it, though it began before.
    SharedSyncCountsForAll,
    /// Records that check behind the end of the log are neither said nor kept.
    StrandedDropped,
    /// A log whose first segment has lost its header is an empty one.
    LostBeginningForgotten,
    /// A checkpoint syncs beside whoever has the turn.
    CheckpointSyncsBeside,
    /// A checkpoint that is tried again draws the salt of the attempt before.
    SaltOfAttemptAgain,
    /// A session that takes a store over goes on in the segment of the one before it.
    TakeoverInPlace,
    /// It puts its superblock into one of the two slots only.
    TakeoverOneSlot,
    /// It does not look again at what the one before it had written.
    TakeoverUnlooked,
    /// A session does not look around its flush for somebody who has taken the store over.
    FlushNotLookedAround,
    /// Nor in front of a new segment.
    SegmentNotLookedFor,
    /// An index that was rebuilt across damage answers as if nothing had been there.
    RebuiltUnmarked,
    /// Compaction forgets that damage keeps a segment, and picks it again.
    DamagePickedAgain,
    /// A damaged record answers as if it had never been there.
    DamageIsMissing,
    /// A damaged record keeps its key from being written or removed.
    DamageKeepsKey,
    /// Salvage brings back what was removed, and does not say so.
    #[cfg_attr(not(feature = "salvage"), allow(dead_code, reason = "only salvage asks"))]
    SalvageRevives,
    /// Segment headers inside of records count.
    HeadersInValuesCount,
    /// Verifying does not hold the snapshot against the log.
    VerifyTrustsSnapshot,
    /// Verifying does not hold the headers of segments against the list.
    VerifyTrustsHeaders,
}

#[cfg(feature = "planted-bugs")]
mod imp {
    use super::Bug;
    use crate::sync::{AtomicU32, Ordering};

    impl Bug {
        /// All of them.
        pub const ALL: &[Self] = &[
            Self::FlushSkipsSync,
            Self::AckBeforeSync,
            Self::SyncErrorForgotten,
            Self::WriteErrorForgotten,
            Self::ReplayByPlace,
            Self::TombstoneDroppedEarly,
            Self::SaltNotRenewed,
            Self::ChecksumSkipsKey,
            Self::ReplayUnchecked,
            Self::ReadUnchecked,
            Self::BatchEndIgnored,
            Self::TransactionSplit,
            Self::TornTailKept,
            Self::ReuseBeforeRetire,
            Self::SuperblockBeforeData,
            Self::SuperblockInPlace,
            Self::SyncMarkTooHigh,
            Self::SyncMarkNever,
            Self::ReaderNotPinned,
            Self::CompactUnchecked,
            Self::CompactOvertakes,
            Self::IndexBeforeAppend,
            Self::SnapshotCutTooLate,
            Self::SnapshotUnchecked,
            Self::FoundSpaceTrusted,
            Self::TailNotWrittenAgain,
            Self::FlushNotMarked,
            Self::TornEndKeepsItsSegment,
            Self::RemovalsMakeNoRoom,
            Self::SharedSyncCountsForAll,
            Self::DebtOfDeadSessions,
            Self::CompactionWithoutEnd,
            Self::StrandedDropped,
            Self::LostBeginningForgotten,
            Self::CheckpointSyncsBeside,
            Self::SaltOfAttemptAgain,
            Self::TakeoverInPlace,
            Self::TakeoverOneSlot,
            Self::TakeoverUnlooked,
            Self::FlushNotLookedAround,
            Self::SegmentNotLookedFor,
            Self::RebuiltUnmarked,
            Self::DamagePickedAgain,
            Self::DamageIsMissing,
            Self::DamageKeepsKey,
            Self::SalvageRevives,
            Self::HeadersInValuesCount,
            Self::VerifyTrustsSnapshot,
            Self::VerifyTrustsHeaders,
        ];
    }

    static PLANTED: AtomicU32 = AtomicU32::new(u32::MAX);

    /// Switches one bug on for the whole process, or all off.
    pub fn set(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(u32::MAX, |bug| bug as u32), Ordering::SeqCst);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u32
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use imp::is;
#[cfg(feature = "planted-bugs")]
pub use imp::set;

#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
