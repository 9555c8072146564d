//! Verifying the checksums of every byte that counts. For an open store [`Db::verify`](crate::Db::verify) determines which bytes count.

mod checks;
mod compare;
#[cfg(feature = "compress")]
mod compressed;
#[cfg(feature = "salvage")]
mod lost;
mod names;
mod shown;
#[cfg(feature = "salvage")]
mod survey;

pub(crate) use checks::{check_front, check_store, check_stranded, check_untouched, forgive_torn};
#[cfg(all(feature = "compress", feature = "salvage"))]
pub(crate) use compressed::{Dictionaries, plain_value, read_dictionaries};
#[cfg(feature = "salvage")]
pub(crate) use shown::{Audit, Shown};
#[cfg(feature = "salvage")]
pub(crate) use survey::Survey;

use crate::error::{Error, Result};
use crate::log::{Front, read_superblocks};
use crate::recover::Chain;
use crate::scan::Damage;
use crate::storage::Storage;
use alloc::vec::Vec;

/// The result of verifying a store.
///
/// ```
/// # let db = pipkin::Db::open_in_memory()?;
/// # db.insert("color", "green")?;
/// let report = db.verify()?;
/// println!("{} records, {} bytes checked, {} damaged", report.records, report.bytes_checked, report.damage.len());
/// assert!(report.is_ok());
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Valid records, dead ones and tombstones included.
    pub records: u64,
    /// Of these, compressed ones. A build with the feature `compress` has decoded each.
    pub compressed: u64,
    /// Bytes that were checked.
    pub bytes_checked: u64,
    /// Segments of the log.
    pub segments: u64,
    /// All damage that was found.
    pub damage: Vec<Damage>,
    /// Valid records of complete commits after a point at which an unclean end has cut the log, because of a torn write or a damaged bit.
    /// They do not count, and are kept until [`Db::drop_stranded`](crate::Db::drop_stranded) gives them up.
    pub stranded_records: u64,
    /// Bytes of these records.
    pub stranded_bytes: u64,
    /// File offset of the first of them.
    pub stranded_at: Option<u64>,
    /// The store is sealed, and was read without its key: checksums tell damage, and not what somebody has changed.
    #[cfg(feature = "encrypt")]
    pub unauthenticated: bool,
}

impl VerifyReport {
    /// True when there is no damage. Stranded records are not damage.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("color", "green")?;
    /// let report = db.verify()?;
    /// assert!(report.is_ok(), "{:?}", report.damage);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn is_ok(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Verifies a store that is not open, even one that can no longer be opened. Never changes it.
///
/// ```
/// use pipkin::{Db, storage::MemoryStorage, verify_storage};
///
/// let file = MemoryStorage::new();
/// Db::builder().open_storage(Box::new(file.clone()))?.insert("color", "green")?;
/// let report = verify_storage(&file)?;
/// assert!(report.is_ok());
/// for damage in report.damage {
///     println!("byte {}: {}", damage.offset, damage.what);
/// }
/// # Ok::<(), pipkin::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NotAStore`], [`Error::NewerVersion`], [`Error::Corrupt`] when both superblocks are lost and no segment is found without them,
/// and errors of the storage. Any other damage is not an error: it is listed in the report.
pub fn verify_storage(storage: &dyn Storage) -> Result<VerifyReport> {
    #[cfg(feature = "encrypt")]
    if is_sealed_file(storage)? {
        let report = verify_plainly(&crate::storage::ReadOnly::locked(storage))?;
        return Ok(VerifyReport { unauthenticated: true, ..report });
    }
    verify_plainly(storage)
}

/// True for the file of a sealed store, also of one that has lost both superblocks.
#[cfg(feature = "encrypt")]
pub(crate) fn is_sealed_file(storage: &dyn Storage) -> Result<bool> {
    match read_superblocks(storage) {
        Ok(Front::Store(pair)) => Ok(pair.current.key_page != 0),
        Ok(Front::Blank) => Ok(false),
        Err(_) => crate::unlock::has_page(storage),
    }
}

fn verify_plainly(storage: &dyn Storage) -> Result<VerifyReport> {
    let pair = match read_superblocks(storage) {
        Ok(Front::Store(pair)) => pair,
        Ok(Front::Blank) => {
            return Err(Error::NotAStore { detail: "it is empty" });
        }
        #[cfg(feature = "salvage")]
        Err(Error::Corrupt { .. } | Error::NotAStore { .. }) => return Survey::of(storage)?.report(storage),
        Err(error) => return Err(error),
    };
    match Chain::follow(storage, &pair) {
        Ok(chain) => {
            let segments = chain.live_segments();
            let is_closed = chain.clean && !pair.current.torn_end;
            let mut report = VerifyReport::default();
            check_front(storage, &mut report)?;
            check_store(storage, &pair, &segments, &mut report)?;
            forgive_torn(&mut report, &chain.torn_headers);
            let open = segments.last().map(|last| last.base).filter(|_| is_closed);
            let unfinished = segments.iter().filter(|segment| Some(segment.base) != open);
            checks::check_stranded(storage, pair.current.geometry(), unfinished.chain(&chain.kept), &mut report)?;
            if let Some(last) = segments.last().filter(|_| is_closed) {
                check_untouched(storage, &pair.current, last, &mut report)?;
            }
            compare::compare(storage, &pair, &chain, &mut report)?;
            Ok(report)
        }
        Err(Error::Corrupt { offset, what, .. }) => {
            #[cfg(feature = "salvage")]
            let mut report = Survey::of(storage)?.report(storage)?;
            #[cfg(not(feature = "salvage"))]
            let mut report = VerifyReport::default();
            check_front(storage, &mut report)?;
            if report.damage.is_empty() {
                checks::damage(&mut report, offset, 1, what);
            }
            Ok(report)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
