//! Plain segments of a store that is being sealed: they count only as long as they are what a keyed digest in the list of segments says.

use super::listed::PlainDigest;
use super::vault::Keys;

impl Keys {
    /// True while segments in front of the border may be plain: the store is being sealed.
    pub(crate) fn is_enabling(&self) -> bool {
        self.ring.read().is_plain_before
    }

    /// Lets a plain segment count, which has this digest. Without one, it is only read, and in no list: a retired one, or one of an index snapshot.
    pub(crate) fn enter_plain(&self, salt: u64, digest: Option<PlainDigest>) {
        self.known.write().plain.insert(salt, digest);
    }

    /// A plain segment does not count any more.
    pub(crate) fn forget_plain(&self, salt: u64) {
        self.known.write().plain.remove(salt);
    }

    /// True for the salt of a plain segment that counts.
    pub(crate) fn is_plain(&self, salt: u64) -> bool {
        self.is_enabling() && self.known.read().plain.get(salt).is_some()
    }

    /// The digest of a plain segment that counts.
    pub(crate) fn plain_digest(&self, salt: u64) -> Option<PlainDigest> {
        self.known.read().plain.get(salt).copied().flatten()
    }
}
