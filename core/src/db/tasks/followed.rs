//! Streams of what comes: a thread of the pool reads what is there, and nothing more is read before that was taken. What another process writes
//! wakes nobody: the stream of a follower looks again after a pause.

use super::handle::AsyncNamespace;
use super::pool::{CALLS, Work};
use crate::db::waiting::pause;
use crate::error::Result;
use futures_timer::Delay;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Who reads what comes.
pub(super) trait Follows: Send + 'static {
    type Item: Send + 'static;

    /// What it has read and not handed out.
    fn take_read(&mut self, cx: &mut Context<'_>) -> Option<Poll<Option<Result<Self::Item>>>>;

    /// Reads on; has the waker woken if there is nothing, unless the store is a follower.
    fn read(&mut self, waker: &Waker) -> Poll<Option<Result<Self::Item>>>;

    /// Has the waker woken at what comes from here on. False where that may wait for a lock, so that only [`Self::read`] may do it.
    fn wake(&self, waker: &Waker) -> bool;

    /// The waker of the last [`Self::read`] has not been woken since.
    fn is_waiting(&self) -> bool;

    /// There may be something, or the end.
    fn has_more(&self) -> bool;
}

pub(super) struct Followed<F: Follows> {
    /// `None` while a thread has it.
    idle: Option<F>,
    running: Option<Reading<F>>,
    /// Of a follower's stream.
    looks: Option<Looks>,
    // Last: it keeps the store open.
    pub(super) home: AsyncNamespace,
}

struct Reading<F: Follows> {
    work: Work<Read<F>>,
    waker: Waker,
}

/// When a stream looks again.
#[derive(Default)]
struct Looks {
    /// Nothing has come since then.
    quiet: Option<Instant>,
    delay: Option<Delay>,
}

impl Looks {
    /// Nothing was there: look again after a pause, a longer one the longer nothing has come.
    fn later(&mut self) {
        let quiet = *self.quiet.get_or_insert_with(Instant::now);
        self.delay = pause(quiet, None).map(Delay::new);
    }

    /// True once the pause is over; before, the task is woken at its end.
    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        let is_due = self.delay.as_mut().is_none_or(|delay| Pin::new(delay).poll(cx).is_ready());
        if is_due {
            self.delay = None;
        }
        is_due
    }
}

type Read<F> = (F, Poll<Option<Result<<F as Follows>::Item>>>);

impl<F: Follows> Followed<F> {
    pub(super) fn new(follower: F, home: &AsyncNamespace) -> Self {
        let looks = home.follows().then(Looks::default);
        Self { idle: Some(follower), running: None, looks, home: home.clone() }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<F::Item>>> {
        loop {
            if let Some(mut reading) = self.running.take() {
                let Poll::Ready((follower, read)) = Pin::new(&mut reading.work).poll(cx) else {
                    self.running = Some(reading);
                    return Poll::Pending;
                };
                self.idle = Some(follower);
                if read.is_ready() {
                    if let Some(looks) = &mut self.looks {
                        *looks = Looks::default();
                    }
                    return read;
                }
                if let Some(looks) = &mut self.looks {
                    looks.later();
                    continue;
                }
                // What has woken the task before this poll may have been the same as the end of the work.
                if self.wakes(cx) || reading.waker.will_wake(cx.waker()) && self.is_waiting() {
                    return Poll::Pending;
                }
            }
            // A read that has panicked has taken it along.
            let Some(follower) = &mut self.idle else { return Poll::Ready(None) };
            if let Some(ready) = follower.take_read(cx) {
                return ready;
            }
            let is_due = match &mut self.looks {
                Some(looks) => looks.is_due(cx),
                None => follower.has_more() || !self.wakes(cx),
            };
            if !is_due {
                return Poll::Pending;
            }
            let Some(mut follower) = self.idle.take() else { return Poll::Ready(None) };
            let waker = cx.waker().clone();
            let own = waker.clone();
            let read = move || {
                let read = follower.read(&own);
                (follower, read)
            };
            let work = if self.home.must_stay() { Work::done(read()) } else { CALLS.run(read) };
            self.running = Some(Reading { work, waker });
        }
    }

    fn is_waiting(&self) -> bool {
        self.idle.as_ref().is_some_and(|follower| follower.is_waiting() && !follower.has_more())
    }

    /// The task is woken at what comes from here on, and nothing has come before.
    fn wakes(&self, cx: &Context<'_>) -> bool {
        self.idle.as_ref().is_some_and(|follower| follower.wake(cx.waker()) && !follower.has_more())
    }
}
