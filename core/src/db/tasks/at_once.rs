//! Whether a call would wait, as things stand. It looks and then calls, so another thread can come in between: then the call waits as long as
//! that one takes, which is short but for rare cases.

use crate::engine::FullKey;
use crate::index::KeyHash;
use crate::names::Name;
use crate::store::Store;
use crate::ttl::Ttl;

/// More than a frame has before its key.
const FRONT_MAX: usize = 128;

impl Store {
    /// True when the record of a key can be read without waiting: for the medium, or for a part of the index that is not built.
    pub(super) fn reads_at_once(&self, name: &Name, key: &[u8]) -> bool {
        let Some(number) = name.number() else { return true };
        let FullKey { hash, .. } = self.engine.full_key(number, key);
        self.has_at_hand(hash)
    }

    /// [`Self::reads_at_once`] for a reader of the moment at this log position: only where the record is the one of then, and its shard free.
    pub(super) fn reads_at_once_at(&self, number: u32, key: &[u8], position: u64) -> bool {
        let engine = &self.engine;
        let FullKey { hash, .. } = engine.full_key(number, key);
        if engine.index.is_unclear(hash) || !engine.index.is_free(hash) {
            return false;
        }
        let (pin, mut found) = (engine.pin(), 0);
        let other = engine.index.find(&pin, hash, |offset| {
            found += 1;
            Ok((engine.log.lsn(offset) >= position || !engine.log.is_at_hand(offset)).then_some(()))
        });
        found > 0 && matches!(other, Ok(None))
    }

    fn has_at_hand(&self, hash: KeyHash) -> bool {
        let engine = &self.engine;
        if engine.index.is_unclear(hash) {
            return false;
        }
        let pin = engine.pin();
        let missing = engine.index.find(&pin, hash, |offset| Ok((!engine.log.is_at_hand(offset)).then_some(())));
        matches!(missing, Ok(None))
    }

    /// True when a record can be written without waiting: for the medium, for other writers, for a sync that is running, or for maintenance.
    pub(super) fn writes_at_once(&self, name: &Name, ttl: Ttl, key: &[u8], value_len: usize) -> bool {
        let Some(number) = name.number() else { return true };
        let FullKey { hash, .. } = self.engine.full_key(number, key);
        let is_plain = matches!(ttl, Ttl::Default) && name.is_plain();
        (is_plain || self.engine.log.clock.in_use() && !compresses(name))
            && !self.lets_another_go()
            && !self.is_due()
            && !self.rounds.are_served()
            && self.engine.log.takes_at_once(key.len() + value_len + FRONT_MAX)
            && self.engine.index.is_free(hash)
            && self.has_at_hand(hash)
    }
}

/// Values of this namespace are compressed as they are written.
#[cfg(feature = "compress")]
fn compresses(name: &Name) -> bool {
    name.compression() == crate::compression::Compression::OnWrite
}

#[cfg(not(feature = "compress"))]
const fn compresses(_name: &Name) -> bool {
    false
}
