//! The page of keys: the data key, wrapped by what the user has. It stands three times in the front of the file.

use super::slot::{Owner, SLOT_LEN, SLOTS_MAX, Slot, kind_of, put};
use crate::error::{Error, Result};
use crate::frame::{bind, crc32c};
use crate::seal::{Cipher, Derived, Key, KeySet, PlainSide, Secret, TAG_LEN, is_same, tag_of};
use crate::storage::Storage;
use alloc::vec::Vec;

/// Where the copies stand.
pub(crate) const PAGE_PLACES: [u64; 3] = [1024, 5120, 12_288];
/// Length in bytes of a copy.
pub(crate) const PAGE_LEN: usize = 3072;
/// No page has a version above it.
pub(super) const VERSION_MAX: u64 = 1 << 62;
const MAGIC: [u8; 8] = *b"PIPKEYS\x1a";
const SLOTS_AT: usize = 32;
/// Where the tag begins; the checksum follows.
const TAG_AT: usize = PAGE_LEN - 4 - TAG_LEN;

const FULL: Error = Error::InvalidArgument("a sealed store has at most 8 keys and passphrases: remove one first");

/// Fails if another session has taken the store over: one that sleeps between a look and a write spoils one copy of another page at most.
pub(crate) type Look<'a> = &'a dyn Fn() -> Result<()>;

/// A page of keys.
pub(super) struct KeyPage {
    pub(super) version: u64,
    pub(super) cipher: Cipher,
    key_id: [u8; 8],
    pub(super) slots: Vec<Slot>,
}

/// What a page leads to.
pub(super) struct Unlocked {
    pub(super) current: KeySet,
    /// The data key before the current one, which is being rotated.
    pub(super) previous: Option<KeySet>,
    pub(super) plain: PlainSide,
}

/// One as the file has it.
pub(super) struct Stored {
    pub(super) page: KeyPage,
    tag: [u8; TAG_LEN],
    /// What the tag covers.
    covered: Vec<u8>,
    offset: u64,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Writes the copies at `places`, each behind a `look`; durable only after a sync.
pub(super) fn write(storage: &dyn Storage, page: &[u8], places: &[u64], look: Look<'_>) -> Result<()> {
    let mut page = page.to_vec();
    for &place in places {
        look()?;
        let sum = crc32c(page.get(..PAGE_LEN - 4).unwrap_or_default()) ^ bind(0, place);
        put(&mut page, PAGE_LEN - 4, &sum.to_le_bytes());
        storage.write_at(place, &[&page])?;
        // A cache that gathers writes would write it behind a later look only.
        storage.hand_over()?;
    }
    Ok(())
}

/// The version of a page by its bytes.
pub(super) fn version_of(page: &[u8]) -> Option<u64> {
    word(page, 8)
}

/// The id of the data key that a page leads to, by its bytes.
#[cfg(feature = "followers")]
pub(super) fn key_id_of(page: &[u8]) -> Option<[u8; 8]> {
    page.get(24..)?.first_chunk().copied()
}

/// The first copy of `version` that is whole; if there is none, the first whole one.
pub(super) fn first_whole(storage: &dyn Storage, version: u64) -> Result<Option<(u64, Vec<u8>)>> {
    let mut other = None;
    for place in PAGE_PLACES {
        match whole(storage, place)? {
            Some(bytes) if version_of(&bytes) == Some(version) => return Ok(Some((place, bytes))),
            found => other = other.or(found.map(|bytes| (place, bytes))),
        }
    }
    Ok(other)
}

/// The copy at `place`, if it is whole.
pub(super) fn whole(storage: &dyn Storage, place: u64) -> Result<Option<Vec<u8>>> {
    if place + PAGE_LEN as u64 > storage.len()? {
        return Ok(None);
    }
    let mut bytes = alloc::vec![0; PAGE_LEN];
    // Another session may have written it since it was cached.
    storage.read_now(place, &mut bytes)?;
    let (body, sum) = bytes.split_at(PAGE_LEN - 4);
    let is_whole = body.starts_with(&MAGIC) && sum == (crc32c(body) ^ bind(0, place)).to_le_bytes();
    Ok(is_whole.then_some(bytes))
}

impl KeyPage {
    /// A page without slots.
    pub(super) const fn new(version: u64, cipher: Cipher, derived: &Derived) -> Self {
        Self { version, cipher, key_id: derived.id, slots: Vec::new() }
    }

    const fn owner<'a>(&'a self, store_id: &'a [u8; 16]) -> Owner<'a> {
        Owner { store_id, cipher: self.cipher, key_id: &self.key_id }
    }

    /// Wraps the data key in the slot with this number, or in a new one behind the last.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if all slots are taken.
    pub(super) fn put_slot(&mut self, number: usize, data: &Key, secret: &Secret, store_id: &[u8; 16]) -> Result<()> {
        if number >= SLOTS_MAX {
            return Err(FULL);
        }
        let slot = Slot::wrap(number, data, secret, self.owner(store_id))?;
        self.slots.resize(self.slots.len().max(number + 1), Slot::NONE);
        self.slots.get_mut(number).map(|place| *place = slot).ok_or(Error::Bug("a slot that was made is missing"))
    }

