//! The borders of segments: one is filled up and closed, the next one gets its header and the trailer that names it; and what a crash has left
//! of both is written again.

use super::frames::Frames;
use super::space::Run;
use super::{Active, Log, Previous, SEGMENT_HEADER_LEN, Segment, SegmentHeader, SegmentKind, TRAILER_LEN, Tail, salt};
use crate::error::{Error, Result};
use crate::frame::{FRAME_LEN_MIN, FrameSpec, Kind, Next, TAG_LEN, pad_spec};
use crate::planted::{Bug, is};
use crate::sync::Ordering;

/// More bytes than any segment leaves in front of its trailer.
const GAP_MAX: usize = FRAME_LEN_MIN + TAG_LEN;

impl Log {
    /// Bytes of a commit from the frame at `index` on that fit at the front of a new segment on `run`.
    pub(super) fn front_of<F: Frames + ?Sized>(&self, frames: &F, index: usize, run: &Run) -> u32 {
        let mut room = self.geometry.len_of(run.extent, run.extents) - SEGMENT_HEADER_LEN as u64 - TRAILER_LEN;
        let mut bytes = 0;
        for len in (index..frames.count()).map(|index| frames.len_of(index)) {
            if len > room {
                break;
            }
            room -= len;
            bytes += len;
        }
        bytes as u32
    }

    /// Closes the active segment and begins the next one on `run`. Its first `carried_over` bytes will belong to a commit that began in an
    /// earlier segment.
    pub(super) fn begin_segment(&self, tail: &mut Tail, run: Run, carried_over: u32) -> Result<Active> {
        self.seal(tail)?;
        let start = self.geometry.start(run.extent);
        let (store_id, generation) = (self.store_id, self.generation.load(Ordering::Relaxed));
        let number = tail.next_header;
        let salt = if is(Bug::SaltNotRenewed) {
            salt(store_id, 0, u64::from(run.extent), 0)
        } else {
            salt(store_id, generation, number, self.entropy)
        };
        let segment = Segment {
            base: tail.next_base,
            extent: run.extent,
            extents: run.extents,
            end: start + SEGMENT_HEADER_LEN as u64,
            salt,
            linked: false,
        };
        let linked = tail.previous.trailer.is_some();
        let header = SegmentHeader {
            linked,
            salt,
            kind: SegmentKind::Log,
            base: segment.base,
            extents: run.extents,
            carried_over,
            previous_base: tail.previous.base,
            previous_salt: tail.previous.salt,
            previous_end: tail.previous.end,
            synced: self.sync_state.synced(),
            session: self.session.load(Ordering::Relaxed),
            number,
            fresh: run.fresh,
            #[cfg(feature = "encrypt")]
            seal: None,
        };
        #[cfg(feature = "encrypt")]
        let header = header.sealed(&*self.storage, store_id, start, core::mem::take(&mut tail.last_tag))?;
        self.took_header(tail);
        if let Some(at) = tail.previous.trailer.take() {
            let next = Next { extent: run.extent, extents: run.extents, base: segment.base, salt }.encode();
            let frame = FrameSpec::control(Kind::Next, &next).header(tail.previous.salt, at);
            self.storage.write_at(at, &[frame.as_slice(), &next])?;
            if let Some(previous) = tail.segments.get_mut(tail.previous.base) {
                previous.linked = true;
            }
        }
        if !is(Bug::SegmentNotLookedFor) {
            // The trailer names the new segment's extents: a session that takes the store over from here on does not write there.
            if tail.announced {
                self.show()?;
            }
        }
        self.reach(run)?;
        self.storage.write_at(start, &[&header.encode(store_id, start)])?;
        self.segment_stats.enter(self.geometry, &segment);
        tail.next_base = segment.next_base(self.geometry);
        tail.segments.insert(segment.base, segment);
        let active = Active::new(segment, segment.end, self.geometry, run.fresh);
        tail.active = Some(active);
        tail.mark_due = None;
        self.mark_said(tail);
        Ok(active)
    }

    /// Behind a clean close, where a sealed store begins a segment: the trailer of the last one, which names it, may lie behind the end of the file.
    /// On a full medium it is left out.
    pub(super) fn back_trailer(&self, tail: &mut Tail) -> Result<()> {
        let Some(at) = tail.previous.trailer.filter(|_| tail.active.is_none()) else { return Ok(()) };
        match self.reserve(at, at + TRAILER_LEN) {
            Err(Error::NoSpace) => tail.previous.trailer = None,
            result => result?,
        }
        Ok(())
    }

