//! How the command ends.

use pipkin_wasi_host::{Error, Reason};
use std::error::Error as AnyError;
use std::io;

/// The exit code, or why there is none.
pub(crate) type Outcome<T = u8> = Result<T, Box<dyn AnyError>>;

/// Whoever reads stdout has had enough.
pub(crate) fn is_closed_pipe(error: &(dyn AnyError + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// What `pipkin` would say to it.
pub(crate) fn exit_code(error: &(dyn AnyError + 'static)) -> u8 {
    use pipkin_wasi_host::NativeError as Native;
    match error.downcast_ref::<Error>() {
        Some(Error::Store(error)) => match error.reason {
            Reason::KeyTooLong(_) | Reason::ValueTooLong(_) | Reason::InvalidArgument => 2,
            Reason::Corrupt(_) => 3,
            Reason::Locked | Reason::Fenced => 4,
            Reason::NoSpace | Reason::Quota => 5,
            Reason::NotFound | Reason::NotAStore | Reason::NewerVersion(_) | Reason::Unsupported(_) => 6,
            _ => 7,
        },
        Some(Error::Lock(Native::Locked { .. })) => 4,
        Some(Error::Lock(Native::NoSpace)) => 5,
        // The last one is a pipe or a device: the lock has no other argument.
        Some(Error::Lock(Native::NotFound { .. } | Native::IsDirectory { .. } | Native::InvalidArgument(_))) => 6,
        Some(Error::Missing(_) | Error::Component(_)) => 2,
        _ if is_full(error) => 5,
        _ => 7,
    }
}

/// What stdout goes to has no more room.
fn is_full(error: &(dyn AnyError + 'static)) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    error.downcast_ref::<io::Error>().is_some_and(|error| matches!(error.kind(), StorageFull | QuotaExceeded))
}
