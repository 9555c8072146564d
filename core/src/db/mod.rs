//! The public API: [`Db`], [`Namespace`], [`Transaction`], and the builder that opens a store.
//!
//! Each operation that takes several steps has a file of its own.

mod backup;
mod batch;
mod batch_bytes;
#[cfg(feature = "events")]
mod batch_events;
mod builder;
mod changes;
mod check;
mod close;
mod commit;
mod compact;
#[cfg(feature = "compress")]
mod compression;
mod consumer;
mod delete_group;
#[cfg(feature = "encrypt")]
mod disable;
#[cfg(feature = "encrypt")]
mod enable;
#[cfg(feature = "ordered")]
mod ends;
#[cfg(feature = "events")]
mod events;
mod expiry;
mod focus;
mod focus_keys;
#[cfg(feature = "ordered")]
mod focus_range;
mod follow;
mod front;
mod get_many;
mod group;
mod handle;
#[cfg(feature = "ordered")]
mod in_order;
mod iter;
mod iter_followed;
#[cfg(feature = "ordered")]
mod key_range;
#[cfg(feature = "encrypt")]
mod keys;
mod lifetime;
#[cfg(feature = "native")]
mod lock;
mod merge;
mod modify;
mod namespaces;
#[cfg(not(feature = "events"))]
mod no_events;
mod open;
#[cfg(feature = "ordered")]
mod ordered;
mod owned;
mod page;
mod position;
#[cfg(feature = "ordered")]
mod range;
#[cfg(feature = "ordered")]
mod range_keys;
mod read;
mod refresh;
mod register;
#[cfg(feature = "encrypt")]
mod rotation;
#[cfg(all(test, shuttle, feature = "ordered"))]
mod schedules;
mod snapshot;
#[cfg(feature = "ordered")]
mod snapshot_range;
mod snapshot_walks;
mod stats;
#[cfg(feature = "async")]
mod tasks;
mod transaction;
#[cfg(feature = "typed")]
mod typed;
#[cfg(feature = "typed")]
mod typed_key;
mod value;
mod verify;
mod version;
#[cfg(feature = "std")]
mod waiting;
mod write;

pub use backup::BackupReport;
pub use batch::Batch;
pub use batch_bytes::BatchBytes;
pub use builder::Builder;
pub use changes::{Changes, ChangesBuilder};
#[cfg(feature = "compress")]
pub use compression::CompressionStats;
pub use consumer::{Consumer, ConsumerBuilder, ConsumerState};
#[cfg(feature = "events")]
pub use events::{Appended, Condition, Event, EventIter, EventReader, EventRef, Events, NewEvent, Subscription};
pub use focus::Focus;
#[cfg(feature = "ordered")]
pub use focus_range::FocusRange;
pub use group::Group;
pub use handle::{Db, Namespace};
pub use iter::{Iter, Keys};
#[cfg(feature = "ordered")]
pub use key_range::KeyRange;
pub use owned::OwnedValue;
pub use position::PositionState;
#[cfg(feature = "ordered")]
pub use range::Range;
#[cfg(feature = "ordered")]
pub use range_keys::RangeKeys;
pub use snapshot::{Snapshot, SnapshotNamespace};
pub use snapshot_walks::{SnapshotIter, SnapshotKeys};
pub use stats::{SegmentUse, Stats};
#[cfg(feature = "async")]
pub use tasks::*;
pub use transaction::{Savepoint, Transaction, TransactionIter, TransactionKeys, TransactionNamespace};
#[cfg(feature = "ordered")]
pub use transaction::{TransactionRange, TransactionRangeKeys};
#[cfg(feature = "typed")]
pub use typed::TypedNamespace;
#[cfg(feature = "typed")]
pub use typed_key::{FixedKey, TypedKey};
pub use value::Value;
pub use version::Version;
#[cfg(feature = "std")]
pub use waiting::Watching;
