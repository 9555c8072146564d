//! A walk over a range of keys in their order. A store that keeps its keys in order answers each page from its ordered index. In any other, and so in
//! the component, the first page reads all keys of the namespace, and those in the range are held, sorted, until they have come.

use crate::answer::Limits;
use crate::key_range::KeyRange;
use crate::source::Source;
use alloc::vec::Vec;
use pipkin::{Cursor, Error};

/// Keys that are held for one walk, at most, in bytes, with [`KEY_BYTES`] beside each.
const HELD_BYTES_MAX: usize = 64 << 20;
/// What a held key takes beside its own bytes.
const KEY_BYTES: usize = 32;
/// Keys that one call of the engine reads, at most, so that the views of the component's block cache do not pile up.
const PAGE_KEYS: usize = 4096;

/// A range that is being read.
#[derive(Debug)]
pub(crate) struct Ranging {
    /// What has not come yet.
    range: KeyRange,
    /// The keys that are still to come, the next one last; only where the store keeps no order.
    held: Option<Vec<Vec<u8>>>,
    held_bytes: usize,
    is_over: bool,
}

impl Ranging {
    pub(crate) fn new(range: KeyRange) -> Self {
        Self { range, held: None, held_bytes: 0, is_over: false }
    }

    pub(crate) const fn kept_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Goes back to where no key is held.
    pub(crate) fn forget_keys(&mut self) {
        (self.held, self.held_bytes, self.is_over) = (None, 0, false);
    }

    /// Passes the records of the next page to `take`. After an error the next call goes on behind the damage, or returns the same page again.
    pub(crate) fn page<E: From<Error>>(
        &mut self,
        records: &Source,
        limits: &mut Limits,
        begin: &mut dyn FnMut() -> Result<(), E>,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), E> {
        if self.is_over {
            return Ok(());
        }
        if self.held.is_none() {
            begin()?;
            match self.page_of_index(records, limits, take) {
                Err(Error::NotOrdered) => self.hold_keys(records, begin)?,
                other => return Ok(other?),
            }
        }
        self.page_of_held(records, limits, begin, take)
    }

    fn page_of_index(&mut self, records: &Source, limits: &mut Limits, take: &mut dyn FnMut(&[u8], &[u8])) -> pipkin::Result<()> {
        let (mut last, mut is_full) = (None, false);
        let read = records.in_order(&self.range, &mut |key, value| {
            take(key, value);
            last = Some(key.to_vec());
            is_full = limits.count(key, value);
            !is_full
        });
        self.is_over = read.is_ok() && !is_full;
        if let Some(key) = last {
            self.range.go_on_behind(key);
        }
        if let Err(error) = &read
            && let Error::Corrupt { .. } = error
        {
            // Without its key nobody knows what follows the record.
            match error.damaged_key() {
                Some(key) => self.range.go_on_behind(key.to_vec()),
                None => self.is_over = true,
            }
        }
        read
    }

    /// Reads the keys. Damage is the first answer; the keys that could be read come after it.
    fn hold_keys<E: From<Error>>(&mut self, records: &Source, begin: &mut dyn FnMut() -> Result<(), E>) -> Result<(), E> {
        let (mut keys, mut bytes, mut damage) = (Vec::new(), 0, None);
        let mut next = Some(Cursor::default());
        while let Some(from) = next {
            begin()?;
            let mut read = 0;
            let page = records.page(from, &mut |key, _| {
                if self.range.contains(key) {
                    bytes += key.len() + KEY_BYTES;
                    keys.push(key.to_vec());
                }
                read += 1;
                read < PAGE_KEYS && bytes <= HELD_BYTES_MAX
            });
            next = match page {
                Err(error @ Error::Corrupt { .. }) => {
                    let next = error.next_page();
                    damage.get_or_insert(error);
                    next
                }
                page => page?,
            };
            if bytes > HELD_BYTES_MAX {
                return Err(Error::InvalidArgument(
                    "the range has too many keys for a store that does not keep them in order; ask for less",
                )
                .into());
            }
        }
        keys.sort_unstable_by(|one, other| if self.range.reverse { one.cmp(other) } else { other.cmp(one) });
        (self.held, self.held_bytes) = (Some(keys), bytes);
        damage.map_or(Ok(()), |error| Err(error.into()))
    }

    fn page_of_held<E: From<Error>>(
        &mut self,
        records: &Source,
        limits: &mut Limits,
        begin: &mut dyn FnMut() -> Result<(), E>,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), E> {
        let Some(keys) = &mut self.held else { return Ok(()) };
        while let Some(key) = keys.last() {
            begin()?;
            let value = records.get(key);
            if limits.has_any() && matches!(value, Err(Error::Corrupt { .. })) {
                // It is the first answer of the next call.
                return Ok(());
            }
            let key = keys.pop().unwrap_or_default();
            self.held_bytes -= key.len() + KEY_BYTES;
            if let Some(value) = value? {
                take(&key, &value);
                if limits.count(&key, &value) {
                    return Ok(());
                }
            }
        }
        self.is_over = true;
        Ok(())
    }
}
