//! Where the file of a store is, and opening it.

use super::super::handle::Db;
use super::Builder;
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::storage::native::{FollowedFile, NativeOptions, NativeStorage, data_path};
#[cfg(feature = "io-uring")]
use crate::storage::{IoUring, IoUringState};
use crate::store::FlushPolicy;
use std::path::{Path, PathBuf};

/// The parts of the file's path, as the caller gave them.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    path: Option<PathBuf>,
    app_name: Option<String>,
    database_name: Option<String>,
    data_root: Option<PathBuf>,
}

impl Builder {
    /// The path of the file. It excludes [`Self::app_name`], [`Self::database_name`] and [`Self::data_root`]: with both, opening answers
    /// [`Error::InvalidArgument`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// let db = pipkin::Db::builder().path(folder.path().join("app.pipkin")).open()?;
    /// assert!(folder.path().join("app.pipkin").exists());
    /// # drop(db);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn path(mut self, path: impl AsRef<Path>) -> Self {
        self.place.path = Some(path.as_ref().into());
        self
    }

    /// The folder of the file inside the platform's folder for application data (`$XDG_DATA_HOME` or `~/.local/share`,
    /// `~/Library/Application Support`, `%LOCALAPPDATA%`), for stores without a [`Self::path`]. Default, with a
    /// [`Self::database_name`]: `"pipkin"`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let root = folder.path();
    /// let db = pipkin::Db::builder().app_name("notes").database_name("main").data_root(root).open()?;
    /// assert!(root.join("notes/main.pipkin").exists());
    /// # drop(db);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn app_name(mut self, name: impl Into<String>) -> Self {
        self.place.app_name = Some(name.into());
        self
    }

    /// The name of the file without its extension, for stores without a [`Self::path`]. Default: `"data"`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let root = folder.path();
    /// let db = pipkin::Db::builder().app_name("notes").database_name("drafts").data_root(root).open()?;
    /// assert!(root.join("notes/drafts.pipkin").exists());
    /// # drop(db);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn database_name(mut self, name: impl Into<String>) -> Self {
        self.place.database_name = Some(name.into());
        self
    }

    /// The folder to use instead of the platform's folder for application data, for stores without a [`Self::path`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let root = folder.path();
    /// let db = pipkin::Db::builder().app_name("notes").data_root(root).open()?;
    /// assert!(root.join("notes/data.pipkin").exists());
    /// # drop(db);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn data_root(mut self, root: impl AsRef<Path>) -> Self {
        self.place.data_root = Some(root.as_ref().into());
        self
    }

    /// Maps the file into memory for reading. Default: true. Choose false for a file that another program may shorten while it is open:
    /// reading a map past the end of its file kills the process.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let db = pipkin::Db::builder().mmap(false).path(path).open()?; // every read is a call to the system
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn mmap(mut self, mmap: bool) -> Self {
        self.mmap = mmap;
        self
    }

    /// Reads the file through io_uring, past the system's cache (Linux): for a store that does not fit into memory. Unless
    /// [`IoUring::auto`] is off, a file that fits is read through its map all the same. What reads announce (`get_many`, walks, compaction,
    /// opening, `verify`) is in flight together; a `get` is one read past the cache. Every read copies. Writes and syncs are as without it.
    ///
    /// Where the system refuses it (an old kernel, a sandbox, a file system without direct reads), and for a follower, the store opens as
    /// without it, and [`OpenReport::io_uring`](crate::OpenReport::io_uring) says why.
    ///
    /// ```
    /// use pipkin::{Db, IoUring, IoUringState};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let db = Db::builder().path(path).io_uring(IoUring::default()).open()?;
    /// match &db.open_report().io_uring {
    ///     Some(IoUringState::Used { direct, .. }) => println!("through rings, direct: {direct}"),
    ///     Some(IoUringState::Refused(why)) => println!("not through rings: {why}"),
    ///     other => println!("{other:?}"), // an empty file fits into memory
    /// }
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[cfg(feature = "io-uring")]
    pub fn io_uring(mut self, options: IoUring) -> Self {
        self.io_uring = Some(options);
        self
    }

    /// The file of a store, read in the way that was asked for.
    fn over(&mut self, file: NativeStorage) -> Box<dyn Storage> {
        #[cfg(feature = "io-uring")]
        if let Some(options) = self.io_uring {
            let (storage, state) = file.with_io_uring(options);
            self.attached.io_uring = Some(state);
            return storage;
        }
        Box::new(file)
    }

    /// Opens the file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let db = pipkin::Db::builder().ordered(true).path(path).open()?;
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::open`]; [`Error::InvalidArgument`] when neither a path nor a name was given, or both.
    pub fn open(mut self) -> Result<Db> {
        self.options.check()?;
        let path = self.file_path()?;
        let options = NativeOptions {
            read_only: self.options.read_only,
            create: self.options.create && !self.options.read_only,
            mmap: self.mmap,
            write_through: self.options.flush_policy == FlushPolicy::WriteThrough,
        };
        let storage: Box<dyn Storage> = if self.options.follows() {
            #[cfg(feature = "io-uring")]
            if self.io_uring.is_some() {
                self.attached.io_uring = Some(IoUringState::Refused("a follower reads as its writer writes".to_owned()));
            }
            Box::new(FollowedFile::open(&path)?)
        } else {
            let file = NativeStorage::open(&path, options)?.removed_if_empty();
            self.over(file)
        };
        self.attached.path = Some(std::path::absolute(&path).unwrap_or(path));
        self.options.background = Some(self.options.background.unwrap_or(true));
        self.open_storage(storage)
    }

    /// The path of the file, whichever way it was given.
    pub(crate) fn file_path(&self) -> Result<PathBuf> {
        let Place { path, app_name, database_name, data_root } = &self.place;
        let is_named = app_name.is_some() || database_name.is_some();
        match path {
            Some(_) if is_named || data_root.is_some() => Err(Error::InvalidArgument(
                "a store has one place: give the builder a `path`, or an `app_name`, a `database_name` and a `data_root`",
            )),
            Some(path) => Ok(path.clone()),
            None if is_named => {
                let (app, database) = (app_name.as_deref().unwrap_or("pipkin"), database_name.as_deref().unwrap_or("data"));
                data_path(app, database, data_root.as_deref())
            }
            None => Err(Error::InvalidArgument(
                "a store needs a place: give the builder a `path`, an `app_name` or a `database_name`",
            )),
        }
    }

    /// The same options for the file at `path`.
    #[cfg(all(feature = "encrypt", feature = "salvage"))]
    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.place = Place { path: Some(path.into()), ..Place::default() };
        self
    }

    /// False for a reader, and a follower.
    #[cfg(all(feature = "encrypt", feature = "salvage"))]
    pub(crate) const fn may_write(&self) -> bool {
        !self.options.read_only && !self.options.follows()
    }
}
