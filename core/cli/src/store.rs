//! Opening a store for a verb, and the one namespace that the verb works on.

use crate::args::{CompressArgs, NamespaceArg, ReadArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::file_kind;
use crate::unlock;
use pipkin::storage::{NativeOptions, NativeStorage};
use pipkin::{Builder, Db, Durability, Error, Namespace, SnapshotNamespace};
use std::fs;
use std::path::{Path, PathBuf};

/// An open store with the namespace that the verb works on.
pub(crate) struct Store {
    db: Db,
    path: PathBuf,
    records: Namespace,
}

impl Store {
    /// The same open store, for work on another namespace; without a name, on the default one.
    pub(crate) fn with_namespace(&self, name: Option<&str>) -> Outcome<Self> {
        Self::with_records(self.db.clone(), &self.path, &NamespaceArg { namespace: name.map(str::to_owned) })
    }

    /// For verbs that only read. The store and the namespace must exist.
    pub(crate) fn read(path: &Path, namespace: &NamespaceArg) -> Outcome<Self> {
        Self::existing(reading(path).open(), path, namespace)
    }

    /// As [`Self::read`], or as [`Self::follow`] if that is asked for.
    pub(crate) fn read_as(path: &Path, args: &ReadArgs) -> Outcome<Self> {
        if args.follow {
            return Self::follow(path, &args.namespace);
        }
        Self::read(path, &args.namespace)
            .map_err(|failure| if failure.is(Exit::Locked) { failure.and("with --follow this reads beside it") } else { failure })
    }

    /// For verbs that read beside a process that writes: without a lock. The store and the namespace must exist.
    pub(crate) fn follow(path: &Path, namespace: &NamespaceArg) -> Outcome<Self> {
        Self::existing(unlock::builder().path(path).follow(true).create(false).open(), path, namespace)
    }

    /// For verbs that change a store. The store and the namespace must exist.
    pub(crate) fn change(path: &Path, namespace: &NamespaceArg) -> Outcome<Self> {
        Self::existing(changing(path).open(), path, namespace)
    }

    /// The same for verbs that may compress: in a sealed store only if that is said.
    pub(crate) fn compress(path: &Path, namespace: &NamespaceArg, compress_sealed: bool) -> Outcome<Self> {
        Self::existing(changing(path).compress_sealed(compress_sealed).open(), path, namespace)
    }

    /// For removals. Reads do not verify checksums, so that a damaged record can be removed, too: only its key is needed.
    pub(crate) fn remove_from(path: &Path, namespace: &NamespaceArg) -> Outcome<Self> {
        Self::existing(changing(path).verify_on_read(false).open(), path, namespace)
    }

    /// For a backup, of all namespaces. The store must exist.
    pub(crate) fn back_up(path: &Path) -> Outcome<Self> {
        // Opened to write, because a backup writes a mark, at which the copy ends, into the log of the source. A store that cannot be
        // written needs no mark. Neither does one that others have open: while they read it, nobody writes; and while somebody writes,
        // it cannot be opened to read either.
        let opened = match changing(path).open() {
            Err(Error::ReadOnly) => reading(path).open(),
            Err(locked @ Error::Locked { .. }) => reading(path).open().map_err(|_| locked),
            opened => opened,
        };
        Self::existing(opened, path, &NamespaceArg::default())
    }

    /// For verbs that add records. Store and namespace are created where they are missing.
    pub(crate) fn fill(builder: Builder, path: &Path, namespace: &NamespaceArg) -> Outcome<Self> {
        unlock::confirm_for_new(path)?;
        let db = builder.path(path).open().map_err(|error| not_opened(path, &error))?;
        Self::with_records(db, path, namespace)
    }

    fn existing(opened: pipkin::Result<Db>, path: &Path, namespace: &NamespaceArg) -> Outcome<Self> {
        let db = opened.map_err(|error| not_opened(path, &error))?;
        if let Some(name) = &namespace.namespace
            && db.find_namespace(name).is_none()
        {
            return Err(no_namespace(path, name));
        }
        Self::with_records(db, path, namespace)
    }

    fn with_records(db: Db, path: &Path, namespace: &NamespaceArg) -> Outcome<Self> {
        let records = match &namespace.namespace {
            None => db.default_namespace(),
            Some(name) => db.namespace(name).map_err(|error| Failure::store(path, &error))?,
        };
        Ok(Self { db, path: path.to_path_buf(), records })
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The records of the namespace that the verb works on.
    pub(crate) fn records(&self) -> &Namespace {
        &self.records
    }

    /// Lets the file say when the values of the namespace are compressed, if the command line does.
    pub(crate) fn keep_compression(&self, args: CompressArgs) -> Outcome<()> {
        let Some(compression) = args.compression else { return Ok(()) };
        self.records.set_compression(Some(compression.into())).map_err(|error| self.failure(&error))
    }

    /// The same records as they are at this moment, for verbs that read many: whoever writes meanwhile changes nothing of it.
    pub(crate) fn moment(&self) -> Outcome<SnapshotNamespace> {
        let snapshot = self.db.snapshot();
        let namespace = match self.records.name() {
            "" => Ok(Some(snapshot.default_namespace())),
            name => snapshot.namespace(name),
        };
        namespace.map_err(|error| self.failure(&error))?.ok_or_else(|| no_namespace(&self.path, self.records.name()))
    }

    /// The failure for an engine error on this store.
    pub(crate) fn failure(&self, error: &pipkin::Error) -> Failure {
        Failure::store(&self.path, error)
    }

    /// Makes everything durable and closes the store; returns the durability reached.
    pub(crate) fn flush_and_close(self) -> Outcome<Durability> {
        let durability = self.db.flush().map_err(|error| self.failure(&error))?;
        self.close()?;
        Ok(durability)
    }

    /// Closes the store and reports errors that dropping it would hide.
    pub(crate) fn close(self) -> Outcome<()> {
        drop(self.records);
        self.db.close().map_err(|error| Failure::store(&self.path, &error))
    }
}

pub(crate) fn reading(path: &Path) -> Builder {
    unlock::builder().path(path).read_only(true).create(false)
}

fn changing(path: &Path) -> Builder {
    // The process ends after a few writes, so a background thread has nothing to do.
    unlock::builder().path(path).create(false).background(false)
}

/// The failure for an engine error on opening the store at `path`. The kind of file there makes the message more specific.
pub(crate) fn not_opened(path: &Path, error: &Error) -> Failure {
    match (error, fs::metadata(path)) {
        (Error::InvalidArgument(_), Ok(found)) if !found.is_file() => {
            let what = file_kind::name(found.file_type());
            let message = format!("{} is {what}, and a store is a regular file; check the path", path.display());
            Failure::new(Exit::NoStore, "not-a-store", message).with("path", path.display().to_string())
        }
        (Error::NotFound { .. }, Ok(found)) if found.len() == 0 => {
            Failure::store(path, &Error::NotAStore { detail: "it is empty" })
        }
        _ => Failure::store(path, error),
    }
}

/// Opens the file of a store that may be too damaged to open as a store; read-only. Not mapped: a failing medium then causes an error,
/// where a mapped read would end the process.
pub(crate) fn open_damaged(path: &Path) -> Outcome<NativeStorage> {
    NativeStorage::open(path, NativeOptions { read_only: true, create: false, mmap: false, ..NativeOptions::default() })
        .map_err(|error| not_opened(path, &error))
}

/// The failure for a namespace that does not exist.
pub(crate) fn no_namespace(path: &Path, name: &str) -> Failure {
    Failure::new(
        Exit::No,
        "namespace-not-found",
        format!("{} has no namespace {name:?}; `pipkin namespaces list` names them", path.display()),
    )
}

/// The name of a durability level in reports.
pub(crate) fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Device => "device",
        Durability::Os => "os",
        _ => "none",
    }
}
