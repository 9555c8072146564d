//! Which trials are run.

use super::check::{Report, SLEPT, run_one};
use super::scheduler::Call;
use super::trial::Op::{Checkpoint, Churn, Close, Compact, Count, Flush, Long, Open, Put};
use super::trial::{Host, Op, Plan, Start, Trial, Turn, parse};
use crate::parallel::{Failure, Outcome, Watch, for_each};
use crate::quota::Quota;
use crate::rng::{Rng, choose, derive};
use std::sync::atomic::{AtomicU64, Ordering};

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Pauses in the plans that are all tried, counted at every call.
    pub pauses: usize,
    /// The same where reads that follow each other count as one.
    pub pauses_coarse: usize,
    /// Plans from seeds.
    pub random: u64,
    /// The first seed.
    pub seed: u64,
    /// How the sessions share the file.
    pub hosts: &'static [Host],
}

/// What was done.
#[derive(Debug)]
pub struct Counts {
    /// Runs.
    pub runs: Quota,
    /// Flushes that were acknowledged, and are there.
    pub flushes: AtomicU64,
    /// Sessions that were fenced off.
    pub fenced: AtomicU64,
    /// Records that were written, not flushed, and are gone.
    pub written_lost: AtomicU64,
    /// Runs in which one did.
    pub runs_written_lost: AtomicU64,
    /// Runs in which a session slept through several of the other one, and those of them that damaged the store or lost something flushed.
    pub slept: AtomicU64,
    /// See [`Self::slept`].
    pub slept_lost: AtomicU64,
    /// Calls of the storage.
    pub calls: AtomicU64,
}

