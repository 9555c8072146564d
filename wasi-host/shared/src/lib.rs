//! What the component and the provider on the host's side have in common: they serve the same interfaces out of the same engine, the one
//! inside the sandbox and the other outside of it, and a caller must not be able to tell them apart.
#![no_std]

extern crate alloc;

mod answer;
mod bucket;
mod changes;
mod commit;
mod conversions;
mod event_conversions;
mod events;
mod key_range;
mod packed;
mod range;
mod sealed;
mod source;
mod transaction;
mod walk;
mod words;

pub use answer::{Answer, each_value, values, values_of};
pub use bucket::{counted, keys};
pub use changes::{Asked, Follow, Page, TOO_MANY_CONSUMERS, page};
pub use commit::{Change, commit, millis};
pub use events::{EventPage, EventPages, Following, Selection, TOO_MANY_CURSORS, condition, has_room_for_cursor};
pub use key_range::KeyRange;
pub use packed::{Packing, PackingValues, records, strings};
pub use sealed::{forged_at, is_locked_up};
pub use source::Source;
pub use transaction::{InTransaction, OpenTransaction};
pub use walk::Walk;
pub use words::{refused, replaced, words};
