// The page of the crate, on docs.rs as on crates.io. Its examples run in `examples/`, where serde and an async runtime are at hand.
#![cfg_attr(all(doc, not(doctest)), doc = include_str!("../README.md"))]
#![cfg_attr(not(doc), doc = "An embedded key-value store in one append-only log file. See README.md.")]
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(all(test, not(feature = "std")))]
extern crate std;

mod bases;
mod changes;
mod clock;
#[cfg(feature = "compress")]
mod compress;
#[cfg(feature = "compress")]
mod compression;
mod conflict;
mod cursor;
mod damage;
mod db;
mod decoded;
mod doubt;
mod engine;
mod error;
#[cfg(feature = "events")]
mod events;
#[cfg(feature = "events")]
mod expected;
mod expiry;
mod few;
mod followed;
#[cfg(feature = "testing")]
pub mod frame;
#[cfg(not(feature = "testing"))]
mod frame;
mod index;
pub mod limits;
mod log;
mod maintenance;
pub mod merge;
mod moments;
mod names;
mod nested;
#[cfg(feature = "ordered")]
mod order;
#[cfg(feature = "ordered")]
mod ordered;
mod past;
mod pins;
#[cfg(feature = "planted-bugs")]
pub mod planted;
#[cfg(not(feature = "planted-bugs"))]
mod planted;
mod position;
mod prefetch;
mod recent;
mod recover;
#[cfg(all(feature = "native", feature = "encrypt", feature = "salvage"))]
mod reseal;
#[cfg(feature = "events")]
mod retention;
#[cfg(feature = "salvage")]
mod salvage;
mod scan;
#[cfg(feature = "encrypt")]
mod seal;
mod shards;
mod snapshot;
mod sorted;
pub mod storage;
mod store;
#[cfg(feature = "events")]
mod streams;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod ttl;
#[cfg(feature = "encrypt")]
mod unlock;
mod vanished;
mod verify;

pub use changes::{Change, Commit};
pub use clock::Clock;
#[cfg(feature = "compress")]
pub use compression::Compression;
pub use conflict::Conflict;
pub use cursor::Cursor;
#[cfg(feature = "compress")]
pub use db::CompressionStats;
#[cfg(feature = "std")]
pub use db::Watching;
#[cfg(feature = "events")]
pub use db::{Appended, Condition, Event, EventIter, EventReader, EventRef, Events, NewEvent, Subscription};
#[cfg(feature = "async")]
pub use db::{
    AsyncBatch, AsyncDb, AsyncNamespace, AsyncSnapshot, AsyncTransaction, ChangeStream, ConsumerStream, KeyStream, RecordStream,
};
#[cfg(all(feature = "async", feature = "events"))]
pub use db::{AsyncEvents, EventStream, SubscriptionStream};
pub use db::{
    BackupReport, Batch, BatchBytes, Builder, Changes, ChangesBuilder, Consumer, ConsumerBuilder, ConsumerState, Db, Focus,
    Group, Iter, Keys, Namespace, OwnedValue, PositionState, Savepoint, SegmentUse, Snapshot, SnapshotIter, SnapshotKeys,
    SnapshotNamespace, Stats, Transaction, TransactionIter, TransactionKeys, TransactionNamespace, Value, Version,
};
#[cfg(feature = "typed")]
pub use db::{FixedKey, TypedKey, TypedNamespace};
#[cfg(feature = "ordered")]
pub use db::{FocusRange, KeyRange, Range, RangeKeys, TransactionRange, TransactionRangeKeys};
pub use error::{Error, Result};
#[cfg(feature = "events")]
pub use expected::{Expected, FailedCheck};
/// For the hosts in this repository, so that they need no checksum crate of their own.
#[doc(hidden)]
pub use frame::crc32c;
#[cfg(feature = "encrypt")]
pub use maintenance::KeyRotation;
pub use maintenance::{CompactProgress, CompactReport};
pub use position::Position;
#[cfg(feature = "ordered")]
pub use recover::OrderState;
pub use recover::{OpenReport, SnapshotState};
#[cfg(feature = "events")]
pub use retention::Retention;
#[cfg(feature = "salvage")]
pub use salvage::{SalvageOptions, SalvageReport, salvage, salvage_with};
pub use scan::Damage;
#[cfg(feature = "encrypt")]
#[doc(hidden)]
pub use seal::Vault;
#[cfg(feature = "encrypt")]
pub use seal::{Cipher, KeyProvider};
pub use storage::{Durability, Storage, StorageError, StorageErrorKind};
#[cfg(feature = "io-uring")]
pub use storage::{IoUring, IoUringState};
pub use store::FlushPolicy;
#[cfg(feature = "std")]
pub use store::IndexMemory;
pub use ttl::Ttl;
#[cfg(feature = "encrypt")]
pub use unlock::{KeySlot, KeySlotKind};
pub use verify::{VerifyReport, verify_storage};
