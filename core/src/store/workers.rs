//! The threads that maintain the stores of this process. Thousands of idle stores need none: a worker is started when something is due, takes
//! one store after the other, and ends when nothing has been due for a while. While several stores need much at once there are several.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Most workers at a time. Each can be busy with one large store for long.
const WORKERS_MAX: usize = 8;
/// A worker without anything to do ends after so long.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// The workers of this process.
pub(super) static WORKERS: Workers = Workers::new();

/// The maintenance of one store.
pub(super) struct Job {
    run: Box<dyn Fn() -> Option<Duration> + Send + Sync>,
    /// Something has become due since the last run began. A write that finds it set needs no lock.
    due: AtomicBool,
    /// Changed with the pool locked, too.
    phase: Mutex<Phase>,
    /// When it runs again by itself: its key among the timers. Changed with the pool locked.
    timer: Mutex<Option<Timer>>,
}

/// A time, and a number that makes it unique.
type Timer = (Instant, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// In the queue.
    Queued,
    Running(ThreadId),
    /// Not to be run again.
    Stopped,
    /// The same, and the last run has not ended.
    Stopping(ThreadId),
}

impl Job {
    /// `run` returns after which time it is to be run again by itself.
    pub(super) fn new(run: impl Fn() -> Option<Duration> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            run: Box::new(run),
            due: AtomicBool::new(false),
            phase: Mutex::new(Phase::Idle),
            timer: Mutex::new(None),
        })
    }

    fn phase(&self) -> Phase {
        *unpoisoned(self.phase.lock())
    }

    fn set_phase(&self, phase: Phase) {
        *unpoisoned(self.phase.lock()) = phase;
    }

    fn set_timer(&self, timer: Option<Timer>) -> Option<Timer> {
        core::mem::replace(&mut *unpoisoned(self.timer.lock()), timer)
    }
}

/// All state is valid between any two steps, so a panic spoils none.
fn unpoisoned<T>(guard: Result<T, PoisonError<T>>) -> T {
    guard.unwrap_or_else(PoisonError::into_inner)
}

/// Locks: the pool first, then a field of a job.
pub(super) struct Workers {
    pool: Mutex<Pool>,
    /// Notified when something has been queued.
    queued: Condvar,
    /// Notified when the run of a stopped job has ended.
    ended: Condvar,
    saturated: AtomicBool,
}

struct Pool {
    queue: VecDeque<Arc<Job>>,
    timers: BTreeMap<Timer, Arc<Job>>,
    timers_begun: u64,
    workers: usize,
    /// Those of them that wait.
    idle: usize,
    /// The process that has started them: a forked child has none of its parent's threads.
    process: u32,
}

impl Pool {
    const fn new() -> Self {
        Self { queue: VecDeque::new(), timers: BTreeMap::new(), timers_begun: 0, workers: 0, idle: 0, process: 0 }
    }

    fn enqueue(&mut self, job: Arc<Job>) {
        job.set_phase(Phase::Queued);
        self.queue.push_back(job);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|(&(time, _), _)| time)
    }

    fn set_timer(&mut self, job: Arc<Job>, after: Duration) {
        self.timers_begun += 1;
        let timer = (Instant::now() + after, self.timers_begun);
        self.drop_timer(job.set_timer(Some(timer)));
        self.timers.insert(timer, job);
    }

    fn drop_timer(&mut self, timer: Option<Timer>) {
        timer.and_then(|timer| self.timers.remove(&timer));
    }

    /// The next job to run: one that is due, or whose time has come.
    fn next(&mut self) -> Option<Arc<Job>> {
        while self.next_timer().is_some_and(|time| time <= Instant::now()) {
            let Some((_, job)) = self.timers.pop_first() else { break };
            job.set_timer(None);
            if job.phase() == Phase::Idle {
                self.enqueue(job);
            }
        }
        self.queue.pop_front()
    }
}

impl Workers {
    const fn new() -> Self {
        Self { pool: Mutex::new(Pool::new()), queued: Condvar::new(), ended: Condvar::new(), saturated: AtomicBool::new(false) }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        unpoisoned(self.pool.lock())
    }

    /// In a forked child: its parent's workers and jobs are not here.
    pub(super) fn forget_parent(&self) {
        let (mut pool, process) = (self.pool(), std::process::id());
        if pool.process != process {
            *pool = Pool { process, ..Pool::new() };
        }
    }

