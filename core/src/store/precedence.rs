//! Lets one transaction go first that others keep overtaking: the other writers of the store wait for its end, each write for 10 ms at most.
//! So a closure ends even if a key that it reads is written without pause; and one that itself waits for another writer cannot deadlock.

use super::Store;
use crate::nested::{Held, Inside};
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering};

/// How long a write waits for the transaction that goes first.
#[cfg(all(feature = "std", not(shuttle)))]
const WAIT_MAX: core::time::Duration = core::time::Duration::from_millis(10);

/// Whether a transaction goes first.
#[derive(Debug, Default)]
pub(crate) struct Precedence {
    /// Changed under the lock.
    given: AtomicBool,
    lock: Mutex<()>,
    ended: Condvar,
}

/// While it lives, the other writers wait for the thread that made it.
pub(crate) struct First<'a> {
    precedence: &'a Precedence,
    _mark: Inside,
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        let _lock = self.precedence.lock.lock();
        self.precedence.given.store(false, Ordering::Relaxed);
        self.precedence.ended.notify_all();
    }
}

impl Store {
    /// Lets this thread go first. Returns `None` if another one does, and does not end soon.
    pub(crate) fn go_first(&self) -> Option<First<'_>> {
        self.let_the_first_go();
        let precedence = &self.precedence;
        let _lock = precedence.lock.lock();
        if precedence.given.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(First { precedence, _mark: self.engine.inside(Held::Precedence) })
    }

    /// True while a transaction goes first.
    #[cfg(feature = "async")]
    pub(crate) fn lets_another_go(&self) -> bool {
        self.precedence.given.load(Ordering::Relaxed)
    }

    /// Called before every write, while it holds no lock: waits while another thread goes first.
    #[inline]
    pub(crate) fn let_the_first_go(&self) {
        if self.precedence.given.load(Ordering::Relaxed) {
            self.wait_for_the_first();
        }
    }

    /// Hosts without the standard library run one thread; and a model checker's threads cannot be told apart (see [`crate::nested`]).
    #[cfg(any(not(feature = "std"), shuttle))]
    const fn wait_for_the_first(&self) {}

    #[cfg(all(feature = "std", not(shuttle)))]
    #[cold]
    fn wait_for_the_first(&self) {
        use std::time::Instant;

        if self.engine.refuse_inside(&[Held::Precedence]).is_err() {
            return;
        }
        let until = Instant::now() + WAIT_MAX;
        let precedence = &self.precedence;
        let mut lock = precedence.lock.lock();
        while precedence.given.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            lock = precedence.ended.wait_at_most(&precedence.lock, lock, Some(left));
        }
    }
}
