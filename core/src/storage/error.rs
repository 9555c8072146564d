//! Why a call of a storage failed.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

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
pub struct StorageError {
    /// What kind of failure it was.
    pub kind: StorageErrorKind,
    /// The call that failed: `"read"`, `"write"`, `"sync"`, ...
    pub operation: &'static str,
    /// The host's own description.
    pub detail: String,
    /// Rarely present, so kept out of line: every `Result` of a storage call is as large as this struct.
    context: Option<Arc<Context>>,
}

/// Path and source error, which only some hosts have.
#[derive(Clone, Debug, Default)]
struct Context {
    path: Option<String>,
    cause: Option<Arc<dyn core::error::Error + Send + Sync>>,
}

impl StorageError {
    /// An error of `kind` from the call `operation`.
    pub fn new(kind: StorageErrorKind, operation: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, operation, detail: detail.into(), context: None }
    }

    /// The same error, of the file at `path`.
    #[must_use]
    pub fn with_path(self, path: impl Into<String>) -> Self {
        let cause = self.context.as_ref().and_then(|context| context.cause.clone());
        Self { context: Some(Arc::new(Context { path: Some(path.into()), cause })), ..self }
    }

    /// The same error with the host's own error as the source; `detail` is its message.
    #[must_use]
    pub fn with_cause(self, cause: impl core::error::Error + Send + Sync + 'static) -> Self {
        let path = self.path().map(String::from);
        Self { context: Some(Arc::new(Context { path, cause: Some(Arc::new(cause)) })), ..self }
    }

    /// The path of the file, where it has one.
    pub fn path(&self) -> Option<&str> {
        self.context.as_ref()?.path.as_deref()
    }

    fn cause(&self) -> Option<&(dyn core::error::Error + Send + Sync + 'static)> {
        self.context.as_ref()?.cause.as_deref()
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
