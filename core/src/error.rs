//! The errors of the store. Each message says what to do next.

use crate::conflict::Conflict;
use crate::cursor::Cursor;
#[cfg(feature = "events")]
use crate::expected::FailedCheck;
use crate::position::Position;
use crate::storage::{StorageError, StorageErrorKind};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// Bytes of a key that a message prints; a longer key is cut.
const KEY_SHOWN_MAX: usize = 100;

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

    /// The key of the damaged record, if a range found it: the ordered index holds the keys.
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
    #[cfg(feature = "ordered")]
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

    /// The same error with the place where the walk continues; only errors of damage keep it.
    pub(crate) fn with_next_page(mut self, cursor: Option<Cursor>) -> Self {
        if let Self::Corrupt { found, .. } = &mut self {
            found.get_or_insert_default().next = cursor;
        }
        self
    }
}

/// Messages that contain no values.
mod messages {
    pub(super) const SNAPSHOT_TOO_OLD: &str =
        "this snapshot was ended, because the store needed the space of what it had kept; take another one, and read it sooner";
    pub(super) const UNKNOWN_POSITION: &str = "this store does not contain the position: its commit was lost, or made in another store or another copy of this \
         one; read the present state instead";
    #[cfg(feature = "events")]
    pub(super) const CURSOR_TAKEN: &str = "another subscription has begun with this cursor, or it was removed; begin again with it to go on where the other one was";
    pub(super) const COMPACTED: &str = "the changes behind this position are no longer kept, compaction has freed them; take the present state and go on from there";
    pub(super) const CLOSED: &str = "the store was closed by another handle; open it again";
    pub(super) const FENCED: &str = "another instance has taken this store over, on a host that has no locks; what was flushed here is safe, what was written \
         since may be lost. Open the store again; where several share a store, let the host serve it to them";
    pub(super) const OVERTAKEN: &str = "the process that writes this store has used the space of these records again, faster than they could be read; read again, and \
         refresh more often";
    pub(super) const DIVERGED: &str = "the file does not contain any more what this follower has shown: it was replaced, set back, or lost its end in a power cut; \
         open it again to follow it as it is now";
    pub(super) const LOG_EXHAUSTED: &str = "the store's log positions or generations are used up; nothing was written. Copy its records into a new store with \
         `pipkin export` and `pipkin import`";
    pub(super) const NAMESPACE_DROPPED: &str = "this namespace was dropped; get a new handle with `namespace(name)`";
    pub(super) const NESTED: &str = "this call was made inside of an `update`, a `transaction` or the progress of a compaction of the same store, and would wait \
         for that to end; make it before or afterwards";
    #[cfg(feature = "encrypt")]
    pub(super) const KEY_NEEDED: &str = "the store is sealed; open it with its key or passphrase: `Builder::encryption_key`, `Builder::encryption_passphrase`, or \
         `--key-file` and `--passphrase-file` of the command";
    #[cfg(feature = "encrypt")]
    pub(super) const NOT_SEALED: &str = "a key was given, and the store is not sealed; open it without one, or copy it into a new, sealed store with `pipkin export` and \
         `pipkin import`";
    #[cfg(feature = "encrypt")]
    pub(super) const WRONG_KEY: &str = "the key or passphrase is not that of this store; nothing was read or changed";
    #[cfg(feature = "encrypt")]
    pub(super) const ROLLED_BACK: &str = "the store says that it was closed, and has records that were written later: somebody has set the front of the file back. Go \
         back to a copy of the whole file that you trust";
    #[cfg(feature = "encrypt")]
    pub(super) const NO_RANDOMNESS: &str =
        "the host's cryptographic source of randomness failed; a sealed store is neither made nor written without it";
    pub(super) const NO_CLOCK: &str =
        "records cannot expire without a clock, and this host has none; give the store one with `Db::builder().clock(clock)`";
    pub(super) const NO_SPACE: &str = "no space left for new data; nothing was written, and what is there is untouched. Free space, or remove records and \
         compact, then try again";
    pub(super) const NOT_ORDERED: &str =
        "ranges and prefixes need the ordered index; open the store with `Db::builder().ordered(true)`";
    pub(super) const READ_ONLY: &str =
        "the store cannot be written: it was opened read-only, or its file or medium is write-protected";
    pub(super) const SYSTEM_NAMESPACE: &str =
        "names that begin with the byte 0 are kept for pipkin itself; choose one that begins otherwise";
}

