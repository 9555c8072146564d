//! The suites see bugs: each of the bugs that can be planted into the engine is caught by the suites named beside it, and the
//! same runs of these suites pass without the bug. A test that cannot fail is a defect.

#![allow(clippy::panic, clippy::expect_used, reason = "tests fail by panicking")]

use pipkin::Db;
use pipkin::limits::DATA_START;
use pipkin::planted::{Bug, set};
use pipkin_tests::parallel::{Failure, Outcome, guard};
use pipkin_tests::quota::Quota;
use pipkin_tests::suite::{
    behind_compaction, cache, changes, codec, compression, crash, errors, events, exhaustive, expiry, following, groups, in_file,
    left_space, lies, lives, lost_headers, many, mixed, moments, order, projections, salvage, sealed, serializable, shared_sync,
    sleepers, threads, two_writers, verbs, writers,
};
use std::process::{Command, ExitStatus};
use std::time::Instant;

/// Bugs that must be caught, at the least.
const BUGS_LEAST: u64 = 15;

/// Runs in which a suite must see a bug once: threads meet in another order each time, and a race may need several, most of all on a machine
/// that is busy.
const ATTEMPTS_MAX: u32 = 20;

/// A suite, run small.
type Suite = (&'static str, fn() -> Outcome);

const EXHAUSTIVE: Suite = ("exhaustive", || {
    let budget =
        exhaustive::Budget { longest: 2, longest_elsewhere: 2, longest_expiring: 1, every: 1, sectors: exhaustive::SECTORS_MAX };
    exhaustive::run(&budget, &exhaustive::Counts::new(0))
});

const CRASH: Suite = ("crash", || {
    let budget = crash::Budget { images: 100_000, seed: 1, seconds: 600.0, flips: 0 };
    crash::run(&budget, &crash::Counts::new(0))
});

const CRASH_ROT: Suite = ("crash (bit rot)", || {
    let budget = crash::Budget { images: 20_000, seed: 1, seconds: 60.0, flips: 200 };
    crash::run(&budget, &crash::Counts::new(0))
});

const ERRORS: Suite = ("errors", || {
    shared_sync::run(3)?;
    errors::run(&errors::Budget { workloads: 60, seed: 1 }, &errors::Counts::new(0))
});

const SEALED: Suite = ("sealed", || sealed::run(&sealed::Budget { sessions: 300, seed: 1 }, &Quota::new("sealed", 0)));

const LEFT_SPACE: Suite = ("crash (space left by a session)", || left_space::run(100, 1));

const CACHE: Suite = ("page cache", || cache::run(&cache::Budget { cuts: 20_000, seed: 1 }, &cache::Counts::new(0)));

const CODEC: Suite = ("codec", || {
    for end in [codec::End::Closed, codec::End::Killed] {
        let golden = codec::Golden::new(end);
        // A few bits all over the store, then more of them: most bugs need only the few.
        for stride in [2003, 101] {
            codec::flip_all(&golden, DATA_START * 8..golden.len() * 8, stride, &Quota::new("codec", 0))?;
        }
    }
    Ok(())
});

const THREADS: Suite = ("model (threads)", || {
    let fail = |what: &dyn std::fmt::Display| Failure::new("PIPKIN_SEED=0", what);
    let folder = tempfile::tempdir().map_err(|error| fail(&error))?;
    let path = folder.path().join("threads.pipkin");
    for seed in 0..6 {
        let open = || Db::builder().path(&path).segment_size(16 * 1024).background(false).open();
        let run = threads::Run::default();
        let db = open().map_err(|error| fail(&error))?;
        run.work(&db, &threads::Budget { ops: 4000, seed })?;
        db.close().map_err(|error| fail(&error))?;
        let db = open().map_err(|error| fail(&error))?;
        run.check(&db).map_err(|what| fail(&what))?;
        db.clear().map_err(|error| fail(&error))?;
    }
    Ok(())
});

const MOMENTS: Suite =
    ("moments", || moments::run(&moments::Budget { histories: 25, calls: 150, seed: 1 }, &Quota::new("moments", 0)));

const EXPIRY: Suite = ("expiry", || {
    expiry::under()?;
    expiry::run(&expiry::Budget { histories: 400, calls: 120, seed: 1 }, &Quota::new("expiry", 0))
});

const CHANGES: Suite =
    ("changes", || changes::run(&changes::Budget { lives: 30, crowds: 1, seed: 1 }, &Quota::new("changes", 0)));

/// Two processes at the same time: the other suites of followers have steps.
const BEHIND_COMPACTION: Suite =
    ("behind compaction", || behind_compaction::run(6, &Quota::new("behind compaction", 0), &behind_compaction::Told::default()));

const SERIALIZABLE: Suite = ("serializable", || {
    let budget = serializable::Budget { histories: 12, tries: 150, seed: 1 };
    serializable::run(&budget, &serializable::Counts::new(0, 0))
});

const IN_FILE: Suite = ("index in the file", || {
    let budget = in_file::Budget { histories: 12, steps: 2500, races: 6, seed: 1 };
    in_file::run(&budget, &in_file::Counts::new(0))
});

const MANY: Suite = ("many", || {
    let budget = many::Budget { histories: 4, commits: 400, seed: 1 };
    many::run(&budget, &many::Counts::new(0, 0))
});

const SIBLINGS: Suite = ("moments (copies)", || (0..20).try_for_each(moments::siblings));

const TWO_WRITERS: Suite = ("two writers", || {
    let budget = two_writers::Budget { pauses: 1, pauses_coarse: 0, random: 6000, seed: 1, hosts: &[two_writers::Host::Plain] };
    two_writers::run(&budget, &two_writers::Counts::new(0))
});

/// The same on sealed stores.
const TWO_WRITERS_SEALED: Suite = ("two writers (sealed)", || {
    let budget = two_writers::Budget { pauses: 1, pauses_coarse: 0, random: 2000, seed: 1, hosts: &[two_writers::Host::Sealed] };
    two_writers::run(&budget, &two_writers::Counts::new(0))
});

const SLEEPERS: Suite = ("two writers (sleepers)", || {
    sleepers::run(&sleepers::Budget { others: &[1, 5], all: false }, &Quota::new("sleepers", 0))?;
    sleepers::idle(100)
});

const LIVES: Suite = ("lives", || {
    lives::steps()?;
    lives::forgotten()?;
    lives::room()?;
    lives::taken()?;
    lives::run(&lives::Budget { deaths: 1500, seed: 1 }, &lives::Counts::new(0))
});

const WRITERS: Suite = ("writers", || writers::run(&writers::Budget { images: 3000, seed: 1 }, &writers::Counts::new(0)));

const GROUPS: Suite = ("groups", || groups::run(&groups::Budget { images: 3000, seed: 1 }, &Quota::new("groups", 0)));

const ORDER: Suite = ("order", || order::run(&order::Budget { images: 1500, seed: 1 }, &Quota::new("order", 0)));

const EVENTS: Suite = ("events", || {
    let budget = events::Budget { images: 3000, crowds: 1, seed: 1 };
    events::run(&budget, &Quota::new("events", 0))
});

/// The stores of the suite `events` that drop stubs of removed events: the same in every run.
const GONE: Suite = ("events (gone)", || events::gone(0, &Quota::new("events, gone", 0)));

/// Threads race for versions: those of the suite `events`.
const RACES: Suite = ("events (races)", || events::races(3000, 1, &Quota::new("events, races", 0)));

const PROJECTIONS: Suite = ("projections", || {
    let budget = projections::Budget { kills: 60, seed: 1 };
    projections::run(&budget, &Quota::new("projections", 0), &projections::Counts::default())
});

const SALVAGE: Suite = ("reopen (salvage)", || salvage::run(300, &Quota::new("salvage", 0)));

const ROT: Suite = ("rot", || {
    verbs::run(0..1500, &verbs::Counts::new(0))?;
    lies::run(300, &Quota::new("rot, lies", 0))?;
    lost_headers::run(20, &Quota::new("rot, lost headers", 0))
});

const FOLLOWING: Suite =
    ("following", || following::run(&following::Budget { lives: 40, operations: 150, seed: 1 }, &Quota::new("following", 0)));

const COMPRESSION: Suite = ("compression", || {
    compression::bombs()?;
    compression::run(&compression::Budget { images: 6000, seed: 1 }, &Quota::new("compression", 0))
});

/// All capabilities in one store: bugs of each are seen there, too.
const MIXED: Suite = ("mixed", || mixed::run(&mixed::Budget { images: 1000, seed: 1 }, &Quota::new("mixed", 0)));

/// The suites that are to catch a bug.
fn suites_of(bug: Bug) -> Vec<Suite> {
    let beside: &[Suite] = match bug {
        Bug::ExpiredPutDropped | Bug::ReplaySkipsExpired | Bug::LenCountsExpired => &[WRITERS],
        Bug::FloorNotKept => &[SALVAGE],
        Bug::TakeoverOneSlot | Bug::TakeoverUnlooked | Bug::FlushNotLookedAround => &[TWO_WRITERS_SEALED],
        Bug::CodecNotCopied | Bug::EventsNotMoved | Bug::NoteAfterSlot => &[MIXED],
        Bug::ConditionUnchecked | Bug::EventsInTheirOwnCommit => &[MIXED],
        Bug::AckOnItsOwn | Bug::CursorTakenUnnoticed => &[PROJECTIONS],
        Bug::ExpectedUnchecked => &[PROJECTIONS, RACES],
        _ => &[],
    };
    std::iter::once(suite_of(bug)).chain(beside.iter().copied()).collect()
}

/// The first suite that is to catch a bug.
fn suite_of(bug: Bug) -> Suite {
    match bug {
        Bug::FlushSkipsSync | Bug::BatchEndIgnored | Bug::TransactionSplit | Bug::SnapshotCutTooLate => EXHAUSTIVE,
        Bug::AckBeforeSync | Bug::SyncErrorForgotten | Bug::WriteErrorForgotten | Bug::IndexBeforeAppend => ERRORS,
        Bug::CheckpointSyncsBeside | Bug::SaltOfAttemptAgain => ERRORS,
        Bug::ChecksumSkipsKey | Bug::ReadUnchecked | Bug::SyncMarkNever | Bug::SnapshotUnchecked => CODEC,
        Bug::CompactUnchecked | Bug::FlushNotMarked | Bug::StrandedDropped | Bug::LostBeginningForgotten => CRASH_ROT,
        Bug::FoundSpaceTrusted => LEFT_SPACE,
        Bug::TailNotWrittenAgain => CACHE,
        Bug::ReaderNotPinned | Bug::CompactOvertakes => THREADS,
        Bug::TakeoverInPlace
        | Bug::TakeoverOneSlot
        | Bug::TakeoverUnlooked
        | Bug::FlushNotLookedAround
        | Bug::LaterSessionRepaired
        | Bug::SegmentNotLookedFor => TWO_WRITERS,
        Bug::CreatedUnlooked => TWO_WRITERS_SEALED,
        Bug::PagesOfOneVersion => SLEEPERS,
        Bug::SleepersForgotten | Bug::AppendNotLookedFor | Bug::WrittenAgainLate => SLEEPERS,
        Bug::TornEndKeepsItsSegment | Bug::DebtOfDeadSessions | Bug::CompactionWithoutEnd => LIVES,
        Bug::RemovalsMakeNoRoom | Bug::ReserveGivenBack => LIVES,
        Bug::IndexGroupUnchecked | Bug::IndexMaskIgnored | Bug::IndexMaskedBeforePut | Bug::IndexExtentsFreedEarly => IN_FILE,
        Bug::IndexHealedEarly | Bug::IndexHealedAcrossDamage | Bug::BasesReadInPart | Bug::BasesReadBefore => IN_FILE,
        Bug::NoteAfterSlot
        | Bug::SnapshotUnsettled
        | Bug::CopyWithoutOrigin
        | Bug::NotedSegmentFreed
        | Bug::PurgedUnderSnapshot
        | Bug::CountsKeptLate
        | Bug::GhostAfterRemoval => MOMENTS,
        Bug::ManyReadApart => MANY,
        Bug::GroupInTwoCommits | Bug::GroupBeforeMoves => GROUPS,
        Bug::OrderEndsAtSnapshot
        | Bug::OrderOfRetiredSegments
        | Bug::OrderNotMoved
        | Bug::OrderOfOthers
        | Bug::MovesForgotten => ORDER,
        Bug::SealedHeaderUnchecked
        | Bug::SealedSuperblockUnchecked
        | Bug::SealedHeadUncovered
        | Bug::SealedSegmentGoesOn
        | Bug::BorderUnchecked
        | Bug::PlainUndigested
        | Bug::SealedBeforeSync
        | Bug::DisablingOpened
        | Bug::PlainBeforeSync
        | Bug::KeyPageKept
        | Bug::PlainOpenedWithKey
        | Bug::TagSkipped
        | Bug::PartTagSkipped
        | Bug::SnapshotsOfOneSeal
        | Bug::AnchorUnchecked => SEALED,
        Bug::PositionsNotUnique => SIBLINGS,
        Bug::ExpiredPutDropped
        | Bug::ExpiredTombstoneDropped
        | Bug::ReplaySkipsExpired
        | Bug::LenCountsExpired
        | Bug::FloorNotKept
        | Bug::FloorIsTimeSeen
        | Bug::CalendarTrusted
        | Bug::CalendarOfChangesLost
        | Bug::CalendarEndsAtSnapshot
        | Bug::DefaultTtlForgotten => EXPIRY,
        Bug::HistoryReused
        | Bug::FloorForgotten
        | Bug::HistoryReplayed
        | Bug::CopiesShown
        | Bug::GapNotNoticed
        | Bug::BorderSkipped
        | Bug::KeptNumberForgotten
        | Bug::ChangesAreQuiet
        | Bug::CursorNotWritten => CHANGES,
        Bug::ReusedIsTheEnd => BEHIND_COMPACTION,
        Bug::EventsNotMoved
        | Bug::EventsBehindSnapshotForgotten
        | Bug::ChainsEndAtSnapshot
        | Bug::ChainsClaimTooMuch
        | Bug::PlacesOfChangesLost
        | Bug::NextEventNotListed
        | Bug::EventNumberLost
        | Bug::EventsInTheirOwnCommit
        | Bug::ExpectedUnchecked
        | Bug::AnewUnchecked
        | Bug::ConditionUnchecked
        | Bug::ConditionMeetsStubs
        | Bug::TagChainNotUpdated
        | Bug::JumpTooFar
        | Bug::EventsBeforeDurable
        | Bug::AckOnItsOwn
        | Bug::CursorTakenUnnoticed => EVENTS,
        Bug::StubDroppedEarly | Bug::GoneEventsCopied => GONE,
        Bug::CursorTakenAsItWas => PROJECTIONS,
        Bug::AppendsPreparedTogether => RACES,
        Bug::DictionaryDroppedEarly
        | Bug::DictionaryAfterRecords
        | Bug::CodecNotCopied
        | Bug::DictionaryUnchecked
        | Bug::PlainLengthUnchecked => COMPRESSION,
        Bug::FollowedByHalves | Bug::FollowedByTrailersAlone | Bug::FollowedKeepsNumbers => FOLLOWING,
        Bug::FollowedEventsKept | Bug::FollowedChainsForgotten | Bug::FollowedRetiredEvents => FOLLOWING,
        Bug::VanishedKept | Bug::VanishedUnderSnapshots => FOLLOWING,
        Bug::TransactionUnchecked
        | Bug::TransactionForgetsRanges
        | Bug::TransactionForgetsClear
        | Bug::TransactionCheckedEarly => SERIALIZABLE,
        Bug::SharedSyncCountsForAll => WRITERS,
        Bug::TrailerNoEvidence | Bug::RebuiltUnmarked | Bug::DamagePickedAgain | Bug::DamageIsMissing | Bug::DamageKeepsKey => {
            ROT
        }
        Bug::SalvageRevives | Bug::HeadersInValuesCount | Bug::VerifyTrustsSnapshot | Bug::VerifyTrustsHeaders => ROT,
        _ => CRASH,
    }
}

/// Not a test of its own: the child that a suite kills.
#[test]
fn child() {
    match pipkin_tests::victim::told() {
        Some((folder, seed)) if behind_compaction::is_home(&folder) => behind_compaction::child(&folder, seed),
        Some((folder, seed)) => projections::child(&folder, seed),
        None => {}
    }
}

/// Processes that share the bugs: one is planted at a time in each, and most suites keep one core busy.
const PROCESSES: usize = 2;

/// Which of the bugs a process plants.
#[derive(Clone, Copy)]
struct Share {
    nth: usize,
    of: usize,
}

impl Share {
    /// What its parent has told this process.
    fn told() -> Option<Self> {
        Some(Self { nth: std::env::var("PIPKIN_SHARE").ok()?.parse().ok()?, of: PROCESSES })
    }

    fn of<T>(self, all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        all.skip(self.nth).step_by(self.of)
    }
}

#[test]
fn every_planted_bug_is_caught_by_its_suites_and_by_nothing_but_the_bug() {
    let name = "every_planted_bug_is_caught_by_its_suites_and_by_nothing_but_the_bug";
    if std::env::var_os("PIPKIN_BUG").is_some() {
        return plant(Share { nth: 0, of: 1 });
    }
    if let Some(share) = Share::told() {
        return plant(share);
    }
    let begin = |nth: usize| {
        let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
        command.args([name, "--exact", "--nocapture"]).env("PIPKIN_SHARE", nth.to_string()).spawn().expect("a child")
    };
    let shares: Vec<_> = (0..PROCESSES).map(begin).collect();
    let ends: Vec<_> = shares.into_iter().map(|mut share| share.wait().expect("the child's end")).collect();
    assert!(ends.iter().all(ExitStatus::success), "{ends:?}: see above");
}

fn plant(share: Share) {
    let caught = Quota::new("planted bugs", BUGS_LEAST);
    let only = std::env::var("PIPKIN_BUG").ok();
    let all: Vec<Bug> =
        Bug::ALL.iter().copied().filter(|bug| only.as_ref().is_none_or(|only| *only == format!("{bug:?}"))).collect();
    let mut missed = Vec::new();
    for bug in share.of(all.iter().copied()) {
        for (name, run) in suites_of(bug) {
            let started = Instant::now();
            let (outcome, attempts) = attempt(bug, run);
            let seconds = started.elapsed().as_secs_f64();
            match outcome {
                Ok(()) => {
                    println!("planted: {bug:?} was NOT seen by {name} in {seconds:.1} s");
                    missed.push((bug, name));
                }
                Err(failure) => {
                    let what: String = failure.what.lines().next().unwrap_or_default().chars().take(160).collect();
                    println!("planted: {bug:?} caught by {name} in {seconds:.1} s, attempt {attempts}: {what}");
                    caught.add(1);
                }
            }
        }
    }
    for (name, run) in share.of(healthy(&all).into_iter()) {
        let started = Instant::now();
        if let Err(failure) = run() {
            panic!("{name} fails without any bug planted: {failure}");
        }
        println!("planted: {name} passes without a bug in {:.1} s", started.elapsed().as_secs_f64());
    }
    assert!(missed.is_empty(), "bugs that a suite does not see: {missed:?}");
    if only.is_none() {
        caught.finish("each by the suites named");
    }
}

/// Runs a suite with a bug planted, until it sees the bug; also returns how often it ran.
fn attempt(bug: Bug, run: fn() -> Outcome) -> (Outcome, u32) {
    let mut attempts = 0;
    // Panics are what some of the bugs lead to: the output is to show those that nobody has planted.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    set(Some(bug));
    let outcome = (0..ATTEMPTS_MAX).try_for_each(|_| {
        attempts += 1;
        guard(run).unwrap_or_else(|what| Err(Failure::new(format!("PIPKIN_BUG={bug:?}"), what)))
    });
    set(None);
    std::panic::set_hook(hook);
    (outcome, attempts)
}

/// The suites that must pass without any of these bugs. Suites of their own run some of them at least as large; at night they run here, too.
fn healthy(bugs: &[Bug]) -> Vec<Suite> {
    let elsewhere =
        [EXHAUSTIVE, CRASH, THREADS, EVENTS, RACES, GONE, TWO_WRITERS, COMPRESSION, WRITERS, EXPIRY, FOLLOWING, MIXED, ORDER];
    let is_night = std::env::var_os("PIPKIN_HEALTHY").is_some();
    let mut known: Vec<&str> = if is_night { Vec::new() } else { elsewhere.map(|(name, _)| name).to_vec() };
    let mut suites: Vec<Suite> = bugs.iter().flat_map(|&bug| suites_of(bug)).collect();
    suites.retain(|&(name, _)| {
        let is_new = !known.contains(&name);
        known.push(name);
        is_new
    });
    suites
}
