//! The two suites. All sealing goes through [`Sealer::seal`].

use super::keys::{Key, NONCE_LEN, TAG_LEN};
use crate::error::{Error, Result};
use aes_gcm::aead::{AeadInOut, KeyInit};

/// The cipher of a sealed store. Every build with the feature `encrypt` reads both.
///
/// ```
/// use pipkin::{Cipher, Db};
///
/// let db = Db::builder().encryption_key([7; 32]).cipher(Cipher::ChaCha20Poly1305).in_memory()?;
/// db.insert("color", "green")?;
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cipher {
    /// AES-256-GCM: the faster one where the processor has instructions for it.
    Aes256Gcm,
    /// ChaCha20-Poly1305: the faster one everywhere else.
    ChaCha20Poly1305,
}

impl Cipher {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }

    pub(crate) const fn of_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Aes256Gcm),
            2 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }
}

impl Default for Cipher {
    /// What is faster where this runs.
    fn default() -> Self {
        if cfg!(target_family = "wasm") { Self::ChaCha20Poly1305 } else { Self::Aes256Gcm }
    }
}

enum Kind {
    Aes(alloc::boxed::Box<aes_gcm::Aes256Gcm>),
    ChaCha(chacha20poly1305::ChaCha20Poly1305),
}

/// A cipher with its key. Wiped when it is dropped.
pub(crate) struct Sealer {
    kind: Kind,
    /// Names the key in the log of nonces.
    #[cfg(feature = "testing")]
    name: [u8; TAG_LEN],
}

impl Sealer {
    pub(crate) fn new(cipher: Cipher, key: &Key) -> Result<Self> {
        let bytes = (&**key).into();
        let kind = match cipher {
            Cipher::Aes256Gcm => Kind::Aes(alloc::boxed::Box::new(aes_gcm::Aes256Gcm::new(bytes))),
            Cipher::ChaCha20Poly1305 => Kind::ChaCha(chacha20poly1305::ChaCha20Poly1305::new(bytes)),
        };
        Ok(Self {
            kind,
            #[cfg(feature = "testing")]
            name: super::keys::tag_of(key, &[b"log of nonces"])?,
        })
    }

    /// Seals `text` in place and returns its tag. Nothing else in pipkin encrypts.
    pub(crate) fn seal(&self, nonce: [u8; NONCE_LEN], associated: &[u8], text: &mut [u8]) -> Result<[u8; TAG_LEN]> {
        #[cfg(feature = "testing")]
        crate::testing::note_nonce((self.name, nonce));
        let sealed = match &self.kind {
            Kind::Aes(cipher) => cipher.encrypt_inout_detached((&nonce).into(), associated, text.into()),
            Kind::ChaCha(cipher) => cipher.encrypt_inout_detached((&nonce).into(), associated, text.into()),
        };
        sealed.map(Into::into).map_err(|_| Error::Bug("a text is too long to be sealed"))
    }

    /// Opens `text` in place; false, and the text as it was or unreadable, if the tag does not fit.
    pub(crate) fn open(&self, nonce: [u8; NONCE_LEN], associated: &[u8], text: &mut [u8], tag: &[u8; TAG_LEN]) -> bool {
        let place = (&nonce).into();
        match &self.kind {
            Kind::Aes(cipher) => cipher.decrypt_inout_detached(place, associated, text.into(), tag.into()).is_ok(),
            Kind::ChaCha(cipher) => cipher.decrypt_inout_detached(place, associated, text.into(), tag.into()).is_ok(),
        }
    }
}