    /// More jobs wait than there are workers.
    pub(super) fn are_saturated(&self) -> bool {
        self.saturated.load(Ordering::Relaxed)
    }

    /// Runs a job soon; once more if it is running.
    pub(super) fn wake(&'static self, job: &Arc<Job>) {
        if job.due.load(Ordering::Relaxed) || job.due.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut pool = self.pool();
        if job.phase() != Phase::Idle {
            return;
        }
        pool.enqueue(job.clone());
        self.dispatch(&mut pool);
        if pool.workers == 0 {
            // The host has started no thread. The next write that finds something due tries again.
            pool.queue.clear();
            job.set_phase(Phase::Idle);
            job.due.store(false, Ordering::Release);
        }
    }

    /// Has a worker take the next job, or wait for its time.
    fn dispatch(&'static self, pool: &mut Pool) {
        let (is_queued, is_timed) = (!pool.queue.is_empty(), !pool.timers.is_empty());
        if (is_queued || is_timed) && pool.idle > 0 {
            self.queued.notify_one();
        } else if (is_queued || is_timed) && pool.workers < WORKERS_MAX {
            let thread = std::thread::Builder::new().name("pipkin".into()).spawn(|| self.work());
            pool.workers += usize::from(thread.is_ok());
        }
        self.saturated.store(is_queued && pool.idle == 0 && pool.workers == WORKERS_MAX, Ordering::Relaxed);
    }

    /// Lets a job run no more, and waits for a run that has begun, unless called from it.
    pub(super) fn stop(&self, job: &Arc<Job>) {
        let mut pool = self.pool();
        pool.drop_timer(job.set_timer(None));
        match job.phase() {
            Phase::Running(thread) | Phase::Stopping(thread) => {
                job.set_phase(Phase::Stopping(thread));
                while thread != std::thread::current().id() && job.phase() != Phase::Stopped {
                    pool = unpoisoned(self.ended.wait(pool));
                }
            }
            Phase::Queued => {
                pool.queue.retain(|queued| !Arc::ptr_eq(queued, job));
                job.set_phase(Phase::Stopped);
            }
            Phase::Idle | Phase::Stopped => job.set_phase(Phase::Stopped),
        }
    }

    fn work(&'static self) {
        let mut pool = self.pool();
        loop {
            let Some(job) = pool.next() else {
                let Some(later) = self.wait(pool) else { return };
                pool = later;
                continue;
            };
            job.set_phase(Phase::Running(std::thread::current().id()));
            self.dispatch(&mut pool);
            drop(pool);
            job.due.swap(false, Ordering::AcqRel);
            // A panic in a storage or a clock that somebody else wrote ends the maintenance of that store, not that of others.
            let again = catch_unwind(AssertUnwindSafe(|| (job.run)()));
            pool = self.pool();
            self.end_run(&mut pool, job, again.ok());
        }
    }

    /// `again`: after which time it runs again by itself; `None` after a panic.
    fn end_run(&self, pool: &mut Pool, job: Arc<Job>, again: Option<Option<Duration>>) {
        let Some(again) = again.filter(|_| matches!(job.phase(), Phase::Running(_))) else {
            job.set_phase(Phase::Stopped);
            return self.ended.notify_all();
        };
        if job.due.load(Ordering::Acquire) {
            return pool.enqueue(job);
        }
        job.set_phase(Phase::Idle);
        if let Some(after) = again {
            pool.set_timer(job, after);
        }
    }

