//! Waking those who wait for commits. Nobody waits in most stores: then a sync reads one counter, and a write another one.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence};

/// Threads that wait for commits. A leaf among the locks: nothing is locked under it.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    waiting: AtomicUsize,
    /// How many of them wait for commits that are not durable yet.
    early: AtomicUsize,
    notices: Mutex<u64>,
    changed: Condvar,
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
    }
}

#[cfg(feature = "std")]
impl super::Log {
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
