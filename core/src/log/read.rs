//! Reading one record by its offset.

use super::announce::{LONG, PREFETCH};
use super::{Log, Window};
use crate::error::{Error, Result};
use crate::frame::{Header, Meta, check};
#[cfg(feature = "events")]
use crate::frame::{Kind, event_number};
use crate::prefetch::{IS_OF_USE, prefetch};
use crate::storage::StorageErrorKind;
#[cfg(feature = "compress")]
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Deref;

/// Bytes read in one go where nothing can be mapped: enough for header, key and value of a small record.
const FIRST_READ: usize = 256;

/// Where a storage shows what it has cached, no view reaches beyond a block, which is so long.
#[cfg(feature = "events")]
const CACHED: usize = 4096;

/// The bytes of a record: the host's own memory, or a copy.
#[derive(Debug)]
enum Bytes<'a> {
    Mapped(&'a [u8]),
    Copied(Vec<u8>),
    /// Header, key and value of a sealed record, whose tags were checked.
    #[cfg(feature = "encrypt")]
    Opened(Vec<u8>),
    /// The stored record, and its plain value.
    #[cfg(feature = "compress")]
    Decoded(Box<(Bytes<'a>, Vec<u8>)>),
}

impl Bytes<'_> {
    fn stored(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Copied(bytes) => bytes,
            #[cfg(feature = "encrypt")]
            Self::Opened(bytes) => bytes,
            #[cfg(feature = "compress")]
            Self::Decoded(decoded) => decoded.0.stored(),
        }
    }
}

/// One record as stored in the log. Its checksum is not verified until [`Frame::check`].
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    bytes: Bytes<'a>,
    pub(crate) header: Header,
    pub(crate) offset: u64,
    pub(crate) salt: u64,
}

impl<'a> Frame<'a> {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.stored()
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.header.key(self.bytes()).unwrap_or_default()
    }

    /// The plain value, once it has been decoded; before that as it is stored.
    pub(crate) fn value(&self) -> &[u8] {
        #[cfg(feature = "compress")]
        if let Bytes::Decoded(decoded) = &self.bytes {
            return &decoded.1;
        }
        self.header.value(self.bytes()).unwrap_or_default()
    }

    /// The same record with its plain value. Its header is still that of the stored one.
    #[cfg(feature = "compress")]
    pub(crate) fn with_plain(self, plain: Vec<u8>) -> Self {
        Self { bytes: Bytes::Decoded(Box::new((self.bytes, plain))), ..self }
    }

    /// True when it takes no memory of its own: its bytes are the host's.
    pub(crate) const fn is_mapped(&self) -> bool {
        matches!(self.bytes, Bytes::Mapped(_))
    }

    /// The record's metadata.
    pub(crate) fn meta(&self) -> Meta<'_> {
        self.header.meta(self.bytes())
    }

    /// When the record expires, in milliseconds since 1970; `None` if it never does.
    #[inline]
    pub(crate) fn expiry(&self) -> Option<u64> {
        if self.header.expires() { self.meta().expiry() } else { None }
    }

    /// Fails if the record's value has an encoding that this build does not know.
    #[inline]
    pub(crate) fn is_readable(&self) -> Result<()> {
        match self.header.unsupported() {
            None => Ok(()),
            Some(what) => Err(Error::Unsupported { offset: self.offset, what }),
        }
    }

    /// The value alone: a slice of the host's memory, or the copy reduced to it.
    pub(crate) fn into_value(self) -> ValueBytes<'a> {
        let header = self.header;
        match self.bytes {
            Bytes::Mapped(bytes) => ValueBytes::Mapped(header.value(bytes).unwrap_or_default()),
            Bytes::Copied(mut bytes) => {
                bytes.truncate(header.frame_len());
                bytes.drain(..header.header_len() + header.key_len());
                ValueBytes::Copied(bytes)
            }
            #[cfg(feature = "encrypt")]
            Bytes::Opened(mut bytes) => {
                bytes.drain(..header.header_len() + header.key_len());
                ValueBytes::Copied(bytes)
            }
            #[cfg(feature = "compress")]
            Bytes::Decoded(decoded) => ValueBytes::Copied(decoded.1),
        }
    }

    /// Verifies the record's checksum.
    pub(crate) fn check(&self) -> Result<()> {
        // Its tags were checked instead.
        #[cfg(feature = "encrypt")]
        if matches!(self.bytes, Bytes::Opened(_)) {
            return Ok(());
        }
        check(&self.header, self.bytes(), self.salt, self.offset).map_err(|error| Error::corrupt(self.offset, error.what()))
    }
}

/// Published bytes of an extent, in the host's memory, for whoever reads one record after the other under one pin.
#[cfg(feature = "events")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Published<'a> {
    from: u64,
    bytes: &'a [u8],
}

