//! Taking turns: one task at a time goes on, in the order in which they came.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Whose turn it is.
#[derive(Default)]
pub(crate) struct Turns(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    next: u64,
    /// Who has the turn, and who waits for it.
    tickets: VecDeque<(u64, Option<Waker>)>,
}

/// A place in the queue; dropping it gives up the place, or the turn.
pub(crate) struct Ticket {
    turns: Arc<Turns>,
    number: u64,
}

impl Turns {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues up.
    pub(crate) fn queue_up(self: &Arc<Self>) -> Ticket {
        let mut queue = self.queue();
        queue.next += 1;
        let number = queue.next;
        queue.tickets.push_back((number, None));
        Ticket { turns: self.clone(), number }
    }
}

impl Ticket {
    /// Ready when its turn has come.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut queue = self.turns.queue();
        let place = queue.tickets.iter().position(|(number, _)| *number == self.number);
        match place.and_then(|place| queue.tickets.get_mut(place).filter(|_| place > 0)) {
            Some((_, waker)) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.turns.queue();
            let had_turn = queue.tickets.front().is_some_and(|(number, _)| *number == self.number);
            queue.tickets.retain(|(number, _)| *number != self.number);
            queue.tickets.front_mut().filter(|_| had_turn).and_then(|(_, waker)| waker.take())
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }
}
