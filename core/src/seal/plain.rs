//! Plain segments of a sealed store. In one that is being sealed they count only as long as they are what a keyed digest in the list of segments says. In
//! one that is being made plain, all segments behind the border are plain, and nothing says that they are authentic.

use super::listed::PlainDigest;
use super::ring::{KeySet, PlainSide};
use super::vault::{Keys, Known};
use alloc::sync::Arc;

impl Keys {
    /// True while segments in front of the border may be plain: the store is being sealed.
    pub(crate) fn is_enabling(&self) -> bool {
        self.ring.read().plain == PlainSide::Before
    }

    /// True while segments behind the border are plain, and those in front of it are sealed: the store is being made plain.
    pub(crate) fn is_disabling(&self) -> bool {
        self.ring.read().plain == PlainSide::Behind
    }

    /// True while the store has plain segments beside sealed ones.
    pub(crate) fn is_mixed(&self) -> bool {
        self.ring.read().plain != PlainSide::Nowhere
    }

    /// True for the log position of a segment that is plain because the store is being made plain.
    pub(crate) fn is_plain_from(&self, base: u64) -> bool {
        let ring = self.ring.read();
        ring.plain == PlainSide::Behind && base >= ring.border
    }

    /// Everything from the log position `border` on is plain, and nothing in front of it: the store begins to be made plain.
    pub(crate) fn plain_from(&self, border: u64) {
        let mut ring = self.ring.write();
        (ring.plain, ring.border) = (PlainSide::Behind, border);
    }

    /// Wipes the keys: nothing is sealed any more. `dead` takes their place for whoever still holds this, and opens nothing.
    pub(crate) fn forget(&self, dead: KeySet) {
        let mut ring = self.ring.write();
        (ring.current, ring.previous, ring.plain) = (Arc::new(dead), None, PlainSide::Nowhere);
        *self.known.write() = Known::default();
        self.set_page(0, alloc::vec::Vec::new());
    }

    /// Lets a plain segment count, which has this digest. Without one, it is only read, and in no list: a retired one, or one of an index snapshot.
    pub(crate) fn enter_plain(&self, salt: u64, digest: Option<PlainDigest>) {
        self.known.write().plain.insert(salt, digest);
    }

    /// A plain segment does not count any more.
    pub(crate) fn forget_plain(&self, salt: u64) {
        self.known.write().plain.remove(salt);
    }

    /// True for the salt of a plain segment that counts. Of a store that is being made plain, the sealed ones were all entered.
    pub(crate) fn is_plain(&self, salt: u64) -> bool {
        match self.ring.read().plain {
            PlainSide::Nowhere => false,
            PlainSide::Before => self.known.read().plain.get(salt).is_some(),
            PlainSide::Behind => !self.known.read().has(salt),
        }
    }

    /// The digest of a plain segment that counts.
    pub(crate) fn plain_digest(&self, salt: u64) -> Option<PlainDigest> {
        self.known.read().plain.get(salt).copied().flatten()
    }
}