    /// Fills the rest of the active segment, so that a checksum covers every byte of it.
    pub(super) fn seal(&self, tail: &mut Tail) -> Result<()> {
        self.write_gathered(tail)?;
        let Some(active) = tail.active.take() else {
            return Ok(());
        };
        self.look_again()?;
        let limit = active.limit;
        let room = active.room() as usize;
        #[cfg(feature = "encrypt")]
        let is_padded = self.is_sealed() && self.pad_sealed(tail, active)?;
        #[cfg(not(feature = "encrypt"))]
        let is_padded = false;
        if let Some((key, value)) = pad_spec(room).filter(|_| !self.is_sealed()) {
            self.write_pad(&active, key, value)?;
        } else if !is_padded && room > 0 && !active.fresh {
            self.storage.write_at(active.position, &[[0; GAP_MAX].get(..room).unwrap_or(&[0; GAP_MAX])])?;
        }
        if let Some(segment) = tail.segments.get_mut(active.segment.base) {
            segment.end = limit;
        }
        let Segment { base, salt, extent, .. } = active.segment;
        self.segment_stats.set_records(extent, active.records);
        tail.previous = Previous { base, end: limit, salt, trailer: Some(limit) };
        Ok(())
    }

    /// Closes the active segment, so that it can be compacted after the next checkpoint.
    pub(crate) fn seal_active(&self) -> Result<()> {
        let mut tail = self.tail.lock();
        self.writable()?;
        self.announce(&mut tail)?;
        self.seal_noted(&mut tail)
    }

    /// As [`Self::seal`], and notes that the log ends behind it.
    pub(super) fn seal_noted(&self, tail: &mut Tail) -> Result<()> {
        self.seal(tail).map_err(|error| self.poison(error))?;
        if let Some(last) = tail.segments.get(tail.previous.base) {
            self.appended.fetch_max(last.lsn(self.geometry, last.end), Ordering::AcqRel);
        }
        Ok(())
    }

    fn write_pad(&self, active: &Active, key: usize, value: usize) -> Result<()> {
        let zeros = alloc::vec![0; key + value];
        let (key, value) = zeros.split_at(key);
        let frame = FrameSpec { key, ..FrameSpec::control(Kind::Pad, value) };
        let header = frame.header(active.segment.salt, active.position);
        let body: &[u8] = if active.fresh { &[] } else { &zeros };
        Ok(self.storage.write_at(active.position, &[header.as_slice(), body])?)
    }

    /// Rewrites headers of which a crash has left only a part. The bytes are the same, so another crash in here loses nothing.
    pub(super) fn mend_headers(&self, tail: &mut Tail) -> Result<()> {
        // The file may have lost its end.
        for &(offset, _) in &tail.torn_headers {
            self.reserve(offset, offset + SEGMENT_HEADER_LEN as u64)?;
        }
        for (offset, header) in core::mem::take(&mut tail.torn_headers) {
            let bytes = header.encode(self.store_id, offset);
            self.storage.write_at(offset, &[&bytes]).map_err(|error| self.poison(error.into()))?;
        }
        Ok(())
    }

    /// Writes the trailers that were lost in a crash: a closed store must have every trailer that its headers claim.
    pub(super) fn mend_trailers(&self, tail: &mut Tail) -> Result<()> {
        // The file may have lost its end.
        for (segment, _) in &tail.lost_trailers {
            self.reserve(segment.limit(self.geometry), segment.behind(self.geometry))?;
        }
        for (segment, next) in core::mem::take(&mut tail.lost_trailers) {
            self.write_trailer(&segment, &next).map_err(|error| self.poison(error))?;
            if let Some(known) = tail.segments.get_mut(segment.base) {
                known.linked = true;
            }
        }
        Ok(())
    }

    fn write_trailer(&self, segment: &Segment, next: &Segment) -> Result<()> {
        let at = segment.limit(self.geometry);
        let next = Next { extent: next.extent, extents: next.extents, base: next.base, salt: next.salt }.encode();
        let frame = FrameSpec::control(Kind::Next, &next).header(segment.salt, at);
        Ok(self.storage.write_at(at, &[frame.as_slice(), &next])?)
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
