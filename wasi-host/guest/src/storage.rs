//! [`Storage`] over one file of `wasi:filesystem`, by positional calls only.
//!
//! A call costs about as much as copying some KiB, so the parts of a write are sent in one call. A read returns at most
//! 64 KiB whatever was asked for, and a write of more than 128 MiB traps the guest, so long transfers are split. WASI has no
//! file lock: unless the caller says that the host keeps all others away, the engine fences.

use alloc::string::String;
use alloc::vec;
use pipkin::{Durability, Error, Storage, StorageError, StorageErrorKind};
use pipkin_wasi_shared::replaced;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, DescriptorType, ErrorCode, OpenFlags, PathFlags};

/// Parts up to this many bytes in all are copied together into one host call.
const GATHER_BYTES_MAX: usize = 64 * 1024;
/// Bytes that `reserve` writes per host call: as many as one reading call returns.
const RESERVE_BYTES: usize = 64 * 1024;
/// The longest single host call that writes.
const WRITE_BYTES_MAX: usize = 1024 * 1024;
/// Hosts use signed 64-bit numbers for file sizes.
const FILE_LEN_MAX: u64 = i64::MAX as u64;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// An existing file, unchanged.
    Read,
    /// An existing file, to read and to write.
    Write,
    /// A file to read and write, made if there is none.
    Create,
    /// A new file, to read and to write; fails when there is one.
    New,
}

/// The byte-addressed file behind one descriptor.
#[derive(Debug)]
pub(crate) struct WasiStorage {
    file: Descriptor,
    access: Access,
    /// The host keeps all other processes and instances away from the file.
    is_exclusive: bool,
    /// Where the file was found that others write, if the host can tell files apart.
    followed: Option<(Descriptor, String)>,
}

impl WasiStorage {
    /// Opens the file `path` under `directory`.
    ///
    /// If the file is empty, its directory is synced, so that the name of a new store is as durable as its bytes.
    pub(crate) fn open(directory: &Descriptor, path: &str, access: Access) -> Result<Self, Error> {
        let (open, rights) = match access {
            Access::Read => (OpenFlags::empty(), DescriptorFlags::READ),
            Access::Write => (OpenFlags::empty(), DescriptorFlags::READ | DescriptorFlags::WRITE),
            Access::Create => (OpenFlags::CREATE, DescriptorFlags::READ | DescriptorFlags::WRITE),
            Access::New => (OpenFlags::CREATE | OpenFlags::EXCLUSIVE, DescriptorFlags::READ | DescriptorFlags::WRITE),
        };
        let failed = |code| open_error(path, code);
        let file = directory.open_at(PathFlags::SYMLINK_FOLLOW, path, open, rights).map_err(failed)?;
        let stat = file.stat().map_err(failed)?;
        match stat.type_ {
            DescriptorType::RegularFile => {}
            DescriptorType::Directory => return Err(Error::IsDirectory { path: path.into() }),
            _ => return Err(Error::NotAStore { detail: "it is neither a file nor a directory" }),
        }
        if access != Access::Read && stat.size == 0 {
            // Not every host can sync a directory; other errors are ignored, and the durability of the name is up to the host.
            if let Err(code @ (ErrorCode::Io | ErrorCode::InsufficientSpace | ErrorCode::Quota)) = directory.sync_data() {
                return Err(failed(code));
            }
        }
        Ok(Self { file, access, is_exclusive: access == Access::New, followed: None })
    }

    /// Notes whether the host keeps all others away from the file. A file opened as `New` is exclusive in any case.
    pub(crate) fn exclusive(self, is_exclusive: bool) -> Self {
        Self { is_exclusive: self.is_exclusive || is_exclusive, ..self }
    }

    /// Notes where the file is, so that each refresh finds out whether it is still there. Not every host can tell files apart.
    pub(crate) fn following(self, directory: Descriptor, path: &str) -> Self {
        let followed = self.can_be_told(&directory, path).then(|| (directory, path.into()));
        Self { followed, ..self }
    }

