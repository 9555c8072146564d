//! Runs the jobs of a suite on every core, turns panics into failures, and ends the process when one job stands still: an
//! endless loop in the engine must show as a failed test with a seed, not as a test that never ends.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A trial that went wrong, and the environment that replays it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// `NAME=value` of the environment for the replay.
    pub replay: String,
    /// What went wrong.
    pub what: String,
}

impl Failure {
    /// A failed trial.
    pub fn new(replay: impl Into<String>, what: impl fmt::Display) -> Self {
        Self { replay: replay.into(), what: what.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  replay with: {}", self.what, self.replay)
    }
}

/// How a suite ends.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Fails the test with the failure's words.
pub fn unwrap<T>(suite: &str, outcome: Outcome<T>) -> T {
    match outcome {
        Ok(value) => value,
        Err(failure) => panic!("{suite}: {failure}"),
    }
}

/// Runs `work`; a panic in it becomes words.
pub fn guard<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
        format!("panicked: {}", text.unwrap_or_else(|| "(no message)".into()))
    })
}

/// What the threads of one trial share: the first failure ends all of them.
#[derive(Debug, Default)]
pub struct Team {
    is_over: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Team {
    /// Does a thread's work. Its failure ends the others.
    pub fn run(&self, work: impl FnOnce() -> Result<(), String>) {
        if let Err(what) = guard(work).unwrap_or_else(Err) {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
            self.end();
        }
    }

    /// Tells the threads to end.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// True when a thread is to end.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// The first failure. Threads may run again after that.
    ///
    /// # Errors
    ///
    /// What went wrong, in words.
    pub fn outcome(&self) -> Result<(), String> {
        self.is_over.store(false, Ordering::SeqCst);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

/// How long one trial may take before it counts as an endless loop.
const STUCK_SECONDS: u64 = 120;

/// What a worker is at, for the watchdog.
#[derive(Debug, Default)]
pub struct Watch {
    label: Mutex<String>,
    /// Milliseconds since the start; 0 when idle.
    since: AtomicU64,
}

static CLOCK: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();

fn now_ms() -> u64 {
    CLOCK.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

impl Watch {
    /// A trial begins: `label` is the environment that replays it.
    pub fn begin(&self, label: impl Into<String>) {
        *self.label.lock().unwrap_or_else(PoisonError::into_inner) = label.into();
        self.tick();
    }

    /// The trial goes on.
    pub fn tick(&self) {
        self.since.store(now_ms(), Ordering::Relaxed);
    }

    fn stuck(&self) -> Option<String> {
        let since = self.since.load(Ordering::Relaxed);
        let stuck = since != 0 && now_ms().saturating_sub(since) > STUCK_SECONDS * 1000;
        stuck.then(|| self.label.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Number of worker threads: the cores, or `PIPKIN_THREADS`.
pub fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    crate::quota::env_u64("PIPKIN_THREADS", cores as u64).max(1) as usize
}

/// Gives each job to a free worker until the jobs are used up or one fails.
pub fn for_each<J, I, W>(jobs: I, work: W) -> Outcome
where
    I: Iterator<Item = J> + Send,
    J: Send,
    W: Fn(J, &Watch) -> Outcome + Sync,
{
    let jobs = Mutex::new(jobs);
    let failure = Mutex::new(None);
    let stop = AtomicBool::new(false);
    let finished = AtomicBool::new(false);
    let watches: Vec<Watch> = (0..threads()).map(|_| Watch::default()).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = watches
            .iter()
            .map(|watch| {
                let (jobs, failure, stop, work) = (&jobs, &failure, &stop, &work);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some(job) = job else { break };
                        let outcome = guard(|| work(job, watch)).unwrap_or_else(|what| {
                            let label = watch.label.lock().unwrap_or_else(PoisonError::into_inner).clone();
                            Err(Failure::new(label, what))
                        });
                        if let Err(new) = outcome {
                            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(new);
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                    watch.since.store(0, Ordering::Relaxed);
                })
            })
            .collect();
        scope.spawn(|| {
            while !finished.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                if let Some(label) = watches.iter().find_map(Watch::stuck) {
                    eprintln!("one trial takes more than {STUCK_SECONDS} s: an endless loop?\n  replay with: {label}");
                    std::process::abort();
                }
            }
        });
        workers.into_iter().for_each(|worker| drop(worker.join()));
        finished.store(true, Ordering::Relaxed);
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// Runs one job under the watchdog: what replays of a failure use.
pub fn watched(work: impl Fn(&Watch) -> Outcome + Sync) -> Outcome {
    for_each(std::iter::once(()), |(), watch| work(watch))
}
