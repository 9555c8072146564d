//! What salvage does, and what it says of it.

use crate::scan::Damage;
use alloc::vec::Vec;

/// What salvage copied, and what it left out. Every valid record of the log is counted once: `read` is the sum of `records`, `replaced`,
/// `removed`, `tombstones`, `carried`, `names`, `undecoded`, `dropped`, and of `unfinished`, `superseded`, `revived` and `stranded` where these are left
/// out.
///
/// ```
/// use pipkin::{Db, salvage, storage::MemoryStorage};
///
/// let file = MemoryStorage::new();
/// let db = Db::builder().open_storage(Box::new(file.clone()))?;
/// db.insert("color", "green")?;
/// db.insert("color", "red")?;
/// db.close()?;
/// let report = salvage(&file, &Db::open_in_memory()?, &mut |_done, _total| ())?;
/// assert_eq!((report.read, report.records, report.replaced), (2, 1, 1));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Records in the new store.
    pub records: u64,
    /// Tombstones that removed a record which had been copied before.
    pub removed: u64,
    /// Valid records of the log, dead ones and tombstones included.
    pub read: u64,
    /// Of these, records that a later record of the same key replaced, or that have expired.
    pub replaced: u64,
    /// Of these, tombstones.
    pub tombstones: u64,
    /// Records that were copied as they are, although this version of pipkin does not interpret them.
    pub carried: u64,
    /// Records that name a namespace.
    pub names: u64,
    /// Compressed records that cannot be decoded, because their dictionary is lost: they are left out, and listed in `damage`.
    pub undecoded: u64,
    /// Records of namespaces that were dropped or cleared, and dictionaries: the new store has plain values, until it compresses them again.
    pub dropped: u64,
    /// Valid records at the end of the log whose commit is incomplete. See [`SalvageOptions::unfinished`].
    pub unfinished: u64,
    /// Older records of keys whose newest record is damaged. See [`SalvageOptions::superseded`].
    pub superseded: u64,
    /// Records that had been removed or replaced, where the record of that is damaged or gone. See [`SalvageOptions::revived`].
    pub revived: u64,
    /// Valid records after a point at which an unclean end has cut the log, if the log continues in another segment. See
    /// [`SalvageOptions::stranded`].
    pub stranded: u64,
    /// Records in the new store that may be outdated or removed: they precede a damaged record whose key is unknown. With an index
    /// snapshot, only damage after its checkpoint counts.
    pub unsure: u64,
    /// The stretches of the file that could not be read, or, in a sealed store, that are not authentic.
    pub damage: Vec<Damage>,
    /// Of a sealed store: what shows that this is its newest state is damaged, or not authentic. Every record in the new store is one that somebody with
    /// the key has written; some may be older than the newest, or may have been removed since.
    #[cfg(feature = "encrypt")]
    pub history_unproven: bool,
    /// Of a store that is being made plain ([`Error::DisablingEncryption`](crate::Error::DisablingEncryption)): what was written since that began is
    /// among the copied records, and nothing shows who has written it.
    #[cfg(feature = "encrypt")]
    pub unauthenticated: bool,
}

/// What salvage does with records that opening would not return. The report counts all of them.
///
/// ```
/// use pipkin::{Db, SalvageOptions, salvage_with, storage::MemoryStorage};
///
/// let file = MemoryStorage::new();
/// Db::builder().open_storage(Box::new(file.clone()))?.insert("color", "green")?;
/// let target = Db::open_in_memory()?;
/// let options = SalvageOptions::default().unfinished(true).superseded(false);
/// let report = salvage_with(&file, &target, options, &mut |_done, _total| ())?;
/// assert_eq!((report.records, report.damage.len()), (1, 0));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SalvageOptions {
    pub(super) unfinished: bool,
    pub(super) superseded: bool,
    pub(super) revived: bool,
    pub(super) stranded: bool,
}

impl Default for SalvageOptions {
    fn default() -> Self {
        Self { unfinished: false, superseded: true, revived: false, stranded: false }
    }
}

impl SalvageOptions {
    /// Copies the valid records of an incomplete commit at the end of the log. By default they are left out, as on opening.
    pub const fn unfinished(mut self, keep: bool) -> Self {
        self.unfinished = keep;
        self
    }

    /// Copies older versions where the newest record of a key is damaged (the default). Otherwise these keys are missing in the new store.
    pub const fn superseded(mut self, keep: bool) -> Self {
        self.superseded = keep;
        self
    }

    /// Copies records that had been removed, where the record of that is damaged or gone. Not the default.
    pub const fn revived(mut self, keep: bool) -> Self {
        self.revived = keep;
        self
    }

    /// Copies the records that [`VerifyReport::stranded_records`](crate::VerifyReport::stranded_records) counts, cut off by a power cut or
    /// a damaged bit, even if the log has continued in another segment since. Where a later record of the same key is left, that one
    /// counts. Not the default: a record that was removed in the meantime comes back if compaction has dropped its tombstone. Records after
    /// the end of a log that has not continued are always copied.
    pub const fn stranded(mut self, keep: bool) -> Self {
        self.stranded = keep;
        self
    }
}
