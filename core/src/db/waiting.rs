//! Waiting for what changes, and hearing of it in a thread of its own.

use super::changes::{Changes, ChangesBuilder};
use super::consumer::Consumer;
use super::follow::Follow;
use super::handle::{Db, Open};
use crate::changes::Commit;
use crate::error::{Error, Result};
use crate::storage::{StorageError, StorageErrorKind};
use core::fmt;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How soon a follower looks again whether its writer has appended anything. It looks, because events of the file system come only from hosts that have
/// them, and would make each write of the writer dearer.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Where nothing has come for a second or longer.
const LOOK_AGAIN_IDLE: Duration = Duration::from_millis(10);

/// The pause before the next look: a hundredth of the time for which nothing has come, within these bounds. `None` when there is no time left.
pub(super) fn pause(begun: Instant, until: Option<Instant>) -> Option<Duration> {
    let pause = (begun.elapsed() / 100).clamp(LOOK_AGAIN, LOOK_AGAIN_IDLE);
    let left = until.map_or(pause, |until| until.saturating_duration_since(Instant::now()));
    (!left.is_zero()).then(|| left.min(pause))
}

const NO_WAKER: &str = "nothing wakes a task when another process writes: wait for changes of a followed store in a thread, by `next` or `next_timeout`";

impl Db {
    /// Waits until the writer that this [follower](crate::Builder::follow) follows has appended something, at most so long, and brings the
    /// follower up to it. Returns true if there was anything, as [`Db::refresh`] does. It looks once a
    /// millisecond at first, and once in ten where nothing has come for a second.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// use std::time::Duration;
    ///
    /// let writer = pipkin::Db::open(&path)?;
    /// let reader = pipkin::Db::builder().path(&path).follow(true).open()?;
    /// let waits = std::thread::spawn(move || reader.refresh_within(Duration::from_secs(10)));
    /// writer.insert("color", "green")?;
    /// assert!(waits.join().unwrap()?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::refresh`].
    #[cfg(feature = "followers")]
    pub fn refresh_within(&self, timeout: Duration) -> Result<bool> {
        // One that no clock can show never comes.
        let begun = Instant::now();
        let until = begun.checked_add(timeout);
        loop {
            if self.refresh()? {
                return Ok(true);
            }
            let Some(pause) = pause(begun, until) else { return Ok(false) };
            std::thread::sleep(pause);
        }
    }
}

/// A thread that hears of changes; from [`ChangesBuilder::spawn`]. Dropping it ends the thread, and waits for a call that is running.
#[must_use = "dropping it ends the thread"]
pub struct Watching {
    stop: Arc<AtomicBool>,
    store: alloc::sync::Arc<Open>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").finish_non_exhaustive()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.store.engine.log.feed.wake();
        // From inside of its own callback it cannot wait for itself.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl ChangesBuilder {
    /// Calls `heard` with every commit, in a thread of its own, until the result is dropped or the store is closed. The last call is with an error, if
    /// one ends it. It may use the store like any other thread; while it runs, commits wait.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let db = pipkin::Db::open_in_memory()?;
    /// let (sender, receiver) = mpsc::channel();
    /// let watching = db.watch("user:").spawn(move |commit| sender.send(commit).unwrap())?;
    /// db.insert("user:7", "Ada")?;
    /// db.flush()?;
    /// assert_eq!(receiver.recv().unwrap()?.changes().len(), 1);
    /// drop(watching);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Self::start`]; [`Error::Storage`](crate::Error::Storage) when the host starts no thread.
    pub fn spawn(self, mut heard: impl FnMut(Result<Commit>) + Send + 'static) -> Result<Watching> {
        let mut changes = self.start()?;
        let (stop, store) = (Arc::new(AtomicBool::new(false)), changes.0.store().clone());
        let stopped = stop.clone();
        let run = move || {
            while let Some(commit) = changes.0.next_until(None, &|| stopped.load(Ordering::SeqCst)).transpose() {
                let is_last = commit.is_err();
                heard(commit);
                if is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("pipkin changes".into()).spawn(run);
        let failed = |error: std::io::Error| {
            let detail = error.to_string();
            Error::Storage(StorageError::new(StorageErrorKind::Other, "starting a thread", detail).with_cause(error))
        };
        Ok(Watching { stop, store, thread: Some(thread.map_err(failed)?) })
    }
}

/// Blocks until there is a commit. Ends when the store is [closed](crate::Db::close), and after an error; without a call of `close` it never does,
/// for it keeps the store open itself.
impl Iterator for Changes {
    type Item = Result<Commit>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_or_end()
    }
}

/// As [`Changes`].
impl Iterator for Consumer {
    type Item = Result<Commit>;

    fn next(&mut self) -> Option<Self::Item> {
        self.follow.next_or_end()
    }
}

impl Changes {
    /// The next commit, for which this waits so long; `None` if there is none by then, or the store was closed.
    ///
    /// # Errors
    ///
    /// Those of [`Self::try_next`], and [`Error::Poisoned`](crate::Error::Poisoned) when a failed write or sync has ended the session.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Commit>> {
        self.0.next_until(Some(timeout), &|| false)
    }

