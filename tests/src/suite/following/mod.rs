//! Readers of a store, of its records and its events, that another session writes: one looks after every part of every write, another now and then, a
//! third one when the space of what it has read is used again. What each shows is the
//! state after one of the writer's commits, whole, never an earlier one than before, and never without what was acknowledged.

mod appended;
mod behind;
mod life;
mod seen;
mod stepped;

use crate::parallel::{Failure, Outcome};
use crate::quota::Quota;
use crate::rng::derive;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Stores that are written under the eyes of followers.
    pub lives: u64,
    /// Operations of each.
    pub operations: u64,
    /// Seed of the first one.
    pub seed: u64,
}

/// Runs the lives. Each look at a store is a trial.
pub fn run(budget: &Budget, quota: &Quota) -> Outcome {
    (budget.seed..budget.seed + budget.lives).try_for_each(|seed| run_one(seed, budget.operations, quota))
}

/// Runs one life.
pub fn run_one(seed: u64, operations: u64, quota: &Quota) -> Outcome {
    let fail = |what| Failure::new(format!("PIPKIN_SEED={seed}"), what);
    let close = life::run(&mut derive(seed, 1), seed, operations).map_err(fail)?;
    let behind = behind::run(&mut derive(seed, 2), operations).map_err(fail)?;
    quota.add(close + behind);
    Ok(())
}
