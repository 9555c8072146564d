//! Slots of a follower's index whose records cannot be read any more.
//!
//! The writer uses the space of a segment again only behind the frame that retires it. So a follower that meets reused space has that frame in
//! front of it, and every record of the segment has been copied, replaced or removed in front of the frame, has expired, or was of a namespace
//! that was dropped. Whose record such a slot was cannot be read: two keys may share shard and tag. Therefore the slot stays in the index beside that
//! of the newer record, and goes with its segment. The follower holds all shards until then, so nobody sees that there is a slot too many.

use crate::few::Few;
use crate::index::Slot;
use crate::sorted::AreHashes;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// Namespaces, each once. More than one is a coincidence.
pub(crate) type Namespaces = Few<u32, 2>;

/// A slot whose record cannot be read.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) slot: Slot,
    /// The number of its shard.
    pub(crate) shard: usize,
    /// The namespaces of the records that may have replaced or removed it.
    pub(crate) namespaces: Namespaces,
}

/// The slots whose records cannot be read, by their bits: of each offset there is one.
#[derive(Debug, Default)]
pub(crate) struct Vanished(HashMap<u64, Unread, AreHashes>);

impl Vanished {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A record of this namespace may have replaced or removed that of the slot.
    pub(crate) fn note(&mut self, shard: usize, slot: Slot, namespace: u32) {
        let new = || Unread { slot, shard, namespaces: Namespaces::new() };
        let Unread { namespaces, .. } = self.0.entry(slot.bits()).or_insert_with(new);
        if !namespaces.contains(&namespace) {
            namespaces.push(namespace);
        }
    }

    /// Takes those out whose records lay between two file offsets.
    pub(crate) fn take_between(&mut self, from: u64, behind: u64) -> Vec<Unread> {
        self.0.extract_if(|_, unread| (from..behind).contains(&unread.slot.offset())).map(|(_, unread)| unread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_kept_once_with_each_namespace_that_it_may_be_of_and_goes_with_its_place() {
        let mut vanished = Vanished::default();
        for (tag, offset, namespace) in [(1, 20_000, 5), (1, 20_000, 5), (1, 20_000, 7), (1, 30_000, 5), (2, 40_000, 6)] {
            vanished.note(3, Slot::new(tag, offset), namespace);
        }
        let mut taken = vanished.take_between(20_000, 40_000);
        taken.sort_by_key(|unread| unread.slot);
        let shown: Vec<_> = taken.iter().map(|unread| (unread.shard, unread.slot.offset(), unread.namespaces.to_vec())).collect();
        assert_eq!(shown, [(3, 20_000, vec![5, 7]), (3, 30_000, vec![5])]);
        assert!(vanished.take_between(0, 40_000).is_empty() && !vanished.is_empty());
        assert_eq!(vanished.take_between(40_000, 40_001).len(), 1);
        assert!(vanished.is_empty());
    }
}
