//! The frames of a sealed store on their way to the file.

use super::append::{DIRECT, GATHER};
use super::opened::keys;
use super::{Active, Log, Segment, Tail};
use crate::error::{Error, Result};
use crate::frame::sum_sealed;
use crate::frame::{FrameSpec, Kind, TAG_LEN, pad_spec};
use crate::seal::LISTED_LEN;
use alloc::vec::Vec;

impl Log {
    /// The seals of listed segments; none where the list is plain.
    pub(super) fn seals_of(&self, segments: &[Segment]) -> Result<Vec<[u8; LISTED_LEN]>> {
        let Some(keys) = keys(&*self.storage) else { return Ok(Vec::new()) };
        if keys.is_disabling() {
            return Ok(Vec::new());
        }
        let seal = |segment: &Segment| {
            let start = self.geometry.start(segment.extent);
            keys.listed_seal(segment.salt).ok_or_else(|| Error::corrupt(start, "a segment header, of which no copy is left"))
        };
        segments.iter().map(seal).collect()
    }

    /// Fills the rest of a segment with a sealed pad; false if it is too short for one.
    pub(super) fn pad_sealed(&self, tail: &mut Tail, active: Active) -> Result<bool> {
        let pad = pad_spec(active.room() as usize).and_then(|(key, value)| Some((key, value.checked_sub(TAG_LEN)?)));
        let Some((key, value)) = pad else { return Ok(false) };
        let zeros = alloc::vec![0; key + value];
        let (key, value) = zeros.split_at(key);
        self.put_sealed(tail, active, &FrameSpec { key, ..FrameSpec::control(Kind::Pad, value) })?;
        // The segment is not active any more.
        let gathered = core::mem::take(&mut tail.scratch);
        if !gathered.is_empty() {
            self.storage.write_at(active.position, &[&gathered])?;
        }
        Ok(true)
    }

    /// Seals one frame and appends it: to the gathered bytes, or straight to the storage if its value is long.
    pub(super) fn put_sealed(&self, tail: &mut Tail, active: Active, frame: &FrameSpec<'_>) -> Result<()> {
        let keys = keys(&*self.storage).ok_or(Error::KeyNeeded)?;
        let (salt, offset) = (active.segment.salt, active.position);
        let is_long = frame.value.len() >= DIRECT;
        if is_long {
            self.write_gathered(tail)?;
            self.look_again()?;
        }
        let mut alone = Vec::new();
        let out = if is_long { &mut alone } else { &mut tail.scratch };
        let start = out.len();
        let parts = frame.encode_unsealed(out);
        let sealed = out.get_mut(start..).unwrap_or_default();
        keys.seal(sealed, &parts, salt, offset)?;
        sum_sealed(sealed, salt, offset);
        let (len, tag) = (sealed.len() as u64, sealed.last_chunk().copied());
        if is_long {
            self.storage.write_at(offset, &[&alone])?;
        }
        tail.last_tag = tag.unwrap_or_default();
        if let Some(active) = &mut tail.active {
            active.goes_on(offset + len, u64::from(!frame.kind.is_control()));
        }
        if tail.scratch.len() >= GATHER { self.write_gathered(tail) } else { Ok(()) }
    }
}
