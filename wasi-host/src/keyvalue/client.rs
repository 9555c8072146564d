//! `pipkin:kv`, served by the native engine.

mod add_async;
mod add_async_changes;
mod add_async_events;
mod admin;
mod changes;
mod db;
mod events;
mod namespace;
mod scan;
mod serve;
mod serve_changes;
mod serve_events;
mod serve_snapshot;
mod serve_transaction;
mod snapshot;
mod subscription;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
mod transaction;
mod wit {
    #![allow(missing_docs, clippy::all, reason = "generated; the WIT has the documents")]
    wasmtime::component::bindgen!({
        path: "wit",
        world: "pipkin:kv/full-client",
        imports: {
            "pipkin:kv/store.[method]namespace.scan": trappable,
            "pipkin:kv/store.[method]namespace.with-ttl": trappable,
            "pipkin:kv/store.[method]snapshot.position": trappable,
            "pipkin:kv/store.[method]snapshot-namespace.scan": trappable,
            "pipkin:kv/store.[static]transaction.rollback": trappable,
            "pipkin:kv/store.[method]changes.position": trappable,
            "pipkin:kv/store.[method]consumer.position": trappable,
            "pipkin:kv/events.[method]subscription.number": trappable,
        },
        with: {
            "pipkin:kv/store.db": crate::keyvalue::ClientDb,
            "pipkin:kv/store.namespace": crate::keyvalue::ClientNamespace,
            "pipkin:kv/store.scan": crate::keyvalue::ClientScan,
            "pipkin:kv/store.snapshot": crate::keyvalue::ClientSnapshot,
            "pipkin:kv/store.snapshot-namespace": crate::keyvalue::ClientSnapshotNamespace,
            "pipkin:kv/store.transaction": crate::keyvalue::ClientTransaction,
            "pipkin:kv/store.savepoint": crate::keyvalue::ClientSavepoint,
            "pipkin:kv/store.changes": crate::keyvalue::ClientChanges,
            "pipkin:kv/store.consumer": crate::keyvalue::ClientConsumer,
            "pipkin:kv/events.log": crate::keyvalue::ClientLog,
            "pipkin:kv/events.reader": crate::keyvalue::ClientEventReader,
            "pipkin:kv/events.subscription": crate::keyvalue::ClientSubscription,
        },
    });
}

pub(super) use add_async::add_async_to_linker;
pub(super) use add_async_changes::add_async_changes_to_linker;
pub(super) use add_async_events::add_async_events_to_linker;
pub(super) use admin::{add_admin_to_linker, add_async_admin_to_linker};
pub use changes::{ClientChanges, ClientConsumer};
pub use db::ClientDb;
pub use events::{ClientEventReader, ClientLog};
pub use namespace::ClientNamespace;
pub use scan::ClientScan;
pub(super) use serve::add_to_linker;
pub(super) use serve_events::add_events_to_linker;
pub use snapshot::{ClientSnapshot, ClientSnapshotNamespace};
pub use subscription::ClientSubscription;
pub use transaction::{ClientSavepoint, ClientTransaction};

use super::quota::Failure;
use wit::pipkin::kv::types::{Error, Reason};

pipkin_wasi_shared::impl_conversions! {
    types: crate::keyvalue::client::wit::pipkin::kv::types,
    admin: crate::keyvalue::client::wit::pipkin::kv::admin
}

pipkin_wasi_shared::impl_event_conversions! {
    types: crate::keyvalue::client::wit::pipkin::kv::types,
    events: crate::keyvalue::client::wit::pipkin::kv::events
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Engine(error) => error.into(),
            Failure::Quota(words) => over_quota(words),
        }
    }
}

fn over_quota(words: &str) -> Error {
    Error { reason: Reason::Quota, message: words.to_owned() }
}

fn access_denied(message: String) -> Error {
    Error { reason: Reason::AccessDenied, message }
}

/// A handle that is not in the table: a bug of the embedder or of Wasmtime, for guests cannot make handles up.
fn lost(error: impl ToString) -> Error {
    Error { reason: Reason::Io, message: error.to_string() }
}
