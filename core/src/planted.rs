//! Bugs that can be switched on at run time, so that the test suites can prove that they would detect them.
//!
//! Without the feature `planted-bugs` every check is `false` at compile time.

/// A planted bug. Each is checked where the right code would otherwise run.
#[cfg_attr(
    not(all(feature = "std", feature = "events", feature = "compress")),
    allow(dead_code, reason = "some are bugs of one capability only")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
#[cfg_attr(not(feature = "planted-bugs"), expect(unreachable_pub, reason = "public with the feature only"))]
pub enum Bug {
    /// The bytes of plain segments are not compared with their digests while a store is being sealed.
    #[cfg(feature = "encrypt")]
    PlainUndigested,
    /// A store that is being made plain opens with its key, without a word that it is to become plain.
    #[cfg(feature = "encrypt")]
    DisablingOpened,
    /// The superblock that makes a sealed store a plain one does not wait until what was sealed is overwritten.
    #[cfg(feature = "encrypt")]
    PlainBeforeSync,
    /// The page of keys stays in a store that was made plain.
    #[cfg(feature = "encrypt")]
    KeyPageKept,
    /// The superblock that makes a plain store a sealed one does not wait for what it names.
    #[cfg(feature = "encrypt")]
    SealedBeforeSync,
    /// The tag of a segment header of a sealed store is not checked.
    #[cfg(feature = "encrypt")]
    SealedHeaderUnchecked,
    /// The tag of a superblock of a sealed store is not checked.
    #[cfg(feature = "encrypt")]
    SealedSuperblockUnchecked,
    /// The tags of a sealed record do not cover its header.
    #[cfg(feature = "encrypt")]
    SealedHeadUncovered,
    /// A session goes on in the segment of another one.
    #[cfg(feature = "encrypt")]
    SealedSegmentGoesOn,
    /// Whoever has the key from before a rotation can write behind it.
    #[cfg(feature = "encrypt")]
    BorderUnchecked,
    /// A key is no obstacle to opening a plain store.
    #[cfg(feature = "encrypt")]
    PlainOpenedWithKey,
    /// Without `verify_on_read` no tag is checked.
    #[cfg(feature = "encrypt")]
    TagSkipped,
    /// The tag of a part of a sealed index snapshot is not checked.
    #[cfg(feature = "encrypt")]
    PartTagSkipped,
    /// All index snapshots of a session are sealed under the bytes of the session.
    #[cfg(feature = "encrypt")]
    SnapshotsOfOneSeal,
    /// An earlier state of the file opens with an anchor that was taken later.
    #[cfg(feature = "encrypt")]
    AnchorUnchecked,
    /// `flush` reports what the last sync achieved without running another.
    FlushSkipsSync,
    /// The checksum of a group of slots in the file is not compared.
    IndexGroupUnchecked,
    /// A slot in the file counts, though its record was replaced or removed.
    IndexMaskIgnored,
    /// A slot in the file is masked before the one that replaces it is in the index.
    IndexMaskedBeforePut,
    /// An index that is built anew has nothing of what was written while the log was read.
    IndexHealedEarly,
    /// A damaged record is left out of an index that is built anew.
    IndexHealedAcrossDamage,
    /// The space of an index snapshot is used again while slots in it are read.
    IndexExtentsFreedEarly,
    /// Compaction takes half of the slots in the file for all of them.
    BasesReadInPart,
    /// Compaction takes what it has read of slots in the file for what is there after a checkpoint.
    BasesReadBefore,
    /// A flush counts as done before its sync has returned.
    AckBeforeSync,
    /// A failed sync does not close the store to later writes.
    SyncErrorForgotten,
    /// A failed append does not close the store to later writes.
    WriteErrorForgotten,
    /// A dictionary is dropped as soon as another one counts, though frames still name it.
    DictionaryDroppedEarly,
    /// A dictionary is written after the records that name it.
    DictionaryAfterRecords,
    /// The copy of a compressed record does not say that it is compressed.
    CodecNotCopied,
    /// Neither a dictionary's hash nor the checksum of a plain value is verified.
    DictionaryUnchecked,
    /// The length of a plain value is believed.
    PlainLengthUnchecked,
    /// A follower shows the records of a commit before it has read all of it.
    FollowedByHalves,
    /// A follower goes on by trailers alone, though none names what a session begins behind a crash.
    FollowedByTrailersAlone,
    /// A follower that reads the whole store again keeps the numbers of namespaces that it knew.
    FollowedKeepsNumbers,
    /// A follower still shows events that the writer has removed.
    FollowedEventsKept,
    /// A follower does not enter new events into their chains.
    FollowedChainsForgotten,
    /// A follower looks for events in segments that the writer has retired.
    FollowedRetiredEvents,
    /// A follower keeps slots of retired segments whose records it cannot read.
    VanishedKept,
    /// Snapshots of a follower stay when it cannot read what a record has replaced.
    VanishedUnderSnapshots,
    /// A reader of a follower's changes goes on behind those that were compacted before it had read them.
    ChangesAreQuiet,
    /// A reader of a follower's changes takes a segment whose space the writer uses again meanwhile for one that ends there.
    ReusedIsTheEnd,
    /// Recovery replays segments in file order, not in log order.
    ReplayByPlace,
    /// Compaction drops every tombstone, though an older segment may hold the key.
    TombstoneDroppedEarly,
    /// A segment gets the salt that its extent always had.
    SaltNotRenewed,
    /// A segment that has lost its header is not looked for where the trailer before it points.
    TrailerNoEvidence,
    /// Closing gives the reserve for removals back to a medium that is full.
    ReserveGivenBack,
    /// The checksum of a frame leaves out its key.
    ChecksumSkipsKey,
    /// Replay does not verify the checksums of frames.
    ReplayUnchecked,
    /// Reads do not verify checksums.
    ReadUnchecked,
    /// Recovery applies the records of a commit whose end is missing.
    BatchEndIgnored,
    /// Each record of a transaction is a separate commit.
    TransactionSplit,
    /// The tombstones of a group are two commits.
    GroupInTwoCommits,
    /// After an unclean end the log continues in the torn segment.
    TornTailKept,
    /// A retired segment is free before its retirement is durable.
    ReuseBeforeRetire,
    /// A checkpoint's superblock is written without a sync of what it points at.
    SuperblockBeforeData,
    /// A new superblock overwrites the current one.
    SuperblockInPlace,
    /// A sync mark claims the end of the log instead of what was synced.
    SyncMarkTooHigh,
    /// Recovery treats all damage as a torn tail.
    SyncMarkNever,
    /// Readers do not prevent the reuse of segments.
    ReaderNotPinned,
    /// Compaction copies damaged bytes under a new, valid checksum.
    CompactUnchecked,
    /// Compaction publishes its copy even if the key was written since.
    CompactOvertakes,
    /// The index changes although the append failed.
    IndexBeforeAppend,
    /// Replay starts after records that the snapshot does not hold.
    SnapshotCutTooLate,
    /// The snapshot's checksums are not verified.
    SnapshotUnchecked,
    /// Space that an earlier session left counts as reserved, though closing may have cut it off.
    FoundSpaceTrusted,
    /// The unproven end of the log after an unclean end is not written again before a sync counts as covering it.
    TailNotWrittenAgain,
    /// The file does not record what a flush has synced until an append follows.
    FlushNotMarked,
    /// Even on a full medium, each unclean end uses up a segment.
    TornEndKeepsItsSegment,
    /// The first write of a session does not do the work that sessions without a close have left undone.
    DebtOfDeadSessions,
    /// Later steps of a compaction also compact what its earlier steps have left.
    CompactionWithoutEnd,
    /// A write that finds no room on a full medium does not free the space of removed records.
    RemovalsMakeNoRoom,
    /// A caller that waits for a running sync counts as covered by it, though the sync began before.
    SharedSyncCountsForAll,
    /// Stranded records are neither reported nor kept.
    StrandedDropped,
    /// A log whose first segment has lost its header counts as empty.
    LostBeginningForgotten,
    /// A checkpoint syncs at the same time as another sync.
    CheckpointSyncsBeside,
    /// A repeated attempt at a checkpoint uses the salt of the attempt before.
    SaltOfAttemptAgain,
    /// A session that takes a store over appends to the segment of the earlier session.
    TakeoverInPlace,
    /// A sealed store is created without a look at what others create there at the same time.
    #[cfg(feature = "encrypt")]
    CreatedUnlooked,
    /// Two pages of keys that sessions write at the same time have one version.
    #[cfg(feature = "encrypt")]
    PagesOfOneVersion,
    /// A session that takes a store over puts its superblock into only one of the two slots.
    TakeoverOneSlot,
    /// A session that takes a store over does not read again what the earlier session had written.
    TakeoverUnlooked,
    /// A session does not check before and after its flush whether another one has taken the store over.
    FlushNotLookedAround,
    /// A session takes the superblock of a later one, which does not know that this one has begun, for a late write.
    LaterSessionRepaired,
    /// A session does not check before an append whether another one has taken the store over while it slept.
    AppendNotLookedFor,
    /// A session that takes a store over reuses segments that an earlier one, which it has overtaken, may still be writing again.
    WrittenAgainLate,
    /// A session that takes a store over leaves the places of earlier ones alone for four sessions only, however short they were.
    SleepersForgotten,
    /// A session does not check before a new segment whether another one has taken the store over.
    SegmentNotLookedFor,
    /// An index that was rebuilt across damage returns results as if there had been none.
    RebuiltUnmarked,
    /// Compaction forgets that damage keeps a segment, and picks it again.
    DamagePickedAgain,
    /// A damaged record reads as a missing key.
    DamageIsMissing,
    /// A damaged record prevents its key from being written or removed.
    DamageKeepsKey,
    /// Salvage brings back removed records without reporting it.
    #[cfg_attr(not(feature = "salvage"), allow(dead_code, reason = "only salvage asks"))]
    SalvageRevives,
    /// Segment headers inside of records count.
    HeadersInValuesCount,
    /// Verifying does not check the snapshot against the log.
    VerifyTrustsSnapshot,
    /// Verifying does not check the headers of segments against the list.
    VerifyTrustsHeaders,
    /// A note for snapshots is left after the slot has changed.
    NoteAfterSlot,
    /// A snapshot reads a shard in which commits from before it are not yet published.
    SnapshotUnsettled,
    /// A read of several keys does not look whether something was published meanwhile.
    ManyReadApart,
    /// Compaction's copy of a record that is younger than a snapshot does not say so.
    CopyWithoutOrigin,
    /// A retired segment is free although notes for snapshots point into it.
    NotedSegmentFreed,
    /// A cleared namespace is purged although a snapshot shows its records.
    PurgedUnderSnapshot,
    /// The counts of a shard are kept for snapshots after its first change.
    CountsKeptLate,
    /// A removed key is kept for snapshots only after it has left the ordered index.
    GhostAfterRemoval,
    /// A session that hands out positions goes on in the segment that the session before has begun.
    PositionsNotUnique,
    /// Compaction drops an expired record, though an older segment may hold an earlier version of its key.
    ExpiredPutDropped,
    /// Compaction drops the tombstone of an expired record, though an older segment may hold an earlier version of its key.
    ExpiredTombstoneDropped,
    /// Replay skips records that have expired by its clock, and so brings back what they had replaced.
    ReplaySkipsExpired,
    /// Counts include records that have expired.
    LenCountsExpired,
    /// The file does not say which expiries were acted on.
    FloorNotKept,
    /// The store's time is never before the latest time that the host's clock has shown.
    FloorIsTimeSeen,
    /// A sweep takes every entry of the calendar for an expired record.
    CalendarTrusted,
    /// A checkpoint writes the changes of a shard without their calendar.
    CalendarOfChangesLost,
    /// The calendar of a shard misses the records that were written after the snapshot.
    CalendarEndsAtSnapshot,
    /// Opening forgets how long the records of a namespace live.
    DefaultTtlForgotten,
    /// A retired segment that the floor or a follower holds is free all the same.
    HistoryReused,
    /// Recovery forgets at the first floor frame which segments the floor holds.
    FloorForgotten,
    /// Recovery counts the records of history.
    HistoryReplayed,
    /// A reader of changes shows what compaction has copied.
    CopiesShown,
    /// A reader of changes does not see that a segment is missing.
    GapNotNoticed,
    /// A reader of changes passes over the first commit of a segment.
    BorderSkipped,
    /// A transaction commits whatever others have changed.
    TransactionUnchecked,
    /// A transaction does not notice what others write into ranges that it has read.
    TransactionForgetsRanges,
    /// A transaction does not notice that a namespace in which it has read was cleared or dropped.
    TransactionForgetsClear,
    /// A transaction checks what it has read before it locks the tail of the log, and not with it.
    TransactionCheckedEarly,
    /// A reader of changes takes another option of a namespace for the end of its records.
    KeptNumberForgotten,
    /// What a consumer acknowledges is known to the session only.
    CursorNotWritten,
    /// Compaction does not tell the index of events what it has moved.
    EventsNotMoved,
    /// The index of events is loaded without what was appended or moved behind the index snapshot.
    EventsBehindSnapshotForgotten,
    /// The newest events of chains are those of the index snapshot.
    ChainsEndAtSnapshot,
    /// A checkpoint keeps the newest events of chains as they were, and says that they are of now.
    ChainsClaimTooMuch,
    /// A checkpoint keeps the places of events that have changed.
    PlacesOfChangesLost,
    /// The list of segments does not have the number of the next event.
    NextEventNotListed,
    /// An append of events that has failed uses up their numbers.
    EventNumberLost,
    /// The events of a commit are not in one commit with its records.
    EventsInTheirOwnCommit,
    /// An append of events does not check what it expects.
    ExpectedUnchecked,
    /// A stream begins anew though events of it are left.
    AnewUnchecked,
    /// An append of events does not check its conditions.
    ConditionUnchecked,
    /// The condition of an append meets events that retention has removed.
    ConditionMeetsStubs,
    /// The stub of an event is dropped although an older segment may hold the event.
    StubDroppedEarly,
    /// Events whose stubs were dropped come back, where their segments could not be retired before a kill.
    GoneEventsCopied,
    /// The newest event with a tag is not noted.
    TagChainNotUpdated,
    /// The jump of an event leads further back than it should.
    JumpTooFar,
    /// A subscription hands out events that a power cut may take.
    EventsBeforeDurable,
    /// What a transaction acknowledges is written at once.
    AckOnItsOwn,
    /// A cursor moves for a subscription from which another one has taken it.
    CursorTakenUnnoticed,
    /// Whoever takes a cursor begins where it was a moment before, whatever was acknowledged since.
    CursorTakenAsItWas,
    /// An append of events lets others prepare theirs before it is in the log.
    AppendsPreparedTogether,
    #[cfg(feature = "ordered")]
    /// The keys in order come from the snapshot without what the log has behind it.
    OrderEndsAtSnapshot,
    #[cfg(feature = "ordered")]
    /// The keys in order come from the snapshot though segments that they stand in may have been used again.
    OrderOfRetiredSegments,
    #[cfg(feature = "ordered")]
    /// The keys in order come from a snapshot that has those of other namespaces.
    OrderOfOthers,
    #[cfg(feature = "ordered")]
    /// A part of the order that was copied to a new snapshot is still read at its old place.
    OrderNotMoved,
    #[cfg(feature = "ordered")]
    /// The order keeps the old places of the records that compaction has copied.
    MovesForgotten,
    #[cfg(feature = "ordered")]
    /// Deleting a group takes the order's places of records that compaction is just copying.
    GroupBeforeMoves,
}

