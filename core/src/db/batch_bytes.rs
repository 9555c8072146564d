//! Bytes that a caller hands over, borrowed or owned.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes for a [`Batch`](crate::Batch): a reference to anything that is bytes, which the batch borrows, or bytes by value, which it keeps.
///
/// ```
/// # fn main() -> pipkin::Result<()> {
/// # let db = pipkin::Db::open_in_memory()?;
/// let name = String::from("ada");
/// db.batch().insert(&name, "borrowed").insert(format!("{name}'s age"), 36_u32.to_be_bytes()).commit()?;
/// # assert_eq!(db.len()?, 2);
/// # Ok(())
/// # }
/// ```
pub trait BatchBytes<'a> {
    /// The bytes.
    fn into_bytes(self) -> Cow<'a, [u8]>;
}

impl<'a, T: AsRef<[u8]> + ?Sized> BatchBytes<'a> for &'a T {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Borrowed(self.as_ref())
    }
}

impl<'a> BatchBytes<'a> for Vec<u8> {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Owned(self)
    }
}

impl<'a> BatchBytes<'a> for String {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Owned(self.into())
    }
}

impl<'a> BatchBytes<'a> for Box<[u8]> {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Owned(self.into())
    }
}

impl<'a, const N: usize> BatchBytes<'a> for [u8; N] {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Owned(self.into())
    }
}

impl<'a> BatchBytes<'a> for Cow<'a, [u8]> {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        self
    }
}
