//! A value that is not copied where the host can map the file.

use crate::log::ValueBytes;
use crate::pins::Pin;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

/// A value of a record, as a slice of bytes: borrowed from the map where the host can map the file, a copy elsewhere.
///
/// While it lives, compaction cannot reuse the segment that holds it, nor others that are retired meanwhile, so do not keep it for long. It
/// cannot be sent to another thread; its bytes may be lent to others. An [`OwnedValue`](crate::OwnedValue) can be kept and sent.
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert("color", "green")?;
/// if let Some(value) = db.get_zerocopy("color")? {
///     assert_eq!(&value[..3], b"gre"); // it is a slice of bytes
///     assert!(value == "green" && value == b"green");
///     let copy: Vec<u8> = value.into_vec();
///     # assert_eq!(copy, b"green");
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

    /// The value as a vector: a copy, unless it has been copied before.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes.into_vec()
    }
}

/// Equal to whatever has the same bytes.
impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value<'_> {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Value<'_> {}

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
