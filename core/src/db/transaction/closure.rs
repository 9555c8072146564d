//! Transactions as closures, which run again when another writer was faster.

use super::Transaction;
use crate::db::handle::Namespace;
use crate::error::{Error, Result};
use crate::nested::Held;
use crate::position::Position;

/// How often a closure is run.
const ATTEMPTS_MAX: usize = 100;

/// After so many of them other writers wait for the next ones.
const ATTEMPTS_BESIDE_OTHERS: usize = 10;

impl Namespace {
    /// Runs `body` in a [`Transaction`] and commits its writes atomically, across namespaces; if it returns an error, nothing is written. When
    /// others have changed what it had read, nothing is written, either, and `body` runs again, at most 100 times: whatever else it does, it
    /// does each time. From the 11th time on, other writers of the store wait for its end, each write for at most 10 ms: so a short closure
    /// ends, even if others write without pause what it reads.
    ///
    /// # Errors
    ///
    /// The error that `body` returns; [`Error::Conflict`] when other writers were faster each of the 100 times; [`Error::Nested`] inside
    /// another transaction of this store, or inside the closure of an update (without the feature `std` the one is not noticed, and the
    /// other deadlocks).
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("a", [5])?;
    /// db.transaction(|tx| {
    ///     let moved = tx.get("a")?.unwrap_or_default();
    ///     tx.insert("b", moved)?;
    ///     tx.remove("a")?;
    ///     Ok(())
    /// })?;
    /// assert_eq!((db.get("a")?, db.get("b")?), (None, Some(vec![5])));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.try_transaction(body)
    }

    /// Like [`Self::transaction`]; also returns the position of the commit, or, if nothing was written, that of the store.
    pub fn transaction_with_position<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<(T, Position)> {
        self.store.engine.log.make_positions_unique()?;
        let (answer, position) = self.run(body)?;
        Ok((answer, position.map_or_else(|| self.store.position(), Ok)?))
    }

    /// [`Self::transaction`] with a body that returns an error of the caller's.
    ///
    /// ```
    /// # #[derive(Debug)]
    /// enum Failed {
    ///     Store(pipkin::Error),
    ///     NoCoinLeft,
    /// }
    ///
    /// impl From<pipkin::Error> for Failed {
    ///     fn from(error: pipkin::Error) -> Self {
    ///         Self::Store(error)
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Failed> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("ada", [1])?;
    /// let move_coin = || {
    ///     db.try_transaction(|tx| {
    ///         let coins = tx.get("ada")?.map_or(0, |coins| coins[0]);
    ///         let left = coins.checked_sub(1).ok_or(Failed::NoCoinLeft)?;
    ///         tx.insert("ada", [left])?;
    ///         Ok::<_, Failed>(left)
    ///     })
    /// };
    /// assert_eq!(move_coin()?, 0);
    /// assert!(matches!(move_coin(), Err(Failed::NoCoinLeft)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The error that `body` returns: nothing was written, and it is not run again. Those of [`Self::transaction`], turned into the
    /// caller's.
    pub fn try_transaction<T, E: From<Error>>(&self, body: impl FnMut(&mut Transaction) -> Result<T, E>) -> Result<T, E> {
        Ok(self.run(body)?.0)
    }

    /// Runs `body` and commits. Returns its answer with the position of the commit, or `None` if nothing was written.
    fn run<T, E: From<Error>>(&self, mut body: impl FnMut(&mut Transaction) -> Result<T, E>) -> Result<(T, Option<Position>), E> {
        let mut attempt = 1;
        loop {
            let _first = if attempt > ATTEMPTS_BESIDE_OTHERS { self.store.go_first() } else { None };
            let mut transaction = self.begin()?;
            let answer = {
                let _inside = self.store.engine.inside(Held::Transaction);
                body(&mut transaction)
            };
            match answer {
                Ok(answer) => match transaction.finish() {
                    Err(Error::Conflict(_)) if attempt < ATTEMPTS_MAX => {}
                    position => return Ok((answer, position?)),
                },
                // Its reads had failed for want of the snapshot.
                Err(_) if transaction.has_ended() && attempt < ATTEMPTS_MAX => {}
                Err(error) => return Err(error),
            }
            attempt += 1;
        }
    }
}
