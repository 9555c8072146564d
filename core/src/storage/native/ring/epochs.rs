//! Which bytes have been written since: what tells whether a copy of a page is still what the file has.
//!
//! Whoever wants the bytes of a record calls after the write of them has returned, and a write counts up before it returns. So if nothing
//! was counted for the blocks of a copy since before it was read, the copy has all that its reader may want.

use crate::sync::{AtomicU64, Ordering};

/// Bytes that are counted together: a write makes all copies of its block look old.
const BLOCK: u64 = 64 * 1024;
/// Counters; block `n` shares one with all blocks that are `n` modulo this. They are half a gigabyte apart: with fewer, what compaction writes made
/// most of what it had read ahead look old.
const STRIPES: usize = 8192;

#[derive(Debug)]
pub(super) struct Epochs {
    stripes: Box<[AtomicU64]>,
    /// Counts what concerns the whole file.
    all: AtomicU64,
}

impl Epochs {
    pub(super) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(), all: AtomicU64::new(0) }
    }

    fn of_block(&self, block: u64) -> Option<&AtomicU64> {
        self.stripes.get((block % STRIPES as u64) as usize)
    }

    /// Everything is old.
    pub(super) fn all_written(&self) {
        self.all.fetch_add(1, Ordering::AcqRel);
    }

    /// The range has been written, perhaps only a part of it.
    pub(super) fn written(&self, offset: u64, len: u64) {
        let Some(last) = len.checked_sub(1) else { return };
        let blocks = offset / BLOCK..=offset.saturating_add(last) / BLOCK;
        if blocks.end() - blocks.start() >= STRIPES as u64 {
            return self.all_written();
        }
        for stripe in blocks.filter_map(|block| self.of_block(block)) {
            stripe.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A number that is another one once a byte of the range has been written. Nothing is subtracted anywhere, so the sum stays the same only
    /// if all of its parts do.
    pub(super) fn of(&self, offset: u64, len: u64) -> u64 {
        let blocks = offset / BLOCK..offset.saturating_add(len).div_ceil(BLOCK);
        let stripes = blocks.filter_map(|block| self.of_block(block)).map(|stripe| stripe.load(Ordering::Acquire));
        stripes.fold(self.all.load(Ordering::Acquire), u64::wrapping_add)
    }
}
