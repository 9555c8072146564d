//! Which calls fail, and how.

use super::calls::Io;
use crate::storage::StorageErrorKind;

/// What a failing call does before it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Nothing, and the error is of this kind.
    Error(StorageErrorKind),
    /// A write puts its first bytes in place; all other calls do nothing. The error is of the kind `Other`.
    Torn {
        /// How many bytes of a write land.
        bytes: u64,
    },
    /// The call does all of its work and reports an error of the kind `Other` all the same.
    Late,
    /// A failed sync as on Linux: everything written since the last successful one is marked clean. It still reads well, a later sync
    /// succeeds without storing it, and [`FaultStorage::lose_unsynced`](super::FaultStorage::lose_unsynced) loses it. Other calls do nothing. The error is of the
    /// kind `Other`.
    LostSync,
}

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kinds of call that count.
    pub on: Io,
    /// The number of the call that fails, from 1, counted from the moment the fault is armed.
    pub nth: u64,
    /// All later calls of these kinds fail, too.
    pub for_good: bool,
    /// What happens.
    pub effect: Effect,
}

impl Fault {
    /// The `nth` call of these kinds fails, later ones succeed.
    pub fn nth(nth: u64, on: Io, effect: Effect) -> Self {
        Self { on, nth, for_good: false, effect }
    }

    /// The `nth` call of these kinds fails and every later one, too.
    pub fn from_nth(nth: u64, on: Io, effect: Effect) -> Self {
        Self { on, nth, for_good: true, effect }
    }
}
