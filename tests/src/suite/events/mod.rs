//! Event streams: on stores that are written, projected, compacted, closed, killed and cut, every way of reading agrees with a plain model of
//! the commits, whose prefix every crash leaves. A failed call or a flipped bit gives an error or the right answer, never another event.

mod answers;
mod crowd;
mod faults;
mod gone;
mod lives;
mod model;
mod races;
mod removing;
mod rotten;
mod scripted;
mod steps;
mod subscriptions;

use crate::parallel::{Failure, Outcome, Watch, for_each};
use crate::quota::Quota;
use crate::rng::derive;
use crate::suite::Checked;

/// How much is done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Images to go for: what crashes leave, with and without a flipped bit, and stores with a failed call.
    pub images: u64,
    /// Stores with many threads.
    pub crowds: u64,
    /// Seed of the first store; the others count up from it.
    pub seed: u64,
}

/// Runs stores until the images are used up, then those with threads.
pub fn run(budget: &Budget, images: &Quota) -> Outcome {
    let seeds = (budget.seed..).take_while(|_| images.count() < budget.images);
    for_each(seeds, |seed, watch| one(seed, images, watch))?;
    let crowds = budget.seed..budget.seed + budget.crowds;
    crowds.into_iter().try_for_each(|seed| {
        images.add(1);
        crowd::run(seed).map_err(|what| Failure::new("threads: may take several runs", what))
    })
}

/// The stores of one seed.
pub fn one(seed: u64, images: &Quota, watch: &Watch) -> Outcome {
    let replay = format!("PIPKIN_SEED={seed}");
    watch.begin(replay.clone());
    let fail = |what: String| Failure::new(&replay, what);
    lives::live(derive(seed, 0xe7e1), images, watch).map_err(fail)?;
    faults::sweep(derive(seed, 0xe7e2), images, watch).map_err(fail)
}

/// A store on which a fuzzer does what its bytes say. True if it had events at the end of its first session.
pub fn scripted(bytes: &[u8]) -> Checked<bool> {
    self::scripted::play(bytes)
}

/// Stores of which every crash is looked at while stubs of removed events are dropped.
pub fn gone(seed: u64, images: &Quota) -> Outcome {
    images.add(self::gone::run(seed).map_err(|what| Failure::new(format!("PIPKIN_SEED={seed}"), what))?);
    Ok(())
}

/// Races for one version, in stores of some thousand each.
pub fn races(races: u64, seed: u64, quota: &Quota) -> Outcome {
    const EACH: u64 = 2500;
    let left = |store: u64| (races - store * EACH).min(EACH);
    (0..races.div_ceil(EACH)).try_for_each(|store| {
        self::races::run(seed + store, left(store)).map_err(|what| Failure::new("races: may take several runs", what))?;
        quota.add(left(store));
        Ok(())
    })
}
