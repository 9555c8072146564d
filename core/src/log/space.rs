//! Which extents of the file are free.

use super::Geometry;
use crate::sorted::Map;
use alloc::vec::Vec;

/// What an append is for: it decides who may take the last free segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// New data: never uses the reserve of one free segment.
    Store,
    /// Removals and compaction: they make space, so they may use the reserve, except for the room that `BookKeeping` needs.
    MakeSpace,
    /// Frames that retire segments or list them: may use all space.
    BookKeeping,
}

/// A run of adjacent extents, taken from the free ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) extent: u32,
    pub(crate) extents: u32,
    /// Never written: reads as zeros.
    pub(crate) fresh: bool,
    /// The host has reserved blocks for all of it.
    pub(crate) backed: bool,
}

/// What is known of a free extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Free {
    /// Never written since the file grew to hold it.
    fresh: bool,
    blocks: Blocks,
}

/// Whether the host keeps blocks for a free extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocks {
    /// This session reserved them: writing there cannot run out of space.
    Backed,
    /// An earlier session used the extent. It may have holes, or lie in part past the end of the file.
    Unknown,
    /// All or some of them were given back to the host.
    GivenBack,
}

/// A run that an earlier session may still write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Barred {
    pub(crate) extent: u32,
    pub(crate) extents: u32,
    /// How many sessions have begun since, this one included.
    pub(crate) sessions: u64,
    /// When the first of them did, in milliseconds since 1970; 0: unknown.
    pub(crate) since: u64,
}

/// The free extents, and how many there are in all.
#[derive(Debug, Default)]
pub(crate) struct Space {
    geometry: Geometry,
    free: Map<u32, Free>,
    /// Bytes of the backed free extents.
    backed: u64,
    /// Number of backed free extents of the full size.
    backed_full: u32,
    /// The host has given this session an extent that the file did not have.
    has_grown: bool,
    /// Extents in the file, free or not.
    pub(crate) total: u32,
    /// The newest checkpoint names only extents below this one: the file always keeps all of them.
    pub(crate) listed: u32,
    /// Runs that another session may still write to: they never become free.
    pub(crate) barred: Vec<Barred>,
}

impl Space {
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self { geometry, ..Self::default() }
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    pub(crate) fn is_free(&self, extent: u32) -> bool {
        self.free.contains(extent)
    }

    /// Bytes of free extents that can be written without running out of space.
    pub(crate) fn backed_bytes(&self) -> u64 {
        self.backed
    }

    /// As [`Self::backed_bytes`], less `bytes` bytes of each extent.
    pub(crate) fn backed_beyond(&self, bytes: u64) -> u64 {
        let backed = self.free.iter().filter(|(_, free)| free.blocks == Blocks::Backed);
        backed.map(|(index, _)| self.geometry.size_of(index).saturating_sub(bytes)).sum()
    }

