//! The parts of an index snapshot, sealed under what one writing of it has drawn.

use super::keys::{NONCE_LEN, TAG_LEN, random};
use super::vault::{HeaderSeal, Keys};
use crate::error::Result;
use crate::planted::{Bug, is};

/// The first byte of the nonces of parts.
const DOMAIN_PARTS: u8 = 2;

impl HeaderSeal {
    /// The seal of a segment whose header has this number: no other header of the session has it, so no two segments are sealed under one key, even if
    /// the source of randomness repeats itself.
    pub(crate) fn of_segment(mut self, number: u64) -> Self {
        if let Some(place) = self.session.last_chunk_mut().filter(|_| !is(Bug::SnapshotsOfOneSeal)) {
            *place = number.to_le_bytes();
        }
        self
    }
}

impl Keys {
    /// The seal of the segments that one writing of a snapshot takes, without its tag. Each writing draws its own: one that fails leaves parts at
    /// places where the next one may write.
    pub(crate) fn new_snapshot_seal(&self) -> Result<HeaderSeal> {
        let mut seal = self.new_seal([0; TAG_LEN]);
        if !is(Bug::SnapshotsOfOneSeal) {
            random(&mut seal.session)?;
        }
        Ok(seal)
    }

    /// Seals the part at `offset` in place; returns its tag. The header of its segment, whose salt this is, was written.
    pub(crate) fn seal_part(&self, text: &mut [u8], salt: u64, offset: u64) -> Result<[u8; TAG_LEN]> {
        self.sealer_at(salt, offset)?.seal(nonce(offset), &self.associated_with_part(salt, offset), text)
    }

    /// Opens the part at `offset` in place, of which this is the tag; false if somebody without the key has made or moved it.
    pub(crate) fn open_part(&self, text: &mut [u8], tag: &[u8; TAG_LEN], salt: u64, offset: u64) -> Result<bool> {
        Ok(self.sealer_at(salt, offset)?.open(nonce(offset), &self.associated_with_part(salt, offset), text, tag))
    }

    fn associated_with_part(&self, salt: u64, offset: u64) -> [u8; 32] {
        let mut out = [0; 32];
        let fields = self.store_id().iter().copied().chain(offset.to_le_bytes()).chain(salt.to_le_bytes());
        out.iter_mut().zip(fields).for_each(|(place, byte)| *place = byte);
        out
    }
}

fn nonce(offset: u64) -> [u8; NONCE_LEN] {
    let mut out = [0; NONCE_LEN];
    let fields = [DOMAIN_PARTS, 0, 0, 0].into_iter().chain(offset.to_le_bytes());
    out.iter_mut().zip(fields).for_each(|(place, byte)| *place = byte);
    out
}
