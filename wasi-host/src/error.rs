//! What can go wrong on the way to a store in a component.

use crate::StoreError;
use std::fmt;

/// The result of every call that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store said no, in the terms of `wit/types.wit`. Unless the case says otherwise, nothing was changed.
    Store(StoreError),
    /// The file could not be locked or opened on the host's side; [`pipkin::Error::Locked`] names the process that has it.
    Lock(pipkin::Error),
    /// The instance was stopped in the middle of the call: it ran out of its fuel or memory, or met a bug. Whether the write of this call is
    /// there is not known, everything that was acknowledged before is. The next call starts a new instance and goes on.
    Trapped(wasmtime::Error),
    /// The component could not be loaded, compiled or started.
    Component(wasmtime::Error),
    /// A builder without something that it needs.
    Missing(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "{}", Words(error)),
            Self::Lock(error) => write!(f, "{error}"),
            Self::Trapped(error) => {
                write!(
                    f,
                    "the component was stopped ({error:#}); the next call opens the store again, check what this one had to do"
                )
            }
            Self::Component(error) => {
                write!(f, "the component does not start: {error:#}; build it from the same version as this host")
            }
            Self::Missing(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Lock(error) = self { Some(error) } else { None }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The sentences that the engine uses natively.
struct Words<'a>(&'a StoreError);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use pipkin::Error as Native;
        let native = match self.0 {
            StoreError::ReadOnly => Native::ReadOnly,
            StoreError::NoSpace => Native::NoSpace,
            StoreError::KeyTooLong(length) => Native::KeyTooLong { len: length.given as usize },
            StoreError::ValueTooLong(length) => Native::ValueTooLong { len: length.given as usize },
            StoreError::NamespaceName(length) => Native::NamespaceName { len: length.given as usize },
            StoreError::NamespaceDropped => Native::NamespaceDropped,
            StoreError::Closed => Native::Closed,
            StoreError::NewerVersion(version) => {
                return write!(f, "the store has format version {version}; open it with a newer pipkin");
            }
            StoreError::Corrupt(at) => {
                return write!(
                    f,
                    "damage at byte {} of the file: {}. Run `pipkin verify` to list all damage and `pipkin salvage` to copy everything else",
                    at.offset, at.what
                );
            }
            StoreError::Poisoned(first) => {
                return write!(
                    f,
                    "writes are refused since an earlier one failed ({first}); mend the cause, then open the store again"
                );
            }
            StoreError::Locked(words)
            | StoreError::NotFound(words)
            | StoreError::AccessDenied(words)
            | StoreError::NotAStore(words)
            | StoreError::InvalidArgument(words)
            | StoreError::Io(words) => return f.write_str(words),
        };
        write!(f, "{native}")
    }
}
