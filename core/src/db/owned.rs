//! A value that can be kept and sent to another thread, not copied where the host can map the file.

use super::handle::{Namespace, Open};
use crate::error::Result;
use crate::log::ValueBytes;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

/// A value of a record, as a slice of bytes that borrows nothing: `'static`, [`Send`] and [`Sync`]. From
/// [`Db::get_zerocopy_owned`](crate::Namespace::get_zerocopy_owned).
///
/// Where the host can map the file it is not copied. While it lives it keeps the store open and its own segment from being reused, and
/// nothing else: everything that is alive in that segment is compacted away as ever, only the space waits.
/// [`Stats::owned_values`](crate::Stats::owned_values) counts these values, and [`Stats::held_bytes`](crate::Stats::held_bytes) the space
/// that waits for them. To keep a small value for long, take a copy: [`Self::into_vec`].
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert("color", "green")?;
/// let value = db.get_zerocopy_owned("color")?.expect("it was stored");
/// let length = std::thread::spawn(move || value.len()).join().unwrap();
/// assert_eq!(length, 5);
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct OwnedValue(Kept);

enum Kept {
    Mapped {
        /// Lives as long as `_hold`.
        bytes: &'static [u8],
        _hold: Hold,
    },
    Copied(Vec<u8>),
}

/// Keeps a store open and one of its segments from being reused.
struct Hold {
    store: Arc<Open>,
    offset: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.store.engine.log.holds.release(self.store.engine.log.geometry.extent_of(self.offset));
    }
}

impl Namespace {
    /// Returns the value of a key as [`Self::get_zerocopy`] does, but borrows nothing: it can be stored in a structure and sent to another
    /// thread. Costs a lock that all these values of a store share. See [`OwnedValue`].
    ///
    /// # Errors
    ///
    /// As for [`Self::get`].
    pub fn get_zerocopy_owned(&self, key: impl AsRef<[u8]>) -> Result<Option<OwnedValue>> {
        let engine = &self.store.engine;
        let pin = engine.pin();
        let Some(frame) = self.store.frame(&pin, &self.name, key.as_ref())? else { return Ok(None) };
        let offset = frame.offset;
        let kept = match frame.into_value() {
            ValueBytes::Copied(bytes) => Kept::Copied(bytes),
            // Views of a storage that evicts what it keeps in memory are only good during the call.
            ValueBytes::Mapped(bytes) if engine.log.remembers_checks() => Kept::Copied(bytes.to_vec()),
            ValueBytes::Mapped(bytes) => {
                engine.log.holds.hold(engine.log.geometry.extent_of(offset));
                let hold = Hold { store: self.store.clone(), offset };
                // SAFETY: the slice is a view of the store's storage, which `hold` keeps. The pin has kept the segment from being reused
                // up to here; from now on the hold does: while it is counted, `Log::reclaim` frees no segment of this extent. A published
                // record is never written again, and the file is never cut below a segment that is not free.
                let bytes = unsafe { core::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
                Kept::Mapped { bytes, _hold: hold }
            }
        };
        Ok(Some(OwnedValue(kept)))
    }
}

impl OwnedValue {
    /// The value as a vector: a copy, unless it has been copied before. Releases the segment.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Kept::Mapped { bytes, .. } => bytes.to_vec(),
            Kept::Copied(bytes) => bytes,
        }
    }
}

impl Deref for OwnedValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kept::Mapped { bytes, .. } => bytes,
            Kept::Copied(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for OwnedValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Equal to whatever has the same bytes.
impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for OwnedValue {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for OwnedValue {}

impl fmt::Debug for OwnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedValue({} bytes)", self.len())
    }
}