#[cfg(feature = "planted-bugs")]
mod imp {
    use super::Bug;
    use crate::sync::{AtomicU32, Ordering};

    impl Bug {
        /// All of them.
        pub const ALL: &[Self] = &[
            #[cfg(feature = "encrypt")]
            Self::SealedHeaderUnchecked,
            #[cfg(feature = "encrypt")]
            Self::PlainUndigested,
            #[cfg(feature = "encrypt")]
            Self::DisablingOpened,
            #[cfg(feature = "encrypt")]
            Self::PlainBeforeSync,
            #[cfg(feature = "encrypt")]
            Self::KeyPageKept,
            #[cfg(feature = "encrypt")]
            Self::SealedBeforeSync,
            #[cfg(feature = "encrypt")]
            Self::SealedSuperblockUnchecked,
            #[cfg(feature = "encrypt")]
            Self::SealedHeadUncovered,
            #[cfg(feature = "encrypt")]
            Self::SealedSegmentGoesOn,
            #[cfg(feature = "encrypt")]
            Self::BorderUnchecked,
            #[cfg(feature = "encrypt")]
            Self::PlainOpenedWithKey,
            #[cfg(feature = "encrypt")]
            Self::TagSkipped,
            #[cfg(feature = "encrypt")]
            Self::PartTagSkipped,
            #[cfg(feature = "encrypt")]
            Self::SnapshotsOfOneSeal,
            #[cfg(feature = "encrypt")]
            Self::AnchorUnchecked,
            #[cfg(feature = "ordered")]
            Self::OrderEndsAtSnapshot,
            #[cfg(feature = "ordered")]
            Self::OrderOfRetiredSegments,
            #[cfg(feature = "ordered")]
            Self::OrderOfOthers,
            #[cfg(feature = "ordered")]
            Self::OrderNotMoved,
            #[cfg(feature = "ordered")]
            Self::MovesForgotten,
            #[cfg(feature = "ordered")]
            Self::GroupBeforeMoves,
            Self::FlushSkipsSync,
            Self::AckBeforeSync,
            Self::SyncErrorForgotten,
            Self::WriteErrorForgotten,
            Self::DictionaryDroppedEarly,
            Self::DictionaryAfterRecords,
            Self::CodecNotCopied,
            Self::DictionaryUnchecked,
            Self::PlainLengthUnchecked,
            Self::FollowedByHalves,
            Self::FollowedByTrailersAlone,
            Self::FollowedKeepsNumbers,
            Self::FollowedEventsKept,
            Self::FollowedChainsForgotten,
            Self::FollowedRetiredEvents,
            Self::VanishedKept,
            Self::VanishedUnderSnapshots,
            Self::ChangesAreQuiet,
            Self::ReusedIsTheEnd,
            Self::ReplayByPlace,
            Self::TombstoneDroppedEarly,
            Self::SaltNotRenewed,
            Self::TrailerNoEvidence,
            Self::ReserveGivenBack,
            Self::ChecksumSkipsKey,
            Self::ReplayUnchecked,
            Self::ReadUnchecked,
            Self::BatchEndIgnored,
            Self::TransactionSplit,
            Self::GroupInTwoCommits,
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
            #[cfg(feature = "encrypt")]
            Self::CreatedUnlooked,
            #[cfg(feature = "encrypt")]
            Self::PagesOfOneVersion,
            Self::TakeoverOneSlot,
            Self::TakeoverUnlooked,
            Self::FlushNotLookedAround,
            Self::LaterSessionRepaired,
            Self::AppendNotLookedFor,
            Self::SleepersForgotten,
            Self::WrittenAgainLate,
            Self::SegmentNotLookedFor,
            Self::RebuiltUnmarked,
            Self::DamagePickedAgain,
            Self::DamageIsMissing,
            Self::DamageKeepsKey,
            Self::SalvageRevives,
            Self::HeadersInValuesCount,
            Self::VerifyTrustsSnapshot,
            Self::VerifyTrustsHeaders,
            Self::IndexGroupUnchecked,
            Self::IndexMaskIgnored,
            Self::IndexMaskedBeforePut,
            Self::IndexHealedEarly,
            Self::IndexHealedAcrossDamage,
            Self::IndexExtentsFreedEarly,
            Self::BasesReadInPart,
            Self::BasesReadBefore,
            Self::NoteAfterSlot,
            Self::SnapshotUnsettled,
            Self::ManyReadApart,
            Self::CopyWithoutOrigin,
            Self::NotedSegmentFreed,
            Self::PurgedUnderSnapshot,
            Self::CountsKeptLate,
            Self::GhostAfterRemoval,
            Self::PositionsNotUnique,
            Self::ExpiredPutDropped,
            Self::ExpiredTombstoneDropped,
            Self::ReplaySkipsExpired,
            Self::LenCountsExpired,
            Self::FloorNotKept,
            Self::FloorIsTimeSeen,
            Self::CalendarTrusted,
            Self::CalendarOfChangesLost,
            Self::CalendarEndsAtSnapshot,
            Self::DefaultTtlForgotten,
            Self::HistoryReused,
            Self::FloorForgotten,
            Self::HistoryReplayed,
            Self::CopiesShown,
            Self::GapNotNoticed,
            Self::BorderSkipped,
            Self::TransactionUnchecked,
            Self::TransactionForgetsRanges,
            Self::TransactionForgetsClear,
            Self::TransactionCheckedEarly,
            Self::KeptNumberForgotten,
            Self::CursorNotWritten,
            Self::EventsNotMoved,
            Self::EventsBehindSnapshotForgotten,
            Self::ChainsEndAtSnapshot,
            Self::ChainsClaimTooMuch,
            Self::PlacesOfChangesLost,
            Self::NextEventNotListed,
            Self::EventNumberLost,
            Self::EventsInTheirOwnCommit,
            Self::ExpectedUnchecked,
            Self::AnewUnchecked,
            Self::ConditionUnchecked,
            Self::ConditionMeetsStubs,
            Self::StubDroppedEarly,
            Self::GoneEventsCopied,
            Self::TagChainNotUpdated,
            Self::JumpTooFar,
            Self::EventsBeforeDurable,
            Self::AckOnItsOwn,
            Self::CursorTakenUnnoticed,
            Self::CursorTakenAsItWas,
            Self::AppendsPreparedTogether,
        ];
    }

    static PLANTED: AtomicU32 = AtomicU32::new(u32::MAX);

    /// Switches one bug on for the whole process, or all off.
    pub fn set(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(u32::MAX, |bug| bug as u32), Ordering::SeqCst);
    }

    /// The bug that is switched on.
    pub fn planted() -> Option<Bug> {
        let planted = PLANTED.load(Ordering::SeqCst);
        Bug::ALL.iter().copied().find(|&bug| bug as u32 == planted)
    }

    /// Widens the gap that a bug leaves, so that another thread comes into it.
    pub(crate) fn dawdle() {
        #[cfg(feature = "std")]
        std::thread::sleep(core::time::Duration::from_micros(50));
    }

    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u32
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use imp::{dawdle, is};
#[cfg(feature = "planted-bugs")]
pub use imp::{planted, set};

#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub(crate) const fn is(_: Bug) -> bool {
    false
}

#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn dawdle() {}
