//! What errors say: each message names what to do next.

use super::Error;
#[cfg(feature = "events")]
use crate::expected::FailedCheck;
use core::fmt;

/// Bytes of a key that a message prints; a longer key is cut.
const KEY_SHOWN_MAX: usize = 100;
const SNAPSHOT_TOO_OLD: &str =
    "this snapshot was ended, because the store needed the space of what it had kept; take another one, and read it sooner";
const UNKNOWN_POSITION: &str = "this store does not contain the position: its commit was lost, or made in another store or another copy of this \
     one; read the present state instead";
#[cfg(feature = "events")]
const CURSOR_TAKEN: &str =
    "another subscription has begun with this cursor, or it was removed; begin again with it to go on where the other one was";
const COMPACTED: &str =
    "the changes behind this position are no longer kept, compaction has freed them; take the present state and go on from there";
const CLOSED: &str = "the store was closed by another handle; open it again";
const FENCED: &str = "another instance has taken this store over, on a host that has no locks; what was flushed here is safe, what was written \
     since may be lost. Open the store again, after a random pause that doubles each time; where several share a store, let the host serve it to \
     them";
const OVERTAKEN: &str = "the process that writes this store has used the space of these records again, faster than they could be read; read again, and \
     refresh more often";
const DIVERGED: &str = "the file does not contain any more what this follower has shown: it was replaced, set back, or lost its end in a power cut; \
     open it again to follow it as it is now";
const LOG_EXHAUSTED: &str = "the store's log positions or generations are used up; nothing was written. Copy its records into a new store with \
     `pipkin export` and `pipkin import`";
const NAMESPACE_DROPPED: &str = "this namespace was dropped; get a new handle with `namespace(name)`";
const NESTED: &str = "this call was made inside of an `update`, a `transaction` or the progress of a compaction of the same store, and would wait \
     for that to end; make it before or afterwards";
#[cfg(feature = "encrypt")]
const KEY_NEEDED: &str = "the store is sealed; open it with its key or passphrase: `Builder::encryption_key`, `Builder::encryption_passphrase`, or \
     `--key-file` and `--passphrase-file` of the command";
#[cfg(feature = "encrypt")]
const NOT_SEALED: &str = "a key was given, and the store is not sealed; open it without one, or copy it into a new, sealed store with `pipkin export` and \
     `pipkin import`";
#[cfg(feature = "encrypt")]
const DISABLING_ENCRYPTION: &str = "the store is being made plain, and that was cut short; what was written to it since is not authenticated: if the file was in \
     your hands all the time, `pipkin decrypt` or `Builder::disable_encryption` opens it and goes on; otherwise go back to a copy that you trust";
#[cfg(feature = "encrypt")]
const WRONG_KEY: &str = "the key or passphrase is not that of this store; nothing was read or changed";
#[cfg(feature = "encrypt")]
const ROLLED_BACK: &str = "the store says that it was closed, and has records that were written later: somebody has set the front of the file back. Go \
     back to a copy of the whole file that you trust";
#[cfg(feature = "encrypt")]
const OLDER_THAN_ANCHOR: &str = "the store does not contain the anchor: this is an earlier state of the file, or a copy that has gone its own way; go back to \
     the file in which the anchor was taken, or open it without `not_before` if you want this state";
#[cfg(feature = "encrypt")]
const NO_RANDOMNESS: &str =
    "the host's cryptographic source of randomness failed; a sealed store is neither made nor written without it";
const NO_CLOCK: &str =
    "records cannot expire without a clock, and this host has none; give the store one with `Db::builder().clock(clock)`";
const NO_SPACE: &str = "no space left for new data; nothing was written, and what is there is untouched. Free space, or remove records and \
     compact, then try again";
const NOT_ORDERED: &str = "ranges and prefixes need the ordered index; open the store with `Db::builder().ordered(true)`, or choose it for \
     the namespace by `set_ordered`, which counts from the next opening on";
const READ_ONLY: &str = "the store cannot be written: it was opened read-only, or its file or medium is write-protected";
const SYSTEM_NAMESPACE: &str = "names that begin with the byte 0 are kept for pipkin itself; choose one that begins otherwise";

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
            Self::NotOrdered => NOT_ORDERED,
            Self::ReadOnly => READ_ONLY,
            Self::NoSpace => NO_SPACE,
            Self::SystemNamespace => SYSTEM_NAMESPACE,
            Self::NamespaceDropped => NAMESPACE_DROPPED,
            Self::LogExhausted => LOG_EXHAUSTED,
            Self::SnapshotTooOld => SNAPSHOT_TOO_OLD,
            Self::UnknownPosition => UNKNOWN_POSITION,
            Self::Compacted { .. } => COMPACTED,
            #[cfg(feature = "events")]
            Self::CursorTaken => CURSOR_TAKEN,
            Self::Fenced => FENCED,
            Self::Overtaken => OVERTAKEN,
            Self::Diverged => DIVERGED,
            Self::Closed => CLOSED,
            Self::Nested => NESTED,
            Self::NoClock => NO_CLOCK,
            #[cfg(feature = "encrypt")]
            Self::KeyNeeded => KEY_NEEDED,
            #[cfg(feature = "encrypt")]
            Self::NotSealed => NOT_SEALED,
            #[cfg(feature = "encrypt")]
            Self::DisablingEncryption => DISABLING_ENCRYPTION,
            #[cfg(feature = "encrypt")]
            Self::WrongKey => WRONG_KEY,
            #[cfg(feature = "encrypt")]
            Self::RolledBack => ROLLED_BACK,
            #[cfg(feature = "encrypt")]
            Self::OlderThanAnchor => OLDER_THAN_ANCHOR,
            #[cfg(feature = "encrypt")]
            Self::NoRandomness => NO_RANDOMNESS,
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
            Self::IndexDamaged { offset } => write!(
                f,
                "at byte {offset} of the file the index that is kept there is damaged; no record is lost: the next write, checkpoint or compaction \
                 builds this part from the log, and so does opening the store again; check the medium"
            ),
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
            #[cfg(feature = "encrypt")]
            Self::KeyUnavailable { detail } => write!(f, "the key could not be had, and nothing was read or changed: {detail}"),
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

#[cfg(feature = "native")]
fn is_this_process(process: u32) -> bool {
    process == std::process::id()
}

#[cfg(not(feature = "native"))]
const fn is_this_process(_process: u32) -> bool {
    false
}
