//! How much one answer may hold.

use pipkin::{Error, Result};

/// Nobody makes the other side gather without bounds.
pub(crate) const BYTES_MAX: usize = 128 << 20;

/// The length of an answer that is being put together.
#[derive(Debug, Default)]
pub struct Answer {
    bytes: usize,
}

impl Answer {
    /// Counts what comes along.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the answer would have more than 128 MiB.
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > BYTES_MAX {
            return Err(Error::InvalidArgument("the values have more than 128 MiB in all; ask for fewer keys at a time"));
        }
        Ok(())
    }
}