    /// For async code of any runtime: the next commit, or the task is woken at one. Ends as the iterator does. Once a commit is there, this reads the
    /// log, as [`Self::try_next`] does; it never waits for one. A [follower](crate::Builder::follow) cannot be woken: it answers
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) where it would wait. `futures::stream::poll_fn` makes a `Stream` of it.
    ///
    /// ```
    /// use std::future::poll_fn;
    ///
    /// async fn print(mut changes: pipkin::Changes) -> pipkin::Result<()> {
    ///     while let Some(commit) = poll_fn(|cx| changes.poll_next(cx)).await {
    ///         println!("{:?}", commit?.changes());
    ///     }
    ///     Ok(()) // the store was closed
    /// }
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # let mut task = Box::pin(print(db.changes().start()?));
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(task.as_mut().poll(&mut cx).is_pending());
    /// # db.close()?;
    /// # assert!(task.as_mut().poll(&mut cx).is_ready());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Commit>>> {
        self.0.poll_next(cx)
    }
}

impl Consumer {
    /// As [`Changes::next_timeout`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Commit>> {
        self.follow.next_until(Some(timeout), &|| false)
    }

    /// As [`Changes::poll_next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Commit>>> {
        self.follow.poll_next(cx)
    }
}

impl Follow {
    fn next_or_end(&mut self) -> Option<Result<Commit>> {
        if self.has_failed() {
            return None;
        }
        let next = self.next_until(None, &|| false).transpose();
        self.fail_if(matches!(next, Some(Err(_))));
        next
    }

    pub(super) fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Commit>>> {
        self.poll(cx, Poll::Ready(Err(Error::InvalidArgument(NO_WAKER))))
    }

    /// The same for who looks again later, where nothing wakes the task: on a follower.
    #[cfg(feature = "async")]
    pub(super) fn poll_or_look(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Commit>>> {
        self.poll(cx, Poll::Pending)
    }

    /// `unwoken` is the answer where nothing is there, and nothing would wake the task.
    fn poll(&mut self, cx: &Context<'_>, unwoken: Poll<Result<Option<Commit>>>) -> Poll<Option<Result<Commit>>> {
        if self.has_failed() {
            return Poll::Ready(None);
        }
        let next = self.poll_once(cx, unwoken).map(Result::transpose);
        self.fail_if(matches!(next, Poll::Ready(Some(Err(_)))));
        next
    }

    /// The next commit, if there is one; none of a follower that was closed.
    fn next_or_closed(&mut self) -> Result<Option<Commit>> {
        match self.try_next() {
            Err(Error::Closed) if self.store().engine.log.follows() => Ok(None),
            next => next,
        }
    }

    fn poll_once(&mut self, cx: &Context<'_>, unwoken: Poll<Result<Option<Commit>>>) -> Poll<Result<Option<Commit>>> {
        let mut is_waiting = false;
        loop {
            let writable = self.store().engine.log.writable();
            if let Some(commit) = self.next_or_closed()? {
                return Poll::Ready(Ok(Some(commit)));
            }
            match writable {
                Ok(()) => {}
                Err(Error::ReadOnly) if self.store().engine.log.follows() && !self.store().is_closed() => {
                    return unwoken;
                }
                Err(Error::Closed | Error::ReadOnly) => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(error)),
            }
            if is_waiting {
                return Poll::Pending;
            }
            // What comes from here on wakes the task; what came before is found by looking once more.
            self.wake_at_commits(cx.waker());
            is_waiting = true;
        }
    }

    /// The next commit; `None` after so long, once `stop` is true, or when none can come any more.
    fn next_until(&mut self, timeout: Option<Duration>, stop: &dyn Fn() -> bool) -> Result<Option<Commit>> {
        // One that no clock can show never comes.
        let begun = Instant::now();
        let until = timeout.and_then(|timeout| begun.checked_add(timeout));
        loop {
            // Asked first: what was written before the end is handed out.
            let writable = self.store().engine.log.writable();
            if stop() {
                return Ok(None);
            }
            if let Some(commit) = self.next_or_closed()? {
                return Ok(Some(commit));
            }
            match writable {
                Ok(()) => {}
                Err(Error::ReadOnly) if self.store().engine.log.follows() && !self.store().is_closed() => {
                    let Some(pause) = pause(begun, until) else { return Ok(None) };
                    std::thread::sleep(pause);
                    continue;
                }
                Err(Error::Closed | Error::ReadOnly) => return Ok(None),
                Err(error) => return Err(error),
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let log = &self.store().engine.log;
            let is_due = || stop() || self.has_more() || log.writable().is_err();
            log.wait_for_commits(self.is_early(), left, &is_due);
        }
    }
}
