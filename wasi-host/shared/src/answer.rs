//! The limit on the size of one answer.

use alloc::vec::Vec;
use pipkin::{Error, Result};

/// Bounds the memory that one call can make the other side collect.
pub(crate) const BYTES_MAX: usize = 128 << 20;

/// The size so far of an answer that is being put together.
#[derive(Debug, Default)]
pub struct Answer {
    bytes: usize,
}

impl Answer {
    /// Counts `bytes` more bytes.
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

/// The values that `get` has for many keys, in the order of the keys.
///
/// # Errors
///
/// Those of `get` and of [`Answer::add`].
pub fn values<E: From<Error>>(
    keys: Vec<Vec<u8>>,
    mut get: impl FnMut(Vec<u8>) -> Result<Option<Vec<u8>>, E>,
) -> Result<Vec<Option<Vec<u8>>>, E> {
    let (mut values, mut answer) = (Vec::with_capacity(keys.len()), Answer::default());
    for key in keys {
        let value = get(key)?;
        answer.add(value.as_ref().map_or(0, Vec::len))?;
        values.push(value);
    }
    Ok(values)
}
