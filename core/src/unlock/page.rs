//! The page of keys: the data key, wrapped by what the user has. It stands three times in the front of the file.

use crate::error::{Error, Result};
use crate::frame::{bind, crc32c};
use crate::seal::{Cipher, Cost, Derived, Key, NONCE_LEN, Sealer, Secret, TAG_LEN, is_same, random, tag_of, wrapping_key};
use crate::storage::Storage;
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// Where the copies stand.
pub(crate) const PAGE_PLACES: [u64; 3] = [1024, 5120, 12_288];
/// Length in bytes of a copy.
pub(crate) const PAGE_LEN: usize = 3072;
const MAGIC: [u8; 8] = *b"PIPKEYS\x1a";
const SLOTS_AT: usize = 32;
const SLOT_LEN: usize = 128;
const SLOTS_MAX: usize = 8;
/// Where the tag begins; the checksum follows.
const TAG_AT: usize = PAGE_LEN - 4 - TAG_LEN;

/// A way to the data key.
#[derive(Clone, Copy)]
struct Slot {
    /// 1: a key of 32 bytes, 2: a passphrase.
    kind: u8,
    cost: Cost,
    salt: [u8; 16],
    nonce: [u8; NONCE_LEN],
    wrapped: [u8; 32],
    tag: [u8; TAG_LEN],
}

/// The page of keys as the file has it.
pub(super) struct KeyPage {
    pub(super) version: u64,
    pub(super) cipher: Cipher,
    key_id: [u8; 8],
    slots: Vec<Slot>,
    tag: [u8; TAG_LEN],
    /// What the tag covers.
    covered: Vec<u8>,
    offset: u64,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

const fn kind_of(secret: &Secret) -> u8 {
    match secret {
        Secret::Key(_) => 1,
        Secret::Passphrase(_) => 2,
    }
}

impl Slot {
    fn read(bytes: &[u8]) -> Option<Self> {
        let cost = Cost { memory: number(bytes, 4)?, passes: number(bytes, 8)?, lanes: number(bytes, 12)? };
        Some(Self {
            kind: *bytes.first()?,
            cost,
            salt: *bytes.get(16..)?.first_chunk()?,
            nonce: *bytes.get(32..)?.first_chunk()?,
            wrapped: *bytes.get(48..)?.first_chunk()?,
            tag: *bytes.get(80..)?.first_chunk()?,
        })
    }

    fn bytes(&self) -> [u8; SLOT_LEN] {
        let mut out = [0; SLOT_LEN];
        let cost = [self.cost.memory, self.cost.passes, self.cost.lanes].map(u32::to_le_bytes);
        let fields: [(usize, &[u8]); 8] = [
            (0, &[self.kind]),
            (4, &cost[0]),
            (8, &cost[1]),
            (12, &cost[2]),
            (16, &self.salt),
            (32, &self.nonce),
            (48, &self.wrapped),
            (80, &self.tag),
        ];
        for (at, bytes) in fields {
            put(&mut out, at, bytes);
        }
        out
    }

