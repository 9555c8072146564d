//! Who is woken, by what, and how many wait.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use alloc::sync::Arc;
use alloc::task::Wake;

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn waiting(feed: &Feed) -> (usize, usize, usize) {
    (feed.waiting.load(Ordering::SeqCst), feed.early.load(Ordering::SeqCst), feed.tasks.lock().len())
}

#[test]
fn a_task_is_woken_once_and_by_what_is_not_durable_yet_only_where_one_asked_for_that() {
    let db = Db::builder().background(false).in_memory().unwrap();
    let log = &db.store().engine.log;
    let (one, other) = (log.follow(0, 0), log.follow(0, 0));
    let (late, early) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
    let woken = || [&late, &early].map(|woken| woken.0.load(Ordering::SeqCst));
    let ask = |id, is_early: bool| {
        let woken = if is_early { &early } else { &late };
        log.wake_at_commits(id, is_early, &Waker::from(woken.clone()));
    };
    ask(one, false);
    assert_eq!(waiting(&log.feed), (1, 0, 1));
    log.feed.wake_early();
    assert_eq!((woken(), waiting(&log.feed)), ([0, 0], (1, 0, 1)));
    log.feed.wake();
    log.feed.wake();
    assert_eq!((woken(), waiting(&log.feed)), ([1, 0], (0, 0, 0)));
    ask(other, true);
    assert_eq!(waiting(&log.feed), (1, 1, 1));
    log.feed.wake_early();
    log.feed.wake_early();
    assert_eq!((woken(), waiting(&log.feed)), ([1, 1], (0, 0, 0)));
    // Asked again it is woken once, and not once it is forgotten.
    ask(one, true);
    ask(one, false);
    ask(other, true);
    assert_eq!(waiting(&log.feed), (2, 1, 2));
    #[cfg(feature = "async")]
    assert!(log.wakes_at_commits(one) && log.wakes_at_commits(other));
    log.unfollow(other);
    #[cfg(feature = "async")]
    assert!(log.wakes_at_commits(one) && !log.wakes_at_commits(other));
    assert_eq!(waiting(&log.feed), (1, 0, 1));
    log.feed.wake();
    assert_eq!((woken(), waiting(&log.feed)), ([2, 1], (0, 0, 0)));
    log.feed.forget(one);
    assert_eq!(waiting(&log.feed), (0, 0, 0), "nobody is left to forget");
}

#[test]
fn who_waits_is_counted_while_it_waits() {
    let db = Db::builder().background(false).in_memory().unwrap();
    let log = &db.store().engine.log;
    for is_early in [false, true] {
        let seen = AtomicUsize::new(9);
        log.wait_for_commits(is_early, None, &|| {
            seen.store(log.feed.early.load(Ordering::SeqCst) * 10 + log.feed.waiting.load(Ordering::SeqCst), Ordering::SeqCst);
            true
        });
        assert_eq!((seen.into_inner(), waiting(&log.feed)), (if is_early { 11 } else { 1 }, (0, 0, 0)));
        // No longer than it was told.
        log.wait_for_commits(is_early, Some(std::time::Duration::ZERO), &|| false);
        assert_eq!(waiting(&log.feed), (0, 0, 0));
    }
}
