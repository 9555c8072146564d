//! All records of a namespace as a transaction sees it, in no order: those of its snapshot that it has not written, then its own.

use super::Transaction;
use super::writes::{Own, Write};
use crate::db::snapshot_walks::FramesAt;
use crate::error::Result;
use alloc::collections::btree_map;
use alloc::vec::Vec;

/// The records of a namespace in a transaction, in no order; from [`Transaction::iter`]. It cannot be sent to another thread.
pub struct TransactionIter<'a> {
    transaction: &'a Transaction,
    stored: Option<FramesAt<'a>>,
    own: Option<&'a Own>,
    rest: Option<btree_map::Iter<'a, Vec<u8>, Write>>,
}

/// The keys of a namespace in a transaction, in no order; from [`Transaction::keys`]. It cannot be sent to another thread.
pub struct TransactionKeys<'a>(pub(super) TransactionIter<'a>);

impl<'a> TransactionIter<'a> {
    /// `number` is that of the namespace in the snapshot, `None` if there was none.
    pub(super) fn new(transaction: &'a Transaction, number: Option<u32>, own: Option<&'a Own>) -> Self {
        if let Some(number) = number {
            transaction.reads.lock().set.whole(number);
        }
        let stored = number.map(|number| FramesAt::of(&transaction.taken, Ok(number)));
        Self { transaction, stored, own, rest: own.map(Own::iter) }
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(frame) = self.stored.as_mut().and_then(FramesAt::next) {
            let frame = match self.transaction.seen(frame) {
                Ok(frame) if self.own.is_some_and(|own| own.contains_key(frame.key())) => continue,
                frame => frame.map(|frame| self.transaction.met(frame)),
            };
            return Some(frame.map(|frame| (frame.key().to_vec(), frame.value().to_vec())));
        }
        self.stored = None;
        self.rest.as_mut()?.find_map(|(key, write)| Some(Ok((key.clone(), write.value.clone()?))))
    }
}

impl Iterator for TransactionKeys<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|(key, _)| key))
    }
}
