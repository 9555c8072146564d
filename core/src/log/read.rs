//! Reading one record by its offset.

use super::{Log, Window};
use crate::error::{Error, Result};
use crate::frame::{Header, check};
use crate::prefetch::prefetch;
use crate::storage::StorageErrorKind;
use alloc::vec::Vec;

/// Bytes read in one go where nothing can be mapped: enough for header, key and value of a small record.
const FIRST_READ: usize = 512;

/// Bytes of a record that are asked for ahead: all of a small one.
const PREFETCH: usize = 200;

/// The bytes of a record: the host's own memory, or a copy.
#[derive(Debug)]
enum Bytes<'a> {
    Mapped(&'a [u8]),
    Copied(Vec<u8>),
}

/// One record as it stands in the log. Its checksum has not been looked at yet: [`Frame::check`] does.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    bytes: Bytes<'a>,
    pub(crate) header: Header,
    pub(crate) offset: u64,
    salt: u64,
}

impl<'a> Frame<'a> {
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(bytes) => bytes,
            Bytes::Copied(bytes) => bytes,
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.header.key(self.bytes()).unwrap_or_default()
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.header.value(self.bytes()).unwrap_or_default()
    }

    /// The value alone: a slice of the host's memory, or the copy cut down to it.
    pub(crate) fn into_value(self) -> ValueBytes<'a> {
        let header = self.header;
        match self.bytes {
            Bytes::Mapped(bytes) => ValueBytes::Mapped(header.value(bytes).unwrap_or_default()),
            Bytes::Copied(mut bytes) => {
                bytes.truncate(header.frame_len());
                bytes.drain(..header.header_len + header.key_len);
                ValueBytes::Copied(bytes)
            }
        }
    }

    /// Holds the record against its checksum.
    pub(crate) fn check(&self) -> Result<()> {
        check(&self.header, self.bytes(), self.salt, self.offset).map_err(|error| Error::corrupt(self.offset, error.what()))
    }
}

/// The bytes of a value.
#[derive(Debug)]
pub(crate) enum ValueBytes<'a> {
    Mapped(&'a [u8]),
    Copied(Vec<u8>),
}

impl Log {
    /// The record at `offset`, whole.
    ///
    /// The caller holds a pin, or a lock that keeps the segment from being reused.
    pub(crate) fn frame(&self, offset: u64) -> Result<Frame<'_>> {
        self.frame_if(offset, |_, _| true)?.ok_or_else(|| Error::corrupt(offset, "a record that cannot be read"))
    }

    /// Tells the host that the records at `offsets` are about to be read.
    pub(crate) fn will_read(&self, offsets: &[u64]) {
        self.storage.will_read(offsets, PREFETCH);
    }

    /// Asks the processor for the first bytes at `offset`, where a record may stand. The caller holds a pin or a lock.
    pub(crate) fn prefetch(&self, offset: u64) {
        // SAFETY: the caller keeps the segment from being reused, and a published record is never written again.
        if let Some(bytes) = unsafe { self.storage.view(offset, PREFETCH) } {
            prefetch(bytes);
        }
    }

    /// The header of the record at `offset`. The caller holds a pin or a lock, as for [`Self::frame`].
    pub(crate) fn header(&self, offset: u64) -> Result<Header> {
        Window::new(&*self.storage, offset).header(offset)
    }

    /// The first bytes of the record at `offset`, and perhaps of what follows it.
    fn first_bytes(&self, offset: u64) -> Result<Vec<u8>> {
        loop {
            let room = self.storage.len()?.saturating_sub(offset) as usize;
            if room == 0 {
                // Nothing to read, and no later look at the length changes that.
                return Ok(Vec::new());
            }
            let mut bytes = alloc::vec![0; room.min(FIRST_READ)];
            match self.storage.read_at(offset, &mut bytes) {
                // The file was cut behind the record since: the next look at its length says so.
                Err(error) if error.kind == StorageErrorKind::OutOfRange && self.storage.len()? < offset + bytes.len() as u64 => {
                }
                result => return result.map(|()| bytes).map_err(Error::from),
            }
        }
    }

    /// The record at `offset` if `wanted(namespace, key)` says so, else `None`. Where nothing can be mapped, the value is read only
    /// then. A record that is not wanted is checked before it is passed over: its key may be what is damaged.
    pub(crate) fn frame_if(&self, offset: u64, wanted: impl Fn(u32, &[u8]) -> bool) -> Result<Option<Frame<'_>>> {
        let salt = self.ledger.salt(self.geometry.extent_of(offset));
        let end = self.storage.len()?;
        let room = end.saturating_sub(offset) as usize;
        let damaged = |error: crate::frame::DecodeError| Error::corrupt(offset, error.what());
        let too_long = || Error::corrupt(offset, "a record that reaches past the end of the file");

        // SAFETY: the caller's pin keeps the segment from being reused, and a published record is never written again.
        if let Some(front) = unsafe { self.storage.view(offset, room.min(PREFETCH)) } {
            prefetch(front);
            let header = Header::decode(front).map_err(damaged)?;
            let bytes = match front.get(..header.frame_len()) {
                Some(bytes) => bytes,
                // SAFETY: as above.
                None => unsafe { self.storage.view(offset, header.frame_len()) }.ok_or_else(too_long)?,
            };
            let frame = Frame { bytes: Bytes::Mapped(bytes), header, offset, salt };
            return Ok(if wanted(header.namespace, frame.key()) {
                Some(frame)
            } else {
                frame.check()?;
                None
            });
        }

        let mut bytes = self.first_bytes(offset)?;
        let header = Header::decode(&bytes).map_err(damaged)?;
        let read_on = |bytes: &mut Vec<u8>, to: usize| -> Result<()> {
            let have = bytes.len();
            if to > room {
                return Err(too_long());
            }
            if to > have {
                bytes.resize(to, 0);
                let rest = bytes.get_mut(have..).unwrap_or_default();
                self.storage.read_at(offset + have as u64, rest)?;
            }
            Ok(())
        };
        read_on(&mut bytes, header.header_len + header.key_len)?;
        let take = wanted(header.namespace, header.key(&bytes).unwrap_or_default());
        read_on(&mut bytes, header.frame_len())?;
        let frame = Frame { bytes: Bytes::Copied(bytes), header, offset, salt };
        if take {
            return Ok(Some(frame));
        }
        frame.check()?;
        Ok(None)
    }
}
