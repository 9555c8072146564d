//! Who has a store open, and whether its lock is free.

use super::handle::Db;
use crate::error::Result;
use crate::storage::native::{LockHolder, check_lock, lock_holder};
use std::path::Path;

impl Db {
    /// The absolute path of the store's file; `None` for a store in memory or in another [storage](crate::Storage).
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let db = pipkin::Db::open(&path)?;
    /// assert_eq!(db.path(), Some(&*path));
    /// assert_eq!(pipkin::Db::open_in_memory()?.path(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> Option<&Path> {
        self.store.attached.path.as_deref()
    }

    /// The process that has the store at `path` open for writing; `None` if there is none, if the file is not a store, or if the writer
    /// left no note. Changes nothing; locks the file for an instant where nobody else has locked it.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let db = pipkin::Db::open(&path)?;
    /// db.insert("color", "green")?;
    /// let holder = pipkin::Db::lock_holder(&path)?.expect("it is open here");
    /// assert_eq!(holder.pid, std::process::id());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`](crate::Error::NotFound), [`Error::IsDirectory`](crate::Error::IsDirectory), and those of opening the file.
    pub fn lock_holder(path: impl AsRef<Path>) -> Result<Option<LockHolder>> {
        lock_holder(path.as_ref())
    }

    /// There is no lock to break: it belongs to the operating system, which releases it when the process that holds it ends, however it
    /// ends, so none can be left over. This call proves that for the store at `path`: it takes the lock that a writer takes, and releases
    /// it. `Ok` means that the store can be opened. Nothing is changed, and nothing is ever taken from a process that is alive.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let db = pipkin::Db::open(&path)?;
    /// assert!(matches!(pipkin::Db::break_lock(&path), Err(pipkin::Error::Locked { .. })));
    /// drop(db);
    /// pipkin::Db::break_lock(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Locked`](crate::Error::Locked) with the number of the process that has the store open: end that, or wait for it. Otherwise
    /// as for [`Db::lock_holder`].
    pub fn break_lock(path: impl AsRef<Path>) -> Result<()> {
        check_lock(path.as_ref())
    }
}
