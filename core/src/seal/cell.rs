//! The place of the keys of a store that is sealed while it is open.

use super::vault::Vault;
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
pub struct KeyCell(OnceBox<Vault>);

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
        self.0.get()
    }

    /// False if it has keys already.
    pub(crate) fn set(&self, vault: Vault) -> bool {
        self.0.set(Box::new(vault)).is_ok()
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
