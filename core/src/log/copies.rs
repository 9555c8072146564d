//! Appending compaction's copies of records, with the distance to the record's first version where somebody holds a position before that.

use super::append::kept_room;
use super::{Log, Placed, Purpose, Tail};
use crate::error::{Error, Result};
use crate::frame::{CopyMeta, FrameSpec, ORIGIN_LEN_MAX};
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// A copy to append, and when its record was first written, if the copy is to say so.
pub(crate) struct Dated<'a> {
    pub(crate) frame: FrameSpec<'a>,
    pub(crate) begin: Option<u64>,
}

impl Log {
    /// Log position of `offset`. The caller keeps its segment from being reused.
    #[inline]
    pub(crate) fn lsn(&self, offset: u64) -> u64 {
        let extent = self.geometry.extent_of(offset);
        self.segment_stats.lsn(extent) + (offset - self.geometry.start(extent))
    }

    /// When the record at `offset` was first written, see [`begin`](crate::frame::Meta::begin), and whether it is a copy. The caller keeps its
    /// segment from being reused.
    pub(crate) fn begin_of(&self, offset: u64) -> Result<(u64, bool)> {
        let mut window = super::Window::new(&*self.storage, offset);
        let header = window.header(offset)?;
        if !header.copied {
            return Ok((self.lsn(offset), false));
        }
        Ok((header.meta(window.bytes(offset, header.header_len())?).begin(self.lsn(offset)), true))
    }

    /// Appends copies, each a commit of one frame, in one write, and returns their places. How long a copy is depends on its place, so they are
    /// encoded with the tail locked, into `room`. `None` if nothing was written because they do not fit into the active segment or something else must
    /// be written first: append them one by one then.
    ///
    /// # Errors
    ///
    /// Any error closes the store to writes.
    pub(crate) fn append_dated(&self, copies: &[Dated<'_>], room: &mut Vec<u8>, purpose: Purpose) -> Result<Option<Vec<Placed>>> {
        if self.is_sealed() {
            return Ok(None);
        }
        let most = copies.iter().map(|copy| (copy.frame.len() + ORIGIN_LEN_MAX) as u64).sum();
        let longest = copies.iter().map(|copy| copy.frame.value.len()).max().unwrap_or(0);
        let mut tail = self.tail.lock();
        let Some(first) = self.ready(&tail, most, longest, purpose)? else { return Ok(None) };
        room.clear();
        let mut places = Vec::with_capacity(copies.len());
        for Dated { frame, begin } in copies {
            let offset = first.offset + room.len() as u64;
            let meta = CopyMeta::new(&frame.meta, begin.map(|begin| self.lsn(offset).saturating_sub(begin)));
            let before = room.len();
            FrameSpec { meta: meta.meta(), ..*frame }.encode_into(room, first.salt, offset);
            places.push(Placed { offset, len: (room.len() - before) as u64 });
        }
        if let Err(error) = self.put_copies(first.offset, room) {
            return Err(if is(Bug::WriteErrorForgotten) { error } else { self.poison(error) });
        }
        if let Some(active) = &mut tail.active {
            active.goes_on(first.offset + room.len() as u64, copies.len() as u64);
        }
        self.note_end(&tail);
        Ok(Some(places))
    }

    /// Appends a copy of a record that was first written at the log position `begin`, and that carries the distance to it.
    ///
    /// # Errors
    ///
    /// As [`Log::append`].
    pub(crate) fn append_with_origin(&self, frame: &FrameSpec<'_>, begin: u64, purpose: Purpose) -> Result<Placed> {
        let mut tail = self.tail.lock();
        self.writable()?;
        self.announce(&mut tail)?;
        let kept = kept_room(&tail, purpose);
        let longest = CopyMeta::new(&frame.meta, Some(u64::MAX));
        let longest = FrameSpec { meta: longest.meta(), ..*frame };
        // A sync mark that is due comes first, so that the place of the copy is known.
        let marked = self.put_mark(&mut tail, self.len_of(&longest)).and_then(|()| self.write_gathered(&mut tail));
        marked.map_err(|error| self.poison(error))?;
        let run = self.plan_one(&mut tail, &longest, purpose, kept)?;
        let (active, next_base) = (tail.active, tail.next_base);
        let result = self.put_with_origin(&mut tail, run, frame, begin);
        tail.scratch.clear();
        result.map_err(|error| {
            // The end of the log is unchanged.
            tail.segments.retain(|base| base < next_base);
            tail.active = active;
            self.poison(error)
        })
    }

    fn plan_one(&self, tail: &mut Tail, frame: &FrameSpec<'_>, purpose: Purpose, kept: u64) -> Result<Option<super::space::Run>> {
        let one = core::slice::from_ref(frame);
        #[cfg(feature = "encrypt")]
        if self.is_sealed() {
            return Ok(self.plan(tail, &super::frames::Lengthened(one), purpose, kept)?.pop());
        }
        Ok(self.plan(tail, one, purpose, kept)?.pop())
    }

    fn put_with_origin(
        &self,
        tail: &mut Tail,
        run: Option<super::space::Run>,
        frame: &FrameSpec<'_>,
        begin: u64,
    ) -> Result<Placed> {
        let active = match run {
            Some(run) => self.begin_segment(tail, run, 0)?,
            None => tail.active.ok_or(Error::Bug("a copy was planned, and no segment has room for it"))?,
        };
        let lsn = active.segment.lsn(self.geometry, active.position);
        let meta = CopyMeta::new(&frame.meta, Some(lsn.saturating_sub(begin)));
        let frame = FrameSpec { meta: meta.meta(), ..*frame };
        self.put(tail, active, &frame)?;
        self.write_gathered(tail)?;
        self.note_end(tail);
        Ok(Placed { offset: active.position, len: self.len_of(&frame) })
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
