//! The limits on the size of one answer, and of a page.

use alloc::vec::Vec;
use pipkin::limits::KEYS_OF_ONE_MOMENT;
use pipkin::{Error, Namespace, Result};

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

/// Calls `add` with the keys and their values, in order, until it fails. Each [`KEYS_OF_ONE_MOMENT`] keys are read as of one moment; before
/// each of these reads `begin` is called.
///
/// # Errors
///
/// Those of the engine, of `begin` and of `add`.
pub fn each_value<K: AsRef<[u8]>, E: From<Error>>(
    records: &Namespace,
    keys: &[K],
    mut begin: impl FnMut() -> Result<(), E>,
    mut add: impl FnMut(&K, Option<&[u8]>) -> Result<()>,
) -> Result<(), E> {
    for group in keys.chunks(KEYS_OF_ONE_MOMENT) {
        begin()?;
        let mut added = Ok(());
        records.get_many_with(group, |key, value| {
            if added.is_ok() {
                added = add(key, value);
            }
        })?;
        added?;
    }
    Ok(())
}

/// The values of many keys of a namespace, in the order of the keys, read as [`each_value`] does.
///
/// # Errors
///
/// Those of [`each_value`] and of [`Answer::add`].
pub fn values_of<E: From<Error>>(
    records: &Namespace,
    keys: &[Vec<u8>],
    begin: impl FnMut() -> Result<(), E>,
) -> Result<Vec<Option<Vec<u8>>>, E> {
    let (mut values, mut answer) = (Vec::with_capacity(keys.len()), Answer::default());
    each_value(records, keys, begin, |_, value| {
        answer.add(value.map_or(0, <[u8]>::len))?;
        values.push(value.map(<[u8]>::to_vec));
        Ok(())
    })?;
    Ok(values)
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

/// Where a page ends.
#[derive(Debug)]
pub(crate) struct Limits {
    entries: usize,
    bytes: usize,
    is_empty: bool,
}

impl Limits {
    pub(crate) fn new(max_entries: u32, max_bytes: u32) -> Self {
        Self { entries: max_entries.max(1) as usize, bytes: (max_bytes.max(1) as usize).min(BYTES_MAX), is_empty: true }
    }

    /// Counts a record; true when the page is full.
    pub(crate) fn count(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.is_empty = false;
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(key.len()).saturating_sub(value.len());
        self.entries == 0 || self.bytes == 0
    }

    /// True if the page has a record.
    pub(crate) const fn has_any(&self) -> bool {
        !self.is_empty
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use pipkin::Db;

    #[test]
    fn many_values_come_in_order_in_groups_of_one_moment_until_there_are_too_many_bytes() {
        let db = Db::open_in_memory().unwrap();
        let key = |number: u32| number.to_be_bytes().to_vec();
        (0..300).filter(|number| number % 2 == 0).for_each(|number| db.insert(key(number), key(number)).unwrap());
        let keys: Vec<Vec<u8>> = (0..300).map(key).collect();
        let mut groups = 0;
        let mut begin = || {
            groups += 1;
            Ok::<_, Error>(())
        };
        let values = values_of(&db, &keys, &mut begin).unwrap();
        assert_eq!(groups, 300_usize.div_ceil(KEYS_OF_ONE_MOMENT));
        let expected = (0..300).map(|number| (number % 2 == 0).then(|| key(number)));
        assert!(values.into_iter().eq(expected));
        db.insert("long", alloc::vec![7; BYTES_MAX / 100]).unwrap();
        let fits = alloc::vec![b"long".to_vec(); 100];
        assert_eq!(values_of(&db, &fits, || Ok::<_, Error>(())).unwrap().len(), 100);
        let too_long = alloc::vec![b"long".to_vec(); 102];
        assert!(matches!(values_of(&db, &too_long, || Ok::<_, Error>(())), Err(Error::InvalidArgument(_))));
        let mut begun = 0;
        let refused = values_of(&db, &alloc::vec![b"long".to_vec(); 1000], || {
            begun += 1;
            Ok::<_, Error>(())
        });
        assert!(matches!(refused, Err(Error::InvalidArgument(_))));
        assert_eq!(begun, 1, "nothing is read behind the limit");
    }
}
