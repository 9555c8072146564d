//! Sealed stores, which salvage does not read yet.

use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::verify::is_sealed_file;

/// Salvage does not take a key yet, and never copies what it cannot read.
pub(super) fn refuse(source: &dyn Storage) -> Result<()> {
    if is_sealed_file(source)? {
        return Err(Error::Unsupported { offset: 0, what: "a sealed store, which salvage does not read" });
    }
    Ok(())
}
