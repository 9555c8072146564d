//! Keys that live elsewhere: in a key service, the key ring of an operating system, a chip.

use alloc::string::String;

/// A key that never comes here: whoever has it answers questions with it. See [`Builder::encryption_key_provider`](crate::Builder::encryption_key_provider).
///
/// ```
/// use pipkin::{Db, Error, KeyProvider};
///
/// /// Has a key service compute an HMAC; here it stands in for one.
/// struct Service;
///
/// impl KeyProvider for Service {
///     fn derive(&self, salt: &[u8; 16], info: &[u8]) -> Result<[u8; 32], String> {
///         # fn ask_the_service(_: &[u8]) -> Result<[u8; 32], std::io::Error> { Ok([7; 32]) }
///         ask_the_service(&[salt, info].concat()).map_err(|error| error.to_string())
///     }
/// }
///
/// let db = Db::builder().encryption_key_provider(Service).in_memory()?;
/// db.insert("color", "green")?;
/// # Ok::<(), Error>(())
/// ```
pub trait KeyProvider: Send + Sync {
    /// 32 secret bytes of the key for this salt and these words: always the same ones, and nobody without the key can tell them.
    ///
    /// With HKDF-SHA256 of a key of 32 bytes (the salt and the words as its own) the store opens as well by
    /// [`Builder::encryption_key`](crate::Builder::encryption_key) with that key. An HMAC-SHA256 of both does, too.
    ///
    /// # Errors
    ///
    /// Why the key cannot be had, for a person to read: the call that needed it answers [`Error::KeyUnavailable`](crate::Error::KeyUnavailable).
    fn derive(&self, salt: &[u8; 16], info: &[u8]) -> Result<[u8; 32], String>;

    /// The salt of a slot that is about to be made. Default: none, so that one is drawn. For a provider that has to know beforehand what it will be
    /// asked: of 16 random bytes that it has given to nobody else.
    fn new_salt(&self) -> Option<[u8; 16]> {
        None
    }
}
