//! Commits in pages, for whoever follows what changes.

use crate::answer::BYTES_MAX;
use alloc::vec::Vec;
use pipkin::{Change, Changes, ChangesBuilder, Commit, Consumer, ConsumerBuilder, Db, Error, Position, Result};

/// The most consumers of a store that guests may register. `wit/store.wit` says so.
const CONSUMERS_MAX: usize = 256;

/// What a guest is told that wants one more.
pub const TOO_MANY_CONSUMERS: &str = "the store has 256 consumers, which is the most; remove one that is no longer needed";

/// Bytes that a change takes beside its key and its value, in a page.
const CHANGE_BYTES: usize = 64;

/// A reader of changes of the engine.
pub trait Follow {
    /// The next commit, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    fn try_next(&mut self) -> Result<Option<Commit>>;

    /// Everything before has been handed out.
    fn position(&self) -> Position;

    /// Whether the next commit is in memory.
    fn has_read_ahead(&self) -> bool;

    /// The memory that it takes, in bytes.
    fn memory_bytes(&self) -> usize;
}

macro_rules! follow {
    ($($reader:ty),*) => {
        $(impl Follow for $reader {
            fn try_next(&mut self) -> Result<Option<Commit>> {
                self.try_next()
            }

            fn position(&self) -> Position {
                self.position()
            }

            fn has_read_ahead(&self) -> bool {
                self.has_read_ahead()
            }

            fn memory_bytes(&self) -> usize {
                self.memory_bytes()
            }
        })*
    };
}
follow!(Changes, Consumer);

/// Commits in their order, and where they end.
#[derive(Debug)]
pub struct Page {
    /// The commits.
    pub commits: Vec<Commit>,
    /// After the last of them.
    pub position: Position,
    /// There were no more.
    pub is_at_end: bool,
}

/// The next page of a reader. `begin` is called before each call of the engine.
///
/// # Errors
///
/// Those of the engine, and of `begin`. What was read in front of one is a page, and the error comes with the next call.
pub fn page<E: From<Error>>(
    reader: &mut dyn Follow,
    max_commits: u32,
    max_bytes: u32,
    mut begin: impl FnMut(&dyn Follow) -> Result<(), E>,
) -> Result<Page, E> {
    let (commits_max, bytes_max) = (max_commits.max(1) as usize, (max_bytes.max(1) as usize).min(BYTES_MAX));
    let (mut commits, mut bytes, mut is_at_end) = (Vec::new(), 0_usize, false);
    while commits.len() < commits_max && bytes < bytes_max {
        match begin(reader).and_then(|()| Ok(reader.try_next()?)) {
            Ok(Some(commit)) => {
                bytes = bytes.saturating_add(commit.changes().iter().map(bytes_of).sum());
                commits.push(commit);
            }
            Ok(None) => {
                is_at_end = true;
                break;
            }
            Err(error) if commits.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(Page { commits, position: reader.position(), is_at_end })
}

fn bytes_of(change: &Change) -> usize {
    let value = if let Change::Put { value, .. } = change { value.len() } else { 0 };
    CHANGE_BYTES + change.namespace().len() + change.key().map_or(0, <[u8]>::len) + value
}

/// What a guest asks for.
#[derive(Debug)]
pub struct Asked {
    /// After which position; `None`: from now on.
    pub after: Option<Position>,
    /// In which namespace; `None`: in all.
    pub namespace: Option<alloc::string::String>,
    /// The beginning of the keys.
    pub prefix: Vec<u8>,
    /// Bytes of log to keep; `None`: as the engine does.
    pub retain: Option<u64>,
    /// Also what is not durable.
    pub appended: bool,
    /// All that waits as one commit.
    pub coalesced: bool,
}

impl Asked {
    /// The bytes that a reader keeps of it.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.prefix.len() + self.namespace.as_ref().map_or(0, alloc::string::String::len)
    }

    /// A reader without a name.
    pub fn of(self, db: &Db) -> ChangesBuilder {
        let mut builder = db.changes().prefix(self.prefix).appended(self.appended).coalesced(self.coalesced);
        if let Some(position) = self.after {
            builder = builder.from(position);
        }
        if let Some(name) = self.namespace {
            builder = builder.namespace(name);
        }
        match self.retain {
            Some(bytes) => builder.retain(bytes),
            None => builder,
        }
    }

    /// A reader with a name; `None` if the store has too many of them.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] where commits are asked for before they are durable; those of reading the names.
    pub fn consumer(self, db: &Db, name: &str) -> Result<Option<ConsumerBuilder>> {
        if self.appended {
            return Err(Error::InvalidArgument(
                "a consumer hears of commits once they are durable; follow without a name, or without `appended`",
            ));
        }
        let consumers = db.consumers()?;
        if consumers.len() >= CONSUMERS_MAX && consumers.iter().all(|known| known.name != name) {
            return Ok(None);
        }
        let mut builder = db.consumer(name).prefix(self.prefix).coalesced(self.coalesced);
        if let Some(position) = self.after {
            builder = builder.from(position);
        }
        if let Some(name) = self.namespace {
            builder = builder.namespace(name);
        }
        Ok(Some(match self.retain {
            Some(bytes) => builder.retain(bytes),
            None => builder,
        }))
    }
}
