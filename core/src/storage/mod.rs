//! The file that the log lives in, as the engine sees it: one byte-addressed space, blocking calls, no names.
//!
//! A host implements [`Storage`] and gets the whole store. [`memory`] is the smallest example; the `testing` feature adds
//! a crash simulator, a fault injector and the conformance suite that every implementation must pass.

mod by_copy;
mod cached;
mod error;
mod forward;
pub mod memory;

#[cfg(feature = "testing")]
pub mod conformance;
#[cfg(feature = "testing")]
pub mod crash;
#[cfg(feature = "testing")]
pub mod fault;
#[cfg(feature = "testing")]
pub mod random;

#[cfg(feature = "native")]
pub mod native;
#[cfg(feature = "encrypt")]
mod sealed;

#[cfg(feature = "encrypt")]
pub use crate::seal::KeyCell;
pub(crate) use by_copy::ByCopy;
pub use cached::{CacheOptions, CachedStorage};
pub use error::{StorageError, StorageErrorKind};
#[cfg(test)]
pub(crate) use forward::as_its_file;
pub use memory::MemoryStorage;
#[cfg(feature = "io-uring")]
pub use native::{IoUring, IoUringState};
#[cfg(feature = "native")]
pub use native::{NativeOptions, NativeStorage};
#[cfg(feature = "encrypt")]
pub(crate) use sealed::{ReadOnly, SealedStorage};

/// What a [`Storage::sync`] achieved. Ordered from weakest to strongest.
///
/// ```
/// use pipkin::{Db, Durability};
///
/// let db = Db::open_in_memory()?;
/// assert_eq!(db.flush()?, Durability::None); // memory: nothing survives the process
/// assert!(Durability::None < Durability::Os && Durability::Os < Durability::Device);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The bytes live as long as this process (memory storage).
    #[default]
    None,
    /// The bytes survive the process; the host makes no promise about a power cut (OPFS).
    Os,
    /// The host reported that the device holds the bytes: they survive a power cut.
    Device,
}

/// The byte-addressed file that the log lives in.
///
/// The engine never writes two overlapping ranges at the same time, never uses a byte that is being changed, and treats
/// the first failed `write_at` or `sync` as final for the session, so an implementation need not undo anything.
/// All methods take `&self` and may be called from several threads at once.
///
/// ```
/// use pipkin::storage::{Durability, Storage, StorageError};
/// use std::sync::Mutex;
///
/// /// The five methods that a host must have.
/// #[derive(Default)]
/// struct Bytes(Mutex<Vec<u8>>);
///
/// impl Storage for Bytes {
///     fn len(&self) -> Result<u64, StorageError> {
///         Ok(self.0.lock().unwrap().len() as u64)
///     }
///     fn set_len(&self, len: u64) -> Result<(), StorageError> {
///         self.0.lock().unwrap().resize(len as usize, 0);
///         Ok(())
///     }
///     fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
///         let file = self.0.lock().unwrap();
///         let bytes = file.get(offset as usize..offset as usize + out.len());
///         let past_end = || StorageError::out_of_range(offset, out.len(), file.len() as u64);
///         out.copy_from_slice(bytes.ok_or_else(past_end)?);
///         Ok(())
///     }
///     fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
///         let (bytes, mut file) = (parts.concat(), self.0.lock().unwrap());
///         let (start, end) = (offset as usize, offset as usize + bytes.len());
///         let len = file.len().max(end);
///         file.resize(len, 0);
///         file[start..end].copy_from_slice(&bytes);
///         Ok(())
///     }
///     fn sync(&self) -> Result<Durability, StorageError> {
///         Ok(Durability::None)
///     }
/// }
///
/// let db = pipkin::Db::builder().open_storage(Box::new(Bytes::default()))?;
/// db.insert("color", "green")?;
/// assert_eq!(db.get("color")?.as_deref(), Some(&b"green"[..]));
/// # Ok::<(), pipkin::Error>(())
/// ```
pub trait Storage: Send + Sync {
    /// Length of the file in bytes. A failure changes nothing.
    fn len(&self) -> Result<u64, StorageError>;

