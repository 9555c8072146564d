//! What handles keep in the memory of the instance: transactions, and readers of changes.

use crate::bindings::exports::pipkin::kv::types::{Error, Reason};
use alloc::string::ToString;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What all of them may keep. `wit/store.wit` says so.
const BYTES_MAX: usize = 512 << 20;

/// What they keep.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// The bytes of one handle; dropping it subtracts them.
pub(crate) struct Kept(AtomicUsize);

impl Drop for Kept {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl Kept {
    pub(crate) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Counts that the handle keeps `bytes` bytes, which may be less than before. Returns what all keep.
    pub(crate) fn count(&self, bytes: usize) -> usize {
        let before = self.0.swap(bytes, Relaxed);
        BYTES.fetch_add(bytes.wrapping_sub(before), Relaxed).wrapping_add(bytes).wrapping_sub(before)
    }

    /// The same; fails if `more` bytes beside that are too many.
    pub(crate) fn admit(&self, bytes: usize, more: usize) -> Result<(), Error> {
        if self.count(bytes).saturating_add(more) > BYTES_MAX {
            let message = "transactions and readers of changes of this component keep 512 MiB; commit some transactions, roll them back, or write \
                           less in each; drop some readers"
                .to_string();
            return Err(Error { reason: Reason::Quota, message });
        }
        Ok(())
    }
}
