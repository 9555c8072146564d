//! Consumers of changes: readers with a name, whose cursor the store keeps.

use super::changes::ChangesBuilder;
use super::follow::Follow;
use super::handle::Db;
use super::snapshot::Snapshot;
use crate::changes::Commit;
use crate::error::{Error, Result};
use crate::position::Position;
use crate::store::{Registered, Store};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Longest name of a consumer, in bytes.
const NAME_LEN_MAX: usize = 255;

/// How a consumer is registered; from [`Db::consumer`].
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `start`"]
pub struct ConsumerBuilder {
    name: String,
    changes: ChangesBuilder,
    retain: Option<u64>,
}

/// A reader of changes with a name: the store keeps its cursor, and what it has not [acknowledged](Self::ack) is kept, within its limit, also
/// while the store is closed. From [`ConsumerBuilder::start`].
pub struct Consumer {
    name: String,
    pub(super) follow: Follow,
}

/// What the store knows of a consumer; from [`Db::consumers`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerState {
    /// Its name.
    pub name: String,
    /// It has acknowledged everything up to here.
    pub cursor: Position,
    /// Bytes of log that may be kept for it.
    pub retain: u64,
    /// Bytes of log that were written since, those of other readers' records and of maintenance included.
    pub behind_bytes: u64,
    /// It is further behind than its limit: what it has not read may be gone.
    pub is_too_far_behind: bool,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("name", &self.name).field("position", &self.position()).finish_non_exhaustive()
    }
}

impl Db {
    /// A consumer of changes by name. It goes on where it has [acknowledged](Consumer::ack), in a later session, too; a new one begins now, unless
    /// it says otherwise. While one is registered, compaction keeps what it has not acknowledged.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// let mut mailer = db.consumer("mailer").start()?;
    /// db.insert("order:1", "3 apples")?;
    /// db.flush()?;
    /// while let Some(commit) = mailer.try_next()? {
    ///     // ... send mail ...
    ///     mailer.ack(commit.position())?;
    /// }
    /// drop(mailer);
    /// assert_eq!(db.consumer("mailer").start()?.try_next()?, None); // all is acknowledged
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn consumer(&self, name: impl Into<String>) -> ConsumerBuilder {
        ConsumerBuilder { name: name.into(), changes: self.changes(), retain: None }
    }

    /// All consumers that are registered, in no order.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// db.consumer("mailer").start()?;
    /// assert_eq!(db.consumers()?[0].name, "mailer");
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn consumers(&self) -> Result<Vec<ConsumerState>> {
        let (store, end) = (&self.store, self.store.engine.log.end());
        let state = |consumer: Registered| ConsumerState {
            behind_bytes: end.saturating_sub(consumer.cursor.lsn),
            is_too_far_behind: store.is_too_far_behind(&consumer) || consumer.cursor.lsn < store.engine.log.floor(),
            name: consumer.name,
            cursor: consumer.cursor,
            retain: consumer.retain,
        };
        Ok(store.consumers()?.into_iter().map(state).collect())
    }

    /// Forgets a consumer, and lets go of what was kept for it; returns whether there was one.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// db.consumer("mailer").start()?;
    /// assert!(db.remove_consumer("mailer")?);
    /// assert!(!db.remove_consumer("mailer")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn remove_consumer(&self, name: &str) -> Result<bool> {
        self.store.remove_consumer(name)
    }
}

impl ConsumerBuilder {
    /// Bytes of log that may be kept for it; 64 MiB without this call. Further behind, it gets
    /// [`Error::Compacted`](crate::Error::Compacted), and [`Self::with_state`] begins again.
    pub fn retain(mut self, bytes: u64) -> Self {
        self.retain = Some(bytes);
        self
    }

    /// Where a new consumer begins, instead of now; one that is registered goes on at its cursor.
    pub fn from(mut self, position: Position) -> Self {
        self.changes = self.changes.from(position);
        self
    }

