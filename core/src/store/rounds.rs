//! Tasks that wait for a sync, in rounds: everybody who has come before a sync begins shares it, and no task costs a thread.

use crate::error::{Error, Result};
use crate::storage::Durability;
use crate::sync::{AtomicBool, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The rounds of one store.
#[derive(Default)]
pub(crate) struct Rounds {
    /// Who has come since the last sync began.
    next: Mutex<Option<Arc<Round>>>,
    /// A thread syncs for one round after the other, or is about to. Changed under the lock.
    is_served: AtomicBool,
}

/// Tasks that share a sync.
#[derive(Default)]
pub(crate) struct Round(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    ended: Option<Result<Durability>>,
    wakers: Vec<Waker>,
}

/// A task's place in a round.
pub(crate) struct Joined {
    round: Arc<Round>,
    place: Option<usize>,
}

/// All state is valid between any two steps, so a panic spoils none.
fn unpoisoned<'a, T>(guard: Result<MutexGuard<'a, T>, PoisonError<MutexGuard<'a, T>>>) -> MutexGuard<'a, T> {
    guard.unwrap_or_else(PoisonError::into_inner)
}

impl Rounds {
    /// Joins the round whose sync has not begun: it covers everything that was written before this call. Returns true if a thread must be told
    /// to serve the rounds.
    pub(crate) fn join(&self) -> (Joined, bool) {
        let mut next = unpoisoned(self.next.lock());
        let round = next.get_or_insert_default().clone();
        (Joined { round, place: None }, !self.is_served.swap(true, Ordering::Relaxed))
    }

    /// The round to sync for now: who comes later waits for the next one. `None` if nobody waits: then whoever has served them is relieved.
    pub(crate) fn begin(&self) -> Option<Arc<Round>> {
        let mut next = unpoisoned(self.next.lock());
        let round = next.take();
        self.is_served.store(round.is_some(), Ordering::Relaxed);
        round
    }

    /// True while a thread syncs for tasks, or is about to.
    pub(crate) fn are_served(&self) -> bool {
        self.is_served.load(Ordering::Relaxed)
    }
}

impl Round {
    /// Its sync has ended so.
    pub(crate) fn end(&self, result: Result<Durability>) {
        let wakers = {
            let mut waiting = unpoisoned(self.0.lock());
            waiting.ended = Some(result);
            std::mem::take(&mut waiting.wakers)
        };
        for waker in wakers {
            // A waker is code of the runtime: one that panics keeps nobody else asleep.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

impl Joined {
    /// The result of the round's sync, once it has ended.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Durability, Error>> {
        let mut waiting = unpoisoned(self.round.0.lock());
        if let Some(ended) = &waiting.ended {
            return Poll::Ready(ended.clone());
        }
        match self.place.and_then(|place| waiting.wakers.get_mut(place)) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                self.place = Some(waiting.wakers.len());
                waiting.wakers.push(cx.waker().clone());
            }
        }
        Poll::Pending
    }
}
