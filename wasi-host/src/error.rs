//! Errors of calls to a store that runs in a component.

use crate::{Reason, StoreError};
use std::fmt;
use std::path::PathBuf;

/// The result of every call that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store refused the call or failed, with an error of `wit/types.wit`. Unless its reason says otherwise, nothing was changed.
    Store(StoreError),
    /// The host could not lock or open the file; [`pipkin::Error::Locked`] names the process that has it open.
    Lock(pipkin::Error),
    /// The file was moved, removed or replaced by another one while it was open, and the instance that had it open was stopped.
    /// Acknowledged writes are in the original file: put it back under its name, and the next call continues; or open the new file with
    /// another handle.
    Moved(PathBuf),
    /// The instance was stopped in the middle of the call: it ran out of fuel or memory, or hit a bug. Whether the write of this call is in
    /// the store is unknown; every write acknowledged before is. The next call starts a new instance and continues.
    Trapped(wasmtime::Error),
    /// The component could not be loaded, compiled or started.
    Component(wasmtime::Error),
    /// The builder was not given something that it needs; the text names it.
    Missing(&'static str),
}

impl Error {
    /// The reason of an [`Error::Store`]; `None` for other errors.
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