    /// Where the keys go when the store in this storage is sealed while it is open
    /// ([`Db::enable_encryption`](crate::Db::enable_encryption)). A storage that has no such place, the default, refuses that; it is sealed from its
    /// creation on, or while it is closed. One [`KeyCell`] as a field of the storage is all that it takes; a layer over another storage has its own.
    #[cfg(feature = "encrypt")]
    fn key_cell(&self) -> Option<&KeyCell> {
        None
    }

    /// The keys of a sealed store, for pipkin's own layer that seals: a host never has them.
    #[cfg(feature = "encrypt")]
    #[doc(hidden)]
    fn vault(&self) -> Option<&crate::seal::Vault> {
        self.key_cell()?.get()
    }

    /// True where salvage reads a sealed store: what is forged is taken for damage, and never for an answer.
    #[cfg(feature = "encrypt")]
    #[doc(hidden)]
    fn forgives(&self) -> bool {
        false
    }

    /// True when the file holds no byte.
    fn is_empty(&self) -> Result<bool, StorageError> {
        Ok(self.len()? == 0)
    }

    /// Grows or shrinks the file; grown bytes read as zero. A failure leaves the old length, or, when growing, any length in
    /// between.
    fn set_len(&self, len: u64) -> Result<(), StorageError>;

    /// Fills `out` from `offset`, or fails. Reading past the end is [`StorageErrorKind::OutOfRange`]. After a failure the
    /// content of `out` is unspecified and the file is unchanged.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError>;

    /// Writes all the parts, one after the other, from `offset`, growing the file where needed; an implementation loops over short
    /// writes. A gap between the old end and `offset` reads as zero; with no bytes to write, nothing happens. After a failure any
    /// subset of the range may have been written, and nothing outside of it.
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError>;

