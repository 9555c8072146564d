//! What the browser throws, in the words of the engine. Browsers agree on the names of errors, not on their classes.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use pipkin::{Error, StorageError, StorageErrorKind};
use wasm_bindgen::JsValue;

/// A failed call on an open file.
pub(crate) fn storage_error(operation: &'static str, thrown: &JsValue) -> StorageError {
    let (name, message) = words(thrown);
    let kind = match name.as_str() {
        // Firefox names the second one when a file is to grow beyond the quota.
        "QuotaExceededError" | "NS_ERROR_FILE_NO_DEVICE_SPACE" => StorageErrorKind::NoSpace,
        "NotAllowedError" | "SecurityError" => StorageErrorKind::PermissionDenied,
        _ => StorageErrorKind::Other,
    };
    let hint = match name.as_str() {
        "InvalidStateError" => "; the browser has closed the file, open the store again",
        "SecurityError" => "; the browser gives this page no storage, as in a private window",
        _ => "",
    };
    StorageError::new(kind, operation, format!("{name}: {message}{hint}"))
}

/// A failed opening of the file `path`.
pub(crate) fn open_error(path: &str, thrown: &JsValue) -> Error {
    let path = path.to_owned();
    match words(thrown).0.as_str() {
        "NoModificationAllowedError" => Error::Locked { path, holder: None },
        "NotFoundError" => Error::NotFound { path },
        "TypeMismatchError" => Error::IsDirectory { path },
        _ => storage_error("open", thrown).into(),
    }
}

/// The name and the message of what was thrown: not only an `Error` has them, but also the `Exception` that Firefox throws at a full quota.
fn words(thrown: &JsValue) -> (String, String) {
    let word = |key: &str| js_sys::Reflect::get(thrown, &key.into()).ok().and_then(|word| word.as_string());
    match (word("name"), word("message")) {
        (Some(name), Some(message)) => (name, message),
        // Text at most: the code that prints any object would be a tenth of the scripts.
        _ => ("unknown error".to_owned(), thrown.as_string().unwrap_or_default()),
    }
}
