//! A slot of the page of keys: the data key, wrapped by a key or a passphrase.

use crate::error::{Error, Result};
use crate::seal::{Cipher, Cost, Key, KeySet, NONCE_LEN, Sealer, Secret, TAG_LEN, random, wrapping_key};
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// Length in bytes.
pub(super) const SLOT_LEN: usize = 128;
/// The slots of a page.
pub(super) const SLOTS_MAX: usize = 8;

/// What a slot belongs to.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) store_id: &'a [u8; 16],
    pub(super) cipher: Cipher,
    pub(super) key_id: &'a [u8; 8],
}

/// A way to the data key.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// 0: none, 1: a key of 32 bytes, 2: a passphrase, 3: the current data key, which leads to the one before it; 4 and 5: nothing, which say that
    /// segments in front of the border may be plain, or that all behind it are.
    pub(super) kind: u8,
    cost: Cost,
    salt: [u8; 16],
    nonce: [u8; NONCE_LEN],
    wrapped: [u8; 32],
    tag: [u8; TAG_LEN],
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Puts `bytes` into `out` at `at`.
pub(super) fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

pub(super) const fn kind_of(secret: &Secret) -> u8 {
    match secret {
        Secret::Key(_) | Secret::Provider(_) => 1,
        Secret::Passphrase(_) => 2,
        Secret::Current(_) => 3,
    }
}

impl Slot {
    /// What stands in the place of one that was taken away.
    pub(super) const NONE: Self = Self {
        kind: 0,
        cost: Cost { memory: 0, passes: 0, lanes: 0 },
        salt: [0; 16],
        nonce: [0; NONCE_LEN],
        wrapped: [0; 32],
        tag: [0; TAG_LEN],
    };

    /// What says that segments in front of the border are plain.
    pub(super) const PLAIN_BEFORE: Self = Self { kind: 4, ..Self::NONE };
    /// What says that segments behind it are.
    pub(super) const PLAIN_BEHIND: Self = Self { kind: 5, ..Self::NONE };

    /// Wraps the data key.
    pub(super) fn wrap(number: usize, data: &Key, secret: &Secret, owner: Owner<'_>) -> Result<Self> {
        let (mut salt, mut nonce) = ([0; 16], [0; NONCE_LEN]);
        let chosen = if let Secret::Provider(provider) = secret { provider.new_salt() } else { None };
        match chosen {
            Some(chosen) => salt = chosen,
            None => random(&mut salt)?,
        }
        random(&mut nonce)?;
        let cost = match secret {
            Secret::Key(_) | Secret::Provider(_) | Secret::Current(_) => Self::NONE.cost,
            Secret::Passphrase(_) => Cost::CHOSEN,
        };
        let mut slot = Self { kind: kind_of(secret), cost, salt, nonce, wrapped: **data, tag: [0; TAG_LEN] };
        let associated = slot.associated(number, owner);
        let wrapping = wrapping_key(secret, cost, &salt, owner.store_id)?;
        slot.tag = Sealer::new(Cipher::Aes256Gcm, &wrapping)?.seal(nonce, &associated, &mut slot.wrapped)?;
        Ok(slot)
    }

    /// True if a user's key or passphrase opens it.
    pub(super) const fn is_users(&self) -> bool {
        matches!(self.kind, 1 | 2)
    }

    /// The data key, and what is derived from it; `None` if the secret is not that of the slot. `forged` is the answer for a cost that pipkin
    /// never writes, before it is paid.
    pub(super) fn unwrap(&self, number: usize, secret: &Secret, owner: Owner<'_>, forged: Error) -> Result<Option<KeySet>> {
        if self.kind != kind_of(secret) {
            return Ok(None);
        }
        if self.kind == 2 && !self.cost.is_within_limits() {
            return Err(forged);
        }
        let wrapping = wrapping_key(secret, self.cost, &self.salt, owner.store_id)?;
        let mut data = Zeroizing::new(self.wrapped);
        let sealer = Sealer::new(Cipher::Aes256Gcm, &wrapping)?;
        if !sealer.open(self.nonce, &self.associated(number, owner), data.as_mut_slice(), &self.tag) {
            return Ok(None);
        }
        KeySet::new(data, owner.store_id).map(Some)
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
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

    pub(super) fn bytes(&self) -> [u8; SLOT_LEN] {
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
    fn associated(&self, number: usize, owner: Owner<'_>) -> Vec<u8> {
        let mut out = b"pipkin 1 slot".to_vec();
        out.extend_from_slice(owner.store_id);
        out.extend_from_slice(&[number as u8, owner.cipher.code()]);
        out.extend_from_slice(owner.key_id);
        out.extend_from_slice(self.bytes().get(..48).unwrap_or_default());
        out
    }
}