    /// Reads a range and writes the same bytes back, so that the next [`sync`](Self::sync) stores them even if an earlier sync, of
    /// another process, failed: after a failed sync, Linux marks the pages that it could not write as clean. Readers may read the range
    /// during the call. Fails as the read or the write fails.
    fn rewrite(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let mut buffer = alloc::vec![0; len.min(REWRITE_PIECE) as usize];
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(REWRITE_PIECE) as usize;
            let bytes = buffer.get_mut(..piece).unwrap_or_default();
            self.read_at(offset + done, bytes)?;
            self.write_at(offset + done, &[bytes])?;
            done += piece as u64;
        }
        Ok(())
    }

    /// Makes everything written before the call as durable as the host can and returns how durable that is. After a failure
    /// nothing is known about any write since the last success; the engine never retries.
    fn sync(&self) -> Result<Durability, StorageError>;

    /// The bytes of a range without a copy, if the host can and the whole range lies inside the file.
    ///
    /// # Safety
    ///
    /// While the slice lives, the caller ensures that nobody discards the range, shrinks the file into it, or writes to a byte of it
    /// that the caller reads. The range may include bytes that are still to be written: a record can be shorter than the requested range.
    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let _ = (offset, len);
        None
    }

    /// Whether [`set_checked`](Self::set_checked) was called with the same `offset` and `salt`, and the bytes of that record have
    /// neither been written nor fetched from the medium since. `None` from a host that does not remember: then every read verifies the
    /// checksum.
    fn is_checked(&self, offset: u64, salt: u64) -> Option<bool> {
        let _ = (offset, salt);
        None
    }

    /// Reports that the record at `offset`, in a segment with `salt`, matched its checksum when it was last [viewed](Self::view). A host
    /// whose views are of copies in its memory can remember this for as long as it keeps the copy.
    fn set_checked(&self, offset: u64, salt: u64) {
        let _ = (offset, salt);
    }

    /// Writes as [`write_at`](Self::write_at) does, but through mapped memory, if the host can: without a system call and
    /// without a way to fail. `false` means that nothing was written. A sync after this takes longer than after a `write_at`, so this
    /// suits bursts of small writes.
    ///
    /// # Safety
    ///
    /// The range has been [reserved](Self::reserve) since the file was opened, and has not been discarded or cut off since. While the
    /// call runs, nobody else writes to the range or reads it, through a [view](Self::view) or otherwise.
    unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
        let _ = (offset, parts);
        false
    }

    /// Whether the range can be read without waiting for the medium, as far as the host can tell; `false` where it cannot. The async face reads
    /// on the task that asks where it can, and on a thread of its own otherwise.
    #[cfg(feature = "async")]
    fn is_at_hand(&self, offset: u64, len: usize) -> bool {
        let _ = (offset, len);
        false
    }

    /// Announces reads of the ranges of `len` bytes at `offsets`. A host whose medium is slower than its memory can fetch everything
    /// that is not in memory yet at once, instead of piece by piece as the reads come. A hint: failures surface in the later reads.
    ///
    /// Returns whether the host fetches something: then it is worth the work to find out what will be read after that.
    fn will_read(&self, offsets: &[u64], len: usize) -> bool {
        let _ = (offsets, len);
        false
    }

    /// Announces that the range will not be written again before the next [`sync`](Self::sync): a host that buffers writes until
    /// then can begin to send them to its medium, which shortens the sync. A hint: it promises nothing, and returns
    /// without waiting for the medium where the host can do that.
    fn will_sync(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Makes sure that the range exists and that writing to it will not run out of space, as far as the host can promise that. It
    /// never makes the file shorter, and does nothing for an empty range. Fails with [`StorageErrorKind::NoSpace`] when there is
    /// no space; existing bytes keep their content in any case.
    ///
    /// Several threads may reserve and write at once. This default is a `len` followed by a `set_len`: a host with threads must prevent it
    /// from cutting off what another thread appends between the two calls.
    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let end = offset.saturating_add(len);
        if len > 0 && self.len()? < end { self.set_len(end) } else { Ok(()) }
    }

    /// Tells the host that the bytes of the range are not needed any more; afterwards they read as zero or as before. A hint:
    /// a host that cannot free space does nothing.
    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let _ = (offset, len);
        Ok(())
    }

    /// True when nobody else can write to the file as long as this storage lives: it holds a lock, or nobody else can reach the file.
    /// False over a host that has no locks. Then the engine checks the file before and after each flush, each new segment and each
    /// superblock, and fails with [`Error::Fenced`](crate::Error::Fenced) once another session has taken the store over. It also never
    /// [reserves](Self::reserve) space and never shortens the file, because another session may be writing after that offset.
    fn is_exclusive(&self) -> bool {
        true
    }

    /// As [`read_at`](Self::read_at), but of the file as it is now: bypasses whatever this storage keeps in memory, and includes every
    /// write to this range that it was given before. Bytes after the end of the file read as zero. Writes that it has gathered for other
    /// ranges stay with it: the engine asks whether it may still make them.
    fn read_now(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let there = usize::try_from(self.len()?.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (front, rest) = out.split_at_mut(there);
        rest.fill(0);
        if front.is_empty() { Ok(()) } else { self.read_at(offset, front) }
    }

    /// Makes every write that this storage was given readable for other sessions. Only a storage that gathers writes has anything to do.
    fn hand_over(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Drops what is kept in memory of the file, its length included, because another session may have changed it.
    fn refresh(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Announces that the engine has recognised the file and is going to write to it: a host whose lock carries no name may write a note
    /// of who holds it into the holder page ([`HOLDER_OFFSET`]). The note need not be durable.
    fn claim(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Removes the note of [`claim`](Self::claim): the store has been closed. Reads may follow, because other handles live until they
    /// are dropped. The lock itself is released when the storage is dropped.
    fn release(&self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// Bytes per read and write of the default [`Storage::rewrite`].
const REWRITE_PIECE: u64 = 256 * 1024;

/// Offset of the holder page, in bytes. The page belongs to the storage; the engine never touches it.
pub const HOLDER_OFFSET: u64 = 8192;
/// Length of the note in the holder page, in bytes.
pub const HOLDER_LEN: usize = 64;
