//! What a store is unlocked with, in a component with the feature `encrypt`; without it no store can be.

use crate::bindings::exports::pipkin::kv::store::Secret;
use pipkin::{Builder, Error, Result};
#[cfg(feature = "encrypt")]
use zeroize::Zeroize;

/// The secret of a store that is open, or none. Kept as long as that, so that another handle does not come to it without, and overwritten then.
pub(crate) struct Unlocking(#[cfg(feature = "encrypt")] Option<Secret>);

#[cfg(feature = "encrypt")]
impl Unlocking {
    /// Of a plain store.
    pub(crate) const NONE: Self = Self(None);

    pub(crate) fn with(secret: Secret) -> Result<Self> {
        let unlocking = Self(Some(secret));
        match &unlocking.0 {
            Some(Secret::Key(key)) if key.len() != 32 => {
                Err(Error::InvalidArgument("a key has 32 bytes; for any other length there are passphrases"))
            }
            _ => Ok(unlocking),
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(Secret::Key(one)), Some(Secret::Key(other))) => are_equal(one, other),
            (Some(Secret::Passphrase(one)), Some(Secret::Passphrase(other))) => are_equal(one, other),
            _ => false,
        }
    }

    /// The builder with the secret.
    pub(crate) fn of(&self, builder: Builder) -> Builder {
        match &self.0 {
            Some(Secret::Key(key)) => builder.encryption_key(key.first_chunk().copied().unwrap_or_default()),
            Some(Secret::Passphrase(passphrase)) => builder.encryption_passphrase(passphrase),
            None => builder,
        }
    }
}

#[cfg(feature = "encrypt")]
impl Drop for Unlocking {
    fn drop(&mut self) {
        if let Some(Secret::Key(bytes) | Secret::Passphrase(bytes)) = &mut self.0 {
            bytes.zeroize();
        }
    }
}

/// Compares without telling by its time where they differ.
#[cfg(feature = "encrypt")]
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(not(feature = "encrypt"))]
impl Unlocking {
    /// Of a plain store.
    pub(crate) const NONE: Self = Self();

    pub(crate) fn with(_: Secret) -> Result<Self> {
        Err(Error::InvalidArgument("this component was built without sealed stores: take one with the feature `encrypt`"))
    }

    pub(crate) const fn is_same(&self, _: &Self) -> bool {
        true
    }

    pub(crate) const fn of(&self, builder: Builder) -> Builder {
        builder
    }
}