/// A record in the host's memory, verified: its key, its value, and the length of its frame.
#[cfg(feature = "events")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) len: usize,
}

#[cfg(feature = "events")]
impl<'a> Published<'a> {
    pub(crate) const fn holds(&self, offset: u64) -> bool {
        offset >= self.from && offset - self.from < self.bytes.len() as u64
    }

    /// The event `number` of a namespace, if its frame is at `offset`, all of it is here, and it is no more than its bytes. Its checksum was verified.
    #[inline]
    pub(crate) fn plain_event(&self, offset: u64, salt: u64, number: u64, namespace: u32) -> Option<Plain<'a>> {
        let front = self.bytes.get(usize::try_from(offset.checked_sub(self.from)?).ok()?..)?;
        let header = Header::decode_event(front).ok()?;
        let bytes = front.get(..header.frame_len())?;
        let value = header.value(bytes)?;
        let is_it = header.kind == Kind::Event && event_number(value) == number && header.namespace == namespace;
        if !is_it || header.needs_a_closer_look() || check(&header, bytes, salt, offset).is_err() {
            return None;
        }
        Some(Plain { key: header.key(bytes)?, value, len: bytes.len() })
    }

    /// The frame of the event `number`, if it begins in `from..=last` and all in front of it can be read. Only headers and numbers are looked at
    /// on the way.
    pub(crate) fn event(&self, from: u64, last: u64, salt: u64, number: u64) -> Option<Frame<'a>> {
        let mut front = self.bytes.get(usize::try_from(from.checked_sub(self.from)?).ok()?..)?;
        let (mut offset, mut left) = (from, last.checked_sub(from)?);
        loop {
            let header = Header::decode_event(front).ok()?;
            let is_it = header.kind.is_carried()
                && front.get(header.header_len() + header.key_len()..).is_some_and(|value| event_number(value) == number);
            if is_it {
                return Some(Frame { bytes: Bytes::Mapped(front.get(..header.frame_len())?), header, offset, salt });
            }
            let len = header.frame_len();
            front = front.get(len..)?;
            left = left.checked_sub(len as u64)?;
            offset += len as u64;
        }
    }

    /// Prefetches up to `len` bytes at `offset` into the processor's cache, if they are here.
    #[inline]
    pub(crate) fn prefetch(&self, offset: u64, len: usize) {
        if let Some(bytes) = self.bytes.get(offset.wrapping_sub(self.from) as usize..).filter(|_| IS_OF_USE) {
            prefetch(bytes.get(..len).unwrap_or(bytes));
        }
    }
}

/// The bytes of a value.
#[derive(Debug)]
pub(crate) enum ValueBytes<'a> {
    Mapped(&'a [u8]),
    Copied(Vec<u8>),
}

impl ValueBytes<'_> {
    pub(crate) fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Mapped(bytes) => bytes.to_vec(),
            Self::Copied(bytes) => bytes,
        }
    }
}

impl Deref for ValueBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