    /// Waits until there may be a job; `None` if this worker is not needed any more. One of those that wait watches the timers.
    fn wait<'a>(&self, mut pool: MutexGuard<'a, Pool>) -> Option<MutexGuard<'a, Pool>> {
        let timer = pool.next_timer().filter(|_| pool.idle == 0);
        let time = timer.map_or(IDLE_MAX, |time| time.saturating_duration_since(Instant::now()));
        pool.idle += 1;
        let (mut pool, waited) = unpoisoned(self.queued.wait_timeout(pool, time));
        pool.idle -= 1;
        if waited.timed_out() && timer.is_none() && pool.queue.is_empty() {
            pool.workers -= 1;
            return None;
        }
        Some(pool)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    fn workers() -> &'static Workers {
        Box::leak(Box::new(Workers::new()))
    }

    fn wait_for(condition: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !condition() {
            assert!(Instant::now() < until, "it never came");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thousand_jobs_take_a_few_threads_that_end() {
        let (workers, runs) = (workers(), Arc::new(AtomicUsize::new(0)));
        let job = |_| {
            let runs = runs.clone();
            Job::new(move || {
                runs.fetch_add(1, Ordering::Relaxed);
                None
            })
        };
        let jobs: Vec<_> = (0..1000).map(job).collect();
        for job in &jobs {
            workers.wake(job);
            assert!(workers.pool().workers <= WORKERS_MAX);
        }
        wait_for(|| runs.load(Ordering::Relaxed) == 1000);
        wait_for(|| workers.pool().workers <= 1);
    }

    #[test]
    fn a_job_that_takes_long_holds_no_other_up() {
        let (workers, (go, gate)) = (workers(), mpsc::channel::<()>());
        let gate = Mutex::new(gate);
        let slow = Job::new(move || {
            let _ = unpoisoned(gate.lock()).recv();
            None
        });
        workers.wake(&slow);
        wait_for(|| matches!(slow.phase(), Phase::Running(_)));
        let (done, is_done) = mpsc::channel();
        let quick = Job::new(move || {
            let _ = done.send(());
            None
        });
        workers.wake(&quick);
        assert!(is_done.recv_timeout(Duration::from_secs(60)).is_ok());
        drop(go);
        workers.stop(&slow);
        assert_eq!(slow.phase(), Phase::Stopped);
    }

    #[test]
    fn a_job_woken_while_it_runs_runs_once_more_and_one_with_a_time_by_itself() {
        let (workers, runs) = (workers(), Arc::new(AtomicUsize::new(0)));
        let counted = runs.clone();
        let (start, started) = mpsc::channel();
        let job = Job::new(move || {
            let _ = start.send(());
            std::thread::sleep(Duration::from_millis(5));
            let run = counted.fetch_add(1, Ordering::Relaxed);
            (run < 4).then_some(Duration::from_millis(1))
        });
        workers.wake(&job);
        assert!(started.recv().is_ok());
        workers.wake(&job);
        workers.wake(&job);
        wait_for(|| runs.load(Ordering::Relaxed) == 5);
        wait_for(|| job.phase() == Phase::Idle);
        assert!(workers.pool().timers.is_empty());
    }

    #[test]
    fn a_stopped_job_runs_no_more_and_can_stop_itself() {
        let (workers, runs) = (workers(), Arc::new(AtomicUsize::new(0)));
        let (counted, me) = (runs.clone(), Arc::new(Mutex::new(None::<Arc<Job>>)));
        let own = me.clone();
        let job = Job::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            if let Some(job) = unpoisoned(own.lock()).take() {
                workers.stop(&job);
            }
            Some(Duration::ZERO)
        });
        *unpoisoned(me.lock()) = Some(job.clone());
        workers.wake(&job);
        wait_for(|| job.phase() == Phase::Stopped);
        workers.wake(&job);
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        assert!(workers.pool().queue.is_empty() && workers.pool().timers.is_empty());
    }

    #[test]
    fn a_panic_ends_only_the_maintenance_of_its_store() {
        let workers = workers();
        let bad = Job::new(|| std::panic::resume_unwind(Box::new(())));
        workers.wake(&bad);
        wait_for(|| bad.phase() == Phase::Stopped);
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let good = Job::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            None
        });
        workers.wake(&good);
        wait_for(|| runs.load(Ordering::Relaxed) == 1);
        workers.stop(&bad);
    }

    #[test]
    fn a_store_that_closes_while_it_waits_for_a_worker_is_never_maintained() {
        let (workers, (go, gate)) = (workers(), mpsc::channel::<()>());
        let gate = Arc::new(Mutex::new(gate));
        let slow = |_| {
            let gate = gate.clone();
            Job::new(move || {
                let _ = unpoisoned(gate.lock()).recv();
                None
            })
        };
        let slow: Vec<_> = (0..WORKERS_MAX).map(slow).collect();
        slow.iter().for_each(|job| workers.wake(job));
        wait_for(|| slow.iter().all(|job| matches!(job.phase(), Phase::Running(_))));
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let waits = Job::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            None
        });
        assert!(!workers.are_saturated());
        workers.wake(&waits);
        assert!(workers.are_saturated());
        workers.stop(&waits);
        drop(go);
        slow.iter().for_each(|job| workers.stop(job));
        assert_eq!(runs.load(Ordering::Relaxed), 0);
    }
}
