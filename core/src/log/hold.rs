//! Segments that values hold which their callers keep: they are not reused before all of these values are dropped. Unlike a pin, a hold
//! keeps nothing but its own segment, and may last.

use crate::sync::Mutex;
use alloc::collections::BTreeMap;

/// How many values each extent holds.
#[derive(Debug, Default)]
pub(crate) struct ExtentHolds(Mutex<BTreeMap<u32, u64>>);

impl ExtentHolds {
    /// The caller has a pin, so that the segment cannot be freed before this returns.
    pub(crate) fn hold(&self, extent: u32) {
        *self.0.lock().entry(extent).or_default() += 1;
    }

    /// Undoes one [`Self::hold`].
    pub(crate) fn release(&self, extent: u32) {
        let mut holds = self.0.lock();
        if let Some(count) = holds.get_mut(&extent) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&extent);
            }
        }
    }

    /// True if a value holds any of these extents.
    pub(super) fn is_held(&self, extent: u32, extents: u32) -> bool {
        self.0.lock().range(extent..extent.saturating_add(extents)).next().is_some()
    }

    /// How many values there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().values().sum()
    }
}

#[cfg(test)]
mod tests;
