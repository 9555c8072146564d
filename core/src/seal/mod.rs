//! Sealed stores: everything that is done with keys. `core/FORMAT.md` says what is sealed, and how; nothing here knows the log or the file.

mod cell;
mod keys;
mod listed;
mod parts;
mod plain;
mod provider;
mod ring;
mod suite;
mod vault;

pub use cell::KeyCell;
#[cfg(test)]
pub(crate) use keys::derive;
pub(crate) use keys::{Cost, Derived, Key, NONCE_LEN, Secret, TAG_LEN, is_same, random, tag_of, wrapping_key};
pub(crate) use listed::{LISTED_LEN, PlainDigest};
pub use provider::KeyProvider;
pub(crate) use ring::{KeySet, PlainSide, Ring};
pub use suite::Cipher;
pub(crate) use suite::Sealer;
pub use vault::Vault;
pub(crate) use vault::{Authentic, HeaderSeal, Keys};
