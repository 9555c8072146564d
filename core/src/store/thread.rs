//! The background thread that maintains a store.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// The background thread, and the signal that wakes or stops it.
#[derive(Default)]
pub(crate) struct Thread {
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    due: bool,
    stop: bool,
}

impl Thread {
    /// Starts a thread that runs `maintain` on `owner` whenever something is due, or after the time that it returned, as long as that lives. If the host cannot start a thread,
    /// the store works without: it only replays more when it is opened after a crash.
    pub(crate) fn start<T: Send + Sync + 'static>(&self, owner: &Arc<T>, maintain: fn(&T) -> Option<Duration>) {
        let (weak, signal) = (Arc::downgrade(owner), self.signal.clone());
        // Run once now, to build the shards that opening has parked.
        self.wake();
        let thread = std::thread::Builder::new().name("pipkin".into()).spawn(move || run(&weak, &signal, maintain));
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = thread.ok();
    }

    /// Tells the thread that something is due.
    pub(crate) fn wake(&self) {
        let mut state = self.signal.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.due {
            state.due = true;
            self.signal.changed.notify_one();
        }
    }

    /// Stops the thread and waits for it, unless called from it.
    pub(crate) fn stop(&self) {
        self.signal.state.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.signal.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

fn run<T>(owner: &Weak<T>, signal: &Signal, maintain: fn(&T) -> Option<Duration>) {
    let mut again = None;
    loop {
        let mut state = signal.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.due && !state.stop {
            match again {
                None => state = signal.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    let waited = signal.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
                    state = waited.0;
                    state.due |= waited.1.timed_out();
                }
            }
        }
        if state.stop {
            return;
        }
        state.due = false;
        drop(state);
        let Some(owner) = owner.upgrade() else { return };
        again = maintain(&owner);
    }
}
