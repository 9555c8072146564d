//! A reader of changes on an open store: it holds what it has not read, resolves names, and filters.

use super::handle::{Db, Open};
use super::refresh::READS_MAX;
use super::snapshot::Snapshot;
use crate::changes::{Change, Commit, Item, Reader};
use crate::error::{Error, Result};
use crate::frame::{Kind, NAMESPACE_OF_NAMES};
use crate::index::SHARDS;
use crate::log::FollowerId;
use crate::names::SYSTEM;
use crate::nested::Held;
use crate::position::Position;
use crate::sorted::Map;
use crate::store::Store;
use crate::ttl::has_kept_number;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bytes of log that are read at a time.
const READ_TOGETHER: u64 = 256 * 1024;

/// Which changes are asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) namespace: Option<String>,
    pub(super) prefix: Vec<u8>,
}

/// What a reader of changes asks for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) from: Option<Position>,
    pub(super) filter: Filter,
    pub(super) retain: u64,
    pub(super) appended: bool,
    pub(super) merge: Option<Merge>,
}

/// Makes one of the commits that wait. A pointer, so that a program that never asks for that goes without its code.
type Merge = fn(Vec<Commit>) -> Option<Commit>;

/// Names by number. A number never belongs to another name.
#[derive(Debug, Default)]
struct Known {
    names: Map<u64, Arc<str>>,
    /// What they take in memory.
    bytes: usize,
}

/// A reader of changes.
pub(super) struct Follow {
    reader: Reader,
    filter: Filter,
    known: Known,
    appended: bool,
    merge: Option<Merge>,
    waiting: VecDeque<Commit>,
    /// What the changes of `waiting` take in memory.
    waiting_bytes: usize,
    /// Position of the last commit that was handed out.
    handed_out: Position,
    /// Everything up to this log position has been looked at.
    seen: u64,
    /// An iteration has ended with an error.
    #[cfg_attr(not(feature = "std"), expect(dead_code, reason = "only who waits asks"))]
    has_failed: bool,
    holds: Holds,
}

/// Keeps what a reader has not read, until it is dropped.
struct Holds {
    id: FollowerId,
    store: Arc<Open>,
}

impl Drop for Holds {
    fn drop(&mut self) {
        self.store.engine.log.unfollow(self.id);
    }
}

impl Holds {
    fn new(store: &Arc<Open>, lsn: u64, limit: u64) -> Self {
        Self { id: store.engine.log.follow(lsn, limit), store: store.clone() }
    }
}

impl Follow {
    pub(super) fn new(db: &Db, wanted: &Wanted) -> Result<Self> {
        let store = &db.store;
        let position = match wanted.from {
            Some(position) => match store.make_unique() {
                // On a full medium what this session writes has no positions of its own, and comes again; a consumer that reads makes room.
                Ok(()) | Err(Error::NoSpace) => position,
                Err(error) => return Err(error),
            },
            None => {
                store.make_unique()?;
                store.position()?
            }
        };
        // In this order: what the reader finds there is kept for it.
        let holds = Holds::new(store, position.lsn, wanted.retain);
        Self::at(wanted, position, holds)
    }

    pub(super) fn with_state(db: &Db, wanted: &Wanted) -> Result<(Snapshot, Self)> {
        if !db.store.engine.log.follows() {
            return Self::with_present_state(db, wanted);
        }
        let mut last = Error::Overtaken;
        for _ in 0..READS_MAX {
            // What it has shown so far may have been written over: a state of that could not be read.
            db.store.refresh()?;
            match Self::with_present_state(db, wanted) {
                // The writer has used the end of what this follower shows again.
                Err(Error::Compacted { .. }) => last = Error::Overtaken,
                Err(error) if error.may_be_reuse() => last = error,
                result => return result,
            }
        }
        Err(last)
    }

    fn with_present_state(db: &Db, wanted: &Wanted) -> Result<(Snapshot, Self)> {
        let store = &db.store;
        store.make_unique()?;
        let holds = Holds::new(store, store.engine.log.end(), wanted.retain);
        let snapshot = db.snapshot();
        let position = snapshot.end();
        if !wanted.appended && !store.engine.log.read_only {
            store.engine.log.sync_to(position.lsn)?;
        }
        store.engine.log.followed(holds.id, position.lsn);
        Ok((snapshot, Self::at(wanted, position, holds)?))
    }

    fn at(wanted: &Wanted, position: Position, holds: Holds) -> Result<Self> {
        let reader = Reader::new(&holds.store.engine, position)?;
        Ok(Self {
            reader,
            filter: wanted.filter.clone(),
            known: Known::default(),
            appended: wanted.appended,
            merge: wanted.merge,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            handed_out: position,
            seen: 0,
            has_failed: false,
            holds,
        })
    }

    pub(super) fn store(&self) -> &Arc<Open> {
        &self.holds.store
    }

    pub(super) fn position(&self) -> Position {
        if !self.waiting.is_empty() {
            return self.handed_out;
        }
        let Position { lsn, salt } = self.reader.place();
        let (lsn, salt) = self.holds.store.engine.log.unique_before(lsn, salt);
        Position::new(lsn, salt)
    }

    /// Position of the commit that was handed out last.
    pub(super) const fn handed_out(&self) -> Position {
        self.handed_out
    }

    pub(super) fn try_next(&mut self) -> Result<Option<Commit>> {
        if self.waiting.is_empty() {
            self.read()?;
        }
        let commit = match self.merge {
            Some(merge) => merge(core::mem::take(&mut self.waiting).into()),
            None => self.waiting.pop_front(),
        };
        if let Some(commit) = &commit {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(commit.memory_bytes());
            self.handed_out = commit.position();
        }
        if self.waiting.is_empty() {
            // One that has read everything keeps no memory for it.
            (self.waiting, self.waiting_bytes) = (VecDeque::new(), 0);
        }
        Ok(commit)
    }

