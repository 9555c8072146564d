//! Error messages for guests: what happened and what to do next, in terms of the guest. They contain no path, no process and no text of the
//! host's operating system.

use alloc::format;
use alloc::string::{String, ToString};
use pipkin::{Error, StorageError, StorageErrorKind};

/// The `operation` of errors that a rule of pipkin causes, not the file system.
const RULE: &str = "rule";

/// A refusal by a rule of pipkin, with `why` as its message; the file system was not called.
#[must_use]
pub fn refused(why: &str) -> Error {
    StorageError::new(StorageErrorKind::PermissionDenied, RULE, why).into()
}

/// What is told to who follows a file that was replaced or removed.
#[must_use]
pub fn replaced() -> StorageError {
    let why = "the name is another file's by now, or nobody's: the store was replaced or removed. Open it again to follow what is there";
    StorageError::new(StorageErrorKind::Other, RULE, why)
}

/// The message of the error for a guest.
#[must_use]
pub fn words(error: &Error) -> String {
    match error {
        Error::Locked { .. } => "the store is open elsewhere; close it there, or drop every handle to it, and try again".into(),
        Error::NotFound { .. } => "there is no store of this name; check the name, or open it with `create`".into(),
        Error::IsDirectory { .. } => "what has this name is a directory; a store is a single file, so choose another name".into(),
        Error::Corrupt { offset, what, .. } => format!(
            "damage at byte {offset} of the file: {what}. Other records can still be read; `admin.verify` lists all damage, and whoever has the \
             file can copy the rest into a new store with `pipkin salvage`"
        ),
        Error::StrandedInTheWay { bytes } => format!(
            "no space left, but for {bytes} bytes that are kept for records that an unclean end has cut off; nothing was written. Whoever has the file can \
             free them with `pipkin compact --drop-stranded`"
        ),
        Error::LogExhausted => {
            "the store's log positions or generations are used up; nothing was written. Copy its records into a new store".into()
        }
        Error::Poisoned(first) => format!(
            "writes are refused since an earlier one failed ({}); reads go on. Open the store again to write",
            if matches!(**first, Error::NoSpace) { "no space left on the medium".to_string() } else { words(first) }
        ),
        Error::Storage(failed) if failed.operation == RULE => failed.detail.clone(),
        Error::Storage(failed) => {
            let what = match failed.kind {
                StorageErrorKind::NoSpace => "has no space left",
                StorageErrorKind::ReadOnly => "cannot be written",
                StorageErrorKind::OutOfRange => "is shorter than it should be",
                StorageErrorKind::PermissionDenied => "is out of the host's reach",
                _ => "failed",
            };
            format!("the host's file {what} ({}); its operator can see why", failed.operation)
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;

    #[test]
    fn nothing_of_the_host_is_in_the_words_for_a_guest() {
        // The message to a guest used to be: "/srv/secret/a.pipkin is open in process 4711; close it there, ...".
        let path = || "/srv/secret/a.pipkin".to_string();
        let failed =
            |kind| StorageError::new(kind, "write", "Input/output error of /srv/secret (process 4711)").with_path(path());
        let errors = [
            Error::Locked { path: path(), holder: Some(4711) },
            Error::Locked { path: path(), holder: None },
            Error::NotFound { path: path() },
            Error::IsDirectory { path: path() },
            Error::Storage(failed(StorageErrorKind::Other)),
            Error::Storage(failed(StorageErrorKind::PermissionDenied)),
            Error::Poisoned(Arc::new(Error::Storage(failed(StorageErrorKind::Other)))),
            Error::Poisoned(Arc::new(Error::Poisoned(Arc::new(Error::Locked { path: path(), holder: Some(4711) })))),
        ];
        for error in errors {
            let words = words(&error);
            assert!(!words.contains("/srv") && !words.contains("4711") && !words.contains("Input/output"), "{words}");
        }
    }

    #[test]
    fn a_rule_of_our_own_is_not_the_file_system() {
        assert_eq!(words(&refused("this name is not allowed")), "this name is not allowed");
    }
}
