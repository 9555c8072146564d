//! One leaf: holds a block, which readers read without a lock and writers replace one at a time. A replaced block is freed when the
//! readers that may use it have finished (epochs, after Keir Fraser; crate `crossbeam-epoch`).

use super::block::Block;
use crate::sync::{Mutex, MutexGuard, Ordering};
use alloc::sync::Arc;
use crossbeam_epoch::{Atomic, Guard, Owned};

/// A block that is replaced as a whole.
#[derive(Debug)]
pub(super) struct Leaf {
    /// Never null: set only by the constructors and by `replace`.
    block: Atomic<Block>,
    /// Lock of the writers. Shared with the creator of the leaf, which holds it before the leaf can be found.
    writers: Arc<Mutex<()>>,
}

/// A locked leaf: other writers wait.
pub(super) struct Writer<'a> {
    leaf: &'a Leaf,
    _held: MutexGuard<'a, ()>,
}

impl Leaf {
    pub(super) fn new(block: Block) -> Self {
        Self::locked_by(block, Arc::default())
    }

    /// A leaf with the given lock, which the creator may hold.
    pub(super) fn locked_by(block: Block, writers: Arc<Mutex<()>>) -> Self {
        Self { block: Atomic::new(block), writers }
    }

    pub(super) fn block<'g>(&self, guard: &'g Guard) -> &'g Block {
        // SAFETY: the pointer is never null and came from a `Box`; `replace` defers freeing a block until every guard of that
        // time is dropped, so the block outlives this guard.
        unsafe { self.block.load(Ordering::Acquire, guard).deref() }
    }

    pub(super) fn lock(&self) -> Writer<'_> {
        Writer { leaf: self, _held: self.writers.lock() }
    }
}

impl Writer<'_> {
    pub(super) fn block<'g>(&self, guard: &'g Guard) -> &'g Block {
        self.leaf.block(guard)
    }

    /// Replaces the block. Earlier readers may still use the old one.
    pub(super) fn replace(&self, block: Block, guard: &Guard) {
        let old = self.leaf.block.swap(Owned::new(block), Ordering::AcqRel, guard);
        // SAFETY: the swap has made `old` unreachable for every guard taken from now on, and no other writer has swapped it out.
        unsafe { guard.defer_destroy(old) };
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        let block = core::mem::take(&mut self.block);
        // SAFETY: `&mut self`: no reader and no writer is left, and the current block was never passed to `defer_destroy`.
        drop(unsafe { block.into_owned() });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests fail by panicking")]

    use super::*;
    use alloc::vec::Vec;
    use crossbeam_epoch as epoch;

    /// Also runs under miri, which the skip list above does not support.
    #[test]
    fn readers_see_whole_blocks_while_writers_replace_them() {
        let keys = [b"a", b"b", b"c", b"d"];
        let same = |offset: u64| Block::of(keys.iter().map(|key| (&key[..], offset)));
        let leaf = Leaf::new(same(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 50 } else { 10_000 } {
                        let guard = epoch::pin();
                        let writer = leaf.lock();
                        let next = writer.block(&guard).part(0, 1).next().map_or(0, |(_, offset)| offset + 1);
                        writer.replace(same(next), &guard);
                    }
                });
            }
            let mut last = 0;
            for _ in 0..if cfg!(miri) { 50 } else { 10_000 } {
                let guard = epoch::pin();
                let seen: Vec<u64> = leaf.block(&guard).part(0, 4).map(|(_, offset)| offset).collect();
                assert!(seen.iter().all(|offset| offset == &seen[0] && *offset >= last), "{seen:?} after {last}");
                last = seen[0];
            }
        });
        let writes = if cfg!(miri) { 100 } else { 20_000 };
        assert_eq!(leaf.block(&epoch::pin()).part(3, 4).next(), Some((&b"d"[..], writes)));
    }
}
