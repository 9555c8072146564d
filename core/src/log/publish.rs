//! Segments for an index snapshot, and the superblock that makes a checkpoint the newest one.

#[cfg(feature = "encrypt")]
use super::opened::keys;
use super::{
    CheckpointPlace, Cut, DirectoryPlace, Log, Purpose, SEGMENT_HEADER_LEN, SegmentHeader, SegmentKind, SnapshotSegment,
    Superblock, Tail, salt,
};
use crate::error::{Error, Result};
use crate::frame::Next;
use crate::planted::{Bug, is};
#[cfg(feature = "encrypt")]
use crate::seal::{HeaderSeal, Keys};

/// What seals the segments of one snapshot; nothing in a plain store.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotSeal {
    #[cfg(feature = "encrypt")]
    seal: Option<HeaderSeal>,
}

impl Log {
    /// Draws what seals a snapshot that is about to be written.
    pub(crate) fn new_snapshot_seal(&self) -> Result<SnapshotSeal> {
        Ok(SnapshotSeal {
            #[cfg(feature = "encrypt")]
            seal: keys(&*self.storage).filter(|keys| !keys.is_disabling()).map(Keys::new_snapshot_seal).transpose()?,
        })
    }

    /// Takes a segment for parts of the snapshot, with room for `wanted` bytes if there is space, or else for `needed`, and writes its
    /// header. With `last` it is as near to the end of the file as it can be without growing it.
    pub(crate) fn take_snapshot_segment(
        &self,
        wanted: u64,
        needed: u64,
        last: bool,
        seal: SnapshotSeal,
    ) -> Result<SnapshotSegment> {
        let (run, segment, header) = {
            let mut tail = self.tail.lock();
            let take = |tail: &mut Tail, bytes: u64| {
                let bytes = SEGMENT_HEADER_LEN as u64 + bytes;
                if last { self.take_last(tail, bytes) } else { self.take(tail, bytes, Purpose::Store) }
            };
            let run = match take(&mut tail, wanted.max(needed)) {
                Err(Error::NoSpace) if needed < wanted => take(&mut tail, needed)?,
                run => run?,
            };
            let generation = self.superblocks.lock().current.generation;
            // Even if this attempt fails, the next one gets another number, and so another salt.
            let number = tail.next_header;
            self.took_header(&mut tail);
            let drawn = if is(Bug::SaltOfAttemptAgain) { u64::from(run.extent) } else { number };
            let salt = salt(self.store_id, generation, drawn, self.entropy);
            let named = Next { extent: run.extent, extents: run.extents, base: tail.next_base, salt };
            self.claim(&mut tail, named)?;
            let header = SegmentHeader {
                salt,
                kind: SegmentKind::Snapshot,
                base: self.base_of_snapshot(&tail),
                extents: run.extents,
                carried_over: 0,
                previous_base: 0,
                previous_salt: 0,
                previous_end: 0,
                synced: self.sync_state.synced(),
                session: self.session(),
                number,
                fresh: run.fresh,
                linked: false,
                #[cfg(feature = "encrypt")]
                seal: None,
            };
            let end = self.geometry.start(run.extent) + SEGMENT_HEADER_LEN as u64;
            (run, SnapshotSegment { extent: run.extent, extents: run.extents, salt, end, own: true }, header)
        };
        let start = self.geometry.start(run.extent);
        match self.write_snapshot_header(header, start, seal) {
            Ok(()) => Ok(segment),
            Err(error) => {
                self.tail.lock().space.release(run.extent, run.extents, true);
                Err(error)
            }
        }
    }

    fn write_snapshot_header(&self, header: SegmentHeader, start: u64, seal: SnapshotSeal) -> Result<()> {
        #[cfg(feature = "encrypt")]
        let header = {
            let seal = seal.seal.map(|seal| seal.of_segment(header.number));
            header.sealed_with(seal, &*self.storage, self.store_id, start)?
        };
        #[cfg(not(feature = "encrypt"))]
        let SnapshotSeal {} = seal;
        Ok(self.storage.write_at(start, &[&header.encode(self.store_id, start)])?)
    }

    /// The base in the header of a snapshot's segment: that of the next segment; in a sealed store that of the newest one, which is on the same side
    /// of the border of a rotation.
    fn base_of_snapshot(&self, tail: &Tail) -> u64 {
        if self.is_sealed() { tail.active.map_or(tail.previous.base, |active| active.segment.base) } else { tail.next_base }
    }

    /// The commit point of a checkpoint: a superblock that points at the segment list and at the snapshot, which is in `used`. It is
    /// written to both slots, one after the other, so that damage to one never leads back to a state whose space has been reused. Extents
    /// of `before`, the segments of the previous snapshot, and of `taken` that the snapshot does not use become free.
    pub(crate) fn publish_checkpoint(
        &self,
        cut: &Cut,
        directory: Option<DirectoryPlace>,
        used: &[SnapshotSegment],
        before: &[SnapshotSegment],
        taken: &[SnapshotSegment],
    ) -> Result<()> {
        let place = CheckpointPlace { base: cut.segment.base, salt: cut.segment.salt, offset: cut.offset, directory };
        let synced = self.sync_state.synced();
        // A floor that has been recorded since, or one in front of the list.
        let floor = if cut.floor == 0 { self.floor() } else { cut.floor };
        for _ in 0..2 {
            self.flip(&|superblock| Superblock {
                checkpoint: Some(place),
                synced: superblock.synced.max(synced),
                floor,
                ..superblock
            })?;
        }
        self.set_checkpoint(cut.segment.lsn(self.geometry, cut.offset));
        let mut tail = self.tail.lock();
        tail.space.listed = cut.listed;
        tail.snapshot = used.into();
        // Extents that the new snapshot does not use.
        for segment in before.iter().chain(taken) {
            let used = used.iter().find(|other| other.salt == segment.salt).map_or(0, |other| other.extents);
            let (first, count) = (segment.extent + used, segment.extents - used);
            if count > 0 {
                let backed = segment.own || self.set_found_aside(first, count);
                tail.space.release(first, count, backed);
            }
        }
        Ok(())
    }

    /// A segment of an earlier snapshot becomes free, which was kept when a checkpoint was published.
    #[cfg(feature = "std")]
    pub(crate) fn free_snapshot_segment(&self, segment: &SnapshotSegment) {
        let backed = segment.own || self.set_found_aside(segment.extent, segment.extents);
        self.tail.lock().space.release(segment.extent, segment.extents, backed);
    }

    /// The segments of the newest checkpoint's snapshot.
    pub(crate) fn snapshot_segments(&self) -> alloc::vec::Vec<SnapshotSegment> {
        self.tail.lock().snapshot.clone()
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
