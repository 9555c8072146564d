//! **pipkin** is an embedded key-value store: one append-only log file and an index in memory. The same file opens unchanged in a
//! native program, in a WebAssembly component and in a browser.
//!
//! ```
//! # fn main() -> pipkin::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("app.pipkin");
//! let db = pipkin::Db::open(path)?;
//! db.insert("key", "value")?; // survives the end of the process
//! db.flush()?; //                survives a power cut
//! assert_eq!(db.get("key")?.as_deref(), Some(&b"value"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `std` (default): locks that wait, threads, the CPU's CRC-32C. Brings `salvage`.
//! - `native` (default): files. Brings `std`.
//! - `ordered` (default): the ordered index, for stores that ask for it (`Builder::ordered`). Brings `std`.
//! - `salvage`: everything but the damage out of a damaged store, and all damage of one that does not open.
//! - Without these the crate needs only `alloc`; a host brings a [`Storage`] and [`Builder::open_storage`] does the rest.
//! - `testing`: the crash simulator, the fault injector and the conformance suite for storages; the codec of frames.
//! - `planted-bugs`: bugs that can be switched on at run time, to prove that tests would see them. Brings `testing`. Never for production.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(all(test, not(feature = "std")))]
extern crate std;

mod checkpoint;
mod compact;
mod cursor;
mod damage;
mod db;
mod doubt;
mod engine;
mod error;
#[cfg(feature = "testing")]
pub mod frame;
#[cfg(not(feature = "testing"))]
mod frame;
mod index;
pub mod limits;
mod log;
mod names;
mod nested;
#[cfg(feature = "ordered")]
mod ordered;
mod pins;
#[cfg(feature = "planted-bugs")]
pub mod planted;
#[cfg(not(feature = "planted-bugs"))]
mod planted;
mod prefetch;
mod recover;
#[cfg(feature = "salvage")]
mod salvage;
mod scan;
mod shards;
mod snapshot;
mod sorted;
pub mod storage;
mod stranded;
mod sync;
mod verify;

pub use compact::{CompactProgress, CompactReport};
pub use cursor::Cursor;
#[cfg(feature = "ordered")]
pub use db::Range;
pub use db::{
    BackupReport, Batch, Builder, Db, FlushPolicy, Iter, Keys, Namespace, SegmentUse, Stats, Transaction, Value, Version,
};
pub use error::{Error, Result};
/// For the hosts in this repository, which need not bring another checksum along.
#[doc(hidden)]
pub use frame::crc32c;
pub use recover::{OpenReport, SnapshotState};
#[cfg(feature = "salvage")]
pub use salvage::{SalvageOptions, SalvageReport, salvage, salvage_with};
pub use scan::Damage;
pub use storage::{Durability, Storage, StorageError, StorageErrorKind};
pub use verify::{VerifyReport, verify_storage};
