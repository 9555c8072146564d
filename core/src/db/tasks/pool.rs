//! The threads that carry out what may wait, for all stores of the process. They are started when there is something to do, and end when there
//! has been nothing for a while.
//!
//! Three pools, so that none waits for what only another can end: calls of the engine, which never wait for code of a caller; long calls and
//! closures of callers, which may; and syncs.

use async_task::{Builder, Runnable, Task};
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// Calls of the engine: reads that may need the medium, and for each store one thread at a time for its writes.
pub(super) static CALLS: Pool = Pool::new("pipkin calls", 8);
/// Closures of callers, and what takes long: compaction, backups, verification.
pub(super) static LONG: Pool = Pool::new("pipkin long", 8);
/// Syncs; each store needs one at a time.
pub(super) static SYNCS: Pool = Pool::new("pipkin syncs", 4);

/// A thread without anything to do ends after so long.
const IDLE_MAX: Duration = Duration::from_secs(2);

std::thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// True in a thread of a pool: what may wait waits right there. If it were queued, it could wait for itself.
pub(super) fn is_worker() -> bool {
    IS_WORKER.get()
}

pub(super) struct Pool {
    name: &'static str,
    threads_max: usize,
    state: Mutex<State>,
    queued: Condvar,
}

struct State {
    queue: VecDeque<Runnable>,
    threads: usize,
    /// Those of them that wait.
    idle: usize,
    /// The process that has started them: a forked child has none of its parent's threads.
    process: u32,
}

impl Pool {
    const fn new(name: &'static str, threads_max: usize) -> Self {
        let state = State { queue: VecDeque::new(), threads: 0, idle: 0, process: 0 };
        Self { name, threads_max, state: Mutex::new(state), queued: Condvar::new() }
    }

    /// All state is valid between any two steps, so a panic spoils none.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries `work` out in a thread of this pool; in such a thread, at once. Dropping the result before the work has begun drops the work;
    /// work that has begun comes to its end. A panic of it goes on where the result is awaited.
    pub(super) fn run<T: Send + 'static>(&'static self, work: impl FnOnce() -> T + Send + 'static) -> Work<T> {
        if is_worker() {
            return Work(Progress::Done(Some(work())));
        }
        Work(Progress::Queued(spawn(work, |runnable| self.push(runnable))))
    }

    /// As [`Self::run`], for work whose end nobody waits for.
    pub(super) fn start(&'static self, work: impl FnOnce() + Send + 'static) {
        spawn(work, |runnable| self.push(runnable)).detach();
    }

    fn push(&'static self, runnable: Runnable) {
        let mut state = self.state();
        let process = std::process::id();
        if state.process != process {
            // Their parent's work is not that of a forked child, and its threads are not here. Dropping it could run any code.
            core::mem::forget(core::mem::take(&mut state.queue));
            (state.threads, state.idle, state.process) = (0, 0, process);
        }
        state.queue.push_back(runnable);
        self.dispatch(&mut state);
        if state.threads == 0
            && let Some(runnable) = state.queue.pop_back()
        {
            // The host starts no thread: better here than never.
            drop(state);
            work_on(runnable);
        }
    }

    /// Has a thread take what is queued.
    fn dispatch(&'static self, state: &mut State) {
        if state.queue.is_empty() {
            return;
        }
        if state.idle > 0 {
            self.queued.notify_one();
        } else if state.threads < self.threads_max {
            let started = std::thread::Builder::new().name(self.name.into()).spawn(|| self.work());
            state.threads += usize::from(started.is_ok());
        }
    }

    fn work(&'static self) {
        IS_WORKER.set(true);
        let mut state = self.state();
        loop {
            if let Some(runnable) = state.queue.pop_front() {
                // What else waits must not wait for this.
                self.dispatch(&mut state);
                drop(state);
                work_on(runnable);
                state = self.state();
                continue;
            }
            state.idle += 1;
            let waited = self.queued.wait_timeout(state, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.idle -= 1;
            if waited.1.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// The thread survives a panic: of the drop of what a cancelled call has captured.
pub(super) fn work_on(runnable: Runnable) {
    let _ = catch_unwind(AssertUnwindSafe(|| runnable.run()));
}

/// Makes a task of `work`, which `schedule` gets once.
pub(super) fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    schedule: impl Fn(Runnable) + Send + Sync + 'static,
) -> Task<T> {
    let (runnable, task) = Builder::new().propagate_panic(true).spawn(|()| async move { work() }, schedule);
    runnable.schedule();
    task
}

/// Work that a thread of a pool carries out.
pub(super) struct Work<T>(Progress<T>);

enum Progress<T> {
    Done(Option<T>),
    Queued(Task<T>),
}

impl<T> Work<T> {
    pub(super) const fn of(task: Task<T>) -> Self {
        Self(Progress::Queued(task))
    }

    pub(super) const fn done(answer: T) -> Self {
        Self(Progress::Done(Some(answer)))
    }
}

// Nothing of it is pinned.
impl<T> Unpin for Work<T> {}

impl<T> Future for Work<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            Progress::Queued(task) => Pin::new(task).poll(cx),
            Progress::Done(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}
