//! Describes a copy of the store as it is at one moment, without writing the copy: which parts of the store's file it consists of, and the
//! bytes that differ from the file.
//!
//! ```text
//! cut    := piece*, length f64                                        bytes between the pieces are zero
//! piece  := offset f64, (0, length u32, crc32c u32 | 1, bytes)        as in the file | these bytes
//! ```

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use pipkin::limits::DATA_START;
use pipkin::{Db, Durability, Error, Storage, StorageError, StorageErrorKind, crc32c};

use crate::failure::{Code, Failure};
use crate::one_thread::OfOneThread;
use crate::wire::put_bytes;

/// The target of a backup. A backup copies segments unchanged to the offsets they have in the file; only what precedes them, the
/// superblocks, is new.
struct Target {
    len: OfOneThread<Cell<u64>>,
    pieces: OfOneThread<RefCell<Vec<u8>>>,
}

/// Describes a copy of `db`; the head of this file has the format.
pub(crate) fn cut(db: &Db) -> Result<Vec<u8>, Error> {
    let target = Target { len: OfOneThread(Cell::new(0)), pieces: OfOneThread(RefCell::default()) };
    db.backup_to_storage(&target)?;
    let mut out = target.pieces.0.take();
    put_f64(&mut out, target.len.0.get());
    Ok(out)
}

/// Reads a piece from the file, and fails if other bytes have been written there since the cut.
pub(crate) fn piece(file: &dyn Storage, offset: u64, len: usize, crc: u32) -> Result<Vec<u8>, Failure> {
    let failed = |error: StorageError| Failure::from(&Error::from(error));
    let mut bytes = Vec::new();
    if offset.saturating_add(len as u64) <= file.len().map_err(failed)? {
        bytes.resize(len, 0);
        file.read_at(offset, &mut bytes).map_err(failed)?;
    }
    let is_it = bytes.len() == len && crc32c(&bytes) == crc;
    is_it
        .then_some(bytes)
        .ok_or_else(|| Failure::new(Code::Failed, "what was to be exported has been written over meanwhile; export again"))
}

/// Appends a JavaScript number, which represents the length of any file exactly.
fn put_f64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&(number as f64).to_le_bytes());
}

impl Storage for Target {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.len.0.get())
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.len.0.set(len);
        Ok(())
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), StorageError> {
        Err(StorageError::new(StorageErrorKind::Other, "read", "a copy that is not written anywhere"))
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let bytes = parts.concat();
        let len = bytes.len();
        self.len.0.set(self.len.0.get().max(offset + len as u64));
        let out = &mut *self.pieces.0.borrow_mut();
        put_f64(out, offset);
        if offset >= DATA_START {
            out.push(0);
            [len as u32, crc32c(&bytes)].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        } else {
            out.push(1);
            put_bytes(out, &bytes);
        }
        Ok(())
    }

    fn reserve(&self, _: u64, _: u64) -> Result<(), StorageError> {
        Ok(())
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        Ok(Durability::None)
    }
}