    pub(super) fn has_read_ahead(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let asked_for = self.filter.prefix.len() + self.filter.namespace.as_ref().map_or(0, String::len);
        asked_for + self.known.bytes + self.waiting_bytes + self.waiting.capacity() * size_of::<Commit>()
    }

    fn read(&mut self) -> Result<()> {
        let is_follower = self.holds.store.engine.log.follows();
        if is_follower {
            self.holds.store.refresh()?;
        }
        match self.read_on() {
            // The writer has used the space again: what is kept of the log is known after a refresh.
            Err(error) if is_follower && error.may_be_reuse() && self.waiting.is_empty() => {
                self.holds.store.refresh()?;
                self.read_on()
            }
            result => result,
        }
    }

    fn read_on(&mut self) -> Result<()> {
        let Self { reader, filter, known, waiting, waiting_bytes, seen, holds, .. } = self;
        let (store, engine) = (&holds.store, &holds.store.engine);
        engine.refuse_inside(&[Held::Shard])?;
        // Everything before has been handed out. What is read now stays until it has been, too: a reader may begin again there.
        engine.log.followed(holds.id, reader.place().lsn);
        let limit = if self.appended { engine.log.end() } else { engine.log.sync_state.synced() };
        if limit <= reader.place().lsn {
            *seen = limit;
            return Ok(());
        }
        // Every commit before the limit holds its shards until it is published: who hears of it can read it.
        (0..SHARDS).for_each(|shard| drop(engine.index.lock_shard(shard)));
        let mut commits = Vec::new();
        loop {
            let before = reader.place();
            let mut select = |item: Item<'_>| filter.select(known, store, item);
            let read = reader.read(engine, limit, READ_TOGETHER, &mut select, &mut commits);
            *waiting_bytes += commits.iter().map(Commit::memory_bytes).sum::<usize>();
            waiting.extend(commits.drain(..));
            if !waiting.is_empty() {
                // What was read comes before the error, which comes again.
                return Ok(());
            }
            read?;
            if reader.place() == before {
                *seen = limit;
                return Ok(());
            }
        }
    }
}

#[cfg(feature = "std")]
impl Follow {
    /// True when something has been written, or has become durable, that has not been looked at.
    pub(super) fn has_more(&self) -> bool {
        let log = &self.holds.store.engine.log;
        (if self.appended { log.end() } else { log.sync_state.synced() }) > self.seen
    }

    /// Has the task of this reader woken at the next commit.
    pub(super) fn wake_at_commits(&self, waker: &core::task::Waker) {
        self.holds.store.engine.log.wake_at_commits(self.holds.id, self.appended, waker);
    }

    /// True when the next commit wakes the task of this reader.
    #[cfg(feature = "async")]
    pub(super) fn wakes_at_commits(&self) -> bool {
        self.holds.store.engine.log.wakes_at_commits(self.holds.id)
    }

    /// Hears commits before they are durable.
    pub(super) const fn is_early(&self) -> bool {
        self.appended
    }

    pub(super) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    pub(super) const fn fail_if(&mut self, failed: bool) {
        self.has_failed |= failed;
    }
}

impl Filter {
    fn select(&self, known: &mut Known, store: &Store, item: Item<'_>) -> Result<Option<Change>> {
        let Item { kind, namespace: number, key, value, expires_at } = item;
        let is_name = number == NAMESPACE_OF_NAMES;
        let namespace: Arc<str> = if is_name {
            core::str::from_utf8(&key).map_err(|_| Error::Bug("a namespace record without a name"))?.into()
        } else {
            known.name_of(store, number)?
        };
        let is_asked_for = self.namespace.as_deref().is_none_or(|asked| asked == &*namespace);
        // Its records go on: another default of how long they live, for one.
        let is_only_changed = is_name && kind == Kind::Put && has_kept_number(value);
        if is_only_changed || !is_asked_for || namespace.starts_with(SYSTEM) || !is_name && !key.starts_with(&self.prefix) {
            return Ok(None);
        }
        Ok(Some(match (kind, is_name) {
            (Kind::Put, false) => Change::Put { namespace, key, value: value.to_vec(), expires_at },
            (_, false) => Change::Remove { namespace, key },
            (Kind::Put, true) => Change::Clear { namespace },
            (_, true) => Change::Drop { namespace },
        }))
    }
}

impl Known {
    /// # Errors
    ///
    /// [`Error::Compacted`] for a number of a namespace that was cleared or dropped before anybody followed the store: nobody knows its name.
    fn name_of(&mut self, store: &Store, number: u32) -> Result<Arc<str>> {
        if let Some(name) = self.names.get(u64::from(number)) {
            return Ok(name.clone());
        }
        let name: Option<Arc<str>> = store.names.read().name_of(number).map(Arc::from);
        let name = match name {
            Some(name) => Some(name),
            None => store.recorded_name(number)?,
        };
        let Some(name) = name else {
            // Reading from the oldest position would come here again.
            let end = store.engine.log.at_the_end(|end| Position::new(end.lsn, end.salt));
            return Err(Error::Compacted { oldest: end });
        };
        self.bytes += name.len() + size_of::<(u32, Arc<str>)>();
        self.names.insert(number.into(), name.clone());
        Ok(name)
    }
}

impl Store {
    /// Sees to it that positions of what this session writes are those of no copy of the file.
    fn make_unique(&self) -> Result<()> {
        let log = &self.engine.log;
        if log.read_only { Ok(()) } else { log.make_positions_unique() }
    }
}
