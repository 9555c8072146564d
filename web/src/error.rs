//! What the browser throws, in the words of the engine. Browsers agree on the names of errors, not on their classes.

use alloc::format;
use alloc::string::String;

use pipkin::{StorageError, StorageErrorKind};

use crate::calls;

/// The error of a call on an open file that has just failed.
pub(crate) fn storage_error(operation: &'static str) -> StorageError {
    let reason = reason();
    let name = reason.split(':').next().unwrap_or_default();
    let kind = match name {
        // Firefox names the second one when a file is to grow beyond the quota.
        "QuotaExceededError" | "NS_ERROR_FILE_NO_DEVICE_SPACE" => StorageErrorKind::NoSpace,
        "NotAllowedError" | "SecurityError" => StorageErrorKind::PermissionDenied,
        _ => StorageErrorKind::Other,
    };
    let hint = match name {
        "InvalidStateError" => "; the browser has closed the file, open the store again",
        "SecurityError" => "; the browser gives this page no storage, as in a private window",
        _ => "",
    };
    StorageError::new(kind, operation, format!("{reason}{hint}"))
}

/// Name and message of what was thrown last.
pub(crate) fn reason() -> String {
    let mut bytes = alloc::vec![0; 1024];
    let len = calls::reason(&mut bytes);
    bytes.truncate(len as usize);
    String::from_utf8(bytes).unwrap_or_default()
}
