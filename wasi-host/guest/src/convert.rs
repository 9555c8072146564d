//! Between the words of the engine and those of the interfaces.

use crate::bindings::exports::pipkin::kv::types;
use crate::open::Closed;
use alloc::string::{String, ToString};
use pipkin::limits::{KEY_LEN_MAX, NAMESPACE_NAME_LEN_MAX, VALUE_LEN_MAX};
use pipkin::{Damage, Durability, Error, StorageErrorKind, Version};

fn length(given: usize, limit: usize) -> types::Length {
    types::Length { given: given as u64, limit: limit as u64 }
}

impl From<&Error> for types::Reason {
    fn from(error: &Error) -> Self {
        match error {
            Error::Locked { .. } => Self::Locked,
            Error::NotFound { .. } => Self::NotFound,
            Error::IsDirectory { .. } | Error::NotAStore { .. } => Self::NotAStore,
            Error::NewerVersion { found, .. } => Self::NewerVersion(*found),
            Error::ReadOnly => Self::ReadOnly,
            Error::NoSpace => Self::NoSpace,
            Error::KeyTooLong { len } => Self::KeyTooLong(length(*len, KEY_LEN_MAX)),
            Error::ValueTooLong { len } => Self::ValueTooLong(length(*len, VALUE_LEN_MAX)),
            Error::NamespaceName { len } => Self::NamespaceName(length(*len, NAMESPACE_NAME_LEN_MAX)),
            Error::NamespaceDropped => Self::NamespaceDropped,
            Error::Corrupt { offset, .. } => Self::Corrupt(*offset),
            Error::Poisoned(_) => Self::Poisoned,
            Error::Closed => Self::Closed,
            Error::InvalidArgument(_) => Self::InvalidArgument,
            Error::Storage(failed) if failed.kind == StorageErrorKind::PermissionDenied => Self::AccessDenied,
            _ => Self::Io,
        }
    }
}

impl From<Error> for types::Error {
    fn from(error: Error) -> Self {
        Self { reason: (&error).into(), message: error.to_string() }
    }
}

impl From<Closed> for types::Error {
    #[cold]
    #[inline(never)]
    fn from(closed: Closed) -> Self {
        Error::from(closed).into()
    }
}

impl From<Damage> for types::Location {
    fn from(damage: Damage) -> Self {
        Self { offset: damage.offset, what: String::from(damage.what) }
    }
}

impl From<Durability> for types::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Device => Self::Synced,
            Durability::Os => Self::Written,
            _ => Self::Buffered,
        }
    }
}

impl From<Version> for types::Version {
    fn from(version: Version) -> Self {
        let (position, salt) = version.to_parts();
        Self { position, salt }
    }
}

impl From<types::Version> for Version {
    fn from(version: types::Version) -> Self {
        Self::from_parts((version.position, version.salt))
    }
}
