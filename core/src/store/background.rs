//! The background maintenance of one store: run when something is due, by the [workers](super::workers) that all stores of the process share.

use super::workers::{Job, WORKERS};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// The background maintenance of a store, once it has begun.
#[derive(Default)]
pub(crate) struct Background {
    job: OnceLock<Arc<Job>>,
}

impl Background {
    /// Has `maintain` run on `owner` whenever something is due, or after the time that it returned, as long as that lives. If the host cannot
    /// start a thread, the store works without: it only replays more when it is opened after a crash.
    pub(crate) fn start<T: Send + Sync + 'static>(&self, owner: &Arc<T>, maintain: fn(&T) -> Option<Duration>) {
        let owner: Weak<T> = Arc::downgrade(owner);
        let job = self.job.get_or_init(|| Job::new(move || maintain(&*owner.upgrade()?)));
        WORKERS.forget_parent();
        // Run once now, to build the shards that opening has parked.
        WORKERS.wake(job);
    }

    /// Something is due.
    pub(crate) fn wake(&self) {
        if let Some(job) = self.job.get() {
            WORKERS.wake(job);
        }
    }

    /// Other stores wait for a worker: whoever runs should not take its time.
    pub(crate) fn should_hurry(&self) -> bool {
        WORKERS.are_saturated()
    }

    /// Ends it, and waits for a run that has begun, unless called from that.
    pub(crate) fn stop(&self) {
        if let Some(job) = self.job.get() {
            WORKERS.stop(job);
        }
    }
}
