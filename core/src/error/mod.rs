//! The errors of the store. Each message says what to do next.

mod messages;

use crate::conflict::Conflict;
use crate::cursor::Cursor;
#[cfg(feature = "events")]
use crate::expected::FailedCheck;
use crate::position::Position;
use crate::storage::{StorageError, StorageErrorKind};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

/// The result of every call that can fail.
///
/// ```
/// fn load(db: &pipkin::Db) -> pipkin::Result<u64> {
///     db.insert("color", "green")?;
///     db.len()
/// }
/// assert_eq!(load(&pipkin::Db::open_in_memory()?)?, 1);
/// # Ok::<(), pipkin::Error>(())
/// ```
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a call failed.
///
/// ```
/// use pipkin::{Db, Error};
///
/// let db = Db::open_in_memory()?;
/// match db.insert([0; 100_000], "value") {
///     Err(Error::KeyTooLong { len }) => assert_eq!(len, 100_000),
///     Err(Error::NoSpace) => println!("remove something"),
///     other => other?,
/// }
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file is open elsewhere: in another process, or through another handle in this process.
    Locked {
        /// The path, where there is one.
        path: String,
        /// PID of the process that holds it, if it recorded one.
        holder: Option<u32>,
    },
    /// There is no file at the path, and the open was not allowed to create one.
    NotFound {
        /// The path.
        path: String,
    },
    /// The path is a directory.
    IsDirectory {
        /// The path.
        path: String,
    },
    /// The file is not a pipkin store. It was not changed.
    NotAStore {
        /// What was found instead.
        detail: &'static str,
    },
    /// The file was written by a newer version of pipkin. It was not changed.
    NewerVersion {
        /// The format version in the file.
        found: u32,
        /// The newest format version that this build reads.
        supported: u32,
    },
    /// The file or the medium cannot be written, or the store was opened read-only.
    ReadOnly,
    /// The medium or the quota is full. Nothing was written, and the store takes writes as before: space that runs out half way through a
    /// write or a sync is [`Error::Storage`] instead.
    NoSpace,
    /// A removal or a compaction found no space, and much of the medium is kept for records that are stranded
    /// [after an unclean end](crate::OpenReport::stranded_records) of the log. Nothing was written.
    /// [`Db::drop_stranded`](crate::Db::drop_stranded) frees it, and then the call succeeds; run [`salvage`](crate::salvage) on the file
    /// first if the records are wanted.
    StrandedInTheWay {
        /// Bytes that dropping them would free.
        bytes: u64,
    },
    /// The key is longer than [`KEY_LEN_MAX`](crate::limits::KEY_LEN_MAX).
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// With the name of its [group](crate::Focus) the key is longer than [`KEY_LEN_MAX`](crate::limits::KEY_LEN_MAX).
    GroupKeyTooLong {
        /// Length of the group's name and the dot, in bytes.
        group: usize,
        /// Length of the key without them.
        key: usize,
    },
    /// The value is longer than [`VALUE_LEN_MAX`](crate::limits::VALUE_LEN_MAX).
    ValueTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The name of a namespace is empty or too long.
    NamespaceName {
        /// Its length in bytes.
        len: usize,
    },
    /// The name begins with the byte 0, which is reserved for the internal namespaces of pipkin and its hosts.
    SystemNamespace,
    /// The namespace of this handle was dropped.
    NamespaceDropped,
    /// Stored data is damaged: bytes changed after they were safely written.
    Corrupt {
        /// Where in the file, in bytes.
        offset: u64,
        /// What is damaged there.
        what: &'static str,
        /// What [`Error::damaged_key`] and [`Error::next_page`] return.
        #[doc(hidden)]
        found: Option<Box<Found>>,
    },
    /// A part of the index that the store [reads in the file](crate::Builder::index_memory) is damaged. No record is lost: it is built anew from the
    /// log, by the background thread, by the next write that meets it, which then is carried out, or by [`Db::checkpoint`](crate::Db::checkpoint). Until
    /// then reads that need this part fail, and the others answer. Where a record in the log is damaged, too, and in a store that is open for reading only, only
    /// opening it again helps.
    IndexDamaged {
        /// Where in the file, in bytes.
        offset: u64,
    },
    /// Valid data that this version of pipkin preserves but cannot interpret, most often a property of a record. It is kept as it is.
    Unsupported {
        /// Where in the file, in bytes.
        offset: u64,
        /// What it is.
        what: &'static str,
    },
    /// The log positions or generations of the store are used up. No store reaches that by writing: the file was made by hand.
    LogExhausted,
    /// The snapshot was ended to make space for other records, see [`Builder::snapshot_limit`](crate::Builder::snapshot_limit): take
    /// another one.
    SnapshotTooOld,
    /// The store does not contain this position: the commit was lost, or made in another store or another copy of this one.
    UnknownPosition,
    /// The changes behind this position are no longer kept: compaction has freed a part of that log. Take the present state, or go on from the
    /// oldest position that is kept and do without what was in between.
    Compacted {
        /// The oldest position from which all changes are kept.
        oldest: Position,
    },
    /// Another subscription has begun with this cursor, or it was removed: it may have dealt with the events, too. Begin again with
    /// [`EventReader::cursor`](crate::EventReader::cursor), which goes on where the other one was.
    #[cfg(feature = "events")]
    CursorTaken,
    /// An append of events expected something that is not so; nothing was written. Read the streams again, decide again, and append again.
    #[cfg(feature = "events")]
    AppendRefused {
        /// Every check that failed.
        failed: Box<[FailedCheck]>,
    },
    /// Another writer changed what this transaction had read. Nothing was written; run it again.
    Conflict(Conflict),
    /// Another instance has taken the store over, on a host without locks. What this handle flushed is safe; what it wrote since may be
    /// lost. Writes are refused: open the store again.
    Fenced,
    /// A [follower](crate::Builder::follow) has met records whose space the writer has used again since, and could not catch up: the writer is
    /// faster than it reads. Read again; for long reads, take a [snapshot](crate::Db::snapshot) after a [refresh](crate::Db::refresh).
    Overtaken,
    /// The file does not contain any more what this [follower](crate::Builder::follow) has shown: it was replaced, set back to an earlier
    /// state, or lost its end in a power cut. The follower keeps its last state; open it again to follow the file as it is now.
    Diverged,
    /// An earlier write or sync failed; writes are refused until the store is opened again. Reads still work.
    Poisoned(Arc<Error>),
    /// The store was closed by another handle.
    Closed,
    /// A call was made from inside the closure of an [`update`](crate::Namespace::update), a [`transaction`](crate::Namespace::transaction)
    /// or a [`compact_with`](crate::Db::compact_with) of the same store, and would deadlock waiting for it to end.
    Nested,
    /// The call needs the ordered index, and the store was opened without it.
    NotOrdered,
    /// The namespace has no merge operator.
    NoMergeOperator {
        /// Its name; empty for the default namespace.
        namespace: String,
    },
    /// A [merge operator](crate::Builder::merge_operator) could not combine the value and the operand. Nothing was written.
    MergeRefused {
        /// Its name, as it was registered.
        operator: Box<str>,
        /// Why, in its own words.
        reason: Box<str>,
    },
    /// The store has no clock, and a record was to expire. Nothing was written. Give it one with
    /// [`Builder::clock`](crate::Builder::clock).
    NoClock,
    /// The store is sealed, and no key was given.
    #[cfg(feature = "encrypt")]
    KeyNeeded,
    /// A key was given for a store that is not sealed.
    #[cfg(feature = "encrypt")]
    NotSealed,
    /// The store is being made plain ([`Db::disable_encryption`](crate::Db::disable_encryption)) and that was cut short: what was written since is not
    /// authenticated. `Builder::disable_encryption`, or for a storage [`Builder::disable_encryption_in`](crate::Builder::disable_encryption_in), opens it and
    /// goes on.
    #[cfg(feature = "encrypt")]
    DisablingEncryption,
    /// The key or passphrase does not open the store.
    #[cfg(feature = "encrypt")]
    WrongKey,
    /// Somebody without the key has changed the sealed store, or put something into it. No read acts on it.
    #[cfg(feature = "encrypt")]
    Forged {
        /// Where in the file, in bytes.
        offset: u64,
        /// What does not belong there.
        what: &'static str,
    },
    /// The sealed store says that it was closed, and has segments of later sessions: its superblocks were set back.
    #[cfg(feature = "encrypt")]
    RolledBack,
    /// The [`KeyProvider`](crate::KeyProvider) did not answer. Nothing was read or changed.
    #[cfg(feature = "encrypt")]
    KeyUnavailable {
        /// Why, in its own words.
        detail: String,
    },
    /// The store does not contain the [anchor](crate::Builder::not_before): it is an earlier state of the file, or another file. Nothing was changed.
    #[cfg(feature = "encrypt")]
    OlderThanAnchor,
    /// The host's cryptographic source of randomness failed, and keys are made of nothing else.
    #[cfg(feature = "encrypt")]
    NoRandomness,
    /// A key or a value in a [typed view](https://docs.rs/pipkin/latest/pipkin/struct.TypedNamespace.html), or the payload of an event, is not
    /// of its type.
    NotOfType {
        /// `"key"`, `"value"` or `"payload"`.
        what: &'static str,
        /// The type, as the compiler names it.
        type_name: &'static str,
    },
    /// An option or argument that makes no sense.
    InvalidArgument(&'static str),
    /// An internal invariant of pipkin does not hold: a bug in pipkin.
    Bug(&'static str),
    /// The host's file system failed. The source is the host's own error, on a native file an [`std::io::Error`]; `{error:#}` prints it,
    /// too. After a failed write or sync it is unknown how much of it the file holds: open the store again.
    ///
    /// [`std::io::Error`]: https://doc.rust-lang.org/std/io/struct.Error.html
    Storage(StorageError),
}

/// What a range or a walk adds to an error of damage. Rarely present, so kept out of line: nearly every result of the engine is as large
/// as [`Error`].
#[derive(Clone, Debug, Default)]
pub struct Found {
    key: Option<Arc<[u8]>>,
    next: Option<Cursor>,
}

// Of a module of 381 kB for a page, errors of 40 bytes were 10 kB.
#[cfg(target_pointer_width = "32")]
const _: () = assert!(size_of::<Error>() == 24);

impl Error {
    /// The same error, for a call that has closed the store to writes: space ran out half way, and it is unknown what the file holds.
    pub(crate) fn half_way(self) -> Self {
        match self {
            Self::NoSpace => {
                let detail = "no space left on the medium; what was not flushed before may be lost. Free space, then close and open the store";
                Self::Storage(StorageError::new(StorageErrorKind::NoSpace, "a write or a sync", detail))
            }
            error => error,
        }
    }

    pub(crate) fn corrupt(offset: u64, what: &'static str) -> Self {
        Self::Corrupt { offset, what, found: None }
    }

    /// The key of the damaged record, if it is known: from a range, for the ordered index holds the keys, and from a read of many keys.
    pub fn damaged_key(&self) -> Option<&[u8]> {
        self.found()?.key.as_deref()
    }

    /// Where a walk in [pages](crate::Namespace::page) continues after the damage; `None` at the end of the walk, and from all other calls.
    pub fn next_page(&self) -> Option<Cursor> {
        self.found()?.next
    }

    fn found(&self) -> Option<&Found> {
        if let Self::Corrupt { found, .. } = self { found.as_deref() } else { None }
    }

    /// The same error with the key of the damaged record; only errors of damage keep it.
    pub(crate) fn with_damaged_key(mut self, damaged: &[u8]) -> Self {
        if let Self::Corrupt { found, .. } = &mut self {
            found.get_or_insert_default().key = Some(damaged.into());
        }
        self
    }

    /// True for what a follower's read meets where the writer uses space again at the same time; it may be damage, too.
    pub(crate) fn may_be_reuse(&self) -> bool {
        match self {
            Self::Corrupt { .. } | Self::Overtaken => true,
            Self::Storage(cause) => cause.kind == StorageErrorKind::OutOfRange,
            _ => false,
        }
    }

    /// True for what the parts of a file show that were read before and behind a change of another session: it is real only if they show it again
    /// where nothing has changed.
    pub(crate) const fn may_be_torn_apart(&self) -> bool {
        match self {
            Self::Corrupt { .. } => true,
            #[cfg(feature = "encrypt")]
            Self::Forged { .. } | Self::RolledBack => true,
            _ => false,
        }
    }

    /// The same error with the place where the walk continues; only errors of damage keep it.
    pub(crate) fn with_next_page(mut self, cursor: Option<Cursor>) -> Self {
        if let Self::Corrupt { found, .. } = &mut self {
            found.get_or_insert_default().next = cursor;
        }
        self
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            // The message already contains these errors, so they are skipped in the chain; printing the chain would repeat them.
            Self::Storage(error) => core::error::Error::source(error),
            Self::Poisoned(first) => first.source(),
            _ => None,
        }
    }
}

impl From<StorageError> for Error {
    #[cold]
    #[inline(never)]
    fn from(error: StorageError) -> Self {
        match error.kind {
            StorageErrorKind::NoSpace => Self::NoSpace,
            StorageErrorKind::ReadOnly => Self::ReadOnly,
            _ => Self::Storage(error),
        }
    }
}