/// The message of [`Error::Locked`].
fn fmt_locked(f: &mut fmt::Formatter<'_>, path: &str, holder: Option<u32>) -> fmt::Result {
    match holder {
        Some(pid) if is_this_process(pid) => write!(
            f,
            "{path} is open in process {pid}, which is this one; clone the handle that you have, or drop every handle, namespace and \
             iterator of it before you open it again"
        ),
        Some(pid) => {
            write!(f, "{path} is open in process {pid}; close it there, or follow it: a follower reads beside the writer")
        }
        None => write!(
            f,
            "{path} is open elsewhere, in another process or under a handle of this one that still lives; close it there, \
             drop every handle to it, and try again"
        ),
    }
}

/// The message of [`Error::Corrupt`].
fn fmt_corrupt(f: &mut fmt::Formatter<'_>, offset: u64, what: &str, key: Option<&[u8]>) -> fmt::Result {
    write!(f, "damage at byte {offset} of the file: {what}")?;
    if let Some(key) = key {
        let (shown, rest) = key.split_at(key.len().min(KEY_SHOWN_MAX));
        write!(f, ", in the record of the key \"{}{}\"", shown.escape_ascii(), if rest.is_empty() { "" } else { "..." })?;
    }
    f.write_str(". Run `pipkin verify` to list all damage and `pipkin salvage` to copy everything else into a new store")
}

/// What stands in the way of opening a store.
fn fmt_opening(f: &mut fmt::Formatter<'_>, error: &Error) -> fmt::Result {
    match error {
        Error::Locked { path, holder } => fmt_locked(f, path, *holder),
        Error::NotFound { path } => write!(f, "there is no store at {path}; check the path, or create it by writing to it"),
        Error::IsDirectory { path } => {
            write!(f, "{path} is a directory; a store is a single file, so name a file inside it")
        }
        Error::NotAStore { detail } => write!(
            f,
            "this file is not a pipkin store ({detail}); it was left as it is. Check the path, or choose a new file name"
        ),
        Error::NewerVersion { found, supported } => {
            write!(f, "the store has format version {found}, this build reads up to {supported}; open it with a newer pipkin")
        }
        _ => Ok(()),
    }
}

/// The checks of an append that failed.
#[cfg(feature = "events")]
fn fmt_refused(f: &mut fmt::Formatter<'_>, failed: &[FailedCheck]) -> fmt::Result {
    for (index, check) in failed.iter().enumerate() {
        write!(f, "{}{check}", if index == 0 { "" } else { ", " })?;
    }
    f.write_str("; nothing was appended. Read the streams again, decide again, and append again")
}

/// What was longer than it may be.
fn fmt_limit(f: &mut fmt::Formatter<'_>, error: &Error) -> fmt::Result {
    match error {
        Error::KeyTooLong { len } => {
            write!(f, "the key has {len} bytes, the limit is {}; use a shorter key", crate::limits::KEY_LEN_MAX)
        }
        Error::GroupKeyTooLong { group, key } => write!(
            f,
            "the key has {key} bytes, and {group} more with the name of its group; the limit of both is {}. Use a shorter key or group",
            crate::limits::KEY_LEN_MAX
        ),
        Error::ValueTooLong { len } => {
            write!(f, "the value has {len} bytes, the limit is {}; split it over several keys", crate::limits::VALUE_LEN_MAX)
        }
        Error::NamespaceName { len } => {
            write!(f, "a namespace needs a name of 1 to {} bytes, this one has {len}", crate::limits::NAMESPACE_NAME_LEN_MAX)
        }
        _ => Ok(()),
    }
}

