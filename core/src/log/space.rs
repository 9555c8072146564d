//! Which extents of the file are free.

use crate::sorted::Map;

/// A run of neighbouring extents, taken out of the free ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) extent: u32,
    pub(crate) extents: u32,
    /// Never written: reads as zeros.
    pub(crate) fresh: bool,
    /// The host has set blocks aside for all of it.
    pub(crate) backed: bool,
}

/// What is known of a free extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Free {
    /// Never written since the file grew to hold it.
    fresh: bool,
    blocks: Blocks,
}

/// Whether the host keeps blocks for a free extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocks {
    /// This session set them aside: writing there cannot run out of space.
    Backed,
    /// An earlier session used the extent. It may have holes, or lie in part behind the end of the file.
    Unknown,
    /// They went back to the host, or some of them.
    GivenBack,
}

/// The free extents, and how many there are in all.
#[derive(Debug, Default)]
pub(crate) struct Space {
    free: Map<u32, Free>,
    /// How many of `free` are backed.
    backed: u32,
    /// Extents in the file, free or not.
    pub(crate) total: u32,
    /// The newest checkpoint names places below this one: the file is never cut so far that one of them lies outside.
    pub(crate) listed: u32,
}

impl Space {
    pub(crate) fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    pub(crate) fn is_free(&self, extent: u32) -> bool {
        self.free.contains(extent)
    }

    /// Free extents that can be written without running out of space.
    pub(crate) fn backed_count(&self) -> u32 {
        self.backed
    }

    fn put(&mut self, extent: u32, free: Free) {
        self.remove(extent);
        self.backed += u32::from(free.blocks == Blocks::Backed);
        self.free.insert(extent, free);
    }

    fn remove(&mut self, extent: u32) -> bool {
        let removed = self.free.remove(extent);
        self.backed -= u32::from(removed.is_some_and(|free| free.blocks == Blocks::Backed));
        removed.is_some()
    }

    /// Gives extents back; `backed` says whether their blocks are known to be there.
    pub(crate) fn release(&mut self, extent: u32, extents: u32, backed: bool) {
        let blocks = if backed { Blocks::Backed } else { Blocks::Unknown };
        for index in extent..extent.saturating_add(extents) {
            self.put(index, Free { fresh: false, blocks });
        }
        self.total = self.total.max(extent.saturating_add(extents));
    }

    /// The file grew by one extent, which the host has backed.
    pub(crate) fn grown(&mut self, fresh: bool) {
        self.put(self.total, Free { fresh, blocks: Blocks::Backed });
        self.total += 1;
    }

    /// A free extent that is not backed; better one that may have its blocks still.
    pub(crate) fn first_unbacked(&self) -> Option<u32> {
        let first = |blocks: Blocks| self.free.iter().find(|(_, free)| free.blocks == blocks).map(|(index, _)| index);
        first(Blocks::Unknown).or_else(|| first(Blocks::GivenBack))
    }

    /// The host could not back a free extent; true when that was not to be expected.
    pub(crate) fn has_holes(&mut self, extent: u32) -> bool {
        let free = self.free.get(extent).copied().filter(|free| free.blocks == Blocks::Unknown);
        if let Some(free) = free {
            self.put(extent, Free { blocks: Blocks::GivenBack, ..free });
        }
        free.is_some()
    }

    /// The host has backed a free extent.
    pub(crate) fn set_backed(&mut self, extent: u32) {
        if let Some(&free) = self.free.get(extent) {
            self.put(extent, Free { blocks: Blocks::Backed, ..free });
        }
    }

    /// Takes the last extent out that the host may have blocks for, unless it is among the first `kept` backed ones.
    pub(crate) fn take_last_backed(&mut self, kept: usize) -> Option<u32> {
        let mut kept = kept;
        let mut gives = |&(_, free): &(u32, &Free)| match free.blocks {
            Blocks::Backed if kept > 0 => {
                kept -= 1;
                false
            }
            Blocks::Backed | Blocks::Unknown => true,
            Blocks::GivenBack => false,
        };
        let extent = self.free.iter().filter(|entry| gives(entry)).map(|(index, _)| index).last()?;
        self.remove(extent);
        Some(extent)
    }

    /// Puts an extent back that the host has no blocks for any more.
    pub(crate) fn give_back(&mut self, extent: u32) {
        self.put(extent, Free { fresh: false, blocks: Blocks::GivenBack });
    }

    /// The first run of `extents` free neighbours, better a backed one.
    pub(crate) fn take(&mut self, extents: u32) -> Option<Run> {
        let run = self.find(extents, true).or_else(|| self.find(extents, false))?;
        for index in run.extent..run.extent + run.extents {
            self.remove(index);
        }
        Some(run)
    }

    fn find(&self, extents: u32, only_backed: bool) -> Option<Run> {
        let mut run: Option<Run> = None;
        for (index, &Free { fresh, blocks }) in self.free.iter() {
            let backed = blocks == Blocks::Backed;
            if only_backed && !backed {
                continue;
            }
            let next = match run {
                Some(run) if run.extent + run.extents == index => {
                    Run { extents: run.extents + 1, fresh: run.fresh && fresh, backed: run.backed && backed, ..run }
                }
                _ => Run { extent: index, extents: 1, fresh, backed },
            };
            if next.extents == extents {
                return Some(next);
            }
            run = Some(next);
        }
        None
    }

    /// How many free extents stand at the end of the file.
    pub(crate) fn free_at_end(&self) -> u32 {
        let mut end = self.total;
        while end > 0 && self.free.contains(end - 1) {
            end -= 1;
        }
        self.total - end
    }

    /// True when `extents` free neighbours stand in front of the extent `limit`.
    pub(crate) fn has_run_below(&self, extents: u32, limit: u32) -> bool {
        let mut run = 0;
        let mut next = 0;
        for index in self.free.iter().map(|(index, _)| index).take_while(|&index| index < limit) {
            run = if index == next { run + 1 } else { 1 };
            next = index + 1;
            if run == extents {
                return true;
            }
        }
        false
    }

    /// How many free extents could be cut off the end.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_in_the_middle_and_at_the_end() {
        let mut space = Space { total: 4, ..Space::default() };
        space.release(1, 1, true);
        assert_eq!(space.take(2), None);
        space.grown(true);
        space.grown(true);
        assert_eq!(space.take(2), Some(Run { extent: 4, extents: 2, fresh: true, backed: true }));
        assert_eq!(space.take(1), Some(Run { extent: 1, extents: 1, fresh: false, backed: true }));
        assert_eq!(space.take(1), None);
        space.release(4, 2, false);
        assert_eq!((space.free_count(), space.backed_count(), space.first_unbacked()), (2, 0, Some(4)));
        space.set_backed(5);
        assert_eq!(space.take(1), Some(Run { extent: 5, extents: 1, fresh: false, backed: true }));
        space.release(5, 1, true);
        assert_eq!((space.take_last_backed(1), space.free_count(), space.backed_count()), (Some(4), 1, 1));
        space.give_back(4);
        assert_eq!((space.take_last_backed(1), space.free_count(), space.backed_count()), (None, 2, 1));
        assert_eq!((space.free_at_end(), space.total), (2, 6));
        space.shrink(2);
        assert_eq!((space.free_at_end(), space.total), (0, 4));
    }
}
