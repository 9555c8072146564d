//! A value that is not copied where the host can map the file.

use crate::log::ValueBytes;
use crate::pins::Pin;
use core::fmt;
use core::ops::Deref;

/// A value of a record, as a slice of bytes: borrowed from the map where the host can map the file, a copy elsewhere.
///
/// While it lives, compaction cannot reuse the segment that holds it, nor others that are retired meanwhile, so do not keep it for long. It
/// cannot be sent to another thread; its bytes may be lent to others.
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert("color", "green")?;
/// if let Some(value) = db.get_zerocopy("color")? {
///     assert_eq!(&value[..3], b"gre"); // it is a slice of bytes
/// }
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct Value<'a> {
    bytes: ValueBytes<'a>,
    /// Keeps the segment from being reused.
    _pin: Pin<'a>,
}

impl<'a> Value<'a> {
    pub(super) fn new(bytes: ValueBytes<'a>, pin: Pin<'a>) -> Self {
        Self { bytes, _pin: pin }
    }
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Value<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}
