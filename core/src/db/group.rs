//! Groups: the records whose keys begin with the name of the group and a dot.

use super::handle::Namespace;
use super::iter::Frames;
#[cfg(feature = "ordered")]
use super::range::{Range, bounds_of_prefix};
use crate::error::{Error, Result};
use alloc::vec::Vec;

/// What the name of a group and the rest of a key have between them.
pub(super) const DOT: u8 = b'.';

/// What the keys of a group begin with.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for an empty name.
pub(super) fn group_prefix(name: &[u8]) -> Result<Vec<u8>> {
    if name.is_empty() {
        return Err(Error::InvalidArgument("a group needs a name; for all records use `iter` or `clear`"));
    }
    Ok([name, &[DOT]].concat())
}

/// The records of a group. See [`Db::group`](crate::Namespace::group) and [`Focus::iter`](crate::Focus::iter).
///
/// ```
/// # let db = pipkin::Db::open_in_memory()?;
/// db.insert_many([("user.7.name", "Ada"), ("user.7.mail", "..."), ("user.8.name", "Bea")])?;
/// let mut keys = db.group("user.7")?.map(|record| Ok(record?.0)).collect::<pipkin::Result<Vec<_>>>()?;
/// keys.sort();
/// assert_eq!(keys, [&b"user.7.mail"[..], b"user.7.name"]);
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct Group<'a> {
    source: Source<'a>,
    /// Leading bytes of each key that are not returned.
    stripped: usize,
}

/// Where the records come from.
enum Source<'a> {
    #[cfg(feature = "ordered")]
    Order(Range<'a>),
    /// All records, of which those count that begin with the prefix.
    All(Frames<'a>, Vec<u8>),
}

impl Namespace {
    /// The records of a group: those whose keys begin with `name` and a dot. `group("user.7")` has `user.7.name` and `user.7.mail.home`, but
    /// neither `user.7` nor `user.70.name`. [`Self::focus`] returns a handle to a group.
    ///
    /// Where the store has an [ordered index](crate::Builder::ordered), they come in the order of their keys, and only they are read.
    /// Otherwise every record of the namespace is read, and they come in no order, as in [`Self::iter`].
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// db.insert_many([("user.7.name", "Ada"), ("user.7.mail", "..."), ("user.70.name", "Bea")])?;
    /// for record in db.group("user.7")? {
    ///     let (key, value) = record?;
    ///     assert!(key.starts_with(b"user.7.") && !value.is_empty());
    /// }
    /// assert_eq!(db.group("user")?.count(), 3); // groups lie in groups
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an empty name. A damaged record is an error in its place, and the walk goes on after it.
    pub fn group(&self, name: impl AsRef<[u8]>) -> Result<Group<'_>> {
        Ok(self.records_from(group_prefix(name.as_ref())?, 0))
    }

    /// The records whose keys begin with `prefix`, without the first `stripped` bytes of each key.
    pub(super) fn records_from(&self, prefix: Vec<u8>, stripped: usize) -> Group<'_> {
        #[cfg(feature = "ordered")]
        if let Ok(range) = self.store.range(&self.name, bounds_of_prefix(&prefix)) {
            return Group { source: Source::Order(range), stripped };
        }
        Group { source: Source::All(self.frames(), prefix), stripped }
    }
}

impl Group<'_> {
    /// The same records for a caller who wants only their keys. None has been read yet.
    pub(super) fn without_values(self) -> Self {
        match self.source {
            #[cfg(feature = "ordered")]
            Source::Order(range) => Self { source: Source::Order(range.without_values()), ..self },
            source @ Source::All(..) => Self { source, ..self },
        }
    }
}

impl Iterator for Group<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = match &mut self.source {
            #[cfg(feature = "ordered")]
            Source::Order(range) => range.next()?,
            Source::All(frames, prefix) => loop {
                match frames.next()? {
                    Ok(frame) if !frame.key().starts_with(prefix) => {}
                    frame => break frame.map(|frame| (frame.key().to_vec(), frame.value().to_vec())),
                }
            },
        };
        Some(record.map(|(mut key, value)| {
            key.drain(..self.stripped.min(key.len()));
            (key, value)
        }))
    }
}
