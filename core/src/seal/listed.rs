//! What a list of segments says of each: its seal; or, of a plain one in a store that is being sealed, a keyed digest of its bytes.

use super::keys::{Derived, Key, TAG_LEN};
use crate::error::{Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Length in bytes of what a list of segments says of the seal of one: key id, what its session drew, and the number of the session.
pub(crate) const LISTED_LEN: usize = 8 + 32 + 8;

/// The digest of a plain segment: the first 16 bytes of an HMAC-SHA256.
pub(crate) type PlainDigest = [u8; TAG_LEN];

/// Bytes that come before the digest in what a list says of a plain segment: a key id that no key has.
const NO_KEY: [u8; 8] = [0; 8];

/// A digest of which the bytes come piece by piece.
pub(crate) struct Digesting(Hmac<Sha256>);

impl Digesting {
    /// Of a segment that is described by `fields`.
    fn new(key: &Key, store_id: &[u8; 16], fields: &[u8]) -> Result<Self> {
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.as_slice());
        let mut mac = mac.map_err(|_| Error::Bug("a key of the wrong length"))?;
        mac.update(store_id);
        mac.update(fields);
        Ok(Self(mac))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> PlainDigest {
        self.0.finalize().into_bytes().first_chunk().copied().unwrap_or_default()
    }
}

impl Derived {
    /// Begins the digest of a plain segment that is described by `fields`.
    pub(crate) fn digest_plain(&self, store_id: &[u8; 16], fields: &[u8]) -> Result<Digesting> {
        Digesting::new(&self.plain, store_id, fields)
    }
}

/// What a list says of a plain segment in the place of a seal.
pub(super) fn of_plain(digest: &PlainDigest) -> [u8; LISTED_LEN] {
    let mut out = [0; LISTED_LEN];
    out.iter_mut().zip(NO_KEY.iter().chain(digest)).for_each(|(place, byte)| *place = *byte);
    out
}

/// The digest in what a list says of a segment; `None` for a sealed one.
pub(super) fn digest_in(seal: &[u8; LISTED_LEN]) -> Option<PlainDigest> {
    seal.strip_prefix(&NO_KEY).and_then(<[u8]>::first_chunk).copied()
}
