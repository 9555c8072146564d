//! Projections of event streams by a process that is killed again and again: eight writers append, six consumers project into records in the commit
//! that moves their cursor, two of them by one cursor, while events are removed and the store is compacted and checkpointed. What is left must
//! have every acknowledged append, numbers and versions without gaps, and in each projection exactly the events up to its cursor.

mod check;
mod child;
mod consumers;
mod plan;

use crate::parallel::{Failure, Outcome, for_each};
use crate::quota::Quota;
use crate::rng::derive;
use crate::suite::{Checked, words};
use crate::victim;
use check::Known;
pub use child::child;
use consumers::{CONSUMERS, Projection};
use pipkin::{Builder, Db, Events};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The log of events.
const LOG: &str = "ledger";
/// Kills that one store lives through.
const KILLS_PER_STORE: u64 = 20;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Processes to kill.
    pub kills: u64,
    /// Seed of the first store; the others count up from it.
    pub seed: u64,
}

/// What a run has done beside its kills.
#[derive(Debug, Default)]
pub struct Counts {
    /// Events that were appended.
    pub events: AtomicU64,
    /// Events of which retention has left nothing to read.
    pub removed: AtomicU64,
}

/// Kills processes until the kills are used up. The program that calls this needs a test `child` that calls [`child`].
pub fn run(budget: &Budget, kills: &Quota, counts: &Counts) -> Outcome {
    let stores = budget.kills.div_ceil(KILLS_PER_STORE);
    let each = budget.kills.min(KILLS_PER_STORE);
    for_each(budget.seed..budget.seed + stores, |seed, watch| {
        watch.begin(format!("PIPKIN_SEED={seed}"));
        one_store(seed, each, kills, counts)
    })
}

/// One store, which lives through some kills.
pub fn one(seed: u64, kills: &Quota) -> Outcome {
    one_store(seed, KILLS_PER_STORE, kills, &Counts::default())
}

fn one_store(seed: u64, times: u64, kills: &Quota, counts: &Counts) -> Outcome {
    let fail = |what: String| Failure::new(format!("PIPKIN_SEED={seed} (a kill's moment varies: may take several runs)"), what);
    let folder = tempfile_in(&victim::place(seed), seed).map_err(fail)?;
    let mut known = Known::new(seed);
    let lived = lives(&folder, seed, times, &mut known, kills);
    counts.events.fetch_add(known.events(), Ordering::Relaxed);
    counts.removed.fetch_add(known.removed, Ordering::Relaxed);
    let kept = lived.is_err().then(|| victim::keep(&folder, seed));
    let _ = std::fs::remove_dir_all(&folder);
    lived.map_err(|what| fail(format!("{what}\n  the store was kept in {}", kept.as_deref().unwrap_or(Path::new("?")).display())))
}

fn tempfile_in(place: &Path, seed: u64) -> Checked<std::path::PathBuf> {
    static FOLDERS: AtomicU64 = AtomicU64::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = place.join(format!("pipkin-projections-{}-{seed}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// Stores differ in how they are opened.
fn builder(folder: &Path, seed: u64) -> Builder {
    let segment_size = [16 * 1024, 64 * 1024, 1 << 20][(seed % 3) as usize];
    let path = folder.join("store.pipkin");
    Db::builder().path(path).mmap(!seed.is_multiple_of(5)).segment_size(segment_size).replay_debt_max(500_000)
}

fn lives(folder: &Path, seed: u64, times: u64, known: &mut Known, kills: &Quota) -> Checked {
    for kill in 1..=times {
        let mut rng = derive(seed, kill);
        victim::kill_one(folder, seed, &mut rng)?;
        // At a copy: so that the next process recovers from the kill itself.
        look(folder, seed, rng.chance(1, 2), known, kill == times).map_err(|what| format!("after kill {kill}: {what}"))?;
        kills.add(1);
    }
    Ok(())
}

fn look(folder: &Path, seed: u64, copied: bool, known: &mut Known, is_last: bool) -> Checked {
    let (store, copy) = (folder.join("store.pipkin"), folder.join("copy"));
    if !store.exists() {
        return if known.events() == 0 { Ok(()) } else { Err("the store is gone".into()) };
    }
    if copied {
        let copy = std::fs::create_dir_all(&copy).and_then(|()| std::fs::copy(&store, copy.join("store.pipkin")));
        copy.map_err(|error| error.to_string())?;
    }
    let db = builder(if copied { &copy } else { folder }, seed).background(false).open().map_err(words)?;
    let log = db.events(LOG).map_err(words)?;
    known.check(&db, &log, folder, false)?;
    if is_last {
        db.flush().map_err(words)?;
        child::drain(&db, &log, folder, seed)?;
        known.check(&db, &log, folder, true).map_err(|what| format!("when all is consumed: {what}"))?;
    }
    drop(log);
    db.close().map_err(words)
}

/// The last event that a writer has appended: it is there, or was removed, and so dealt with.
fn last_of(db: &Db, log: &Events, writer: usize) -> Checked<u64> {
    let newest = log.tagged(plan::tag(writer)).backwards(true).limit(1).iter().map_err(words)?.next();
    let newest = newest.transpose().map_err(words)?.map(|event| plan::Said::of(&event)).transpose()?;
    let projection = Projection::decode(db.get(CONSUMERS[0].key()).map_err(words)?.as_deref());
    Ok(newest.map_or(0, |said| said.index).max(projection.parts[writer].last))
}
