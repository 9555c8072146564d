//! Many byte strings in one piece: a list of their lengths, and their concatenated bytes.

use crate::answer::{Answer, each_value};
use alloc::vec::Vec;
use core::ops::Deref;
use pipkin::{Error, Namespace, Result};

/// The strings of a packed list, in their order.
///
/// # Errors
///
/// [`Error::InvalidArgument`] when the lengths do not add up to the number of bytes.
pub fn strings<'a>(lengths: &'a [u32], bytes: &'a [u8]) -> Result<impl Iterator<Item = &'a [u8]>> {
    let whole: u64 = lengths.iter().map(|&len| u64::from(len)).sum();
    if whole != bytes.len() as u64 {
        return Err(Error::InvalidArgument("the lengths of a packed list do not add up to its bytes"));
    }
    let mut rest = bytes;
    Ok(lengths.iter().map(move |&len| {
        let (string, behind) = rest.split_at_checked(len as usize).unwrap_or((rest, &[]));
        rest = behind;
        string
    }))
}

/// The keys and values of a packed list of records.
///
/// # Errors
///
/// [`Error::InvalidArgument`] as for [`strings`], and for a key without a value.
pub fn records<'a>(lengths: &'a [u32], bytes: &'a [u8]) -> Result<impl Iterator<Item = (&'a [u8], &'a [u8])>> {
    if !lengths.len().is_multiple_of(2) {
        return Err(Error::InvalidArgument("a packed list of records has a value behind each key"));
    }
    let mut strings = strings(lengths, bytes)?;
    Ok(core::iter::from_fn(move || Some((strings.next()?, strings.next()?))))
}

/// A packed list that is being built.
#[derive(Debug, Default)]
pub struct Packing {
    /// The length of each string.
    pub lengths: Vec<u32>,
    /// The bytes of all of them.
    pub bytes: Vec<u8>,
}

impl Packing {
    /// Adds a string.
    pub fn push(&mut self, string: &[u8]) {
        self.lengths.push(length(string));
        self.bytes.extend_from_slice(string);
    }
}

/// Packed answers that are being built.
#[derive(Debug, Default)]
pub struct PackingValues {
    /// The length of each value; `None` for a key without a value.
    pub lengths: Vec<Option<u32>>,
    /// The concatenated bytes of all values.
    pub bytes: Vec<u8>,
    answer: Answer,
}

impl PackingValues {
    /// The values that `get` has for a packed list of keys.
    ///
    /// # Errors
    ///
    /// Those of [`strings`], of `get` and of [`Answer::add`].
    pub fn of<V: Deref<Target = [u8]>, E: From<Error>>(
        lengths: &[u32],
        bytes: &[u8],
        mut get: impl FnMut(&[u8]) -> Result<Option<V>, E>,
    ) -> Result<Self, E> {
        let mut found = Self::default();
        for key in strings(lengths, bytes)? {
            found.push(get(key)?.as_deref())?;
        }
        Ok(found)
    }

    /// The values of a packed list of keys of a namespace, read as [`each_value`] does.
    ///
    /// # Errors
    ///
    /// Those of [`strings`], of [`each_value`] and of [`Answer::add`].
    pub fn of_records<E: From<Error>>(
        records: &Namespace,
        lengths: &[u32],
        bytes: &[u8],
        begin: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut found = Self::default();
        let keys: Vec<&[u8]> = strings(lengths, bytes)?.collect();
        each_value(records, &keys, begin, |_, value| found.push(value))?;
        Ok(found)
    }

    /// Adds an answer.
    ///
    /// # Errors
    ///
    /// Those of [`Answer::add`].
    fn push(&mut self, value: Option<&[u8]>) -> Result<()> {
        let value_or_nothing = value.unwrap_or_default();
        self.answer.add(value_or_nothing.len())?;
        self.lengths.push(value.map(length));
        self.bytes.extend_from_slice(value_or_nothing);
        Ok(())
    }
}

/// The length as `u32`: every string of a store is shorter than 4 GiB.
fn length(string: &[u8]) -> u32 {
    u32::try_from(string.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_out_again() {
        let mut packing = Packing::default();
        let given: [&[u8]; 4] = [b"key", b"", b"", b"a longer value"];
        given.iter().for_each(|string| packing.push(string));
        assert_eq!(strings(&packing.lengths, &packing.bytes).unwrap().collect::<Vec<_>>(), given);
        let pairs: Vec<_> = records(&packing.lengths, &packing.bytes).unwrap().collect();
        assert_eq!(pairs, [(given[0], given[1]), (given[2], given[3])]);
        assert_eq!(strings(&[], &[]).unwrap().count(), 0);
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        assert!(strings(&[1, 2], b"ab").is_err());
        assert!(strings(&[1], b"ab").is_err());
        assert!(strings(&[u32::MAX, u32::MAX, 2], b"").is_err(), "the sum must not wrap around");
        assert!(records(&[1, 1, 1], b"abc").is_err());
    }
}
