//! Writes of tasks that wait to be carried out. One thread takes them one after the other: they would wait for each other at the end of the log
//! anyway.

use async_task::Runnable;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The writes of one store.
#[derive(Default)]
pub(crate) struct Lane(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    writes: VecDeque<Runnable>,
    /// A thread takes them, or is about to.
    is_taken: bool,
}

impl Lane {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a write. Returns true if a thread must be told to take what is there.
    pub(crate) fn add(&self, write: Runnable) -> bool {
        let mut queue = self.queue();
        queue.writes.push_back(write);
        !std::mem::replace(&mut queue.is_taken, true)
    }

    /// The next write; `None` once there is none: then whoever has taken them is relieved.
    pub(crate) fn next(&self) -> Option<Runnable> {
        let mut queue = self.queue();
        let next = queue.writes.pop_front();
        queue.is_taken = next.is_some();
        next
    }
}
