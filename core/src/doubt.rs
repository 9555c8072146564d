//! What damage leaves behind in memory: what an index cannot know that was rebuilt across it, and the segments that it keeps from being freed.

use crate::error::Error;
use crate::index::{KeyHash, Slot};
use crate::log::{Geometry, Segment};
use crate::scan::Damage;
use crate::sorted::{Hashes, Set};
use crate::sync::Mutex;
use alloc::vec::Vec;
use core::ops::Range;

/// What an index does not know that was rebuilt from the log across a record that fails: it may have been any key's. Keys whose newest record
/// stands in front of it, and keys without one, answer [`Error::Corrupt`] until something behind it shows them.
pub(crate) struct Doubt {
    /// Where the newest such record is.
    pub(crate) offset: u64,
    what: &'static str,
    /// Extents of its segment and of all in front of it. They stay as they are: a copy of what they hold would look certain.
    extents: Set,
    /// What stands here, in its segment, came behind it.
    pub(crate) certain: Range<u64>,
    /// Hashes of the keys that were removed behind it.
    pub(crate) settled: Mutex<Hashes>,
}

impl Doubt {
    /// `before` are the segments in front of the damage, and `segment` the one that holds it.
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

    /// A key was removed: nothing older counts.
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
    /// Something of it may have been a tombstone, which hides what is older.
    pub(crate) hides: bool,
}

/// Segments in which compaction has met damage.
#[derive(Debug, Default)]
pub(crate) struct SetAside(pub(crate) Vec<Aside>);
