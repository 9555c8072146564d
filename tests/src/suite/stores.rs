//! Suites that run one store after the other, each with a seed of its own, and count the images that crashes leave of them.

use super::Checked;
use crate::parallel::{Failure, Outcome, Watch, for_each};
use crate::quota::Quota;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Images to go for.
    pub images: u64,
    /// Seed of the first store; the others count up from it.
    pub seed: u64,
}

/// Runs stores until the images are used up.
pub(super) fn run(budget: &Budget, images: &Quota, one: fn(u64, &Quota, &Watch) -> Outcome) -> Outcome {
    let seeds = (budget.seed..).take_while(|_| images.count() < budget.images);
    for_each(seeds, |seed, watch| one(seed, images, watch))
}

/// Runs one store. A failure says how to run it again.
pub(super) fn one(seed: u64, images: &Quota, watch: &Watch, live: fn(u64, &Quota, &Watch) -> Checked) -> Outcome {
    let replay = format!("PIPKIN_SEED={seed}");
    watch.begin(replay.clone());
    live(seed, images, watch).map_err(|what| Failure::new(replay, what))
}
