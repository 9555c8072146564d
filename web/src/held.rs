//! Snapshots that tabs hold, by the numbers that they have given them.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use pipkin::{Db, Snapshot};

use crate::failure::{Code, Failure};
use crate::order::Order;

/// A snapshot with its keys in order, which are read when a range is.
#[derive(Debug)]
pub(crate) struct Held {
    number: f64,
    pub(crate) snapshot: Snapshot,
    pub(crate) order: Order,
}

/// The snapshots of a store.
#[derive(Debug, Default)]
pub(crate) struct AllHeld(RefCell<Vec<Held>>);

impl AllHeld {
    /// Takes a snapshot, unless there is one of that number: the request may have come before. Numbers are random, and never used again.
    pub(crate) fn take(&self, db: &Db, number: f64) {
        let all = &mut *self.0.borrow_mut();
        if all.iter().all(|held| held.number != number) {
            all.push(Held { number, snapshot: db.snapshot(), order: Order::default() });
        }
    }

    /// Gives a snapshot up; does nothing if there is none of that number.
    pub(crate) fn give_up(&self, number: f64) {
        self.0.borrow_mut().retain(|held| held.number != number);
    }

    /// Runs `work` on a snapshot. Fails if there is none of that number: the store was opened again since it was taken.
    pub(crate) fn with<T>(&self, number: f64, work: impl FnOnce(&Held) -> Result<T, Failure>) -> Result<T, Failure> {
        let all = self.0.borrow();
        let held = all.iter().find(|held| held.number == number).ok_or_else(gone)?;
        work(held)
    }
}

fn gone() -> Failure {
    const WHY: &str =
        "the snapshot has gone with the tab that had the store open, or was frozen or replaced by an import; take another one";
    Failure::new(Code::SnapshotTooOld, String::from(WHY))
}
