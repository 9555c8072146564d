//! A reader of changes in another process: a follower of the file, for which the writer keeps nothing.

use super::answers::short;
use super::model::{Commits, is_same};
use crate::rng::Rng;
use crate::suite::{Checked, words};
use pipkin::{Builder, Changes, Db, Error, Storage};

/// A follower, and how many commits are before what it gets next.
pub(super) struct Beside {
    db: Db,
    changes: Changes,
    next: usize,
    early: bool,
    rebuilds: u64,
}

impl Beside {
    /// One that begins now, behind all commits.
    pub(super) fn begin(builder: Builder, file: impl Storage + 'static, commits: &Commits, rng: &mut Rng) -> Checked<Self> {
        let db = builder.follow(true).open_storage(Box::new(file)).map_err(words)?;
        let early = rng.below(3) > 0;
        let changes = db.changes().appended(early).start().map_err(words)?;
        let rebuilds = db.stats().map_err(words)?.rebuilds;
        Ok(Self { db, changes, next: commits.0.len(), early, rebuilds })
    }

    /// Hears what has come. False if the next commits were compacted: only one that has missed some may be told so.
    pub(super) fn look(&mut self, commits: &Commits) -> Checked<bool> {
        loop {
            match self.changes.try_next() {
                Ok(Some(commit)) => {
                    let expected = commits.0.get(self.next).ok_or("another process heard of a commit that nobody has made")?;
                    if !is_same(commit.changes(), expected) {
                        let (made, told) = (short(expected), short(commit.changes()));
                        return Err(format!("another process hears of commit {} as {told:?}, and not {made:?}", self.next));
                    }
                    self.next += 1;
                }
                Ok(None) if self.early && self.next != commits.0.len() => {
                    return Err(format!("another process heard of {} commits of {}", self.next, commits.0.len()));
                }
                Ok(None) => {
                    self.rebuilds = self.db.stats().map_err(words)?.rebuilds;
                    return Ok(true);
                }
                // Where the log was reused before it was looked at, nobody knows what was in it.
                Err(Error::Compacted { .. })
                    if self.next < commits.0.len() || self.db.stats().map_err(words)?.rebuilds > self.rebuilds =>
                {
                    return Ok(false);
                }
                Err(error) => return Err(format!("another process that has heard of all commits: {}", words(error))),
            }
        }
    }
}