    /// True when both are the same file, under whatever names they were opened.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        self.file.is_same_object(&other.file)
    }

    /// Whether the host can compare files: true if it recognises this file when `path` under `directory` is opened again.
    pub(crate) fn can_be_told(&self, directory: &Descriptor, path: &str) -> bool {
        let again = directory.open_at(PathFlags::SYMLINK_FOLLOW, path, OpenFlags::empty(), DescriptorFlags::READ);
        again.is_ok_and(|again| again.is_same_object(&self.file))
    }

    fn writable(&self, operation: &'static str) -> Result<(), StorageError> {
        match self.access {
            Access::Write | Access::Create | Access::New => Ok(()),
            Access::Read => Err(StorageError::new(StorageErrorKind::ReadOnly, operation, "the file was opened for reading only")),
        }
    }

    fn write_all(&self, mut offset: u64, mut bytes: &[u8]) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            let (piece, _) = bytes.split_at(bytes.len().min(WRITE_BYTES_MAX));
            let written = match self.file.write(piece, offset) {
                Ok(0) => {
                    return Err(StorageError::new(StorageErrorKind::NoSpace, "write", "the host took none of the bytes"));
                }
                Ok(written) => written,
                Err(ErrorCode::Interrupted) => continue,
                Err(code) => return Err(storage_error("write", code)),
            };
            bytes = usize::try_from(written).ok().and_then(|count| bytes.get(count..)).ok_or_else(|| {
                StorageError::new(StorageErrorKind::Other, "write", "the host claims to have written more than it was given")
            })?;
            offset += written;
        }
        Ok(())
    }

    /// Writes the range again: the bytes that a file of `len` bytes has there, and zeros after its end.
    fn write_over(&self, mut from: u64, to: u64, len: u64) -> Result<(), StorageError> {
        while from < to.min(len) {
            match self.file.read((to.min(len) - from).min(RESERVE_BYTES as u64), from) {
                Ok((bytes, _)) if bytes.is_empty() => return Err(StorageError::out_of_range(from, 1, len)),
                Ok((bytes, _)) => {
                    self.write_all(from, &bytes)?;
                    from += bytes.len() as u64;
                }
                Err(ErrorCode::Interrupted) => {}
                Err(code) => return Err(storage_error("read", code)),
            }
        }
        let zeros = vec![0; (to - from).min(RESERVE_BYTES as u64) as usize];
        while from < to {
            let (piece, _) = zeros.split_at((to - from).min(RESERVE_BYTES as u64) as usize);
            self.write_all(from, piece)?;
            from += piece.len() as u64;
        }
        Ok(())
    }
}

impl Storage for WasiStorage {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.stat().map(|stat| stat.size).map_err(|code| storage_error("len", code))
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.writable("set_len")?;
        self.file.set_size(len).map_err(|code| storage_error("set_len", code))
    }

    /// Writes the whole range. WASI cannot reserve space, and a file that was only made longer, or one with holes, has no blocks there:
    /// only written bytes have. After the end of the file zeros are written. Inside it, where the engine reserves what an earlier session
    /// has left, the existing bytes are written again.
    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.writable("reserve")?;
        if len == 0 {
            return Ok(());
        }
        let end = offset.checked_add(len).filter(|end| *end <= FILE_LEN_MAX);
        let end = end.ok_or_else(|| storage_error("reserve", ErrorCode::FileTooLarge))?;
        let had = self.len()?;
        let reserved = self.write_over(offset, end, had);
        if reserved.is_err() && end > had {
            // Give back what was reserved in part: on a full medium, removals and compaction need that space.
            let _ = self.file.set_size(had);
        }
        reserved
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let wanted = out.len();
        // The loop below notices the end of the file, except for a read of no bytes or beyond what a host can seek to.
        if out.is_empty() || !fits(offset, wanted) {
            let len = self.len()?;
            return if offset > len { Err(StorageError::out_of_range(offset, wanted, len)) } else { Ok(()) };
        }
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let (bytes, _) = match self.file.read(rest.len() as u64, at) {
                Ok(answer) => answer,
                Err(ErrorCode::Interrupted) => continue,
                Err(code) => return Err(storage_error("read", code)),
            };
            if bytes.is_empty() {
                return Err(StorageError::out_of_range(offset, wanted, self.len()?));
            }
            let Some((filled, unfilled)) = rest.split_at_mut_checked(bytes.len()) else {
                return Err(StorageError::new(StorageErrorKind::Other, "read", "the host returned more than was asked for"));
            };
            filled.copy_from_slice(&bytes);
            at += bytes.len() as u64;
            rest = unfilled;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.writable("write")?;
        let len = parts.iter().map(|part| part.len()).sum();
        if !fits(offset, len) {
            return Err(storage_error("write", ErrorCode::FileTooLarge));
        }
        if let [whole] = parts {
            return self.write_all(offset, whole);
        }
        if len <= GATHER_BYTES_MAX {
            return self.write_all(offset, &parts.concat());
        }
        let mut at = offset;
        for part in parts {
            self.write_all(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    fn refresh(&self) -> Result<(), StorageError> {
        match &self.followed {
            Some((directory, path)) if !self.can_be_told(directory, path) => Err(replaced()),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        if self.access != Access::Read {
            self.file.sync_data().map_err(|code| storage_error("sync", code))?;
        }
        Ok(Durability::Device)
    }
}

fn fits(offset: u64, len: usize) -> bool {
    offset.checked_add(len as u64).is_some_and(|end| end <= FILE_LEN_MAX)
}

fn storage_error(operation: &'static str, code: ErrorCode) -> StorageError {
    let kind = match code {
        ErrorCode::InsufficientSpace | ErrorCode::Quota | ErrorCode::FileTooLarge => StorageErrorKind::NoSpace,
        ErrorCode::ReadOnly => StorageErrorKind::ReadOnly,
        ErrorCode::Access | ErrorCode::NotPermitted => StorageErrorKind::PermissionDenied,
        _ => StorageErrorKind::Other,
    };
    StorageError::new(kind, operation, code.name())
}

fn open_error(path: &str, code: ErrorCode) -> Error {
    match code {
        ErrorCode::NoEntry => Error::NotFound { path: path.into() },
        ErrorCode::IsDirectory => Error::IsDirectory { path: path.into() },
        ErrorCode::Exist => Error::InvalidArgument("there is a file of that name already; choose a new name"),
        code => storage_error("open", code).into(),
    }
}
