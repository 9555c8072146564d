//! The public API: [`Db`], [`Namespace`], [`Transaction`], and the builder that opens a store.
//!
//! Each operation that takes several steps has a file of its own.

mod backup;
mod batch;
mod builder;
mod close;
mod compact;
mod front;
mod handle;
mod iter;
mod namespaces;
mod open;
mod page;
#[cfg(feature = "ordered")]
mod range;
mod read;
#[cfg(all(test, shuttle, feature = "ordered"))]
mod schedules;
mod stats;
mod transaction;
mod value;
mod verify;
mod version;
mod write;

pub use backup::BackupReport;
pub use batch::Batch;
pub use builder::Builder;
pub use handle::{Db, Namespace};
pub use iter::{Iter, Keys};
#[cfg(feature = "ordered")]
pub use range::Range;
pub use stats::{SegmentUse, Stats};
pub use transaction::Transaction;
pub use value::Value;
pub use version::Version;
