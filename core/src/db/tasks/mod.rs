//! The async face: every verb as a future, on any runtime. See [`AsyncDb`].
//!
//! Each future does nothing until it is polled. What would not wait, as far as can be seen, is done on the task that polls it (`at_once`);
//! everything else by the few threads of `pool`. Writes of one store take a lane of their own (`store::Lane`), syncs are shared in rounds
//! (`store::Rounds`).

mod admin;
mod at_once;
mod batch;
mod changes;
mod closures;
mod elsewhere;
#[cfg(feature = "events")]
mod events;
mod flush;
mod followed;
mod groups;
mod handle;
mod pool;
mod reads;
mod snapshot;
mod transaction;
mod walks;
mod writes;

pub use batch::AsyncBatch;
pub use changes::{ChangeStream, ConsumerStream};
#[cfg(feature = "events")]
pub use events::{AsyncEvents, EventStream, SubscriptionStream};
pub use handle::{AsyncDb, AsyncNamespace};
pub use snapshot::AsyncSnapshot;
pub use transaction::AsyncTransaction;
pub use walks::{KeyStream, RecordStream};
