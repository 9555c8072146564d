//! Versions: they identify the record of a key, so that a writer can tell that nobody wrote in between, even if the bytes are the same
//! again.

use super::handle::Namespace;
use super::write::Change;
use crate::error::Result;
use crate::log::Frame;
use crate::names::Name;
use crate::store::{Store, check_value};
use alloc::vec::Vec;

/// Identifies the record of a key. No two records of a store ever have the same version, and a record keeps its version when the store is
/// opened again. One exception: a record that was lost in a power cut before it was flushed, on a medium without room for another segment;
/// a later record may get its version.
///
/// Compaction rewrites a record, so its version changes while its value does not: code that compares versions must be ready to read again
/// and retry.
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert("color", "green")?;
/// let first = db.get_versioned("color")?.map(|(_, version)| version);
/// db.insert("color", "green")?; // the same bytes, another record
/// let second = db.get_versioned("color")?.map(|(_, version)| version);
/// assert_ne!(first, second);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The record's offset in the file, which comes back when a segment is reused.
    offset: u64,
    /// The salt of its segment, which never comes back.
    salt: u64,
}

impl Version {
    pub(crate) fn of(frame: &Frame<'_>) -> Self {
        Self { offset: frame.offset, salt: frame.salt }
    }

    /// As two numbers (offset, salt), to store or send.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("color", "green")?;
    /// let (_, version) = db.get_versioned("color")?.unwrap();
    /// let (offset, salt) = version.to_parts(); // for a header `ETag`, say
    /// assert_eq!(pipkin::Version::from_parts((offset, salt)), version);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub const fn to_parts(self) -> (u64, u64) {
        (self.offset, self.salt)
    }

    /// From the numbers that [`Self::to_parts`] returned. Other numbers match no record.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("color", "green")?;
    /// # let etag = db.get_versioned("color")?.unwrap().1.to_parts();
    /// let seen = pipkin::Version::from_parts(etag);
    /// assert!(db.compare_version_and_swap("color", Some(seen), Some(b"red"))?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub const fn from_parts((offset, salt): (u64, u64)) -> Self {
        Self { offset, salt }
    }
}

impl Namespace {
    /// Returns a copy of the value of a key, and the version of its record. See [`Self::compare_version_and_swap`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("light", "green")?;
    /// let (value, version) = db.get_versioned("light")?.unwrap();
    /// assert_eq!(value, b"green");
    /// assert!(db.compare_version_and_swap("light", Some(version), Some(b"red"))?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn get_versioned(&self, key: impl AsRef<[u8]>) -> Result<Option<(Vec<u8>, Version)>> {
        self.store.get_versioned(&self.name, key.as_ref())
    }

    /// Writes `new` (`None` removes the key) if the record of the key still has the version `expected`; `None` expects no record. Returns
    /// whether it wrote. Unlike [`Self::compare_and_swap`] it notices a value that was changed and changed back.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// let db = pipkin::Db::open_in_memory()?;
    /// db.insert("light", "green")?;
    /// let (_, seen) = db.get_versioned("light")?.unwrap();
    /// db.insert("light", "red")?;
    /// db.insert("light", "green")?;
    /// assert!(!db.compare_version_and_swap("light", Some(seen), Some(b"off"))?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::insert`](crate::Namespace::insert).
    pub fn compare_version_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<Version>, new: Option<&[u8]>) -> Result<bool> {
        self.store.compare_version_and_swap(self, key.as_ref(), expected, new)
    }
}

impl Store {
    pub(super) fn get_versioned(&self, name: &Name, key: &[u8]) -> Result<Option<(Vec<u8>, Version)>> {
        let pin = self.engine.pin();
        let frame = self.frame(&pin, name, key)?;
        Ok(frame.map(|frame| (frame.value().to_vec(), Version::of(&frame))))
    }

    fn compare_version_and_swap(
        &self,
        to: &Namespace,
        key: &[u8],
        expected: Option<Version>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        check_value(new.unwrap_or_default())?;
        let mut swapped = false;
        self.change(to, key, &mut |old| {
            swapped = old.map(Version::of) == expected;
            if swapped { Change::To(new.map(<[u8]>::to_vec)) } else { Change::None }
        })?;
        Ok(swapped)
    }
}
