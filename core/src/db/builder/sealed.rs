//! Options of sealed stores.

use super::Builder;
use crate::db::{Db, PositionState};
use crate::error::{Error, Result};
use crate::planted::{Bug, is};
use crate::position::Position;
use crate::seal::{Cipher, KeyProvider, Secret};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What the builder was told about sealing.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) secret: Option<Secret>,
    pub(super) cipher: Option<Cipher>,
    pub(super) kept_page: Option<Vec<u8>>,
    anchor: Option<Position>,
    /// The store is to become plain: one in which that has begun opens.
    pub(super) is_to_be_plain: bool,
}

impl Builder {
    /// Seals a new store under a key of 32 random bytes, and opens a sealed one with it: nobody without the key reads a key or a value, or
    /// changes one unnoticed. Whoever loses the key loses the store.
    ///
    /// [`Error::NotSealed`] for a store that exists and is not sealed, [`Error::WrongKey`] for the key of another one. What a sealed store shows
    /// to those without the key, and what it cannot notice, is in the project's `SECURITY.md`.
    ///
    /// ```
    /// use pipkin::storage::MemoryStorage;
    /// use pipkin::{Db, Error};
    ///
    /// let file = MemoryStorage::new();
    /// let db = Db::builder().encryption_key([7; 32]).open_storage(Box::new(file.clone()))?;
    /// db.insert("color", "green")?;
    /// db.close()?;
    /// assert!(matches!(Db::builder().open_storage(Box::new(file.clone())), Err(Error::KeyNeeded)));
    /// assert!(matches!(Db::builder().encryption_key([8; 32]).open_storage(Box::new(file.clone())), Err(Error::WrongKey)));
    /// let again = Db::builder().encryption_key([7; 32]).open_storage(Box::new(file))?;
    /// assert_eq!(again.get("color")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn encryption_key(mut self, key: [u8; 32]) -> Self {
        self.seal.secret = Some(Secret::Key(key.into()));
        self
    }

    /// As [`Self::encryption_key`], with a passphrase: its bytes as they are given, through Argon2id with 64 MiB of memory, which takes some tenths
    /// of a second.
    ///
    /// ```
    /// let db = pipkin::Db::builder().encryption_passphrase("correct horse battery staple").in_memory()?;
    /// db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn encryption_passphrase(mut self, passphrase: impl AsRef<[u8]>) -> Self {
        self.seal.secret = Some(Secret::Passphrase(passphrase.as_ref().to_vec().into()));
        self
    }

    /// As [`Self::encryption_key`], with a key that lives elsewhere: it is asked when the store is created or opened, before anything is read.
    pub fn encryption_key_provider(mut self, provider: impl KeyProvider + 'static) -> Self {
        self.seal.secret = Some(Secret::Provider(Arc::new(provider)));
        self
    }

    /// Refuses a store that does not contain this position, which [`Db::anchor`](crate::Db::anchor) has given out: somebody has put an earlier state of
    /// the file in its place, which nothing in the file can tell. Whoever keeps the newest anchor elsewhere notices. A store that is not there is not
    /// created. Where compaction has freed the part of the log that the anchor is in, a store that was written on elsewhere cannot be told from a later one, and opens.
    ///
    /// ```
    /// use pipkin::storage::MemoryStorage;
    /// use pipkin::{Builder, Db, Error};
    ///
    /// let file = MemoryStorage::new();
    /// let open = |builder: Builder, file| builder.encryption_key([7; 32]).open_storage(Box::new(file));
    /// let db = open(Db::builder(), file.clone())?;
    /// db.insert("color", "red")?;
    /// db.close()?;
    /// let earlier = MemoryStorage::from_vec(file.to_vec());
    /// let db = open(Db::builder(), file.clone())?;
    /// db.insert("color", "green")?;
    /// let anchor = db.anchor()?;
    /// db.close()?;
    /// assert!(matches!(open(Db::builder().not_before(anchor), earlier), Err(Error::OlderThanAnchor)));
    /// open(Db::builder().not_before(anchor), file)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn not_before(mut self, anchor: Position) -> Self {
        self.seal.anchor = Some(anchor);
        self.create(false)
    }

    /// The page of keys of a sealed store, as [`Db::export_key_page`](crate::Db::export_key_page) has given it out: it takes the place of the three
    /// copies in the file if all of them are damaged, and is not looked at otherwise.
    ///
    /// ```
    /// use pipkin::Db;
    /// use pipkin::storage::{MemoryStorage, Storage};
    ///
    /// let file = MemoryStorage::new();
    /// let sealed = || Db::builder().encryption_key([7; 32]);
    /// let db = sealed().open_storage(Box::new(file.clone()))?;
    /// let kept = db.export_key_page()?;
    /// db.close()?;
    /// for place in [1024, 5120, 12_288] {
    ///     file.write_at(place, &[&[0; 3072]])?;
    /// }
    /// assert!(sealed().open_storage(Box::new(file.clone())).is_err());
    /// sealed().key_page(kept).open_storage(Box::new(file.clone()))?.close()?;
    /// sealed().open_storage(Box::new(file))?; // the copies are there again
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn key_page(mut self, page: impl Into<Vec<u8>>) -> Self {
        self.seal.kept_page = Some(page.into());
        self
    }

    /// Lets a sealed store compress values, which it refuses without this word. The length of a compressed value tells something of what is in it,
    /// and of what it has in common with other values of its namespace; who can have values written next to a secret, and see how long
    /// they come out, may find it out byte by byte. Lengths are padded, to 32 bytes at least, and that of the plain value is hidden, so that a single
    /// value shows little; many, chosen by an attacker, may still show more. Not kept in the file: without it, what is
    /// compressed is read, and what is written stays plain. Default: false.
    ///
    /// ```
    /// use pipkin::{Compression, Db};
    ///
    /// let db = Db::builder().encryption_key([7; 32]).compress_sealed(true).compression(Compression::OnWrite).in_memory()?;
    /// db.insert("zeros", [0; 1000])?;
    /// assert_eq!(db.get("zeros")?.as_deref(), Some(&[0; 1000][..]));
    /// assert_eq!(db.compression_stats()?.records, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[cfg(feature = "compress")]
    pub fn compress_sealed(mut self, allowed: bool) -> Self {
        self.attached.compress_sealed = allowed;
        self
    }

    /// The key or passphrase, and the page of keys that was kept.
    #[cfg(feature = "salvage")]
    pub(crate) fn what_opens(&self) -> (Option<&Secret>, Option<&[u8]>) {
        (self.seal.secret.as_ref(), self.seal.kept_page.as_deref())
    }

    /// The same, which also opens a store that is being made plain.
    pub(crate) const fn becoming_plain(mut self) -> Self {
        self.seal.is_to_be_plain = true;
        self
    }

    /// True with a key or a passphrase.
    pub(crate) const fn has_secret(&self) -> bool {
        self.seal.secret.is_some()
    }

    /// The cipher of a new sealed store; an existing one keeps its own. Default: AES-256-GCM natively, ChaCha20-Poly1305 in WebAssembly.
    pub fn cipher(mut self, cipher: Cipher) -> Self {
        (self.seal.cipher, self.attached.cipher) = (Some(cipher), Some(cipher));
        self
    }
}

#[cfg(all(feature = "native", feature = "salvage"))]
impl Builder {
    /// The same options for a store that is not sealed.
    pub(crate) fn without_secret(self) -> Self {
        Self { seal: Asked::default(), ..self }
    }
}

impl Asked {
    /// Fails if the store does not contain the anchor that was kept.
    pub(super) fn check_anchor(anchor: Option<Position>, db: &Db) -> Result<()> {
        let is_older = anchor.is_some_and(|anchor| db.state_of(anchor) == PositionState::Unknown);
        if is_older && !is(Bug::AnchorUnchecked) { Err(Error::OlderThanAnchor) } else { Ok(()) }
    }

    pub(super) const fn anchor(&self) -> Option<Position> {
        self.anchor
    }
}
