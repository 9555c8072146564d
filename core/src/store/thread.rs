//! The thread that maintains a store.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

/// The thread that maintains a store, and how to reach it.
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
    /// Starts a thread that runs `maintain` on `owner` whenever something is due, for as long as that lives. If the host has no thread to give,
    /// the store goes on without: it only replays more when it is opened after a crash.
    pub(crate) fn start<T: Send + Sync + 'static>(&self, owner: &Arc<T>, maintain: fn(&T)) {
        let (weak, signal) = (Arc::downgrade(owner), self.signal.clone());
        // What opening has left to be built.
        self.wake();
        let thread = std::thread::Builder::new().name("pipkin".into()).spawn(move || run(&weak, &signal, maintain));
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = thread.ok();
    }

    /// Something is due.
    pub(crate) fn wake(&self) {
        let mut state = self.signal.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.due {
            state.due = true;
            self.signal.changed.notify_one();
        }
    }

    /// Ends the thread and waits for it.
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

fn run<T>(owner: &Weak<T>, signal: &Signal, maintain: fn(&T)) {
    loop {
        let mut state = signal.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.due && !state.stop {
            state = signal.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stop {
            return;
        }
        state.due = false;
        drop(state);
        let Some(owner) = owner.upgrade() else { return };
        maintain(&owner);
    }
}