    /// As [`ChangesBuilder::namespace`].
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.changes = self.changes.namespace(name);
        self
    }

    /// As [`ChangesBuilder::prefix`].
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.changes = self.changes.prefix(prefix);
        self
    }

    /// As [`ChangesBuilder::coalesced`].
    pub fn coalesced(mut self, coalesced: bool) -> Self {
        self.changes = self.changes.coalesced(coalesced);
        self
    }

    /// Registers the consumer, durably, if it is not registered, and begins at its cursor.
    ///
    /// # Errors
    ///
    /// [`Error::Compacted`](crate::Error::Compacted) when what it has not acknowledged is no longer kept. Those of [`ChangesBuilder::start`]
    /// and of a write.
    pub fn start(self) -> Result<Consumer> {
        let store = self.changes.db.store.clone();
        let known = self.known(&store)?;
        let retain = self.retain_of(known.as_ref());
        // What its handle holds in this process is no more than what its name holds.
        let begin = self.changes.clone().retain(retain);
        let begin = if let Some(known) = &known { begin.from(known.cursor) } else { begin };
        let follow = Follow::new(&begin.db, &begin.wanted)?;
        let wanted = Registered { name: self.name.clone(), cursor: follow.position(), retain };
        if known.as_ref() != Some(&wanted) {
            store.register(wanted)?;
        }
        Ok(Consumer { name: self.name, follow })
    }

    /// Registers the consumer at the present state, which it returns as a snapshot, or begins again there: its cursor moves to the snapshot.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// db.insert("color", "green")?;
    /// let (state, mut mirror) = db.consumer("mirror").with_state()?;
    /// assert_eq!(state.len()?, 1); // copy it, then follow
    /// assert_eq!(mirror.try_next()?, None);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`ChangesBuilder::with_state`] and of a write.
    pub fn with_state(self) -> Result<(Snapshot, Consumer)> {
        let store = self.changes.db.store.clone();
        let known = self.known(&store)?;
        let retain = self.retain_of(known.as_ref());
        let wanted = self.changes.clone().retain(retain).wanted;
        let (snapshot, follow) = Follow::with_state(&self.changes.db, &wanted)?;
        store.register(Registered { name: self.name.clone(), cursor: follow.position(), retain })?;
        Ok((snapshot, Consumer { name: self.name, follow }))
    }

    fn retain_of(&self, known: Option<&Registered>) -> u64 {
        self.retain.or(known.map(|known| known.retain)).unwrap_or(self.changes.wanted.retain)
    }

    fn known(&self, store: &Store) -> Result<Option<Registered>> {
        if self.name.is_empty() || self.name.len() > NAME_LEN_MAX {
            return Err(Error::InvalidArgument("a consumer needs a name of 1 to 255 bytes"));
        }
        Ok(store.consumers()?.into_iter().find(|known| known.name == self.name))
    }
}

impl Consumer {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As [`Changes::try_next`](crate::Changes::try_next).
    pub fn try_next(&mut self) -> Result<Option<Commit>> {
        self.follow.try_next()
    }

    /// As [`Changes::position`](crate::Changes::position).
    pub fn position(&self) -> Position {
        self.follow.position()
    }

    /// As [`Changes::has_read_ahead`](crate::Changes::has_read_ahead).
    pub fn has_read_ahead(&self) -> bool {
        self.follow.has_read_ahead()
    }

    /// As [`Changes::memory_bytes`](crate::Changes::memory_bytes).
    pub fn memory_bytes(&self) -> usize {
        self.follow.memory_bytes()
    }

    /// Moves the cursor to the position of a commit that has been dealt with, and everything before it: it does not come again. A cursor never
    /// moves back. This is a write like any other: durable with the next flush. If a power cut takes it, the commits come again. On a full medium it
    /// may use the space that is kept for removals, because it makes room.
    ///
    /// Any other position than that of the last commit is looked for in the log, which reads up to a segment.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownPosition`](crate::Error::UnknownPosition) when the store does not contain the position; those of a write.
    pub fn ack(&self, position: Position) -> Result<()> {
        let store = self.follow.store();
        if position != self.follow.handed_out() {
            store.is_end_of_a_commit(position)?;
        }
        store.ack(&self.name, position)
    }
}
