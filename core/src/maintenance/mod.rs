//! Maintenance: checkpoints and compaction. `due` decides when, `choose` picks the segments, `emptying` empties them: `sift`, `ahead` in
//! another thread, finds what counts, and `copy` copies it. `checkpoint` writes list and snapshot; `unasked` (automatic), `steps` and `compact` are the
//! ways to compact; `space` finds room for a write that has none, `retention` removes events, and `rotation` copies everything under a new key.

mod ahead;
mod checkpoint;
mod choose;
mod clock;
mod compact;
#[cfg(feature = "compress")]
mod compressed;
mod copy;
#[cfg(feature = "compress")]
mod dictionaries;
#[cfg(feature = "encrypt")]
mod disabling;
mod due;
mod dying;
mod emptying;
#[cfg(feature = "encrypt")]
mod enabling;
mod expired;
mod healing;
mod history;
mod namespaces;
mod report;
#[cfg(feature = "encrypt")]
mod resealed;
#[cfg(feature = "events")]
mod retention;
#[cfg(feature = "encrypt")]
mod rotation;
mod sift;
mod space;
mod steps;
mod stranded;
#[cfg(test)]
mod tests;
#[cfg(feature = "compress")]
mod train;
mod unasked;

pub(crate) use checkpoint::{Extent, write as write_checkpoint};
pub use report::{CompactProgress, CompactReport};
#[cfg(feature = "events")]
pub(crate) use retention::{Exactly, REMOVED_TOGETHER};
#[cfg(feature = "encrypt")]
pub use rotation::KeyRotation;
