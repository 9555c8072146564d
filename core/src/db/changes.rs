//! Following what changes: commits from a position on, in log order.

use super::follow::{Filter, Follow, Wanted};
use super::handle::{Db, Namespace};
use super::snapshot::Snapshot;
use crate::changes::{Commit, merged};
use crate::error::Result;
use crate::position::Position;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Bytes of log that a reader of changes may keep from being reused, unless it says otherwise.
const RETAIN_DEFAULT: u64 = 64 * 1024 * 1024;

/// How to follow what changes; from [`Db::changes`] and [`Namespace::watch`](crate::Namespace::watch).
#[derive(Clone)]
#[must_use = "it does nothing until `start`"]
pub struct ChangesBuilder {
    pub(super) db: Db,
    pub(super) wanted: Wanted,
}

/// The commits after a position, in log order, each whole; from [`ChangesBuilder::start`].
///
/// It keeps the store open, and what compaction frees stays until it is read, up to [its limit](ChangesBuilder::retain). It can be sent to another
/// thread.
pub struct Changes(pub(super) Follow);

impl fmt::Debug for ChangesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangesBuilder").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("position", &self.position()).finish_non_exhaustive()
    }
}

impl Db {
    /// Follows what changes: every commit after a [`Position`], or from now on, in log order, as soon as it is durable. What compaction copies is no
    /// change.
    ///
    /// That a record has expired is in no commit, either: what it was [written](crate::Change::Put) with says when it does.
    ///
    /// How far back the log reaches is up to compaction, unless a [consumer](Db::consumer) holds it.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// let before = db.insert_with_position("color", "green")?;
    /// db.insert("color", "red")?;
    /// db.flush()?;
    /// let mut changes = db.changes().from(before).start()?;
    /// let commit = changes.try_next()?.expect("the second insert");
    /// assert_eq!(commit.changes()[0].key(), Some(&b"color"[..]));
    /// assert_eq!(changes.try_next()?, None);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn changes(&self) -> ChangesBuilder {
        let wanted = Wanted { from: None, filter: Filter::default(), retain: RETAIN_DEFAULT, appended: false, merge: None };
        ChangesBuilder { db: self.clone(), wanted }
    }
}

impl Namespace {
    /// [`Db::changes`] of the keys in this namespace that begin with a prefix.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// let mut changes = users.watch("user:").start()?;
    /// users.insert_many([("user:7", "Ada"), ("group:1", "admins")])?;
    /// db.flush()?;
    /// assert_eq!(changes.try_next()?.expect("one commit").changes().len(), 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn watch(&self, prefix: impl AsRef<[u8]>) -> ChangesBuilder {
        self.db().changes().namespace(self.name()).prefix(prefix)
    }
}

impl ChangesBuilder {
    /// Begins after this position instead of now: that of a [commit](Commit::position), or any other one that this store has handed out.
    /// [`Position::START`] is before everything.
    pub fn from(mut self, position: Position) -> Self {
        self.wanted.from = Some(position);
        self
    }

    /// Only what changes in this namespace; the empty name is that of the default one. Without this call: in all.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.wanted.filter.namespace = Some(name.into());
        self
    }

    /// Only keys that begin with this prefix. That a namespace is cleared or dropped concerns each of them.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.wanted.filter.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Bytes of log that may be kept for this reader when it falls behind; 64 MiB without this call. Beyond it, compaction may free what it has not
    /// read, and it gets [`Error::Compacted`](crate::Error::Compacted).
    pub fn retain(mut self, bytes: u64) -> Self {
        self.wanted.retain = bytes;
        self
    }

    /// Hears commits before they are durable, too: as soon as they are written. A power cut may take them after they were handed out; then
    /// [`Self::from`] answers [`Error::UnknownPosition`](crate::Error::UnknownPosition) for their positions.
    pub fn appended(mut self, appended: bool) -> Self {
        self.wanted.appended = appended;
        self
    }

    /// Hands out commits that wait as one: of each key the last change only.
    pub fn coalesced(mut self, coalesced: bool) -> Self {
        self.wanted.merge = coalesced.then_some(merged);
        self
    }

    /// Begins to follow.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownPosition`](crate::Error::UnknownPosition) when the store does not contain the position: its commit was lost, or made in another
    /// copy. [`Error::Compacted`](crate::Error::Compacted) when it cannot tell, or not all that follows is kept. In the first such call of a
    /// session, those of a write.
    ///
    /// ```
    /// use pipkin::{Db, Error, Position};
    ///
    /// let (db, other) = (Db::open_in_memory()?, Db::open_in_memory()?);
    /// let elsewhere = other.insert_with_position("color", "green")?;
    /// assert!(matches!(db.changes().from(elsewhere).start(), Err(Error::UnknownPosition)));
    /// assert!(db.changes().from(Position::START).start().is_ok());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn start(self) -> Result<Changes> {
        Follow::new(&self.db, &self.wanted).map(Changes)
    }

    /// The present state, as a snapshot, and everything after it: what [`Self::from`] says is not used. Drop the snapshot once it is read.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// db.insert("color", "green")?;
    /// let (state, mut changes) = db.changes().with_state()?;
    /// db.insert("color", "red")?;
    /// db.flush()?;
    /// assert_eq!(state.get("color")?.as_deref(), Some(&b"green"[..]));
    /// assert!(changes.try_next()?.is_some());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::position`] and [`Db::flush`]: the state that it returns is durable, unless commits are asked for before they are. A store that
    /// follows is [refreshed](Db::refresh) first, and again where the writer uses the end of what is shown in between;
    /// [`Error::Overtaken`](crate::Error::Overtaken) is a writer that was faster eight times.
    pub fn with_state(self) -> Result<(Snapshot, Changes)> {
        let (snapshot, follow) = Follow::with_state(&self.db, &self.wanted)?;
        Ok((snapshot, Changes(follow)))
    }
}

impl Changes {
    /// The next commit that changes something that was asked for; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// [`Error::Compacted`](crate::Error::Compacted) when this reader has fallen so far behind that what follows is no longer kept;
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the next commit is damaged. Both repeat: nothing is skipped.
    pub fn try_next(&mut self) -> Result<Option<Commit>> {
        self.0.try_next()
    }

    /// Everything before this position has been handed out, or was not asked for.
    pub fn position(&self) -> Position {
        self.0.position()
    }

    /// True when [`Self::try_next`] has its answer without reading the log.
    pub fn has_read_ahead(&self) -> bool {
        self.0.has_read_ahead()
    }

    /// The memory that it takes, in bytes: commits that it has read and not handed out, some 256 KiB of log and the rest of a commit at most; the
    /// names of namespaces; and what was asked for.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    /// All commits that wait.
    pub fn drain(&mut self) -> Result<Vec<Commit>> {
        let mut commits = Vec::new();
        while let Some(commit) = self.try_next()? {
            commits.push(commit);
        }
        Ok(commits)
    }
}