impl Log {
    /// Reads the whole record at `offset`.
    ///
    /// The caller holds a pin, or a lock that keeps the segment from being reused.
    pub(crate) fn frame(&self, offset: u64) -> Result<Frame<'_>> {
        self.frame_if(offset, |_, _| true)?.ok_or_else(|| Error::corrupt(offset, "a record that cannot be read"))
    }

    /// The record of a known length at `offset`, if it is mapped. A long one is announced first.
    ///
    /// # Safety
    ///
    /// As for [`Storage::view`](crate::storage::Storage::view).
    #[inline]
    unsafe fn view_record(&self, offset: u64, len: usize) -> Option<&[u8]> {
        if len >= LONG {
            self.will_read_long(offset, len);
        }
        // SAFETY: the caller's promise is handed on.
        unsafe { self.storage.view(offset, len) }
    }

    /// Prefetches the first bytes at `offset`, where a record may begin, into the processor's cache. The caller holds a pin or a lock.
    pub(crate) fn prefetch(&self, offset: u64) {
        if !IS_OF_USE {
            return;
        }
        // SAFETY: the caller keeps the segment from being reused, and a published record is never written again. Bytes after a short record
        // may be written, but nobody reads them, here and below.
        if let Some(bytes) = unsafe { self.storage.view(offset, PREFETCH) } {
            prefetch(bytes);
        }
    }

    /// The header of the record at `offset`. The caller holds a pin or a lock, as for [`Self::frame`].
    pub(crate) fn header(&self, offset: u64) -> Result<Header> {
        Window::new(&*self.storage, offset).header(offset)
    }

    /// The record at `offset` if `wanted(namespace, key)` is true, else `None`. An unwanted record is verified
    /// before it is skipped: its key may be damaged.
    #[inline]
    pub(crate) fn frame_if(&self, offset: u64, wanted: impl Fn(u32, &[u8]) -> bool) -> Result<Option<Frame<'_>>> {
        // SAFETY: the caller's pin keeps the segment from being reused, and a published record is never written again.
        let mapped = match unsafe { self.storage.view(offset, PREFETCH) } {
            Some(front) => self.frame_mapped(offset, front)?,
            None => None,
        };
        let frame = match mapped {
            Some(frame) => frame,
            None => self.frame_at_the_end(offset)?,
        };
        #[cfg(feature = "encrypt")]
        let frame = if self.holds_sealed() { self.opened(frame)? } else { frame };
        if wanted(frame.header.namespace, frame.key()) {
            return Ok(Some(frame));
        }
        self.check(&frame)?;
        Ok(None)
    }

    /// What is mapped and published from `offset` to the end of its extent, which the caller knows to be in use.
    #[cfg(feature = "events")]
    pub(crate) fn published(&self, offset: u64) -> Published<'_> {
        let behind = self.geometry.start(self.geometry.extent_of(offset).saturating_add(1));
        let mut len = self.end().saturating_sub(self.lsn(offset)).min(behind.saturating_sub(offset)) as usize;
        // What a sealed store has there is not readable as it stands.
        if self.holds_sealed() {
            len = 0;
        }
        if self.remembers_checks {
            len = len.min(CACHED - offset as usize % CACHED);
        }
        // SAFETY: the caller's pin keeps the segment from being reused, and published bytes are never written again; what fills the rest of a
        // segment, and its trailer, was written before anything behind it was published.
        let bytes = unsafe { self.storage.view(offset, len) }.unwrap_or_default();
        Published { from: offset, bytes }
    }

    /// The record with its key and value readable.
    #[cfg(feature = "encrypt")]
    #[cold]
    fn opened<'a>(&self, frame: Frame<'a>) -> Result<Frame<'a>> {
        let opened = match super::open_frame(&*self.storage, &frame.header, frame.bytes(), frame.salt, frame.offset) {
            // A checksum that fails, too, is damage; where it fits, somebody has changed the record.
            Err(error @ Error::Forged { .. }) => return frame.check().and(Err(error)),
            opened => opened?,
        };
        Ok(Frame { bytes: opened.map_or(frame.bytes, Bytes::Opened), ..frame })
    }

    /// Verifies a record's checksum, unless the storage remembers that its bytes have been verified.
    #[inline]
    pub(crate) fn check(&self, frame: &Frame<'_>) -> Result<()> {
        if !self.remembers_checks || !matches!(frame.bytes, Bytes::Mapped(_)) {
            return frame.check();
        }
        if self.storage.is_checked(frame.offset, frame.salt) != Some(true) {
            frame.check()?;
            self.storage.set_checked(frame.offset, frame.salt);
        }
        Ok(())
    }

    /// Fast path of nearly every read: the value of the record at `offset`, if it is mapped, has this key and a valid checksum. `None`
    /// is no result; call [`Self::frame_if`] then. The caller holds a pin or a lock.
    ///
    /// Not inlined, and returns in registers: the lookup that calls it is inlined into other crates.
    #[inline(never)]
    pub(crate) fn lookup(&self, offset: u64, namespace: u32, key: &[u8], verify: bool) -> Option<&[u8]> {
        if self.holds_sealed() {
            return None;
        }
        // SAFETY: the caller's pin keeps the segment from being reused, and a published record is never written again.
        let front = unsafe { self.storage.view(offset, PREFETCH) }?;
        prefetch(front);
        // Both arms are compiled separately: in the first one, the shape of the header decides half of the branches.
        match Header::decode_small(front) {
            Some(header) => self.lookup_at(&header, front, offset, namespace, key, verify),
            None => self.lookup_at(&Header::decode(front).ok()?, front, offset, namespace, key, verify),
        }
    }

    #[inline(always)]
    fn lookup_at<'a>(
        &'a self,
        header: &Header,
        front: &'a [u8],
        offset: u64,
        namespace: u32,
        key: &[u8],
        verify: bool,
    ) -> Option<&'a [u8]> {
        let bytes = match front.get(..header.frame_len()) {
            Some(bytes) => bytes,
            // SAFETY: as for the front: pinned, and published as a whole.
            None => unsafe { self.view_record(offset, header.frame_len()) }?,
        };
        if header.namespace != namespace || header.key(bytes)? != key || header.needs_a_closer_look() {
            return None;
        }
        if verify && check(header, bytes, self.salt_at(offset), offset).is_err() {
            return None;
        }
        header.value(bytes)
    }

    /// Key and value of the record at `offset`, if it is mapped, is no more than these and has a valid checksum. `None` is no result; call
    /// [`Self::frame`] then. The caller holds a pin or a lock.
    ///
    /// A [`Frame`] is a hundred bytes, which a range would move from call to call for each record.
    #[cfg(feature = "ordered")]
    #[inline(never)]
    pub(crate) fn plain(&self, offset: u64, verify: bool) -> Option<(&[u8], &[u8])> {
        if self.holds_sealed() || self.remembers_checks {
            return None;
        }
        // SAFETY: the caller's pin keeps the segment from being reused, and a published record is never written again.
        let front = unsafe { self.storage.view(offset, PREFETCH) }?;
        match Header::decode_small(front) {
            Some(header) => self.plain_at(&header, front, offset, verify),
            None => self.plain_at(&Header::decode(front).ok()?, front, offset, verify),
        }
    }

    #[cfg(feature = "ordered")]
    #[inline(always)]
    fn plain_at<'a>(&'a self, header: &Header, front: &'a [u8], offset: u64, verify: bool) -> Option<(&'a [u8], &'a [u8])> {
        let bytes = match front.get(..header.frame_len()) {
            Some(bytes) => bytes,
            // SAFETY: as for the front: pinned, and published as a whole.
            None => unsafe { self.view_record(offset, header.frame_len()) }?,
        };
        if header.needs_a_closer_look() || verify && check(header, bytes, self.salt_at(offset), offset).is_err() {
            return None;
        }
        header.key(bytes).zip(header.value(bytes))
    }

    /// True if the storage remembers which records have been verified: then its views are of copies in memory, which it evicts.
    pub(crate) const fn remembers_checks(&self) -> bool {
        self.remembers_checks
    }

    fn salt_at(&self, offset: u64) -> u64 {
        self.segment_stats.salt(self.geometry.extent_of(offset))
    }

    /// The record that begins with the mapped bytes `front`; `None` unless all of it is mapped in one piece.
    #[inline]
    fn frame_mapped<'a>(&'a self, offset: u64, front: &'a [u8]) -> Result<Option<Frame<'a>>> {
        prefetch(front);
        let header = Header::decode(front).map_err(|error| Error::corrupt(offset, error.what()))?;
        let bytes = match front.get(..header.frame_len()) {
            Some(bytes) => bytes,
            // SAFETY: as for the front: pinned, and published as a whole.
            None => match unsafe { self.view_record(offset, header.frame_len()) } {
                Some(bytes) => bytes,
                None => return Ok(None),
            },
        };
        Ok(Some(Frame { bytes: Bytes::Mapped(bytes), header, offset, salt: self.salt_at(offset) }))
    }

    /// Slow path: a record near the end of the file, or one that is not mapped in one piece.
    #[cold]
    fn frame_at_the_end(&self, offset: u64) -> Result<Frame<'_>> {
        let room = usize::try_from(self.storage.len()?.saturating_sub(offset)).unwrap_or(usize::MAX);
        // SAFETY: the caller's pin keeps the segment from being reused, and a published record is never written again.
        if let Some(front) = unsafe { self.storage.view(offset, room.min(PREFETCH)) }
            && let Some(frame) = self.frame_mapped(offset, front)?
        {
            return Ok(frame);
        }
        self.frame_copied(offset, room)
    }

    /// Reads a record into memory. The first read gets nearly every record whole and allocates only the record itself.
    fn frame_copied(&self, offset: u64, room: usize) -> Result<Frame<'_>> {
        let mut front = [0; FIRST_READ];
        let front = front.get_mut(..room.min(FIRST_READ)).unwrap_or_default();
        match self.storage.read_at(offset, front) {
            // The file was cut after the record meanwhile: retry with the new length. With `room` 0 there is nothing left to retry.
            Err(error) if error.kind == StorageErrorKind::OutOfRange && room > 0 => {
                let is_cut = self.storage.len()? < offset + front.len() as u64;
                return if is_cut { self.frame_at_the_end(offset) } else { Err(error.into()) };
            }
            Err(error) if room > 0 => return Err(error.into()),
            _ => {}
        }
        let header = Header::decode(front).map_err(|error| Error::corrupt(offset, error.what()))?;
        let need = header.frame_len();
        if need > room {
            return Err(too_long(offset));
        }
        let mut bytes = Vec::with_capacity(need);
        bytes.extend_from_slice(front.get(..need).unwrap_or(front));
        let have = bytes.len();
        if need > have {
            bytes.resize(need, 0);
            self.storage.read_at(offset + have as u64, bytes.get_mut(have..).unwrap_or_default())?;
        }
        Ok(Frame { bytes: Bytes::Copied(bytes), header, offset, salt: self.salt_at(offset) })
    }
}

#[cold]
fn too_long(offset: u64) -> Error {
    Error::corrupt(offset, "a record that reaches past the end of the file")
}

#[cfg(all(test, feature = "testing"))]
mod tests;
