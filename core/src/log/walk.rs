//! Walking the frames of one segment and verifying the checksum of each.

use super::Window;
#[cfg(feature = "encrypt")]
use super::{is_sealed_segment, keys_of, open_frame};
#[cfg(feature = "encrypt")]
use crate::error::Error;
use crate::error::Result;
#[cfg(feature = "encrypt")]
use crate::frame::TAG_LEN;
use crate::frame::{Checksum, DecodeError, FRAME_LEN_MIN, HEADER_LEN_MAX, Header, check, check_sum};
use crate::storage::Storage;
#[cfg(feature = "encrypt")]
use alloc::vec::Vec;

/// Frames up to this length, in bytes, are verified in one piece; longer ones piece by piece, so that a large value needs no large buffer.
pub(crate) const PIECE: usize = 256 * 1024;

/// Bytes to request at a time where no copy is needed: hundreds of small frames per call.
const AHEAD: u64 = 64 * 1024;

/// What a walk knows of a sealed store.
#[cfg(feature = "encrypt")]
struct Sealed<'a> {
    /// The storage; `None` in a plain store.
    storage: Option<&'a dyn Storage>,
    last_tag: [u8; TAG_LEN],
    /// Header, key and value of the frame before the position; `None` without the key.
    opened: Option<Vec<u8>>,
}

#[cfg(feature = "encrypt")]
impl<'a> Sealed<'a> {
    fn new(storage: &'a dyn Storage, salt: u64) -> Self {
        Self { storage: is_sealed_segment(storage, salt).then_some(storage), last_tag: [0; TAG_LEN], opened: None }
    }
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A valid frame.
    Frame { offset: u64, header: Header },
    /// Exactly the end of the range.
    End,
    /// Bytes that are not a valid frame; the walk cannot continue.
    Bad { offset: u64, error: DecodeError },
}

/// A walk over the frames in `position..end`, which belong to a segment with `salt`.
pub(crate) struct Walk<'a> {
    #[cfg(feature = "encrypt")]
    sealed: Sealed<'a>,
    window: Window<'a>,
    salt: u64,
    position: u64,
    end: u64,
}

impl<'a> Walk<'a> {
    /// See [`Window::new`] for what the caller guarantees.
    pub(crate) fn new(storage: &'a dyn Storage, salt: u64, position: u64, end: u64) -> Self {
        Self {
            #[cfg(feature = "encrypt")]
            sealed: Sealed::new(storage, salt),
            window: Window::new(storage, end),
            salt,
            position,
            end,
        }
    }

    /// The last tag of the frame before the position.
    #[cfg(feature = "encrypt")]
    pub(crate) const fn last_tag(&self) -> [u8; TAG_LEN] {
        self.sealed.last_tag
    }

    /// Where the next frame begins.
    pub(crate) const fn position(&self) -> u64 {
        self.position
    }

    /// The next frame.
    pub(crate) fn step(&mut self) -> Result<Step> {
        let step = self.step_checked()?;
        #[cfg(feature = "encrypt")]
        if let (Step::Frame { offset, header }, Some(storage)) = (&step, self.sealed.storage) {
            let frame = self.window.bytes(*offset, header.frame_len())?;
            self.sealed.last_tag = frame.last_chunk().copied().unwrap_or_default();
            match open_frame(storage, header, frame, self.salt, *offset) {
                Err(Error::Forged { .. } | Error::Corrupt { .. }) if storage.forgives() => {
                    self.position = *offset;
                    let error = DecodeError::Invalid("a record that somebody without the key has made, changed or moved");
                    return Ok(Step::Bad { offset: *offset, error });
                }
                opened => self.sealed.opened = opened?,
            }
        }
        Ok(step)
    }

    /// The bytes `from..from + len` of the frame at `offset`, which a step returned.
    fn part(&mut self, offset: u64, from: usize, len: usize) -> Result<&[u8]> {
        #[cfg(feature = "encrypt")]
        if let Some(opened) = &self.sealed.opened {
            return Ok(opened.get(from..from + len).unwrap_or_default());
        }
        self.window.bytes(offset + from as u64, len)
    }

