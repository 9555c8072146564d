//! What reads read: the store as it is now, or as it was at the moment of a snapshot.

use alloc::vec::Vec;

use pipkin::{Cursor, Db, Result, Snapshot};

/// Reads of records. As `dyn`, so that the module has the code above it once.
pub(crate) trait Records {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn has(&self, key: &[u8]) -> Result<bool>;
    fn expires_at(&self, key: &[u8]) -> Result<Option<u64>>;
    fn page(&self, from: Cursor, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>>;
    /// Whether keys that were there a moment ago may be gone although nobody has removed them.
    fn may_expire(&self) -> bool;
    /// Passes all keys to `each`, or the errors in their places, until that fails.
    fn keys(&self, each: &mut dyn FnMut(Result<Vec<u8>>) -> Result<()>) -> Result<()>;
}

macro_rules! impl_records {
    ($($kind:ty, $may_expire:expr;)*) => {$(
        impl Records for $kind {
            fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
                (**self).get(key)
            }

            fn has(&self, key: &[u8]) -> Result<bool> {
                (**self).contains_key(key)
            }

            fn expires_at(&self, key: &[u8]) -> Result<Option<u64>> {
                (**self).expires_at(key)
            }

            fn may_expire(&self) -> bool {
                let may_expire: fn(&Self) -> bool = $may_expire;
                may_expire(self)
            }

            fn page(&self, from: Cursor, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
                (**self).page(from, each)
            }

            fn keys(&self, each: &mut dyn FnMut(Result<Vec<u8>>) -> Result<()>) -> Result<()> {
                (**self).keys().try_for_each(each)
            }
        }
    )*};
}

// Both dereference to their default namespace.
impl_records!(Db, Db::may_expire; Snapshot, |_| false;);
