//! Waking those who wait for commits. Nobody waits in most stores: then a sync reads one counter, and a write another one.

use super::history::FollowerId;
use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence};
use alloc::vec::Vec;
use core::task::Waker;

/// Threads and tasks that wait for commits. A leaf among the locks: nothing is locked under it.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    /// Threads, and those of `tasks`.
    waiting: AtomicUsize,
    /// How many of them wait for commits that are not durable yet.
    early: AtomicUsize,
    notices: Mutex<u64>,
    changed: Condvar,
    tasks: Mutex<Vec<Task>>,
}

/// A task that is woken once.
#[derive(Debug)]
struct Task {
    follower: FollowerId,
    early: bool,
    waker: Waker,
}

impl Feed {
    /// Commits have become durable, or none ever will.
    pub(crate) fn wake(&self) {
        // Pairs with the one in `wait`: either this sees who waits, or that one sees what is due.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.notify();
        }
    }

    /// A commit was written. The caller has held the tail of the log since: whoever waits has held it, too.
    #[inline]
    pub(crate) fn wake_early(&self) {
        if self.early.load(Ordering::Relaxed) > 0 {
            self.notify();
        }
    }

    #[cold]
    fn notify(&self) {
        *self.notices.lock() += 1;
        self.changed.notify_all();
        let tasks = {
            let mut tasks = self.tasks.lock();
            tasks.iter().for_each(|task| self.count_out(task));
            core::mem::take(&mut *tasks)
        };
        // A task is only scheduled here: whoever calls this may hold locks of the log.
        tasks.into_iter().for_each(|task| task.waker.wake());
    }

    fn count_out(&self, task: &Task) {
        self.early.fetch_sub(usize::from(task.early), Ordering::SeqCst);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// A follower waits no longer.
    pub(super) fn forget(&self, follower: FollowerId) {
        let mut tasks = self.tasks.lock();
        let place = tasks.iter().position(|task| task.follower == follower);
        let gone = place.map(|place| tasks.swap_remove(place));
        gone.iter().for_each(|task| self.count_out(task));
        // Dropping a waker may drop a task, and with that another follower.
        drop(tasks);
        drop(gone);
    }
}

#[cfg(feature = "std")]
impl super::Log {
    /// Has the task of a follower woken at the next commit, the first one after its caller has looked once more; `early`: at one that is not
    /// durable yet, too.
    pub(crate) fn wake_at_commits(&self, follower: FollowerId, early: bool, waker: &Waker) {
        let feed = &self.feed;
        feed.forget(follower);
        feed.waiting.fetch_add(1, Ordering::SeqCst);
        feed.early.fetch_add(usize::from(early), Ordering::SeqCst);
        feed.tasks.lock().push(Task { follower, early, waker: waker.clone() });
        fence(Ordering::SeqCst);
        if early {
            // As for a thread.
            drop(self.tail.lock());
        }
    }

    /// True when a commit would wake the task of a follower: nothing has, since that was asked for.
    #[cfg(feature = "async")]
    pub(crate) fn wakes_at_commits(&self, follower: FollowerId) -> bool {
        self.feed.tasks.lock().iter().any(|task| task.follower == follower)
    }

    /// Waits until `is_due`, which takes no lock, or for so long; `early` for what is not durable yet, too.
    pub(crate) fn wait_for_commits(&self, early: bool, timeout: Option<std::time::Duration>, is_due: &dyn Fn() -> bool) {
        let feed = &self.feed;
        let until = timeout.and_then(|timeout| std::time::Instant::now().checked_add(timeout));
        feed.waiting.fetch_add(1, Ordering::SeqCst);
        feed.early.fetch_add(usize::from(early), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if early {
            // Who appends after this sees that somebody waits; what was appended before is due.
            drop(self.tail.lock());
        }
        let mut notices = feed.notices.lock();
        while !is_due() {
            let left = until.map(|until| until.saturating_duration_since(std::time::Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            notices = feed.changed.wait_at_most(&feed.notices, notices, left);
        }
        drop(notices);
        feed.early.fetch_sub(usize::from(early), Ordering::SeqCst);
        feed.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(all(test, feature = "std"))]
mod tests;
