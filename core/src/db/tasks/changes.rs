//! Changes as streams.

use super::followed::{Followed, Follows};
use super::handle::{AsyncDb, AsyncNamespace};
use super::snapshot::AsyncSnapshot;
use crate::changes::Commit;
use crate::db::changes::{Changes, ChangesBuilder};
use crate::db::consumer::{Consumer, ConsumerBuilder};
use crate::db::follow::Follow;
use crate::error::Result;
use crate::position::Position;
use crate::sync::Mutex;
use futures_core::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Commits as they are made, as a stream: see [`Changes`]. From [`AsyncDb::follow`]. It ends when the store is closed. On a
/// [follower](crate::Builder::follow) it looks for what the writer has appended once a millisecond at first, and once in ten where nothing has come for
/// a second.
///
/// Commits are read in a thread of the pool, some 256 KiB of log at a time, and only when the stream is polled and has handed out what it has
/// read. What it has not read is kept within the [limit](ChangesBuilder::retain) of its builder, behind which it gets
/// [`Error::Compacted`](crate::Error::Compacted).
///
/// ```
/// use futures_lite::StreamExt;
///
/// # let db = pipkin::Db::open_in_memory()?.to_async();
/// # futures_lite::future::block_on(async {
/// let mut changes = db.follow(db.watch("user:")).await?;
/// db.durable().insert("user:7", "Ada").await?;
/// let commit = changes.try_next().await?.expect("the store is open");
/// assert_eq!(commit.changes()[0].key(), Some(&b"user:7"[..]));
/// # Ok::<(), pipkin::Error>(())
/// # })?;
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct ChangeStream(Followed<Changes>);

/// [`ChangeStream`] with a cursor in the store: see [`Consumer`]. From [`AsyncDb::consume`].
pub struct ConsumerStream {
    followed: Followed<Arc<Mutex<Consumer>>>,
    consumer: Arc<Mutex<Consumer>>,
}

impl fmt::Debug for ChangeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream").finish_non_exhaustive()
    }
}

impl fmt::Debug for ConsumerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerStream").finish_non_exhaustive()
    }
}

/// What was read and not handed out.
fn take_read(follow: &mut Follow, cx: &Context<'_>) -> Option<Poll<Option<Result<Commit>>>> {
    (follow.has_read_ahead() || follow.has_failed()).then(|| follow.poll_next(cx))
}

/// Where commits are heard before they are durable, waking takes the lock of the tail.
fn wake(follow: &Follow, waker: &Waker) -> bool {
    if !follow.is_early() {
        follow.wake_at_commits(waker);
    }
    !follow.is_early()
}

fn has_more(follow: &Follow) -> bool {
    follow.has_more() || follow.store().engine.log.writable().is_err()
}

impl Follows for Changes {
    type Item = Commit;

    fn take_read(&mut self, cx: &mut Context<'_>) -> Option<Poll<Option<Result<Commit>>>> {
        take_read(&mut self.0, cx)
    }

    fn read(&mut self, waker: &Waker) -> Poll<Option<Result<Commit>>> {
        self.0.poll_or_look(&Context::from_waker(waker))
    }

    fn wake(&self, waker: &Waker) -> bool {
        wake(&self.0, waker)
    }

    fn is_waiting(&self) -> bool {
        self.0.wakes_at_commits()
    }

    fn has_more(&self) -> bool {
        has_more(&self.0)
    }
}

/// While something is acknowledged, its thread asks, and not its task.
impl Follows for Arc<Mutex<Consumer>> {
    type Item = Commit;

    fn take_read(&mut self, cx: &mut Context<'_>) -> Option<Poll<Option<Result<Commit>>>> {
        take_read(&mut self.try_lock()?.follow, cx)
    }

    fn read(&mut self, waker: &Waker) -> Poll<Option<Result<Commit>>> {
        self.lock().follow.poll_or_look(&Context::from_waker(waker))
    }

    fn wake(&self, waker: &Waker) -> bool {
        self.try_lock().is_some_and(|consumer| wake(&consumer.follow, waker))
    }

    fn is_waiting(&self) -> bool {
        self.try_lock().is_some_and(|consumer| consumer.follow.wakes_at_commits())
    }

    fn has_more(&self) -> bool {
        self.try_lock().is_none_or(|consumer| has_more(&consumer.follow))
    }
}

impl Stream for ChangeStream {
    type Item = Result<Commit>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(cx)
    }
}

impl Stream for ConsumerStream {
    type Item = Result<Commit>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.followed.poll_next(cx)
    }
}

impl AsyncDb {
    /// [`Db::changes`](crate::Db::changes): what to follow, for [`Self::follow`].
    pub fn changes(&self) -> ChangesBuilder {
        self.to_sync().changes()
    }

    /// [`Db::consumer`](crate::Db::consumer): what to follow under a name, for [`Self::consume`].
    pub fn consumer(&self, name: impl Into<String>) -> ConsumerBuilder {
        self.to_sync().consumer(name)
    }

    /// [`ChangesBuilder::start`], as a stream.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn follow(&self, changes: ChangesBuilder) -> Result<ChangeStream> {
        let changes = self.in_lane(move |_| changes.start()).await?;
        Ok(ChangeStream(Followed::new(changes, &self.default_namespace())))
    }

    /// [`ChangesBuilder::with_state`], as a snapshot and a stream.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn follow_with_state(&self, changes: ChangesBuilder) -> Result<(AsyncSnapshot, ChangeStream)> {
        let (snapshot, changes) = self.on(&super::pool::LONG, move |_| changes.with_state()).await?;
        let home = self.default_namespace();
        Ok((AsyncSnapshot::of(snapshot, &home), ChangeStream(Followed::new(changes, &home))))
    }

    /// [`ConsumerBuilder::start`], as a stream.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn consume(&self, consumer: ConsumerBuilder) -> Result<ConsumerStream> {
        let consumer = self.in_lane(move |_| consumer.start()).await?;
        Ok(ConsumerStream::of(consumer, &self.default_namespace()))
    }

    /// [`ConsumerBuilder::with_state`], as a snapshot and a stream.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn consume_with_state(&self, consumer: ConsumerBuilder) -> Result<(AsyncSnapshot, ConsumerStream)> {
        let (snapshot, consumer) = self.on(&super::pool::LONG, move |_| consumer.with_state()).await?;
        let home = self.default_namespace();
        Ok((AsyncSnapshot::of(snapshot, &home), ConsumerStream::of(consumer, &home)))
    }
}

impl AsyncNamespace {
    /// [`Namespace::watch`](crate::Namespace::watch): what to follow, for [`AsyncDb::follow`].
    pub fn watch(&self, prefix: impl AsRef<[u8]>) -> ChangesBuilder {
        self.namespace.watch(prefix)
    }
}

impl ConsumerStream {
    fn of(consumer: Consumer, home: &AsyncNamespace) -> Self {
        let consumer = Arc::new(Mutex::new(consumer));
        Self { followed: Followed::new(consumer.clone(), home), consumer }
    }

    /// [`Consumer::ack`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn ack(&self, position: Position) -> Result<()> {
        let consumer = self.consumer.clone();
        self.followed.home.call(move |_| consumer.lock().ack(position)).await
    }
}
