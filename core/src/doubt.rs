//! What the store remembers of damage: what an index that was rebuilt across it cannot know, and the segments that must not be freed
//! because of it.

use crate::error::Error;
use crate::index::{KeyHash, Slot};
use crate::log::{Geometry, Segment};
use crate::scan::Damage;
use crate::sorted::{Hashes, Set};
use crate::sync::Mutex;
use alloc::vec::Vec;
use core::ops::Range;

/// What an index that was rebuilt from the log across a damaged record does not know: that record may have been any key's. Keys whose
/// newest record is before it, and keys without a record, answer [`Error::Corrupt`] until a record after the damage settles them.
pub(crate) struct Doubt {
    /// File offset of the newest such record.
    pub(crate) offset: u64,
    what: &'static str,
    /// Extents of its segment and of all segments before it. Compaction leaves them alone: a copy of their records would look certain.
    extents: Set,
    /// File offsets in its segment that are after the damage: records there are certain.
    pub(crate) certain: Range<u64>,
    /// Hashes of the keys that were removed after it.
    pub(crate) settled: Mutex<Hashes>,
}

impl Doubt {
    /// `before` are the segments before the damaged one, `segment` is the one that holds the damage.
    pub(crate) fn new(geometry: Geometry, damage: &Damage, segment: &Segment, before: &[Segment], settled: Hashes) -> Self {
        let all = before.iter().chain([segment]);
        Self {
            offset: damage.offset,
            what: damage.what,
            extents: Set::collect(all.flat_map(|segment| segment.extent..segment.extent + segment.extents).map(u64::from)),
            certain: damage.offset + damage.len..segment.behind(geometry),
            settled: Mutex::new(settled),
        }
    }

    pub(crate) fn error(&self) -> Error {
        Error::corrupt(self.offset, self.what)
    }

    pub(crate) fn holds(&self, extent: u32) -> bool {
        self.extents.contains(extent.into())
    }

    /// Records that the key was removed, so that its older records no longer matter.
    pub(crate) fn settle(&self, hash: KeyHash) {
        self.settled.lock().insert(hash.bits());
    }
}

/// A segment that damage keeps from being freed. Everything else that lived in it has been copied out.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    pub(crate) base: u64,
    /// Slots that point into the damage.
    pub(crate) held: Vec<(usize, Slot)>,
    /// The damage may have been a tombstone, which hides older records.
    pub(crate) hides: bool,
    /// The damage may have been an event: only salvage can tell.
    pub(crate) may_be_event: bool,
}

/// Segments in which compaction has found damage.
#[derive(Debug, Default)]
pub(crate) struct SetAside(pub(crate) Vec<Aside>);