    /// Bytes of all free extents.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.iter().map(|(index, _)| self.geometry.size_of(index)).sum()
    }

    /// True when the reserve for removals and compaction is backed: one extent of the full size, or, while all of the file's extents are
    /// shorter, as many bytes as its longest one has.
    #[inline]
    pub(crate) fn has_reserve(&self) -> bool {
        if self.total > self.geometry.shorter() { self.backed_full > 0 } else { self.backed >= self.longest() }
    }

    /// Bytes of the longest extent of the file.
    pub(crate) fn longest(&self) -> u64 {
        self.geometry.size_of(self.total.saturating_sub(1))
    }

    fn count(&mut self, extent: u32, free: Free, sign: i64) {
        if free.blocks == Blocks::Backed {
            self.backed = self.backed.wrapping_add_signed(sign * self.geometry.size_of(extent) as i64);
            let is_full = extent >= self.geometry.shorter();
            self.backed_full = self.backed_full.wrapping_add_signed(if is_full { sign as i32 } else { 0 });
        }
    }

    fn put(&mut self, extent: u32, free: Free) {
        self.remove(extent);
        self.count(extent, free, 1);
        self.free.insert(extent, free);
    }

    fn remove(&mut self, extent: u32) -> bool {
        let removed = self.free.remove(extent);
        if let Some(free) = removed {
            self.count(extent, free, -1);
        }
        removed.is_some()
    }

    /// Adds extents to the free ones; `backed` if their blocks are known to be reserved.
    pub(crate) fn release(&mut self, extent: u32, extents: u32, backed: bool) {
        let blocks = if backed { Blocks::Backed } else { Blocks::Unknown };
        for index in extent..extent.saturating_add(extents) {
            if !is_in(&self.barred, index) {
                self.put(index, Free { fresh: false, blocks });
            }
        }
        self.total = self.total.max(extent.saturating_add(extents));
    }

    /// Excludes extents from the free ones for good, even past the end of the file: another session may still write to them.
    pub(crate) fn bar(&mut self, run: Barred) {
        let Barred { extent, extents, .. } = run;
        let total = self.total;
        match self.barred.iter_mut().find(|known| (known.extent, known.extents) == (extent, extents)) {
            Some(known) => (known.sessions, known.since) = (known.sessions.min(run.sessions), known.since.max(run.since)),
            None => self.barred.push(run),
        }
        for index in extent..extent.saturating_add(extents).min(total) {
            self.remove(index);
        }
        self.release(total, extent.saturating_sub(total), false);
        self.total = self.total.max(extent.saturating_add(extents));
    }

    /// The file grew by one extent, which the host has backed.
    pub(crate) fn grown(&mut self, fresh: bool) {
        self.put(self.total, Free { fresh, blocks: Blocks::Backed });
        self.total += 1;
        self.has_grown = true;
    }

    /// True when the host has given this session an extent that the file did not have.
    pub(crate) fn has_grown(&self) -> bool {
        self.has_grown
    }

    /// A free extent that is not backed: preferably of the full size, then preferably one that may still have its blocks. Shorter ones
    /// count only while no extent of the file has the full size.
    pub(crate) fn first_unbacked(&self) -> Option<u32> {
        let full = self.geometry.shorter();
        let find = |blocks: Blocks, is_full: bool| {
            let fits = |&(index, free): &(u32, &Free)| free.blocks == blocks && (index >= full) == is_full;
            self.free.iter().find(fits).map(|(index, _)| index)
        };
        let kinds = [(Blocks::Unknown, true), (Blocks::GivenBack, true), (Blocks::Unknown, false), (Blocks::GivenBack, false)];
        let short_counts = self.total <= full;
        kinds.into_iter().filter(|&(_, is_full)| is_full || short_counts).find_map(|(blocks, is_full)| find(blocks, is_full))
    }

    /// The free extents that are shorter than the full size and not backed.
    pub(crate) fn unbacked_short_ones(&self) -> Vec<u32> {
        let short = self.free.iter().take_while(|&(index, _)| index < self.geometry.shorter());
        short.filter(|(_, free)| free.blocks != Blocks::Backed).map(|(index, _)| index).collect()
    }

    /// All free extents, and whether they are backed.
    pub(crate) fn all_free(&self) -> Vec<(u32, bool)> {
        self.free.iter().map(|(index, free)| (index, free.blocks == Blocks::Backed)).collect()
    }

    /// Notes that the host could not back a free extent. True if it was of unknown state until now.
    pub(crate) fn has_holes(&mut self, extent: u32) -> bool {
        let free = self.free.get(extent).copied().filter(|free| free.blocks == Blocks::Unknown);
        if let Some(free) = free {
            self.put(extent, Free { blocks: Blocks::GivenBack, ..free });
        }
        free.is_some()
    }

    /// Notes that the host has backed a free extent.
    pub(crate) fn set_backed(&mut self, extent: u32) {
        if let Some(&free) = self.free.get(extent) {
            self.put(extent, Free { blocks: Blocks::Backed, ..free });
        }
    }

    /// Takes the last free extent that the host may have blocks for, but leaves `kept` bytes of backed ones that count for the reserve.
    pub(crate) fn take_last_backed(&mut self, kept: u64) -> Option<u32> {
        let full = self.geometry.shorter();
        let mut kept = kept;
        let mut keep = |index: u32, free: &Free| {
            let counts = free.blocks == Blocks::Backed && kept > 0 && (index >= full || self.total <= full);
            kept = kept.saturating_sub(if counts { self.geometry.size_of(index) } else { 0 });
            counts
        };
        let mut last = None;
        for (index, free) in self.free.iter().filter(|(_, free)| free.blocks != Blocks::GivenBack) {
            if !keep(index, free) {
                last = Some(index);
            }
        }
        let extent = last?;
        self.remove(extent);
        Some(extent)
    }

    /// Takes this extent, if it is free.
    #[cfg(feature = "encrypt")]
    pub(crate) fn take_free(&mut self, extent: u32) -> Option<Free> {
        let free = self.free.get(extent).copied()?;
        self.remove(extent).then_some(free)
    }

    /// Puts such an extent back, as it was.
    #[cfg(feature = "encrypt")]
    pub(crate) fn put_free(&mut self, extent: u32, free: Free) {
        self.put(extent, free);
    }

    /// Adds an extent to the free ones whose blocks the host has got back.
    pub(crate) fn give_back(&mut self, extent: u32) {
        self.put(extent, Free { fresh: false, blocks: Blocks::GivenBack });
    }

    /// Takes the first run of adjacent free extents of at least `bytes` bytes.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<Run> {
        let run = self.find(bytes, false)?;
        self.take_run(run)
    }

    /// As [`Self::take`], of backed extents only.
    pub(crate) fn take_backed(&mut self, bytes: u64) -> Option<Run> {
        let run = self.find(bytes, true)?;
        self.take_run(run)
    }

    /// Takes the last run of adjacent backed free extents of at least `bytes` bytes.
    pub(crate) fn take_last_run(&mut self, bytes: u64) -> Option<Run> {
        let free: Vec<(u32, Free)> = self.free.iter().map(|(index, free)| (index, *free)).collect();
        let mut run = Run { extent: 0, extents: 0, fresh: true, backed: true };
        for &(index, free) in free.iter().rev() {
            if run.extents == 0 || index + 1 != run.extent || free.blocks != Blocks::Backed {
                run = Run { extent: index, extents: 0, fresh: true, backed: true };
            }
            if free.blocks == Blocks::Backed {
                run = Run { extent: index, extents: run.extents + 1, fresh: run.fresh && free.fresh, backed: true };
                if self.geometry.len_of(run.extent, run.extents) >= bytes {
                    return self.take_run(run);
                }
            }
        }
        None
    }

    fn take_run(&mut self, run: Run) -> Option<Run> {
        for index in run.extent..run.extent + run.extents {
            self.remove(index);
        }
        Some(run)
    }

    fn find(&self, bytes: u64, only_backed: bool) -> Option<Run> {
        let len = |run: &Run| self.geometry.len_of(run.extent, run.extents);
        let mut first = None;
        for (index, free) in self.free.iter() {
            if only_backed && free.blocks != Blocks::Backed {
                first = None;
                continue;
            }
            let start = match first {
                Some((start, next)) if next == index => start,
                _ => index,
            };
            first = Some((start, index + 1));
            let mut run = Run { extent: start, extents: index + 1 - start, fresh: false, backed: false };
            if len(&run) < bytes {
                continue;
            }
            // Drop shorter extents at the front that are not needed.
            while run.extents > 1 && self.geometry.len_of(run.extent + 1, run.extents - 1) >= bytes {
                run = Run { extent: run.extent + 1, extents: run.extents - 1, ..run };
            }
            let all =
                |is: fn(&Free) -> bool| (run.extent..run.extent + run.extents).all(|index| self.free.get(index).is_some_and(is));
            return Some(Run { fresh: all(|free| free.fresh), backed: all(|free| free.blocks == Blocks::Backed), ..run });
        }
        None
    }

    /// Bytes of the free extents at the end of the file.
    pub(crate) fn free_bytes_at_end(&self) -> u64 {
        let free = self.free_at_end();
        self.geometry.len_of(self.total - free, free)
    }

    /// Number of free extents at the end of the file.
    pub(crate) fn free_at_end(&self) -> u32 {
        let mut end = self.total;
        while end > 0 && self.free.contains(end - 1) {
            end -= 1;
        }
        self.total - end
    }

    /// True when a run of adjacent free extents of `bytes` bytes exists before the extent `limit`.
    pub(crate) fn has_run_below(&self, bytes: u64, limit: u32) -> bool {
        let (mut run, mut next) = (0, 0);
        for index in self.free.iter().map(|(index, _)| index).take_while(|&index| index < limit) {
            run = if index == next { run } else { 0 } + self.geometry.size_of(index);
            next = index + 1;
            if run >= bytes {
                return true;
            }
        }
        false
    }

    /// Number of free extents that could be cut off the end.
    pub(crate) fn surplus(&self) -> u32 {
        self.free_at_end().min(self.total.saturating_sub(self.listed))
    }

    /// Drops `extents` free extents from the end.
    pub(crate) fn shrink(&mut self, extents: u32) {
        for _ in 0..extents {
            if self.total > 0 && self.remove(self.total - 1) {
                self.total -= 1;
            }
        }
    }
}

fn is_in(runs: &[Barred], index: u32) -> bool {
    runs.iter().any(|run| (run.extent..run.extent.saturating_add(run.extents)).contains(&index))
}

#[cfg(test)]
mod tests;
