//! The file that the log lives in, as the engine sees it: one byte-addressed space, blocking calls, no names.
//!
//! A host implements [`Storage`] and gets the whole store. [`memory`] is the smallest example; the `testing` feature adds
//! a crash simulator, a fault injector and the conformance suite that every implementation must pass.

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

pub use cached::{CacheOptions, CachedStorage};
pub use error::{StorageError, StorageErrorKind};
pub use memory::MemoryStorage;
#[cfg(feature = "native")]
pub use native::{NativeOptions, NativeStorage};

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
/// The engine never writes two overlapping ranges at the same time, never looks at a byte that is being changed, and treats
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

    /// Writes the parts one behind the other from `offset`, growing the file where needed, all of them or an error: loops over
    /// short writes. A gap between the old end and `offset` reads as zero; without any bytes to write nothing happens. After a failure
    /// any subset of the range may have been written, and nothing outside of it.
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError>;

    /// Writes the bytes of a range again as they are, so that the next [`sync`](Self::sync) stores them whatever an earlier one, of another
    /// process, has made of them: after a failed one, Linux takes what it could not write for stored. A reader may look at the range
    /// meanwhile. A failure is one of the read or of the write.
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

    /// Makes everything written before the call as durable as the host can and says how durable that is. After a failure
    /// nothing is known about any write since the last success; the engine never retries.
    fn sync(&self) -> Result<Durability, StorageError>;

    /// The bytes of a range without a copy, if the host can and the whole range lies inside the file.
    ///
    /// # Safety
    ///
    /// While the slice lives, the caller lets nobody discard the range, or shrink the file into it, or write to a byte of it that it looks
    /// at: where a record is short, the range that was asked for may reach into bytes that are still to be written.
    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let _ = (offset, len);
        None
    }

    /// Whether [`set_checked`](Self::set_checked) was called with these numbers, and the bytes of that record have neither been
    /// written nor fetched from the medium since. `None` from a host that does not remember: there every read checks.
    fn is_checked(&self, offset: u64, salt: u64) -> Option<bool> {
        let _ = (offset, salt);
        None
    }

    /// Says that the record at `offset`, of a segment with `salt`, fits its checksum as it was last [viewed](Self::view). A host whose
    /// views are of copies in its memory can remember it for as long as it keeps the copy.
    fn set_checked(&self, offset: u64, salt: u64) {
        let _ = (offset, salt);
    }

    /// Writes as [`write_at`](Self::write_at) does, but through mapped memory, if the host can: without a call of the system and
    /// without a way to fail. `false` says that nothing was written. A sync takes longer behind this than behind a write, so it serves
    /// bursts of small writes.
    ///
    /// # Safety
    ///
    /// The range has been [reserved](Self::reserve) since the file was opened, and not been discarded or cut off since. While the
    /// call runs, nobody else writes to the range or looks at it, through a [view](Self::view) or otherwise.
    unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
        let _ = (offset, parts);
        false
    }

    /// Says that the ranges of `len` bytes at `offsets` are about to be read. A host whose medium is slower than its memory can fetch
    /// all that is not there yet at once, instead of piece by piece as the reads come. A hint: whatever becomes of it, the reads tell.
    fn will_read(&self, offsets: &[u64], len: usize) {
        let _ = (offsets, len);
    }

    /// Says that the range has been written for good and that a [`sync`](Self::sync) will come: a host that only gathers writes until
    /// then can begin to send them to its medium, so that whoever syncs waits for less. A hint: it promises nothing, and returns
    /// without waiting for the medium where the host can do that.
    fn will_sync(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Makes sure that the range exists and that writing to it will not run out of space, as far as the host can promise that. It
    /// never makes the file shorter, and an empty range asks for nothing. Fails with [`StorageErrorKind::NoSpace`] when there is
    /// none; existing bytes keep their content in any case.
    ///
    /// Several threads may reserve and write at once, so a host with threads must not let this default cut off what another thread
    /// appends between its two calls.
    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let end = offset.saturating_add(len);
        if len > 0 && self.len()? < end { self.set_len(end) } else { Ok(()) }
    }

    /// Tells the host that the bytes of the range are not needed any more; afterwards they read as zero or as before. A hint:
    /// a host that cannot does nothing.
    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let _ = (offset, len);
        Ok(())
    }

    /// True when nobody else can write to the file as long as this storage lives: it holds a lock, or the file is its own. Over a host
    /// that has no locks the answer is `false`. Then the engine looks at the file in front of and behind each flush, each new segment and
    /// each superblock, and ends with [`Error::Fenced`](crate::Error::Fenced) once somebody else has taken the store over. In exchange nothing is
    /// [reserved](Self::reserve), and the file is never cut: another one may be writing behind the place.
    fn is_exclusive(&self) -> bool {
        true
    }

    /// As [`read_at`](Self::read_at), of the file as it is now: past whatever this storage keeps in memory, and behind everything that
    /// it was given to write. Where the file ends in front of it, zeros.
    fn read_now(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let there = usize::try_from(self.len()?.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (front, rest) = out.split_at_mut(there);
        rest.fill(0);
        if front.is_empty() { Ok(()) } else { self.read_at(offset, front) }
    }

    /// Forgets what is kept in memory of the file, its length included: somebody else may have changed it.
    fn refresh(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Says that the engine has recognised the file and is going to write to it: a host whose lock carries no name may leave a note
    /// of who holds it in the holder page ([`HOLDER_OFFSET`]). Without a promise of durability.
    fn claim(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Takes the note of [`claim`](Self::claim) back: the store has been closed. Reads may follow, for other handles live on until they are
    /// dropped. The lock itself goes with the storage.
    fn release(&self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// Bytes that are written again at a time.
const REWRITE_PIECE: u64 = 256 * 1024;

/// Where the holder page begins: bytes that belong to the storage, not to the engine, which leaves them alone.
pub const HOLDER_OFFSET: u64 = 8192;
/// Length of the note in the holder page, in bytes.
pub const HOLDER_LEN: usize = 64;
