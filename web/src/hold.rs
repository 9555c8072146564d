//! Keeps every record at its offset while an export is read from the file.
#![allow(unsafe_code, reason = "an iterator that is kept together with the store it borrows")]

use pipkin::{Db, Keys};

/// While this exists, no range of the file that held a record before is overwritten.
pub(crate) struct Hold {
    /// Never read from: an open iterator keeps segments from being reused. Declared first, so that it is dropped before the store.
    _reader: Keys<'static>,
    _db: Db,
}

impl Hold {
    pub(crate) fn of(db: &Db) -> Self {
        let db = db.clone();
        // SAFETY: the iterator borrows the store that `db` shares, which does not move while a handle exists. `_db` is such a handle and
        // is dropped after the iterator.
        let reader = unsafe { core::mem::transmute::<Keys<'_>, Keys<'static>>(db.keys()) };
        Self { _reader: reader, _db: db }
    }
}

impl core::fmt::Debug for Hold {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Hold")
    }
}
