//! Converts what the browser throws to errors of the engine. Browsers agree on the names of errors, not on their classes.

use alloc::format;
use alloc::string::String;

use pipkin::{StorageError, StorageErrorKind};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

#[wasm_bindgen]
extern "C" {
    /// Anything that was thrown. Both an `Error` and the `Exception` of Firefox have a name and a message.
    type Thrown;
    #[wasm_bindgen(method, getter, catch)]
    fn name(this: &Thrown) -> Result<Option<String>, JsValue>;
    #[wasm_bindgen(method, getter, catch)]
    fn message(this: &Thrown) -> Result<Option<String>, JsValue>;
}

/// The error of a call on an open file that has thrown `thrown`.
pub(crate) fn storage_error(operation: &'static str, thrown: &JsValue) -> StorageError {
    let reason = reason(thrown);
    let name = reason.split(':').next().unwrap_or_default();
    let kind = match name {
        // Firefox throws the second one when a file would grow beyond the quota.
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

/// Name and message of what was thrown.
pub(crate) fn reason(thrown: &JsValue) -> String {
    let thrown: &Thrown = thrown.unchecked_ref();
    let name = thrown.name().ok().flatten();
    let message = thrown.message().ok().flatten();
    format!("{}: {}", name.as_deref().unwrap_or("unknown error"), message.as_deref().unwrap_or_default())
}
