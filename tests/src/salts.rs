//! A storage that watches the headers of segments go by: no salt may come twice in a file, or a byte would be written twice in one life of
//! its place.

use pipkin::{Durability, Storage, StorageError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a header up to its number, and where magic and number stand.
const HEADER_LEN: usize = 80;
const MAGIC: std::ops::Range<usize> = 16..20;
const NUMBER: std::ops::Range<usize> = 72..80;

/// The number of the header that drew each salt, for all sessions of a file.
pub type Drawn = Arc<Mutex<BTreeMap<u64, u64>>>;

/// The storage. A header with a salt that another one has is refused.
#[derive(Debug)]
pub struct Salts<S> {
    inner: S,
    drawn: Drawn,
}

impl<S> Salts<S> {
    /// Watches over `inner`.
    pub fn new(inner: S, drawn: Drawn) -> Self {
        Self { inner, drawn }
    }

    fn is_new(&self, bytes: &[u8]) -> bool {
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        if bytes.len() < HEADER_LEN || bytes[MAGIC] != *b"PSEG" {
            return true;
        }
        let (salt, number) = (word(bytes), word(&bytes[NUMBER]));
        *self.drawn.lock().unwrap_or_else(PoisonError::into_inner).entry(salt).or_insert(number) == number
    }
}

impl<S: Storage> Storage for Salts<S> {
    fn len(&self) -> Result<u64, StorageError> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.inner.set_len(len)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.inner.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        assert!(parts.first().is_none_or(|first| self.is_new(first)), "a segment at {offset} has the salt of another one");
        self.inner.write_at(offset, parts)
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.inner.sync()
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.inner.reserve(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.inner.discard(offset, len)
    }
}
