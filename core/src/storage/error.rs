//! Why a call of a storage failed.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

/// Kind of a failed storage call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StorageErrorKind {
    /// The medium or the quota is full.
    NoSpace,
    /// The file or the medium cannot be written.
    ReadOnly,
    /// A read reached past the end of the file.
    OutOfRange,
    /// The host refused access.
    PermissionDenied,
    /// Anything else; the message has the host's words.
    Other,
}

/// A failed storage call: what kind, which call, and the host's own message.
///
/// Where the host's error is kept as the source, only `{error:#}` prints its message.
///
/// ```
/// use pipkin::{StorageError, StorageErrorKind};
///
/// let error = StorageError::new(StorageErrorKind::NoSpace, "write", "quota exceeded").with_path("app.pipkin");
/// assert_eq!((error.kind, error.path()), (StorageErrorKind::NoSpace, Some("app.pipkin")));
/// ```
#[derive(Clone, Debug)]
pub struct StorageError(Box<StorageErrorDetails>);

/// What a [`StorageError`] says, which is kept out of line: every result of a storage call is as large as the error.
#[derive(Clone, Debug)]
pub struct StorageErrorDetails {
    /// What kind of failure it was.
    pub kind: StorageErrorKind,
    /// The call that failed: `"read"`, `"write"`, `"sync"`, ...
    pub operation: &'static str,
    /// The host's own description.
    pub detail: String,
    path: Option<String>,
    cause: Option<Arc<dyn core::error::Error + Send + Sync>>,
}

impl Deref for StorageError {
    type Target = StorageErrorDetails;

    fn deref(&self) -> &StorageErrorDetails {
        &self.0
    }
}

impl StorageError {
    /// An error of `kind` from the call `operation`.
    ///
    /// ```
    /// use pipkin::{StorageError, storage::StorageErrorKind};
    ///
    /// let error = StorageError::new(StorageErrorKind::NoSpace, "write", "the quota is used up");
    /// assert!(error.to_string().contains("the quota is used up"));
    /// ```
    pub fn new(kind: StorageErrorKind, operation: &'static str, detail: impl Into<String>) -> Self {
        Self::from_parts(kind, operation, detail.into())
    }

    #[cold]
    #[inline(never)]
    fn from_parts(kind: StorageErrorKind, operation: &'static str, detail: String) -> Self {
        Self(Box::new(StorageErrorDetails { kind, operation, detail, path: None, cause: None }))
    }

    /// The same error, of the file at `path`.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.0.path = Some(path.into());
        self
    }

    /// The same error with the host's own error as the source; `detail` is its message.
    #[must_use]
    pub fn with_cause(mut self, cause: impl core::error::Error + Send + Sync + 'static) -> Self {
        self.0.cause = Some(Arc::new(cause));
        self
    }

    /// The path of the file, where it has one.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    fn cause(&self) -> Option<&(dyn core::error::Error + Send + Sync + 'static)> {
        self.0.cause.as_deref()
    }

    /// The error of a read past the end of the file.
    pub fn out_of_range(offset: u64, len: usize, file_len: u64) -> Self {
        Self::new(
            StorageErrorKind::OutOfRange,
            "read",
            alloc::format!("{len} bytes at offset {offset} reach past the end of the file at {file_len}"),
        )
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation)?;
        if let Some(path) = self.path() {
            write!(f, " of {path}")?;
        }
        f.write_str(" failed")?;
        // The source has the same message: printing the chain would repeat it.
        if f.alternate() || self.cause().is_none() { write!(f, ": {}", self.detail) } else { Ok(()) }
    }
}

/// Compares kind, operation, message and path; not the source.
impl PartialEq for StorageError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.operation, &self.detail, self.path()) == (other.kind, other.operation, &other.detail, other.path())
    }
}

impl Eq for StorageError {}

impl core::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.cause().map(|cause| cause as _)
    }
}
