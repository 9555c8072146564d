//! Sealed stores, which salvage does not read yet.

use crate::error::{Error, Result};
use crate::log::{Front, read_superblocks};
use crate::storage::Storage;

/// Salvage does not take a key yet, and never copies what it cannot read.
pub(super) fn refuse(source: &dyn Storage) -> Result<()> {
    let Ok(Front::Store(pair)) = read_superblocks(source) else { return Ok(()) };
    if pair.current.key_page == 0 {
        return Ok(());
    }
    Err(Error::Unsupported { offset: 0, what: "a sealed store, which salvage does not read" })
}
