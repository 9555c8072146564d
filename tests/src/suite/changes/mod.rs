//! Following what changes: a consumer, and readers without a name, on stores that are written, compacted, closed, killed and cut. Records
//! expire and groups of keys end meanwhile, and another process follows. Every commit is handed out once, whole and in order; what is missing is said; nothing that is kept
//! for them counts as a record.

mod answers;
mod beside;
mod crowd;
mod lives;
mod model;
mod siblings;
mod writes;

use crate::parallel::{Failure, Outcome};
use crate::quota::Quota;
use crate::rng::derive;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Stores that live through sessions, each with two copies at its end that are both written on.
    pub lives: u64,
    /// Stores with many threads.
    pub crowds: u64,
    /// Seed of the first one of each.
    pub seed: u64,
}

/// Runs the lives and the crowds.
pub fn run(budget: &Budget, quota: &Quota) -> Outcome {
    for seed in budget.seed..budget.seed + budget.lives {
        let fail = |what: String| Failure::new(format!("PIPKIN_SEED={seed} PIPKIN_FOLLOWED=1"), what);
        let image = lives::Life::new(derive(seed, 1), derive(seed, 3)).run(6, 60).map_err(fail)?;
        siblings::check(&image, derive(seed, 2)).map_err(fail)?;
        quota.add(1);
    }
    for seed in budget.seed..budget.seed + budget.crowds {
        let fail =
            |what: String| Failure::new(format!("PIPKIN_SEED={seed} PIPKIN_FOLLOWED=1 (threads: may take several runs)"), what);
        crowd::run(seed).map_err(fail)?;
        quota.add(1);
    }
    Ok(())
}
