//! Transactions, other writes, clears and compaction at once: what all of them have read is explained by one order, that of the positions of
//! their commits.
//!
//! Every value is written once, so a value says which commit it is of. A transaction that writes must have read the state before its commit;
//! one that only reads, a state between its begin and its end.

mod check;
mod work;

use self::check::{History, explain};
use self::work::Worker;
use crate::parallel::{Failure, Outcome, Team};
use crate::quota::Quota;
use crate::rng::derive;
use crate::suite::{Checked, words};
use pipkin::storage::MemoryStorage;
use pipkin::{Conflict, Db};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Namespaces: the default one, one that is cleared, and one that is dropped and made again.
const SPACES: [&str; 3] = ["", "cleared", "dropped"];
/// Keys of each.
const KEYS: u8 = 6;
/// Threads that run transactions.
const THREADS: u64 = 4;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Histories.
    pub histories: u64,
    /// Transactions that each thread of a history tries.
    pub tries: u64,
    /// Seed of the first history.
    pub seed: u64,
}

/// Numbers of trials.
#[derive(Debug)]
pub struct Counts {
    /// Transactions that were committed and explained.
    pub transactions: Quota,
    /// Conflicts about keys, ranges, namespaces.
    pub conflicts: [Quota; 3],
}

impl Counts {
    /// With these quotas.
    pub fn new(transactions: u64, conflicts: u64) -> Self {
        let quota = |name| Quota::new(name, conflicts);
        Self {
            transactions: Quota::new("serializable", transactions),
            conflicts: [quota("conflicts of keys"), quota("of ranges"), quota("of namespaces")],
        }
    }

    fn conflict(&self, conflict: Conflict) -> Checked {
        let place = match conflict {
            Conflict::Key => 0,
            Conflict::Range => 1,
            Conflict::Namespace => 2,
            other => return Err(format!("a conflict without a reason: {other:?}")),
        };
        self.conflicts[place].add(1);
        Ok(())
    }
}

/// What the threads of a history share.
struct Shared<'a> {
    counts: &'a Counts,
    history: Mutex<History>,
    next_value: AtomicU32,
    team: Team,
    running: AtomicU64,
}

impl Shared<'_> {
    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn one(budget: &Budget, counts: &Counts, seed: u64) -> Checked {
    let storage = MemoryStorage::new();
    let is_ordered = !seed.is_multiple_of(3);
    let open = || {
        let builder = Db::builder().segment_size(4096).ordered(is_ordered).background(false);
        builder.open_storage(Box::new(storage.clone())).map_err(words)
    };
    let db = open()?;
    SPACES.iter().skip(1).try_for_each(|name| db.namespace(name).map(drop)).map_err(words)?;
    let shared = Shared {
        counts,
        history: Mutex::default(),
        next_value: AtomicU32::new(1),
        team: Team::default(),
        running: AtomicU64::new(THREADS),
    };
    std::thread::scope(|scope| {
        let (shared, db) = (&shared, &db);
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut worker = Worker { shared, db, is_ordered, rng: derive(seed, thread) };
                shared.team.run(|| worker.transactions(budget.tries));
                if shared.running.fetch_sub(1, Ordering::SeqCst) == 1 {
                    shared.team.end();
                }
            });
        }
        let others: [&(dyn Fn(&mut Worker<'_>) -> Checked + Sync); 3] =
            [&|worker| worker.plain_writes(), &|worker| worker.clears(), &|worker| worker.maintenance()];
        for (thread, work) in (THREADS..).zip(others) {
            let mut worker = Worker { shared, db, is_ordered, rng: derive(seed, thread) };
            scope.spawn(move || shared.team.run(|| work(&mut worker)));
        }
    });
    shared.team.outcome()?;
    let stats = db.stats().map_err(words)?;
    let kept = (stats.snapshots, stats.snapshot_held_bytes, stats.snapshot_memory_bytes);
    if kept != (0, 0, 0) {
        return Err(format!("without a transaction {kept:?} (snapshots, bytes held, bytes of memory) are left"));
    }
    let last = work::content(&db)?;
    db.close().map_err(words)?;
    if work::content(&open()?)? != last {
        return Err("the store has another content after it was opened again".into());
    }
    let history = std::mem::take(&mut *shared.history());
    counts.transactions.add(history.transactions());
    explain(history, &last)
}

/// Runs the histories.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    for seed in budget.seed..budget.seed + budget.histories {
        let fail =
            |what| Failure::new(format!("PIPKIN_SEED={seed} PIPKIN_TRANSACTIONS=1 (threads: may take several runs)"), what);
        one(budget, counts, seed).map_err(fail)?;
    }
    Ok(())
}