    /// Everything in front of the wrapped key, and what the slot belongs to.
    fn associated(&self, number: u8, cipher: Cipher, key_id: &[u8; 8], store_id: &[u8; 16]) -> Vec<u8> {
        let mut out = b"pipkin 1 slot".to_vec();
        out.extend_from_slice(store_id);
        out.extend_from_slice(&[number, cipher.code()]);
        out.extend_from_slice(key_id);
        out.extend_from_slice(self.bytes().get(..48).unwrap_or_default());
        out
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// The page of a new store with one slot, without its checksum, which depends on the place.
pub(super) fn encode(
    version: u64,
    cipher: Cipher,
    data: &Key,
    derived: &Derived,
    secret: &Secret,
    store_id: &[u8; 16],
) -> Result<Vec<u8>> {
    let (mut salt, mut nonce) = ([0; 16], [0; NONCE_LEN]);
    random(&mut salt)?;
    random(&mut nonce)?;
    let cost = match secret {
        Secret::Key(_) => Cost { memory: 0, passes: 0, lanes: 0 },
        Secret::Passphrase(_) => Cost::CHOSEN,
    };
    let mut slot = Slot { kind: kind_of(secret), cost, salt, nonce, wrapped: **data, tag: [0; TAG_LEN] };
    let associated = slot.associated(0, cipher, &derived.id, store_id);
    let wrapping = wrapping_key(secret, cost, &salt, store_id)?;
    slot.tag = Sealer::new(Cipher::Aes256Gcm, &wrapping)?.seal(nonce, &associated, &mut slot.wrapped)?;
    let mut out = alloc::vec![0; PAGE_LEN];
    put(&mut out, 0, &MAGIC);
    put(&mut out, 8, &version.to_le_bytes());
    put(&mut out, 16, &[cipher.code(), 1]);
    put(&mut out, 24, &derived.id);
    put(&mut out, SLOTS_AT, &slot.bytes());
    let tag = tag_of(&derived.page, &[store_id, out.get(..TAG_AT).unwrap_or_default()])?;
    put(&mut out, TAG_AT, &tag);
    Ok(out)
}

/// Writes all copies; durable only after a sync.
pub(super) fn write(storage: &dyn Storage, page: &[u8]) -> Result<()> {
    let mut page = page.to_vec();
    for place in PAGE_PLACES {
        let sum = crc32c(page.get(..PAGE_LEN - 4).unwrap_or_default()) ^ bind(0, place);
        put(&mut page, PAGE_LEN - 4, &sum.to_le_bytes());
        storage.write_at(place, &[&page])?;
    }
    Ok(())
}

/// The bytes of the first copy that is whole.
pub(crate) fn first_whole(storage: &dyn Storage) -> Result<Option<(u64, Vec<u8>)>> {
    for place in PAGE_PLACES {
        if let Some(bytes) = whole(storage, place)? {
            return Ok(Some((place, bytes)));
        }
    }
    Ok(None)
}

/// True if the copy at `place` is whole.
pub(crate) fn is_whole(storage: &dyn Storage, place: u64) -> Result<bool> {
    Ok(whole(storage, place)?.is_some())
}

fn whole(storage: &dyn Storage, place: u64) -> Result<Option<Vec<u8>>> {
    if place + PAGE_LEN as u64 > storage.len()? {
        return Ok(None);
    }
    let mut bytes = alloc::vec![0; PAGE_LEN];
    storage.read_at(place, &mut bytes)?;
    let (body, sum) = bytes.split_at(PAGE_LEN - 4);
    let is_whole = body.starts_with(&MAGIC) && sum == (crc32c(body) ^ bind(0, place)).to_le_bytes();
    Ok(is_whole.then_some(bytes))
}

impl KeyPage {
    /// The page in the front of the file; `None` if no copy of it is whole.
    pub(super) fn read(storage: &dyn Storage) -> Result<Option<Self>> {
        let Some((offset, bytes)) = first_whole(storage)? else { return Ok(None) };
        Self::decode(&bytes, offset).map(Some).ok_or(Error::Forged { offset, what: "the page of keys" })
    }

    fn decode(bytes: &[u8], offset: u64) -> Option<Self> {
        let count = usize::from(*bytes.get(17)?);
        if count == 0 || count > SLOTS_MAX {
            return None;
        }
        let slots = (0..count).map(|slot| Slot::read(bytes.get(SLOTS_AT + slot * SLOT_LEN..)?)).collect::<Option<Vec<_>>>()?;
        Some(Self {
            version: word(bytes, 8)?,
            cipher: Cipher::of_code(*bytes.get(16)?)?,
            key_id: *bytes.get(24..)?.first_chunk()?,
            slots,
            tag: *bytes.get(TAG_AT..)?.first_chunk()?,
            covered: bytes.get(..TAG_AT)?.to_vec(),
            offset,
        })
    }

    /// The data key, and what is derived from it.
    ///
    /// # Errors
    ///
    /// [`Error::WrongKey`], and [`Error::Forged`] for a page that was changed by somebody who does not have the key.
    pub(super) fn unlock(&self, secret: &Secret, store_id: &[u8; 16]) -> Result<(Key, Derived)> {
        let forged = || Error::Forged { offset: self.offset, what: "the page of keys" };
        for (number, slot) in (0_u8..).zip(&self.slots) {
            if slot.kind != kind_of(secret) {
                continue;
            }
            if slot.kind == 2 && !slot.cost.is_within_limits() {
                return Err(forged());
            }
            let wrapping = wrapping_key(secret, slot.cost, &slot.salt, store_id)?;
            let mut data = Zeroizing::new(slot.wrapped);
            let associated = slot.associated(number, self.cipher, &self.key_id, store_id);
            let sealer = Sealer::new(Cipher::Aes256Gcm, &wrapping)?;
            if !sealer.open(slot.nonce, &associated, data.as_mut_slice(), &slot.tag) {
                continue;
            }
            let derived = Derived::new(&data, store_id)?;
            let is_tagged = is_same(&tag_of(&derived.page, &[store_id, &self.covered])?, &self.tag);
            return if is_tagged && derived.id == self.key_id { Ok((data, derived)) } else { Err(forged()) };
        }
        Err(Error::WrongKey)
    }
}
