//! The commit of a transaction.

use super::Transaction;
use crate::db::check::Check;
use crate::db::commit::BatchOp;
#[cfg(feature = "events")]
use crate::db::events::Appends;
#[cfg(not(feature = "events"))]
use crate::db::no_events::Appends;
use crate::error::Result;
use crate::few::Few;
use crate::position::Position;
use crate::storage::Durability;
use crate::ttl::Ttl;
use alloc::vec::Vec;

impl Transaction {
    /// Writes everything, as one commit: after a crash all of it is there, or nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`](crate::Error::Conflict) when others have changed what was read, or a record that was read has expired: begin again.
    /// [`Error::NamespaceDropped`](crate::Error::NamespaceDropped) when a namespace that was written to is gone, and those of
    /// [`Db::insert`](crate::Namespace::insert). After an error nothing was written, unless the store is poisoned.
    pub fn commit(self) -> Result<()> {
        self.finish().map(drop)
    }

    /// Like [`Self::commit`]; returns the position of the commit, or, if nothing was to be written, that of the store.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let mut tx = db.begin()?;
    /// tx.insert("color", "green")?;
    /// let position = tx.commit_with_position()?;
    /// assert_eq!(db.state_of(position), pipkin::PositionState::Appended);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn commit_with_position(self) -> Result<Position> {
        self.commit_by(|commit| commit())
    }

    /// [`Self::commit`] and [`Db::flush`](crate::Db::flush): returns how durable the commit is.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let mut tx = db.begin()?;
    /// tx.insert("color", "green")?;
    /// assert_eq!(tx.commit_durably()?, pipkin::Durability::None); // memory is gone with the process
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of both. When the flush fails, the commit may be there.
    pub fn commit_durably(self) -> Result<Durability> {
        let store = self.home.store.clone();
        self.finish()?;
        store.flush()
    }

    /// [`Self::commit_with_position`] for a host of pipkin that bounds stores: `run` gets the commit as a function, which it may call again after
    /// one that found no space, once it has made some.
    #[doc(hidden)]
    pub fn commit_by<T>(self, run: impl FnOnce(&mut dyn FnMut() -> Result<Position>) -> T) -> T {
        let store = self.home.store.clone();
        let writes = !self.writes.is_empty();
        self.finish_by(|finish| {
            run(&mut || {
                if writes {
                    store.engine.log.make_positions_unique()?;
                }
                finish()?.map_or_else(|| store.position(), Ok)
            })
        })
    }

    /// Hands to `each` all that it would write, for a host of pipkin that bounds stores: the name of the namespace, empty for the default one, the
    /// key, and whether a value is stored there.
    #[doc(hidden)]
    pub fn each_write(&self, each: &mut dyn FnMut(&str, &[u8], bool)) {
        self.writes.all().for_each(|(name, key, write)| each(&name.name, key, write.value.is_some()));
    }

    /// Commits. Returns the position, or `None` if nothing was to be written.
    pub(super) fn finish(self) -> Result<Option<Position>> {
        self.finish_by(|finish| finish())
    }

    fn finish_by<T>(self, run: impl FnOnce(&mut dyn FnMut() -> Result<Option<Position>>) -> T) -> T {
        let Self { home, taken, writes, reads } = self;
        let mut ops: Few<BatchOp<'_>, 2> = Few::with_capacity(writes.len());
        ops.extend(writes.all().map(|(name, key, write)| BatchOp { name, key, value: write.value.as_deref() }));
        let ttls = writes.all().enumerate().map(|(place, (_, _, write))| (place, write.ttl));
        let ttls: Vec<(usize, Ttl)> = ttls.filter(|(_, ttl)| *ttl != Ttl::Default).collect();
        // Nothing reads in the snapshot any more: what is written now need not be noted for it.
        drop(taken);
        let read = core::mem::take(&mut reads.lock().set);
        let log = &home.store.engine.log;
        let check = (!read.is_empty()).then(|| Check::new(&log.recent, &log.clock, read, home.from));
        #[cfg(feature = "events")]
        let appends = writes.planned();
        #[cfg(not(feature = "events"))]
        let appends: Result<Appends<'_>> = Ok(Appends::default());
        run(&mut || {
            let appends: &Appends<'_> = appends.as_ref().map_err(Clone::clone)?;
            let committed = home.store.commit_all(&ops, &ttls, check.as_ref(), appends);
            if let (Err(error), Some(check)) = (&committed, &check) {
                check.expired(error).into_iter().for_each(|expiry| log.acted_on(expiry));
            }
            Ok(committed?.end)
        })
    }
}
