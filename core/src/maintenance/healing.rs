//! Healing an index that is damaged where it stays in the file: by the write that meets the damage, by the background maintenance, and by
//! explicit checkpoints and compactions. A read answers the error meanwhile: it would have to wait until the whole log has been read.

use crate::error::{Error, Result};
use crate::store::Store;
#[cfg(feature = "std")]
use crate::sync::Ordering;

#[cfg(feature = "std")]
impl Store {
    /// Called when damage is found, possibly with shards locked: the next maintenance is due at once.
    pub(crate) fn heal_soon(&self) {
        self.checkpoint_due.store(0, Ordering::Relaxed);
        if self.options.has_thread() {
            self.background.wake();
        }
    }

    /// Repeats a write that has met damage of the index, once its own thread has healed it, which takes as long as reading the log.
    ///
    /// # Errors
    ///
    /// `error`, if it is another one, or inside a closure whose call holds a lock. Where the damage could not be healed, the repetition meets it.
    #[cold]
    pub(crate) fn healed_again<T>(&self, error: Error, write: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        if !matches!(error, Error::IndexDamaged { .. }) || self.may_wait_for_the_turn().is_err() {
            return Err(error);
        }
        let turn = self.turn.lock();
        self.heal_unasked()?;
        drop(turn);
        write()
    }

    /// Heals what is damaged, and writes a checkpoint; also what is found damaged while it is written. Returns whether there was room for a snapshot.
    pub(super) fn healed(&self, write: &dyn Fn() -> Result<bool>) -> Result<bool> {
        let healed = self.heal();
        let is_written = write()?;
        healed?;
        if is_written || !self.engine.is_rotten() {
            return Ok(is_written);
        }
        self.heal()?;
        write()
    }

    /// Builds what is damaged anew. The caller holds the maintenance lock.
    fn heal(&self) -> Result<()> {
        if self.engine.is_rotten() { self.engine.heal().map(drop) } else { Ok(()) }
    }

    /// The same, for maintenance that can go on without: where the log is damaged, too, it is left as it is, and tried again after as much log as
    /// between two checkpoints.
    pub(super) fn heal_unasked(&self) -> Result<()> {
        if !self.engine.should_heal() {
            return Ok(());
        }
        let healed = self.heal();
        if healed.is_err() {
            let log = &self.engine.log;
            let next = log.end().saturating_add(log.between_lists(self.options.replay_debt_max));
            self.engine.bases.heal_next.store(next, Ordering::Relaxed);
        }
        match healed {
            Err(Error::Corrupt { .. }) => Ok(()),
            healed => healed,
        }
    }
}

/// Without the standard library every index is in memory.
#[cfg(not(feature = "std"))]
impl Store {
    #[cold]
    #[expect(clippy::unused_self, reason = "a build with the standard library needs it")]
    pub(crate) fn healed_again<T>(&self, error: Error, _: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        Err(error)
    }

    #[expect(clippy::unused_self, reason = "a build with the standard library needs it")]
    pub(super) fn healed(&self, write: &dyn Fn() -> Result<bool>) -> Result<bool> {
        write()
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "a build with the standard library needs them")]
    pub(super) const fn heal_unasked(&self) -> Result<()> {
        Ok(())
    }
}
