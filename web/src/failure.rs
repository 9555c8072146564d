//! Errors as the page sees them: a code to branch on, and a message that says what to do.

use alloc::format;
use alloc::string::{String, ToString};

use pipkin::{Error, StorageErrorKind};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

/// The kind of a failure. `web/npm/src/errors.ts` has the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Unavailable = 1,
    Locked = 2,
    Quota = 3,
    Corrupt = 4,
    Version = 5,
    OutcomeUnknown = 6,
    Usage = 7,
    Closed = 8,
    Failed = 9,
    Missing = 10,
    SnapshotTooOld = 11,
    UnknownPosition = 12,
    Conflict = 13,
    Compacted = 14,
    #[cfg(feature = "full")]
    AppendRefused = 15,
    #[cfg(feature = "full")]
    CursorTaken = 16,
    #[cfg(feature = "sealed")]
    KeyNeeded = 17,
    #[cfg(feature = "sealed")]
    WrongKey = 18,
    #[cfg(feature = "sealed")]
    NotSealed = 19,
    #[cfg(feature = "sealed")]
    DisablingEncryption = 20,
}

const COMPACTED: &str = "what has changed since that position is not kept any more: ask for the position of the store, read what is there, and go on from that";

#[cfg(feature = "sealed")]
const NOT_SEALED: &str =
    "a key was given, and the store is not sealed: open it without one, or write its records to a new store that has one";

#[cfg(feature = "sealed")]
const DISABLING: &str = "making this store plain was cut short: open it with `{ key, disableEncryption: true }`, which goes on";

/// A failure with its code and message.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The failure of a commit. If space ran out while it was written, the outcome is known: its end is missing, and the next open discards
    /// it.
    pub(crate) fn of_commit(error: &Error) -> Self {
        match error {
            Error::Storage(storage) if storage.kind == StorageErrorKind::NoSpace => Self::new(
                Code::Quota,
                "no space left for new data; the write failed half way and is discarded, and what was there is untouched",
            ),
            _ => Self::of_write(error),
        }
    }

    /// The failure of a commit or a flush. After an error of the file system it is unknown how much of the write is in the file.
    pub(crate) fn of_write(error: &Error) -> Self {
        match error {
            Error::Storage(_) => Self::new(
                Code::OutcomeUnknown,
                format!("the write failed half way and may or may not be there after the store is opened again: {error}"),
            ),
            _ => error.into(),
        }
    }
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = Error)]
    type Thrown;
    #[wasm_bindgen(constructor, js_class = "Error")]
    fn new(message: &str) -> Thrown;
    #[wasm_bindgen(method, setter)]
    fn set_name(this: &Thrown, name: &str);
    #[wasm_bindgen(method, setter)]
    fn set_code(this: &Thrown, code: u8);
}

/// An `Error` with the name `PipkinError` and a numeric `code`; `web/npm/src/errors.ts` converts it to the package's error class.
impl From<Failure> for JsValue {
    fn from(failure: Failure) -> Self {
        let thrown = Thrown::new(&failure.message);
        thrown.set_name("PipkinError");
        thrown.set_code(failure.code as u8);
        thrown.into()
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let code = match error {
            Error::Locked { .. } => Code::Locked,
            Error::NoSpace | Error::StrandedInTheWay { .. } => Code::Quota,
            Error::Corrupt { .. } | Error::NotAStore { .. } => Code::Corrupt,
            Error::NewerVersion { .. } | Error::Unsupported { .. } => Code::Version,
            Error::NotFound { .. } => Code::Missing,
            Error::Closed => Code::Closed,
            Error::SnapshotTooOld => Code::SnapshotTooOld,
            Error::UnknownPosition => Code::UnknownPosition,
            Error::Conflict(_) => Code::Conflict,
            #[cfg(feature = "full")]
            Error::AppendRefused { failed } => return Self::new(Code::AppendRefused, refused(error, failed)),
            #[cfg(feature = "full")]
            Error::CursorTaken => Code::CursorTaken,
            #[cfg(feature = "sealed")]
            Error::KeyNeeded => {
                return Self::new(Code::KeyNeeded, "the store is sealed: open it with its key, `open(name, { key })`");
            }
            #[cfg(feature = "sealed")]
            Error::WrongKey => Code::WrongKey,
            #[cfg(feature = "sealed")]
            Error::NotSealed => return Self::new(Code::NotSealed, NOT_SEALED),
            #[cfg(feature = "sealed")]
            Error::DisablingEncryption => return Self::new(Code::DisablingEncryption, DISABLING),
            #[cfg(feature = "sealed")]
            Error::Forged { .. } | Error::RolledBack => Code::Corrupt,
            Error::Compacted { .. } => return Self::new(Code::Compacted, COMPACTED),
            Error::KeyTooLong { .. } | Error::ValueTooLong { .. } | Error::InvalidArgument(_) => Code::Usage,
            Error::Storage(error) if error.kind == StorageErrorKind::PermissionDenied => Code::Unavailable,
            Error::Storage(error) if error.kind == StorageErrorKind::NoSpace => Code::Quota,
            _ => Code::Failed,
        };
        Self::new(code, error.to_string())
    }
}

/// What an error of a refused append says to the page: its words, a zero, and the checks that have failed as JSON.
#[cfg(feature = "full")]
fn refused(error: &Error, checks: &[pipkin::FailedCheck]) -> String {
    let mut said = format!("{error}\0[");
    for (place, check) in checks.iter().enumerate() {
        if place > 0 {
            said.push(',');
        }
        match check {
            pipkin::FailedCheck::Version { stream, expected, current } => {
                said.push_str("{\"stream\":\"");
                for letter in stream.chars() {
                    match letter {
                        '"' | '\\' => said.extend(['\\', letter]),
                        '\0'..=' ' => said.push_str(&format!("\\u{:04x}", u32::from(letter))),
                        letter => said.push(letter),
                    }
                }
                said.push_str("\",\"expected\":");
                match expected {
                    pipkin::Expected::NoStream => said.push('0'),
                    pipkin::Expected::Version(version) => said.push_str(&version.to_string()),
                    pipkin::Expected::Anew => said.push_str("\"anew\""),
                    _ => said.push_str("\"exists\""),
                }
                said.push_str(&format!(",\"current\":{current}}}"));
            }
            pipkin::FailedCheck::Condition { number, .. } => said.push_str(&format!("{{\"matched\":{number}}}")),
            _ => said.push_str("{}"),
        }
    }
    said + "]"
}
