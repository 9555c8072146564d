//! Keeping a store in shape. `due` says when, `choose` which segments, and `copy` and `checkpoint` do it; `unasked`, `steps` and `compact` are
//! the ways in which a store is compacted, `space` is what a write does that has found none.

mod checkpoint;
mod choose;
mod compact;
mod copy;
mod due;
mod namespaces;
mod report;
mod space;
mod steps;
mod stranded;
mod unasked;

pub(crate) use checkpoint::{Extent, write as write_checkpoint};
pub use report::{CompactProgress, CompactReport};
