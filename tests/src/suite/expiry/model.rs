//! What a store with a clock should hold.

use pipkin::Ttl;
use std::collections::BTreeMap;

/// Keys that are written.
pub(super) const KEYS: u64 = 10;
/// The default namespace, and a named one with a default of its own.
pub(super) const SPACES: usize = 2;
/// When a history begins.
pub(super) const START: u64 = 1_700_000_000_000;

pub(super) fn key_of(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Value and expiry.
type Record = (Vec<u8>, Option<u64>);

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) spaces: [BTreeMap<Vec<u8>, Record>; SPACES],
    /// The host's clock, the latest expiry that was acted on, and what the store makes of both.
    pub(super) host: u64,
    pub(super) floor: u64,
    pub(super) now: u64,
    /// Milliseconds that records of the named namespace live by default; 0: for ever.
    pub(super) default: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self { spaces: Default::default(), host: START, floor: 0, now: START, default: 0 }
    }
}

impl Model {
    fn expiry(&self, ttl: Ttl, space: usize) -> Option<u64> {
        match ttl {
            Ttl::Default if space == 0 || self.default == 0 => None,
            Ttl::Default => Some(self.now + self.default),
            Ttl::Never => None,
            Ttl::At(time) => Some(time),
            Ttl::After(duration) => Some(self.now + duration.as_millis() as u64),
        }
    }

    pub(super) fn expires(&self, ttl: Ttl, space: usize) -> bool {
        self.expiry(ttl, space).is_some()
    }

    pub(super) fn insert(&mut self, space: usize, key: Vec<u8>, value: Vec<u8>, ttl: Ttl) {
        let expiry = self.expiry(ttl, space);
        self.spaces[space].insert(key, (value, expiry));
        self.expire();
    }

    pub(super) fn remove(&mut self, space: usize, key: &[u8]) -> bool {
        self.spaces[space].remove(key).is_some()
    }

    pub(super) fn get(&self, space: usize, key: &[u8]) -> Option<Vec<u8>> {
        self.spaces[space].get(key).map(|(value, _)| value.clone())
    }

    /// Everything is looked at, so what has expired is acted on.
    fn expire(&mut self) {
        self.now = self.host.max(self.floor);
        for space in &mut self.spaces {
            space.retain(|_, (_, expiry)| match *expiry {
                Some(expiry) if expiry <= self.now => {
                    self.floor = self.floor.max(expiry);
                    false
                }
                _ => true,
            });
        }
    }

    pub(super) fn set_host(&mut self, host: u64) {
        self.host = host;
        self.expire();
    }

    /// The store's time is the host's again.
    pub(super) fn reset(&mut self) {
        self.floor = self.floor.min(self.host);
        self.now = self.host;
    }
}
