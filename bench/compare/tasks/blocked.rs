//! For how long the polls of a future keep their thread, and for how much of that the thread sleeps: what a runtime calls blocked.
//!
//! Time that a thread computes, or waits for a processor that others use, is not that: the first is read from the thread's clock, the second
//! from the scheduler. Nor is what is left of a poll in which the thread has not given up its processor: that is what the host of a virtual machine
//! has taken, or interrupts.

use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::fs::File;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

static LONGEST: AtomicU64 = AtomicU64::new(0);
static LONGEST_BLOCKED: AtomicU64 = AtomicU64::new(0);
static BLOCKED_OVER_1_MS: AtomicU64 = AtomicU64::new(0);
static POLLS: AtomicU64 = AtomicU64::new(0);

std::thread_local! {
    static SCHEDSTAT: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// What was measured since the last call, and forgets it.
pub(crate) struct Polls {
    pub(crate) count: u64,
    pub(crate) longest_us: u64,
    pub(crate) longest_blocked_us: u64,
    pub(crate) blocked_over_1_ms: u64,
}

pub(crate) fn take() -> Polls {
    Polls {
        count: POLLS.swap(0, Ordering::Relaxed),
        longest_us: LONGEST.swap(0, Ordering::Relaxed) / 1000,
        longest_blocked_us: LONGEST_BLOCKED.swap(0, Ordering::Relaxed) / 1000,
        blocked_over_1_ms: BLOCKED_OVER_1_MS.swap(0, Ordering::Relaxed),
    }
}

/// A future each of whose polls is measured.
pub(crate) struct Measured<F>(pub(crate) Pin<Box<F>>);

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let (began, computed, queued, sleeps) = (Instant::now(), computed(), queued(), sleeps());
        let answer = self.0.as_mut().poll(cx);
        let lasted = began.elapsed().as_nanos() as u64;
        let awake = (self::computed() - computed) + (self::queued() - queued);
        POLLS.fetch_add(1, Ordering::Relaxed);
        LONGEST.fetch_max(lasted, Ordering::Relaxed);
        let blocked = if self::sleeps() == sleeps { 0 } else { lasted.saturating_sub(awake) };
        LONGEST_BLOCKED.fetch_max(blocked, Ordering::Relaxed);
        BLOCKED_OVER_1_MS.fetch_add(u64::from(blocked > 1_000_000), Ordering::Relaxed);
        answer
    }
}

/// Nanoseconds that this thread has computed.
fn computed() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How often this thread has given up its processor to wait for something.
fn sleeps() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes this structure and nothing else.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: it is all integers, and was zeroed.
    unsafe { usage.assume_init() }.ru_nvcsw
}

/// Nanoseconds that this thread could have run and waited for a processor.
fn queued() -> u64 {
    SCHEDSTAT.with_borrow_mut(|file| {
        if file.is_none() {
            *file = File::open("/proc/thread-self/schedstat").ok();
        }
        let mut text = [0; 96];
        let read = file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let text = std::str::from_utf8(text.get(..read).unwrap_or_default()).unwrap_or_default();
        text.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    })
}
