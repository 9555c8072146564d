//! A walk over records, a page at a time.

use crate::answer::Limits;
use crate::key_range::KeyRange;
use crate::range::Ranging;
use crate::source::Source;
use alloc::vec::Vec;
use pipkin::limits::KEY_LEN_MAX;
use pipkin::{Cursor, Error};

/// A walk.
#[derive(Debug)]
pub struct Walk {
    records: Source,
    way: Way,
    /// Damage found after the records of the last page; the next call reports it.
    damage: Option<Error>,
}

#[derive(Debug)]
enum Way {
    /// All keys that begin with the prefix, in no order. Between two pages it holds only the cursor of the next one.
    Scan {
        prefix: Vec<u8>,
        next: Option<Cursor>,
    },
    Range(Ranging),
}

impl Walk {
    /// Starts a walk over the records whose keys begin with `prefix`.
    #[must_use]
    pub fn new(records: impl Into<Source>, prefix: Vec<u8>) -> Self {
        // A prefix longer than any key matches nothing: the walk is at its end, and the prefix need not be kept.
        let next = (prefix.len() <= KEY_LEN_MAX).then(Cursor::default);
        let prefix = if next.is_some() { prefix } else { Vec::new() };
        Self { records: records.into(), way: Way::Scan { prefix, next }, damage: None }
    }

    /// Starts a walk over the records of a range, in the order of their keys.
    #[must_use]
    pub fn range(records: impl Into<Source>, range: KeyRange) -> Self {
        Self { records: records.into(), way: Way::Range(Ranging::new(range)), damage: None }
    }

    /// The bytes that the walk keeps.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        match &self.way {
            Way::Scan { prefix, .. } => prefix.len(),
            Way::Range(range) => range.kept_bytes(),
        }
    }

    /// Keeps nothing of the first page of a range, for which there is no room: the next call reads that page again.
    pub fn forget_keys(&mut self) {
        if let Way::Range(range) = &mut self.way {
            range.forget_keys();
        }
    }

    /// Passes the records of the next page to `take`; none when the walk has ended. `begin` is called before each call of the engine.
    ///
    /// # Errors
    ///
    /// Those of the engine, and of `begin`. The next call then returns the same page again; after damage, it goes on behind the damage.
    pub fn page<E: From<Error>>(
        &mut self,
        max_entries: u32,
        max_bytes: u32,
        mut begin: impl FnMut() -> Result<(), E>,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), E> {
        if let Some(error) = self.damage.take() {
            return Err(error.into());
        }
        let mut limits = Limits::new(max_entries, max_bytes);
        let Self { records, way, damage } = self;
        let (prefix, next) = match way {
            Way::Scan { prefix, next } => (prefix, next),
            Way::Range(range) => {
                return match range.page(records, &mut limits, &mut || begin().map_err(Met::Begin), take) {
                    Ok(()) => Ok(()),
                    Err(Met::Engine(error @ Error::Corrupt { .. })) if limits.has_any() => {
                        *damage = Some(error);
                        Ok(())
                    }
                    Err(Met::Engine(error)) => Err(error.into()),
                    Err(Met::Begin(error)) => Err(error),
                };
            }
        };
        while let Some(from) = *next
            && !limits.has_any()
        {
            begin()?;
            let page = records.page(from, &mut |key, value| {
                if !key.starts_with(prefix) {
                    return true;
                }
                take(key, value);
                !limits.count(key, value)
            });
            *next = match page {
                Ok(next) => next,
                Err(error @ Error::Corrupt { .. }) => {
                    *next = error.next_page();
                    if !limits.has_any() {
                        return Err(error.into());
                    }
                    *damage = Some(error);
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
        }
        Ok(())
    }
}

/// What has ended a page.
enum Met<E> {
    Engine(Error),
    Begin(E),
}

impl<E> From<Error> for Met<E> {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}
