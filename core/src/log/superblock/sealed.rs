//! The superblocks of a sealed store: each has a tag.

use super::{Decoded, GENERATIONS_OF_CREATION, SECTOR, Superblock, SuperblockSlot};
use crate::error::{Error, Result};
use crate::frame::{bind, crc32c};
use crate::log::keys_of;
use crate::planted::{Bug, is};
use crate::storage::Storage;

/// Where the tag stands.
const TAG_AT: usize = 480;

impl Superblock {
    /// Bytes with a tag, if the store is sealed: the seed is masked first.
    pub(super) fn encode_sealed(&self, store: &dyn Storage, slot: SuperblockSlot) -> Result<[u8; SECTOR]> {
        let Some(keys) = keys_of(store) else { return Ok(self.encode(slot)) };
        let mut bytes = Self { seed: keys.mask_seed(self.seed), ..*self }.encode(slot);
        let tag = keys.tag_superblock(bytes.get(..TAG_AT).unwrap_or_default(), slot.offset())?;
        if let Some(place) = bytes.get_mut(TAG_AT..TAG_AT + tag.len()) {
            place.copy_from_slice(&tag);
        }
        let (body, crc) = bytes.split_at_mut(SECTOR - 4);
        crc.copy_from_slice(&(crc32c(body) ^ bind(0, slot.offset())).to_le_bytes());
        Ok(bytes)
    }

    /// What was decoded, with its seed readable, if its tag fits or no key is at hand. Where the checksum fits, an invalid field is no accident.
    pub(super) fn authentic(
        decoded: Decoded,
        storage: &dyn Storage,
        bytes: &[u8; SECTOR],
        slot: SuperblockSlot,
    ) -> Result<Decoded> {
        let Some(keys) = keys_of(storage) else { return Ok(decoded) };
        if (matches!(decoded, Decoded::Newer(_)) && !storage.forgives()) || !Self::is_summed(bytes, slot) {
            return Ok(decoded);
        }
        // The older one may be from before the store began to be sealed; whether it is the older one is checked behind this.
        if let Decoded::Good(found) = decoded
            && found.key_page == 0
            && keys.is_enabling()
        {
            return Ok(decoded);
        }
        let tag = bytes.get(TAG_AT..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        let fields = bytes.get(..TAG_AT).unwrap_or_default();
        let masked = if let Decoded::Good(found) = decoded { found.seed } else { [0; 16] };
        let seed = keys.seed_of(fields, slot.offset(), &tag, masked)?;
        let seed = if is(Bug::SealedSuperblockUnchecked) { seed.or(Some((keys.mask_seed(masked), true))) } else { seed };
        // The older one may be from before a rotation, and then it names the page of keys from before it.
        let is_its = |found: &Self, is_current: bool| found.key_page != 0 && (is_current || found.key_page < keys.page_version());
        match (decoded, seed) {
            (Decoded::Good(found), Some((seed, is_current))) if is_its(&found, is_current) => {
                Ok(Decoded::Good(Self { seed, ..found }))
            }
            (Decoded::Good(found), None) if found.is_of_another_creation(keys.store_id()) => Ok(Decoded::Damaged),
            (Decoded::Good(_), _) | (_, None) if storage.forgives() => Ok(Decoded::Damaged),
            (Decoded::Good(_), _) | (_, None) => Err(Error::Forged { offset: slot.offset(), what: "a superblock" }),
            (other, _) => Ok(other),
        }
    }

    /// The generation that the bytes of a slot name, whether or not they are whole.
    pub(crate) fn generation_in(bytes: &[u8; SECTOR]) -> u64 {
        super::Fields(bytes).word(super::at::GENERATION)
    }

    /// The id of the store of a slot whose checksum fits.
    pub(crate) fn id_of(bytes: &[u8; SECTOR], slot: SuperblockSlot) -> Option<[u8; 16]> {
        Self::is_summed(bytes, slot).then(|| super::Fields(bytes).bytes(super::at::STORE_ID))
    }

    /// True for what another session writes that has created a store in the same file at the same time, on a host without locks, and did not know yet that
    /// it was overtaken. It says as much as a superblock whose checksum does not fit.
    fn is_of_another_creation(&self, store_id: &[u8; 16]) -> bool {
        self.generation <= GENERATIONS_OF_CREATION && self.store_id != *store_id
    }

    /// The id of the store that a slot names, whether or not it is damaged.
    #[cfg(feature = "salvage")]
    pub(crate) fn store_id_in(bytes: &[u8; SECTOR]) -> [u8; 16] {
        super::Fields(bytes).bytes(super::at::STORE_ID)
    }

    /// True if the superblock in a slot is whole, and its tag fits.
    #[cfg(feature = "salvage")]
    pub(crate) fn is_authentic(storage: &dyn Storage, slot: SuperblockSlot) -> Result<bool> {
        let mut bytes = [0; SECTOR];
        if storage.len()? < slot.offset() + SECTOR as u64 {
            return Ok(false);
        }
        storage.read_at(slot.offset(), &mut bytes)?;
        let decoded = Self::authentic(Self::decode(&bytes, slot), storage, &bytes, slot)?;
        Ok(matches!(decoded, Decoded::Good(_)))
    }
}

/// Fails if the superblock names an earlier page of keys than the one that was unlocked, or another border. The older superblock may: the page was changed
/// in between. A later page is what a follower meets whose writer has changed it: the tag says that it is of this store. Where the host cannot lock the file, a
/// session that has changed the page may be overtaken: the superblock that counts then names the page of before, which is read again.
pub(super) fn check_key_page(storage: &dyn Storage, current: &Superblock, slot: SuperblockSlot) -> Result<()> {
    if let Some(keys) = keys_of(storage)
        && !storage.forgives()
        && (storage.is_exclusive() && current.key_page < keys.page_version() || current.sealed_from != keys.border())
    {
        return Err(Error::Forged { offset: slot.offset(), what: "a superblock" });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
