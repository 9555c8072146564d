//! The async face: every verb as a future, on any runtime. See [`AsyncDb`].
//!
//! Each future does nothing until it is polled. What would not wait, as far as can be seen, is done on the task that polls it (`at_once`);
//! everything else by the few threads of `pool`. Writes of one store take a lane of their own (`store::Lane`), syncs are shared in rounds
//! (`store::Rounds`).

mod admin;
mod at_once;
mod batch;
mod closures;
mod flush;
mod handle;
mod pool;
mod reads;
mod writes;

pub use batch::AsyncBatch;
pub use handle::{AsyncDb, AsyncNamespace};
