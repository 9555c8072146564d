//! The front of a sealed store: its superblocks name the page of keys that counts, and from where on the log is under the current key.

use super::{CheckpointPlace, Log, Segment, SnapshotSegment, Superblock, TRAILER_LEN, Tail};
use crate::error::{Error, Result};
use alloc::vec::Vec;

/// Bytes of a free extent that are looked at together.
const WIPED: usize = 64 * 1024;

impl Log {
    /// Begins to write, as the first append of a session does.
    pub(crate) fn begin_to_write(&self) -> Result<()> {
        let mut tail = self.tail.lock();
        self.writable()?;
        self.announce(&mut tail)
    }

    /// Names the page of keys that counts from now on in both superblocks: none is left that names the one before. The session has begun to write.
    pub(crate) fn name_key_page(&self, version: u64) -> Result<()> {
        self.flip_both(&|superblock| Superblock { key_page: version, ..superblock })
    }

    /// The log goes on in another segment, under the key that `switch` makes the current one from the log position on that it is given. Both
    /// superblocks name that, and the page of keys, before anything is written there. They name no index snapshot any more: it is under the key before.
    pub(crate) fn name_key(&self, version: u64, switch: &mut dyn FnMut(u64)) -> Result<()> {
        self.name_border(&mut self.tail.lock(), version, switch)
    }

    /// As [`Self::name_key`], with the tail locked.
    pub(super) fn name_border(&self, tail: &mut Tail, version: u64, switch: &mut dyn FnMut(u64)) -> Result<()> {
        self.writable()?;
        self.announce(tail)?;
        self.seal_noted(tail)?;
        let border = tail.next_base;
        switch(border);
        self.flip_both(&|superblock| {
            let checkpoint = superblock.checkpoint.map(|place| CheckpointPlace { directory: None, ..place });
            Superblock { key_page: version, sealed_from: border, checkpoint, ..superblock }
        })
    }

    pub(super) fn flip_both(&self, change: &dyn Fn(Superblock) -> Superblock) -> Result<()> {
        self.flip(change)?;
        self.flip(change)
    }

    /// Puts what the current superblock says into the other slot, too.
    pub(crate) fn write_superblock_again(&self) -> Result<()> {
        self.flip(&|superblock| superblock)
    }

    /// Runs a write to the front of the file, which is given a look at whether another session has taken the store over, and syncs it. A failure closes the
    /// store to writes.
    pub(crate) fn write_front(&self, write: impl FnOnce(&dyn Fn() -> Result<()>) -> Result<()>) -> Result<()> {
        write(&|| self.look()).map_err(|error: Error| self.poison(error))?;
        self.sync_alone()
    }

    /// True while a retired segment is not free: its retirement is not synced, or somebody may read it.
    pub(crate) fn has_retired(&self) -> bool {
        !self.tail.lock().retired.is_empty()
    }

    /// Number of segments that begin in front of a log position, and of retired ones; and the bytes of those that are history.
    pub(crate) fn left_in_front_of(&self, border: u64) -> (u64, u64) {
        let tail = self.tail.lock();
        let is_old = |segment: &&Segment| segment.base < border;
        let live = tail.segments.values().filter(is_old).count() + tail.retired.len();
        let history: Vec<&Segment> = tail.history_segments().filter(is_old).collect();
        let bytes = history.iter().map(|segment| segment.len(self.geometry)).sum();
        ((live + history.len()) as u64, bytes)
    }

    /// Overwrites what free extents hold with zeros; durable only after a sync. Writers may take those that are done, and others.
    pub(crate) fn wipe_free(&self) -> Result<()> {
        let free = self.tail.lock().space.all_free();
        for (extent, _) in free {
            // Not among the free ones meanwhile, so that no lock is held that a writer needs.
            let Some(taken) = self.tail.lock().space.take_free(extent) else { continue };
            let start = self.geometry.start(extent);
            let wiped = self.wipe(start, start + self.geometry.size_of(extent));
            self.tail.lock().space.put_free(extent, taken);
            wiped.map_err(|error| self.poison(error))?;
        }
        Ok(())
    }

    /// The same for what stands behind the parts of the index snapshot.
    pub(crate) fn wipe_behind_snapshot(&self) -> Result<()> {
        let wiped = |segment: SnapshotSegment| self.wipe(segment.end, segment.behind(self.geometry));
        self.snapshot_segments().into_iter().try_for_each(wiped).map_err(|error| self.poison(error))
    }

    /// The segments that take no appends.
    pub(crate) fn ended_segments(&self) -> Vec<Segment> {
        let tail = self.tail.lock();
        let active = tail.active.map_or(u64::MAX, |active| active.segment.base);
        tail.segments.values().filter(|segment| segment.base != active).copied().collect()
    }

    /// The same for what a crash has left behind the ends of segments, but for those that `is_kept`.
    pub(crate) fn wipe_rests(&self, is_kept: &dyn Fn(&Segment) -> bool) -> Result<()> {
        let torn = |segment: &Segment| segment.end < segment.limit(self.geometry) && !is_kept(segment);
        for segment in self.ended_segments().into_iter().filter(torn) {
            let to = if segment.linked { segment.limit(self.geometry) } else { segment.behind(self.geometry) };
            self.wipe(segment.end, to).map_err(|error| self.poison(error))?;
        }
        Ok(())
    }

    /// The same for the trailer of the last segment, which names none yet. The segment was filled up.
    pub(crate) fn wipe_last_trailer(&self) -> Result<()> {
        let tail = self.tail.lock();
        let Some(at) = tail.previous.trailer.filter(|_| tail.active.is_none()) else { return Ok(()) };
        self.wipe(at, at + TRAILER_LEN).map_err(|error| self.poison(error))
    }

    /// What is zero already is only read: it may have no blocks.
    fn wipe(&self, from: u64, to: u64) -> Result<()> {
        let (to, mut bytes) = (to.min(self.storage.len()?), Vec::new());
        for start in (from..to).step_by(WIPED) {
            bytes.resize((to - start).min(WIPED as u64) as usize, 0);
            self.storage.read_at(start, &mut bytes)?;
            if bytes.iter().any(|&byte| byte != 0) {
                bytes.fill(0);
                self.storage.write_at(start, &[&bytes])?;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
