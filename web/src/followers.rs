//! Readers of changes of tabs, by the numbers that they have given them. A request says after which position its page begins, so that any leader can
//! answer it, and one that comes twice gets the same commits: what is kept here holds what has not been read yet, and saves looking for the place.

use alloc::vec::Vec;
use core::cell::RefCell;

use pipkin::{Change, Changes, Commit, Db, Position};

use crate::failure::{Code, Failure};
use crate::room::Room;
use crate::wire::{Asked, ChangesPage, put_bytes};

/// So many are kept. One more lets the one go that was asked longest ago; it begins again where its next request says.
const KEPT_MAX: usize = 256;
/// A page ends with the commit that brings it to this many bytes, or a little later.
const PAGE_BYTES: usize = 256 * 1024;
/// A longer commit is not handed out: it would be in memory several times.
const COMMIT_BYTES_MAX: usize = 128 * 1024 * 1024;
const TOO_LONG: &str = "a commit of more than 128 MiB, which cannot be followed: ask for the position of the store, read what is there, and go on from that";

#[derive(Debug)]
struct Follower {
    number: f64,
    changes: Changes,
}

/// The readers of a store, the one that was asked last at the end.
#[derive(Debug, Default)]
pub(crate) struct Followers(RefCell<Vec<Follower>>);

impl Followers {
    /// The next page of a reader. One that has failed is not kept: what could not be read comes again.
    pub(crate) fn page(&self, db: &Db, room: &Room, asked: &Asked<'_>) -> Result<ChangesPage, Failure> {
        let kept = self.take(asked.number).filter(|kept| asked.after == Some(kept.position()));
        let is_anew = kept.is_none();
        let mut changes = match kept {
            Some(changes) => changes,
            None => begin(db, room, asked)?,
        };
        let page = read(&mut changes, is_anew)?;
        self.keep(asked.number, changes);
        Ok(page)
    }

    /// Keeps all changes that are in the file, under a number, until that is given up.
    pub(crate) fn keep_all(&self, db: &Db, number: f64) -> pipkin::Result<()> {
        let changes = db.changes().from(Position::START).retain(u64::MAX).start()?;
        self.keep(number, changes);
        Ok(())
    }

    fn keep(&self, number: f64, changes: Changes) {
        let all = &mut *self.0.borrow_mut();
        if all.len() >= KEPT_MAX {
            all.remove(0);
        }
        all.push(Follower { number, changes });
    }

    /// Takes a reader out; to give it up, drop it.
    pub(crate) fn take(&self, number: f64) -> Option<Changes> {
        let all = &mut *self.0.borrow_mut();
        let place = all.iter().position(|follower| follower.number == number)?;
        Some(all.remove(place).changes)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

/// The first one of a session may write.
fn begin(db: &Db, room: &Room, asked: &Asked<'_>) -> Result<Changes, Failure> {
    let mut builder = db.changes().namespace("").prefix(asked.prefix).appended(asked.appended);
    if let Some(after) = asked.after {
        builder = builder.from(after);
    }
    let mut begun = None;
    let started = room.with(db, &mut || builder.clone().start().map(|changes| begun = Some(changes)));
    started.map_err(|error| Failure::from(&error))?;
    begun.ok_or_else(|| Failure::new(Code::Failed, "a reader of changes that did not begin"))
}

/// Hands out everything that was read, so that between two pages nothing of it is in memory.
fn read(changes: &mut Changes, is_anew: bool) -> Result<ChangesPage, Failure> {
    let mut page = ChangesPage { is_at_end: false, is_anew, position: changes.position(), count: 0, commits: Vec::new() };
    while page.commits.len() < PAGE_BYTES || changes.has_read_ahead() {
        let next = changes.try_next().map_err(|error| Failure::from(&error));
        match next.and_then(|commit| commit.map(|commit| put(&mut page.commits, &commit).map(|()| commit.position())).transpose())
        {
            Ok(Some(position)) => {
                page.count += 1;
                page.position = position;
            }
            Ok(None) => {
                page.is_at_end = true;
                page.position = changes.position();
                break;
            }
            Err(failure) if page.count == 0 => return Err(failure),
            // It comes again: the next page begins in front of it.
            Err(_) => break,
        }
    }
    Ok(page)
}

fn put(out: &mut Vec<u8>, commit: &Commit) -> Result<(), Failure> {
    let bytes_of = |change: &Change| match change {
        Change::Put { key, value, .. } => key.len() + value.len(),
        other => other.key().map_or(0, <[u8]>::len),
    };
    if commit.changes().iter().map(bytes_of).sum::<usize>() > COMMIT_BYTES_MAX {
        return Err(Failure::new(Code::Usage, TOO_LONG));
    }
    out.extend_from_slice(&commit.position().to_bytes());
    out.push(u8::from(commit.comes_again()));
    let at = out.len();
    put_bytes(out, &[]);
    for change in commit.changes() {
        match change {
            Change::Put { key, value, expires_at, .. } => {
                out.push(1 + u8::from(expires_at.is_some()));
                put_bytes(out, key);
                put_bytes(out, value);
                // A JavaScript number represents all times until the year 287,396 exactly.
                expires_at.iter().for_each(|at| out.extend_from_slice(&(*at as f64).to_le_bytes()));
            }
            Change::Remove { key, .. } => {
                out.push(0);
                put_bytes(out, key);
            }
            _ => out.push(3),
        }
    }
    let len = (out.len() - at - size_of::<u32>()) as u32;
    if let Some(before) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *before = len.to_le_bytes();
    }
    Ok(())
}