    fn step_checked(&mut self) -> Result<Step> {
        let offset = self.position;
        let room = self.end.saturating_sub(offset);
        if room < self.shortest() {
            let rest = self.window.bytes(offset, room as usize)?;
            let error = DecodeError::Invalid("bytes behind the last record of a segment");
            if rest.iter().all(|&byte| byte == 0) {
                return Ok(Step::End);
            }
            if room < self.shortest_known() {
                return Ok(Step::Bad { offset, error });
            }
        }
        let front = self.window.bytes_ahead(offset, room.min(AHEAD) as usize, room.min(HEADER_LEN_MAX as u64) as usize)?;
        let header = match Header::decode(front) {
            #[cfg(feature = "encrypt")]
            Ok(header) if header.is_sealed() && self.sealed.storage.is_none() => {
                return Ok(Step::Bad { offset, error: DecodeError::Invalid("a sealed record in a store that is not sealed") });
            }
            Ok(header) if header.frame_len() as u64 <= room => header,
            Ok(_) => {
                return Ok(Step::Bad { offset, error: DecodeError::Invalid("a record that reaches past its segment") });
            }
            Err(error) => return Ok(Step::Bad { offset, error }),
        };
        if let Some(frame) = front.get(..header.frame_len())
            && check(&header, frame, self.salt, offset).is_ok()
        {
            self.position = offset + header.frame_len() as u64;
            return Ok(Step::Frame { offset, header });
        }
        if !crate::planted::is(crate::planted::Bug::ReplayUnchecked)
            && let Err(error) = self.check(&header, offset)?
        {
            return Ok(Step::Bad { offset, error });
        }
        self.position = offset + header.frame_len() as u64;
        Ok(Step::Frame { offset, header })
    }

    /// Bytes of the shortest frame that there may be.
    const fn shortest(&self) -> u64 {
        #[cfg(feature = "encrypt")]
        if self.sealed.storage.is_some() {
            return (FRAME_LEN_MIN + TAG_LEN) as u64;
        }
        FRAME_LEN_MIN as u64
    }

    /// The same where it is not known whether the segment is sealed.
    fn shortest_known(&self) -> u64 {
        #[cfg(feature = "encrypt")]
        if self.sealed.storage.is_some_and(|storage| keys_of(storage).is_none()) {
            return FRAME_LEN_MIN as u64;
        }
        self.shortest()
    }

    fn check(&mut self, header: &Header, offset: u64) -> Result<Result<(), DecodeError>> {
        let len = header.frame_len();
        if len <= PIECE {
            return Ok(check(header, self.window.bytes(offset, len)?, self.salt, offset));
        }
        // Copy the front, which holds header and key, since reading the rest of the frame moves the window.
        let front = self.window.bytes(offset, PIECE)?.to_vec();
        let mut failed = None;
        let mut rest = |mut checksum: Checksum| {
            let mut done = PIECE;
            while done < len && failed.is_none() {
                let piece = PIECE.min(len - done);
                match self.window.bytes(offset + done as u64, piece) {
                    Ok(bytes) => checksum.update(bytes),
                    Err(error) => failed = Some(error),
                }
                done += piece;
            }
            checksum
        };
        let checked = check_sum(header, &front, self.salt, offset, &mut rest);
        match failed {
            Some(error) => Err(error),
            None => Ok(checked),
        }
    }

    /// The key of a frame that a step returned.
    pub(crate) fn key(&mut self, offset: u64, header: &Header) -> Result<&[u8]> {
        self.part(offset, header.header_len(), header.key_len())
    }

    /// The value of a frame that a step returned.
    pub(crate) fn value(&mut self, offset: u64, header: &Header) -> Result<&[u8]> {
        self.part(offset, header.header_len() + header.key_len(), header.value_len())
    }

    /// When the record of a frame that a step returned expires, in milliseconds since 1970; `None` if it never does.
    pub(crate) fn expiry(&mut self, offset: u64, header: &Header) -> Result<Option<u64>> {
        if !header.expires() {
            return Ok(None);
        }
        Ok(header.meta(self.window.bytes(offset, header.header_len())?).expiry())
    }

    /// The value of a frame that a step returned, as one number.
    pub(crate) fn value_u64(&mut self, offset: u64, header: &Header) -> Result<Option<u64>> {
        if header.value_len() != 8 {
            return Ok(None);
        }
        Ok(self.value(offset, header)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)))
    }
}
