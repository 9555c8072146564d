//! One leaf: holds a block, which readers read without a lock and writers replace one at a time, or the place of a part of the index
//! snapshot that nobody has read yet. What was replaced is freed when the readers that may use it have finished (epochs, after Keir Fraser;
//! crate `crossbeam-epoch`).

use super::block::Block;
use super::part::Part;
use crate::sync::{Mutex, MutexGuard, Ordering};
use alloc::sync::Arc;
use crossbeam_epoch::{Atomic, Guard, Owned};

/// What a leaf holds.
#[derive(Debug)]
pub(super) enum Content {
    Keys(Block),
    /// The keys stand in the log, and the part says where. Whoever needs them reads them first.
    Unread(Part),
}

/// Holds its content, which is replaced as a whole.
#[derive(Debug)]
pub(super) struct Leaf {
    /// Never null: set only by the constructors and by `replace`.
    content: Atomic<Content>,
    /// Lock of the writers. Shared with the creator of the leaf, which holds it before the leaf can be found.
    writers: Arc<Mutex<()>>,
}

/// A locked leaf: other writers wait.
pub(super) struct Writer<'a> {
    leaf: &'a Leaf,
    _held: MutexGuard<'a, ()>,
}

impl Leaf {
    pub(super) fn new(content: Content) -> Self {
        Self::locked_by(content, Arc::default())
    }

    /// A leaf with the given lock, which the creator may hold.
    pub(super) fn locked_by(content: Content, writers: Arc<Mutex<()>>) -> Self {
        Self { content: Atomic::new(content), writers }
    }

    pub(super) fn content<'g>(&self, guard: &'g Guard) -> &'g Content {
        // SAFETY: the pointer is never null and came from a `Box`; `replace` defers freeing a content until every guard of that
        // time is dropped, so the content outlives this guard.
        unsafe { self.content.load(Ordering::Acquire, guard).deref() }
    }

    pub(super) fn lock(&self) -> Writer<'_> {
        Writer { leaf: self, _held: self.writers.lock() }
    }
}

impl Writer<'_> {
    pub(super) fn content<'g>(&self, guard: &'g Guard) -> &'g Content {
        self.leaf.content(guard)
    }

    /// Replaces the content. Earlier readers may still use the old one.
    pub(super) fn replace(&self, content: Content, guard: &Guard) {
        let old = self.leaf.content.swap(Owned::new(content), Ordering::AcqRel, guard);
        // SAFETY: the swap has made `old` unreachable for every guard taken from now on, and no other writer has swapped it out.
        unsafe { guard.defer_destroy(old) };
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        let content = core::mem::take(&mut self.content);
        // SAFETY: `&mut self`: no reader and no writer is left, and the current content was never passed to `defer_destroy`.
        drop(unsafe { content.into_owned() });
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
        let same = |offset: u64| Content::Keys(Block::of(keys.iter().map(|key| (&key[..], offset))));
        let block = |content: &Content| -> Vec<u64> {
            let Content::Keys(block) = content else { unreachable!("no part is unread") };
            block.part(0, 4).map(|(_, offset)| offset).collect()
        };
        let leaf = Leaf::new(same(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 50 } else { 10_000 } {
                        let guard = epoch::pin();
                        let writer = leaf.lock();
                        let next = block(writer.content(&guard))[0] + 1;
                        writer.replace(same(next), &guard);
                    }
                });
            }
            let mut last = 0;
            for _ in 0..if cfg!(miri) { 50 } else { 10_000 } {
                let guard = epoch::pin();
                let seen = block(leaf.content(&guard));
                assert!(seen.iter().all(|offset| offset == &seen[0] && *offset >= last), "{seen:?} after {last}");
                last = seen[0];
            }
        });
        let writes = if cfg!(miri) { 100 } else { 20_000 };
        assert_eq!(block(leaf.content(&epoch::pin())), [writes; 4]);
    }
}