impl Error {
    /// The message of an error that is the same whatever has happened; empty for any other.
    const fn plain_message(&self) -> &'static str {
        match self {
            Self::NotOrdered => messages::NOT_ORDERED,
            Self::ReadOnly => messages::READ_ONLY,
            Self::NoSpace => messages::NO_SPACE,
            Self::SystemNamespace => messages::SYSTEM_NAMESPACE,
            Self::NamespaceDropped => messages::NAMESPACE_DROPPED,
            Self::LogExhausted => messages::LOG_EXHAUSTED,
            Self::SnapshotTooOld => messages::SNAPSHOT_TOO_OLD,
            Self::UnknownPosition => messages::UNKNOWN_POSITION,
            Self::Compacted { .. } => messages::COMPACTED,
            #[cfg(feature = "events")]
            Self::CursorTaken => messages::CURSOR_TAKEN,
            Self::Fenced => messages::FENCED,
            Self::Overtaken => messages::OVERTAKEN,
            Self::Diverged => messages::DIVERGED,
            Self::Closed => messages::CLOSED,
            Self::Nested => messages::NESTED,
            Self::NoClock => messages::NO_CLOCK,
            #[cfg(feature = "encrypt")]
            Self::KeyNeeded => messages::KEY_NEEDED,
            #[cfg(feature = "encrypt")]
            Self::NotSealed => messages::NOT_SEALED,
            #[cfg(feature = "encrypt")]
            Self::WrongKey => messages::WRONG_KEY,
            #[cfg(feature = "encrypt")]
            Self::RolledBack => messages::ROLLED_BACK,
            #[cfg(feature = "encrypt")]
            Self::NoRandomness => messages::NO_RANDOMNESS,
            Self::InvalidArgument(what) => what,
            _ => "",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { .. }
            | Self::NotFound { .. }
            | Self::IsDirectory { .. }
            | Self::NotAStore { .. }
            | Self::NewerVersion { .. } => fmt_opening(f, self),
            Self::StrandedInTheWay { bytes } => write!(
                f,
                "no space left, but for {bytes} bytes that are kept for records that an unclean end has cut off; nothing was written. Copy the store \
                 with `pipkin salvage` if you want them, then free the space with `drop_stranded` or `pipkin compact --drop-stranded`, and \
                 try again"
            ),
            Self::KeyTooLong { .. } | Self::GroupKeyTooLong { .. } | Self::ValueTooLong { .. } | Self::NamespaceName { .. } => {
                fmt_limit(f, self)
            }
            Self::Corrupt { offset, what, .. } => fmt_corrupt(f, *offset, what, self.damaged_key()),
            Self::Unsupported { offset, what } => {
                write!(
                    f,
                    "at byte {offset} of the file is {what}, which this build does not know; open the store with a newer pipkin"
                )
            }
            #[cfg(feature = "encrypt")]
            Self::Forged { offset, what } => write!(
                f,
                "at byte {offset} of the file is {what} that was not written with the store's key; somebody has changed the file. Go back to a \
                 backup that you trust"
            ),
            Self::Conflict(conflict) => write!(f, "{conflict}; nothing was written, run it again"),
            #[cfg(feature = "events")]
            Self::AppendRefused { failed } => fmt_refused(f, failed),
            Self::Poisoned(first) => {
                write!(
                    f,
                    "writes are refused since an earlier one failed ({first}); reads go on. Fix the cause, then close and open the store"
                )
            }
            Self::NoMergeOperator { namespace } => {
                write!(
                    f,
                    "the namespace {namespace:?} has no merge operator; register one with `Builder::merge_operator` when you open the store"
                )
            }
            Self::NotOfType { what, type_name } => write!(
                f,
                "this {what} is not of the type {type_name}; it was written as another type, or as plain bytes. Read its bytes, or give each type \
                 a namespace, or a type of event, of its own"
            ),
            Self::MergeRefused { operator, reason } => {
                write!(
                    f,
                    "the merge operator {operator:?} refused: {reason}; nothing was written. Check the operand and the key's value"
                )
            }
            Self::Bug(what) => write!(
                f,
                "pipkin contradicts itself: {what}. That is a bug of pipkin, not of your program or your data; please report it. What was \
                 acknowledged is safe"
            ),
            Self::Storage(error) => {
                f.write_str("file system error: ")?;
                fmt::Display::fmt(error, f)
            }
            _ => f.write_str(self.plain_message()),
        }
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

#[cfg(feature = "native")]
fn is_this_process(process: u32) -> bool {
    process == std::process::id()
}

#[cfg(not(feature = "native"))]
const fn is_this_process(_process: u32) -> bool {
    false
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