    /// Puts a slot that wraps nothing into the first empty place, or behind the last one.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if all slots are taken.
    pub(super) fn put(&mut self, slot: Slot) -> Result<()> {
        let number = self.slots.iter().position(|slot| slot.kind == 0).unwrap_or(self.slots.len());
        if number >= SLOTS_MAX {
            return Err(FULL);
        }
        self.slots.resize(self.slots.len().max(number + 1), Slot::NONE);
        self.slots.get_mut(number).map(|place| *place = slot).ok_or(Error::Bug("a slot that was made is missing"))
    }

    /// Takes away empty slots behind the last one that is not.
    pub(super) fn trim(&mut self) {
        let last = self.slots.iter().rposition(|slot| slot.kind != 0).map_or(0, |last| last + 1);
        self.slots.truncate(last);
    }

    /// Its bytes, without the checksum, which depends on the place.
    pub(super) fn encode(&self, derived: &Derived, store_id: &[u8; 16]) -> Result<Vec<u8>> {
        let mut out = alloc::vec![0; PAGE_LEN];
        put(&mut out, 0, &MAGIC);
        put(&mut out, 8, &self.version.to_le_bytes());
        put(&mut out, 16, &[self.cipher.code(), self.slots.len() as u8]);
        put(&mut out, 24, &self.key_id);
        for (number, slot) in self.slots.iter().enumerate() {
            put(&mut out, SLOTS_AT + number * SLOT_LEN, &slot.bytes());
        }
        let tag = tag_of(&derived.page, &[store_id, out.get(..TAG_AT).unwrap_or_default()])?;
        put(&mut out, TAG_AT, &tag);
        Ok(out)
    }

    /// The number of the slot of a secret, with the data key; `None` if it has none.
    pub(super) fn find(&self, secret: &Secret, store_id: &[u8; 16], offset: u64) -> Result<Option<(usize, KeySet)>> {
        for (number, slot) in self.slots.iter().enumerate() {
            let forged = Error::Forged { offset, what: "the page of keys" };
            if let Some(found) = slot.unwrap(number, secret, self.owner(store_id), forged)? {
                return Ok(Some((number, found)));
            }
        }
        Ok(None)
    }
}

impl Stored {
    /// The page in the front of the file, of this version if there is one; `None` if no copy of it is whole.
    pub(super) fn read(storage: &dyn Storage, version: u64) -> Result<Option<Self>> {
        let Some((offset, bytes)) = first_whole(storage, version)? else { return Ok(None) };
        Self::decode(&bytes, offset).map(Some).ok_or(Error::Forged { offset, what: "the page of keys" })
    }

    /// The page in these bytes, which were read at `offset`.
    pub(super) fn decode(bytes: &[u8], offset: u64) -> Option<Self> {
        let count = usize::from(*bytes.get(17)?);
        if count == 0 || count > SLOTS_MAX {
            return None;
        }
        let slots = (0..count).map(|slot| Slot::read(bytes.get(SLOTS_AT + slot * SLOT_LEN..)?)).collect::<Option<Vec<_>>>()?;
        let cipher = Cipher::of_code(*bytes.get(16)?)?;
        let page = KeyPage { version: word(bytes, 8)?, cipher, key_id: *bytes.get(24..)?.first_chunk()?, slots };
        let tag = *bytes.get(TAG_AT..)?.first_chunk()?;
        Some(Self { page, tag, covered: bytes.get(..TAG_AT)?.to_vec(), offset })
    }

    /// Its bytes, without the checksum.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = self.covered.clone();
        out.extend_from_slice(&self.tag);
        out.resize(PAGE_LEN, 0);
        out
    }

    /// True if it says that the store is being made plain.
    #[cfg(feature = "followers")]
    pub(super) fn is_of_disabling(&self) -> bool {
        self.page.slots.iter().any(|slot| slot.kind == Slot::PLAIN_BEHIND.kind)
    }

    /// Fails for a page that was changed by somebody who does not have the key.
    pub(super) fn check(&self, derived: &Derived, store_id: &[u8; 16]) -> Result<()> {
        let is_tagged = is_same(&tag_of(&derived.page, &[store_id, &self.covered])?, &self.tag);
        let is_its = is_tagged && derived.id == self.page.key_id;
        if is_its { Ok(()) } else { Err(Error::Forged { offset: self.offset, what: "the page of keys" }) }
    }

    /// The data key, and what the segments on both sides of the border are under.
    ///
    /// # Errors
    ///
    /// [`Error::WrongKey`], and as [`Self::check`].
    pub(super) fn unlock(&self, secret: &Secret, store_id: &[u8; 16]) -> Result<Unlocked> {
        let (_, current) = self.page.find(secret, store_id, self.offset)?.ok_or(Error::WrongKey)?;
        self.check(&current.derived, store_id)?;
        let before = Secret::Current(current.data.clone());
        let previous = self.page.find(&before, store_id, self.offset)?.map(|(_, previous)| previous);
        if previous.is_none() && self.page.slots.iter().any(|slot| slot.kind == kind_of(&before)) {
            return Err(Error::Forged { offset: self.offset, what: "the page of keys" });
        }
        let has = |wanted: &Slot| self.page.slots.iter().any(|slot| slot.kind == wanted.kind);
        let plain = if has(&Slot::PLAIN_BEHIND) {
            PlainSide::Behind
        } else if previous.is_none() && has(&Slot::PLAIN_BEFORE) {
            PlainSide::Before
        } else {
            PlainSide::Nowhere
        };
        Ok(Unlocked { current, previous, plain })
    }
}
