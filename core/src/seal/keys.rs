//! Keys: what is derived from the data key, and the randomness that keys are made of.

use crate::error::{Error, Result};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

/// A key of 32 bytes, wiped when it is dropped.
pub(crate) type Key = Zeroizing<[u8; 32]>;

/// Length in bytes of every tag.
pub(crate) const TAG_LEN: usize = 16;

/// Length in bytes of a nonce.
pub(crate) const NONCE_LEN: usize = 12;

/// Fills `out` from the host's cryptographic source.
pub(crate) fn random(out: &mut [u8]) -> Result<()> {
    getrandom::fill(out).map_err(|_| Error::NoRandomness)
}

/// Bytes derived from a key: HKDF-SHA256.
pub(crate) fn derive<const N: usize>(key: &[u8], salt: &[u8], info: &[&[u8]]) -> Result<Zeroizing<[u8; N]>> {
    let mut out = Zeroizing::new([0; N]);
    let expanded = Hkdf::<Sha256>::new(Some(salt), key).expand_multi_info(info, out.as_mut_slice());
    expanded.map_err(|_| Error::Bug("a derived key is too long"))?;
    Ok(out)
}

/// The first 16 bytes of an HMAC-SHA256 over all the parts.
pub(crate) fn tag_of(key: &Key, parts: &[&[u8]]) -> Result<[u8; TAG_LEN]> {
    let mut mac =
        <Hmac<Sha256> as KeyInit>::new_from_slice(key.as_slice()).map_err(|_| Error::Bug("a key of the wrong length"))?;
    parts.iter().for_each(|part| mac.update(part));
    let whole = mac.finalize().into_bytes();
    Ok(whole.first_chunk().copied().unwrap_or_default())
}

/// Compares two tags without telling by its time where they differ.
pub(crate) fn is_same(one: &[u8; TAG_LEN], other: &[u8; TAG_LEN]) -> bool {
    one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// What is derived from the data key once per open store.
pub(crate) struct Derived {
    pub(crate) id: [u8; 8],
    pub(crate) front: Key,
    pub(crate) header: Key,
    pub(crate) page: Key,
    /// Of the digests of plain segments.
    pub(super) plain: Key,
    pub(crate) seed: Zeroizing<[u8; 16]>,
}

impl Derived {
    pub(crate) fn new(data: &Key, store_id: &[u8; 16]) -> Result<Self> {
        let of = |label: &'static [u8]| derive::<32>(data.as_slice(), store_id, &[label]);
        Ok(Self {
            id: *derive::<8>(data.as_slice(), store_id, &[b"pipkin 1 key id"])?,
            front: of(b"pipkin 1 superblock")?,
            header: of(b"pipkin 1 header")?,
            page: of(b"pipkin 1 key page")?,
            plain: of(b"pipkin 1 plain segment")?,
            seed: derive(data.as_slice(), store_id, &[b"pipkin 1 seed"])?,
        })
    }
}

/// How the user unlocks a store.
#[derive(Clone)]
pub(crate) enum Secret {
    Key(Zeroizing<[u8; 32]>),
    Passphrase(Zeroizing<alloc::vec::Vec<u8>>),
    Provider(alloc::sync::Arc<dyn super::KeyProvider>),
    /// The data key itself, which leads to the one before it while that is being rotated.
    Current(Zeroizing<[u8; 32]>),
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key",
            Self::Passphrase(_) => "Passphrase",
            Self::Provider(_) => "Provider",
            Self::Current(_) => "Current",
        })
    }
}

/// The parameters of Argon2id, as a slot has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// KiB.
    pub(crate) memory: u32,
    pub(crate) passes: u32,
    pub(crate) lanes: u32,
}

impl Cost {
    /// What pipkin writes.
    pub(crate) const CHOSEN: Self = Self { memory: 64 * 1024, passes: 3, lanes: 1 };

    /// Whether it is within what a reader computes: checked before anything is allocated.
    pub(crate) const fn is_within_limits(&self) -> bool {
        matches!(self.memory, 8..=0x4_0000) && matches!(self.passes, 1..=64) && matches!(self.lanes, 1..=4)
    }
}

/// The key that wraps the data key in a slot.
pub(crate) fn wrapping_key(secret: &Secret, cost: Cost, salt: &[u8; 16], store_id: &[u8; 16]) -> Result<Key> {
    let label: &[u8] = if matches!(secret, Secret::Current(_)) { b"pipkin 1 previous" } else { b"pipkin 1 wrap" };
    let mut stretched = Zeroizing::new([0; 32]);
    let base = match secret {
        Secret::Key(key) | Secret::Current(key) => key.as_slice(),
        Secret::Passphrase(passphrase) => {
            let params = argon2::Params::new(cost.memory, cost.passes, cost.lanes, Some(32));
            let params = params.map_err(|_| Error::Forged { offset: 0, what: "the cost of a passphrase" })?;
            let argon = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
            let mut blocks = alloc::vec![argon2::Block::default(); argon.params().block_count()];
            let hashed = argon.hash_password_into_with_memory(passphrase, salt, stretched.as_mut_slice(), &mut blocks);
            blocks.iter_mut().for_each(|block| block.as_mut().zeroize());
            hashed.map_err(|_| Error::InvalidArgument("a passphrase must not be longer than 4 GiB"))?;
            stretched.as_slice()
        }
        Secret::Provider(provider) => {
            let derived = provider.derive(salt, &[label, store_id].concat());
            return derived.map(Zeroizing::new).map_err(|detail| Error::KeyUnavailable { detail });
        }
    };
    derive(base, salt, &[label, store_id])
}
