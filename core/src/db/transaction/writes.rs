//! What a transaction has written: kept in memory until it commits, and taken back to a savepoint on request.

#[cfg(feature = "events")]
use crate::db::events::OwnAppend;
use crate::error::{Error, Result};
use crate::few::Few;
use crate::moments::Moment;
use crate::names::Name;
use crate::ttl::Ttl;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The writes of a transaction in one namespace.
pub(super) type Own = BTreeMap<Vec<u8>, Write>;

/// What is to be written to a key.
#[derive(Debug)]
pub(super) struct Write {
    /// `None` removes it.
    pub(super) value: Option<Vec<u8>>,
    /// Counted from the commit on.
    pub(super) ttl: Ttl,
}

impl Write {
    /// The memory that it takes with its key, in bytes: with both in a tree, and room for each to be allocated.
    fn memory_bytes(&self, key: &[u8]) -> usize {
        key.len() + self.value.as_ref().map_or(0, Vec::len) + 2 * size_of::<(Vec<u8>, Self)>()
    }
}

/// True if a transaction takes both handles for the same namespace. One that was dropped and made again has another handle, and the same
/// name.
pub(super) fn is_same(one: &Arc<Name>, other: &Arc<Name>) -> bool {
    Arc::ptr_eq(one, other) || one.name == other.name
}

/// A place in a transaction to go back to; from [`Transaction::savepoint`](super::Transaction::savepoint).
#[derive(Clone, Debug)]
pub struct Savepoint {
    /// That of the transaction, which no other one has.
    moment: Arc<Moment>,
    number: u64,
}

/// What one write has replaced.
#[derive(Debug)]
struct Undo {
    space: usize,
    key: Vec<u8>,
    /// `None`: the transaction had not written the key.
    before: Option<Write>,
}

impl Undo {
    fn memory_bytes(&self) -> usize {
        self.before.as_ref().map_or(0, |write| write.memory_bytes(&self.key)) + self.key.len() + size_of::<Self>()
    }
}

#[derive(Debug, Default)]
pub(super) struct Writes {
    spaces: Few<(Arc<Name>, Own), 1>,
    /// Kept from the first savepoint on.
    undo: Vec<Undo>,
    /// Each with the lengths of `undo` and of the events at its time.
    savepoints: Vec<(u64, usize, usize)>,
    next_savepoint: u64,
    /// Events that are appended in the same commit.
    #[cfg(feature = "events")]
    appends: Vec<OwnAppend<'static>>,
    /// Memory of the writes and of what undoes them.
    bytes: usize,
}

impl Writes {
    pub(super) fn of(&self, name: &Arc<Name>) -> Option<&Own> {
        self.spaces.iter().find(|(other, _)| is_same(other, name)).map(|(_, own)| own)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&Arc<Name>, &Vec<u8>, &Write)> {
        self.spaces.iter().flat_map(|(name, own)| own.iter().map(move |(key, write)| (name, key, write)))
    }

    pub(super) fn len(&self) -> usize {
        self.spaces.iter().map(|(_, own)| own.len()).sum()
    }

    pub(super) fn write(&mut self, name: &Arc<Name>, key: &[u8], write: Write) {
        let known = self.spaces.iter().position(|(other, _)| is_same(other, name));
        let space = known.unwrap_or_else(|| {
            self.spaces.push((name.clone(), Own::new()));
            self.spaces.len() - 1
        });
        let Some((_, own)) = self.spaces.get_mut(space) else { return };
        self.bytes += write.memory_bytes(key);
        let before = own.insert(key.to_vec(), write);
        self.bytes -= before.as_ref().map_or(0, |write| write.memory_bytes(key));
        if !self.savepoints.is_empty() {
            let undo = Undo { space, key: key.to_vec(), before };
            self.bytes += undo.memory_bytes();
            self.undo.push(undo);
        }
    }

    /// The memory that they take, in bytes.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.bytes + self.savepoints.len() * size_of::<(u64, usize, usize)>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0 && self.count_appends() == 0
    }

    #[cfg(feature = "events")]
    pub(super) fn push_append(&mut self, append: OwnAppend<'static>) {
        self.bytes += append.memory_bytes();
        self.appends.push(append);
    }

    #[cfg(feature = "events")]
    pub(super) fn appends(&self) -> &[OwnAppend<'static>] {
        &self.appends
    }

    #[cfg(feature = "events")]
    const fn count_appends(&self) -> usize {
        self.appends.len()
    }

    #[cfg(feature = "events")]
    fn drop_appends(&mut self, from: usize) {
        let dropped = self.appends.drain(from.min(self.appends.len())..).map(|append| append.memory_bytes()).sum::<usize>();
        self.bytes -= dropped;
    }

    #[cfg(not(feature = "events"))]
    #[expect(clippy::unused_self, reason = "as in a build with events")]
    const fn count_appends(&self) -> usize {
        0
    }

    #[cfg(not(feature = "events"))]
    #[expect(clippy::unused_self, clippy::needless_pass_by_ref_mut, reason = "as in a build with events")]
    const fn drop_appends(&mut self, _: usize) {}

    pub(super) fn savepoint(&mut self, moment: &Arc<Moment>) -> Savepoint {
        let number = self.next_savepoint;
        self.next_savepoint += 1;
        self.savepoints.push((number, self.undo.len(), self.count_appends()));
        Savepoint { moment: moment.clone(), number }
    }

    pub(super) fn rollback_to(&mut self, savepoint: &Savepoint, moment: &Arc<Moment>) -> Result<()> {
        let place = self.savepoints.iter().position(|&(number, ..)| number == savepoint.number);
        let Some(place) = place.filter(|_| Arc::ptr_eq(&savepoint.moment, moment)) else {
            return Err(Error::InvalidArgument(
                "this savepoint is of another transaction, or the transaction has gone back to an earlier one; make a new savepoint",
            ));
        };
        let (len, appends) = self.savepoints.get(place).map_or((0, 0), |&(_, len, appends)| (len, appends));
        self.drop_appends(appends);
        for undo in self.undo.drain(len..).rev() {
            self.bytes -= undo.memory_bytes();
            let Undo { space, key, before } = undo;
            let Some((_, own)) = self.spaces.get_mut(space) else { continue };
            if let Some(write) = own.remove(&key) {
                self.bytes -= write.memory_bytes(&key);
            }
            if let Some(write) = before {
                self.bytes += write.memory_bytes(&key);
                own.insert(key, write);
            }
        }
        self.savepoints.truncate(place + 1);
        Ok(())
    }
}
