//! The place of the keys of a store that is sealed, or becomes plain, while it is open.

use super::vault::Vault;
use crate::sync::{AtomicBool, Ordering};
use alloc::boxed::Box;
use once_cell::race::OnceBox;

/// What a [`Storage`](crate::storage::Storage) carries so that a plain store in it can be sealed while it is open, see
/// [`Storage::key_cell`](crate::storage::Storage::key_cell). It is empty until then; a clone is empty, too: keys belong to one open store.
///
/// ```
/// let cell = pipkin::storage::KeyCell::new();
/// assert_eq!(format!("{cell:?}"), "KeyCell");
/// ```
#[derive(Default)]
pub struct KeyCell(OnceBox<Entry>);

/// The keys of the store from when it was sealed until it was made plain. What is left of them stays, wiped: others may hold a reference.
struct Entry {
    vault: Vault,
    is_gone: AtomicBool,
    /// Where the store was sealed again.
    next: OnceBox<Self>,
}

impl KeyCell {
    /// An empty one.
    pub const fn new() -> Self {
        Self(OnceBox::new())
    }

    /// One that has keys, or says that they are not at hand.
    pub(crate) fn with(vault: Vault) -> Self {
        let cell = Self::new();
        // A new one is empty.
        let _ = cell.set(vault);
        cell
    }

    pub(crate) fn get(&self) -> Option<&Vault> {
        self.last().filter(|entry| !entry.is_gone.load(Ordering::Acquire)).map(|entry| &entry.vault)
    }

    /// False if it has keys already.
    pub(crate) fn set(&self, vault: Vault) -> bool {
        let entry = Box::new(Entry { vault, is_gone: AtomicBool::new(false), next: OnceBox::new() });
        match self.last() {
            None => self.0.set(entry).is_ok(),
            Some(last) => last.is_gone.load(Ordering::Acquire) && last.next.set(entry).is_ok(),
        }
    }

    /// The store is plain from now on. The keys are for the caller to wipe.
    pub(crate) fn clear(&self) {
        if let Some(last) = self.last() {
            last.is_gone.store(true, Ordering::Release);
        }
    }

    fn last(&self) -> Option<&Entry> {
        let mut last = self.0.get()?;
        while let Some(next) = last.next.get() {
            last = next;
        }
        Some(last)
    }
}

impl Clone for KeyCell {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for KeyCell {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("KeyCell")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_takes_keys_again_once_it_was_cleared() {
        let cell = KeyCell::new();
        cell.clear();
        for _ in 0..3 {
            assert!(cell.get().is_none());
            assert!(cell.set(Vault::locked()) && !cell.set(Vault::locked()));
            assert!(cell.get().is_some() && cell.clone().get().is_none());
            cell.clear();
        }
        assert!(cell.get().is_none());
    }
}
