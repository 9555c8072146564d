//! What can go wrong on the way to a store in a component.

use crate::{Reason, StoreError};
use std::fmt;
use std::path::PathBuf;

/// The result of every call that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store said no, in the terms of `wit/types.wit`. Unless its reason says otherwise, nothing was changed.
    Store(StoreError),
    /// The file could not be locked or opened on the host's side; [`pipkin::Error::Locked`] names the process that has it.
    Lock(pipkin::Error),
    /// The file was moved, removed or replaced by another one while it was open, and the instance that had it was stopped. What was
    /// acknowledged is in the file that had the name: put it back, and the next call goes on; or open the new one with another handle.
    Moved(PathBuf),
    /// The instance was stopped in the middle of the call: it ran out of its fuel or memory, or met a bug. Whether the write of this call is
    /// there is not known, everything that was acknowledged before is. The next call starts a new instance and goes on.
    Trapped(wasmtime::Error),
    /// The component could not be loaded, compiled or started.
    Component(wasmtime::Error),
    /// A builder without something that it needs.
    Missing(&'static str),
}

impl Error {
    /// Why the store said no, if it was the store.
    pub fn reason(&self) -> Option<&Reason> {
        if let Self::Store(error) = self { Some(&error.reason) } else { None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => f.write_str(&error.message),
            Self::Lock(error) => write!(f, "{error}"),
            Self::Moved(path) => {
                write!(f, "{} is not the file any more that was opened; put that one back, or open this one anew", path.display())
            }
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
