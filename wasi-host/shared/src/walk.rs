//! A walk over records, a page at a time.

use crate::answer::BYTES_MAX;
use alloc::vec::Vec;
use pipkin::limits::KEY_LEN_MAX;
use pipkin::{Cursor, Error, Namespace};

/// A walk: between two pages only the place where it goes on.
#[derive(Debug)]
pub struct Walk {
    records: Namespace,
    prefix: Vec<u8>,
    next: Option<Cursor>,
    /// What stands behind the last page.
    damage: Option<Error>,
}

impl Walk {
    /// A walk over the records whose keys begin with `prefix`.
    #[must_use]
    pub fn new(records: Namespace, prefix: Vec<u8>) -> Self {
        // No key begins with more than a key can have, and nobody has to keep that.
        let next = (prefix.len() <= KEY_LEN_MAX).then(Cursor::default);
        let prefix = if next.is_some() { prefix } else { Vec::new() };
        Self { records, prefix, next, damage: None }
    }

    /// Bytes that this keeps for whoever asked.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.prefix.len()
    }

    /// Hands the next page to `take`; nothing when there are no more records. `begin` comes before each call of the engine.
    ///
    /// # Errors
    ///
    /// Those of the engine, and of `begin`. The next page is the same one again; of damage, the one behind it.
    pub fn page<E: From<Error>>(
        &mut self,
        max_entries: u32,
        max_bytes: u32,
        mut begin: impl FnMut() -> Result<(), E>,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), E> {
        let (entries_max, bytes_max) = (max_entries.max(1) as usize, (max_bytes.max(1) as usize).min(BYTES_MAX));
        let (mut entries, mut bytes) = (0, 0_usize);
        if let Some(error) = self.damage.take() {
            return Err(error.into());
        }
        while let Some(from) = self.next
            && entries == 0
        {
            begin()?;
            let page = self.records.page(from, |key, value| {
                if key.starts_with(&self.prefix) {
                    entries += 1;
                    bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
                    take(key, value);
                }
                entries < entries_max && bytes < bytes_max
            });
            self.next = match page {
                Ok(next) => next,
                Err(error) => match &error {
                    Error::Corrupt { next, .. } if entries > 0 => {
                        let next = *next;
                        self.damage = Some(error);
                        next
                    }
                    Error::Corrupt { next, .. } => {
                        self.next = *next;
                        return Err(error.into());
                    }
                    _ => return Err(error.into()),
                },
            };
        }
        Ok(())
    }
}