impl Counts {
    /// None so far; `least` are owed.
    pub fn new(least: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            runs: Quota::new("two writers", least),
            flushes: zero(),
            fenced: zero(),
            written_lost: zero(),
            runs_written_lost: zero(),
            slept: zero(),
            slept_lost: zero(),
            calls: zero(),
        }
    }

    pub(super) fn add(&self, outcome: &Result<Report, String>) {
        self.runs.add(1);
        match outcome {
            Ok(report) => {
                let add = |counter: &AtomicU64, more: u64| counter.fetch_add(more, Ordering::Relaxed);
                add(&self.flushes, report.flushes);
                add(&self.fenced, report.fenced);
                add(&self.written_lost, report.written_lost);
                add(&self.runs_written_lost, u64::from(report.written_lost > 0));
                add(&self.slept, u64::from(report.slept_through));
                add(&self.calls, report.calls);
            }
            Err(_) => {
                self.slept.fetch_add(1, Ordering::Relaxed);
                self.slept_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Runs a trial; a failure that is not among those that the documents name ends the suite.
pub(super) fn try_one(trial: &Trial, counts: &Counts, watch: &Watch) -> Outcome<Report> {
    let replay = || format!("PIPKIN_TRIAL='{trial}'");
    watch.begin(replay());
    let outcome = run_one(trial);
    match outcome {
        Err(what) if !what.starts_with(SLEPT) => Err(Failure::new(replay(), what)),
        outcome => {
            counts.add(&outcome);
            Ok(outcome.unwrap_or_default())
        }
    }
}

/// Every plan of at most `pauses` pauses that begins with that of `trial`; at the last one the session may also be killed, or the power go.
pub(super) fn explore(trial: &Trial, pauses: usize, coarse: bool, counts: &Counts, watch: &Watch) -> Outcome {
    let report = try_one(trial, counts, watch)?;
    if pauses == 0 {
        return Ok(());
    }
    for (calls, &call) in report.free_calls.iter().enumerate() {
        let is_between_reads = calls > 0 && call == Call::Reads && report.free_calls.get(calls - 1) == Some(&Call::Reads);
        if coarse && is_between_reads {
            continue;
        }
        let with = |turn: Turn| {
            let mut next = trial.clone();
            next.plan.push((calls as u32, turn));
            next
        };
        explore(&with(Turn::Pause), pauses - 1, coarse, counts, watch)?;
        if call != Call::Reads {
            try_one(&with(Turn::Kill), counts, watch)?;
            try_one(&with(Turn::Cut), counts, watch)?;
        }
    }
    Ok(())
}

/// The scripts whose plans are all tried.
pub(super) fn short() -> Vec<(Start, [Vec<Op>; 2])> {
    let request = || vec![Open, Count, Flush, Close];
    let mut all = Vec::new();
    for start in [Start::Blank, Start::Closed, Start::Killed] {
        all.push((start, [request(), request()]));
    }
    let long = |ops: &[Op]| [&[Open], ops, &[Put, Flush, Close]].concat();
    all.push((Start::Closed, [long(&[Put, Flush, Long]), request()]));
    all.push((Start::Killed, [long(&[Checkpoint]), request()]));
    all.push((Start::Closed, [long(&[Churn, Compact]), request()]));
    all
}

/// Trials that have failed. In this one a write that creates the store comes late and hides that the other session has begun; whose first repair of it falls
/// between a look and a write of the first. Both went on then, until one took the other's superblocks for late ones.
const ONCE_FAILED: [&str; 1] = [
    "Blank Cached [Open, Put, Flush, Put, Compact, Open, Long, Checkpoint, Churn, Flush, Flush, Put, Count, Put, Flush] | [Open, Compact, Put, Long, Flush, Churn, Count, Put, Put, Flush, Count, Flush, Flush] with [(9, Pause), (7, Pause), (4, Pause), (14, Pause), (0, Pause), (10, Pause), (10, Pause), (1, Pause), (2, Pause), (4, Pause), (13, Pause), (4, Pause), (12, Pause), (14, Pause), (6, Pause), (2, Pause), (14, Pause), (2, Pause), (14, Pause), (4, Pause), (7, Pause), (2, Pause), (0, Pause), (4, Pause), (4, Pause), (2, Pause), (0, Pause), (10, Cut)], seed 13170",
];

/// Plans of the normal run and of the nightly one.
pub fn run(budget: &Budget, counts: &Counts) -> Outcome {
    let mut jobs = Vec::new();
    for (start, scripts) in short() {
        for &host in budget.hosts {
            for is_swapped in [false, true] {
                let [first, second] = scripts.clone();
                let scripts = if is_swapped { [second, first] } else { [first, second] };
                let trial = Trial { start, host, scripts, plan: Vec::new(), seed: budget.seed };
                jobs.push((trial.clone(), budget.pauses, false));
                // The layer in between changes nothing of the order in which a session looks and writes.
                if budget.pauses_coarse > budget.pauses && (host == Host::Plain || budget.pauses > 1) {
                    jobs.push((trial, budget.pauses_coarse, true));
                }
            }
        }
    }
    let once_failed = ONCE_FAILED.iter().filter_map(|text| parse(text));
    for_each(once_failed, |trial, watch| try_one(&trial, counts, watch).map(drop))?;
    for_each(jobs.into_iter(), |(trial, pauses, coarse), watch| explore(&trial, pauses, coarse, counts, watch))?;
    let seeds = budget.seed..budget.seed + budget.random;
    for_each(seeds, |seed, watch| try_one(&random(seed, budget.hosts), counts, watch).map(drop))
}

/// A trial from a seed.
pub fn random(seed: u64, hosts: &[Host]) -> Trial {
    let mut rng = derive(seed, 1);
    let start = choose(&mut rng, &[Start::Blank, Start::Closed, Start::Killed]);
    let host = choose(&mut rng, hosts);
    let script = |rng: &mut Rng| {
        let ops = [Put, Put, Put, Count, Count, Flush, Flush, Flush, Long, Churn, Checkpoint, Compact, Close, Open];
        let mut script = vec![Open];
        for _ in 0..4 + rng.below(12) {
            let op = choose(rng, &ops);
            script.push(op);
            if op == Close {
                script.push(Open);
            }
        }
        script
    };
    let scripts = [script(&mut rng), script(&mut rng)];
    let longest = 1 << rng.below(9);
    let mut plan: Plan = (0..rng.below(40)).map(|_| (rng.below(longest) as u32, Turn::Pause)).collect();
    if let Some((_, turn)) = plan.last_mut() {
        *turn = choose(&mut rng, &[Turn::Pause, Turn::Kill, Turn::Cut]);
    }
    Trial { start, host, scripts, plan, seed }
}
