//! The parts of a shard put together: everything that its first part has, with the changes of those behind it.

use super::parts::ShardPart;
use crate::index::{ShardImage, Slot};
use crate::sorted::sort;
use alloc::vec::Vec;

/// A slot that parts behind the first one mention: the slot, then the newest part that does. Whether it is there, that part says.
#[derive(Clone, Copy)]
struct Mention {
    slot: Slot,
    part: usize,
    is_there: bool,
}

/// `None` when they do not fit together: the first is not whole, another one is, or the counts by namespace are not those of the slots.
pub(super) fn merge(parts: Vec<ShardPart>) -> Option<ShardImage> {
    let mut parts = parts.into_iter();
    let Some(ShardPart::Whole(mut image)) = parts.next() else { return None };
    let mut mentions: Vec<Mention> = Vec::new();
    for (part, changes) in parts.enumerate() {
        let ShardPart::Changes(changes) = changes else { return None };
        // What was removed goes first: a place that was used again may be in both.
        let removed = changes.removed.into_iter().map(|slot| Mention { slot, part: 2 * part, is_there: false });
        let added = changes.added.into_iter().map(|slot| Mention { slot, part: 2 * part + 1, is_there: true });
        mentions.extend(removed.chain(added));
        image.counts = changes.counts;
    }
    if !mentions.is_empty() {
        // The newest mention of each slot first; the others go.
        mentions.sort_unstable_by_key(|mention| (mention.slot, core::cmp::Reverse(mention.part)));
        mentions.dedup_by_key(|mention| mention.slot);
        image.slots = with(image.slots, &mentions);
    }
    // Counts of a forged file may add up to more than a number holds.
    let counted = image.counts.iter().try_fold(0_u64, |sum, &(_, count)| sum.checked_add(count));
    (counted == Some(image.slots.len() as u64)).then_some(image)
}

/// The slots as the mentions leave them. Both are in order.
fn with(slots: Vec<Slot>, mentions: &[Mention]) -> Vec<Slot> {
    let is_mentioned = |slot: &Slot| mentions.binary_search_by_key(slot, |mention| mention.slot).is_ok();
    let added = mentions.iter().filter(|mention| mention.is_there).map(|mention| mention.slot);
    let mut bits: Vec<u64> = slots.into_iter().filter(|slot| !is_mentioned(slot)).chain(added).map(Slot::bits).collect();
    sort(&mut bits);
    bits.into_iter().map(Slot::from_bits).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;
    use crate::index::ShardChanges;

    fn slots(offsets: &[u64]) -> Vec<Slot> {
        Slot::sort(offsets.iter().map(|&offset| Slot::new(offset % 7, 16_384 + offset)).collect())
    }

    fn changes(added: &[u64], removed: &[u64], count: u64) -> ShardPart {
        ShardPart::Changes(ShardChanges { added: slots(added), removed: slots(removed), counts: alloc::vec![(0, count)] })
    }

    #[test]
    fn the_newest_part_that_mentions_a_slot_decides() {
        let whole = || ShardPart::Whole(ShardImage { slots: slots(&[1, 2, 3, 4]), counts: alloc::vec![(0, 4)] });
        assert_eq!(merge(alloc::vec![whole()]).unwrap().slots, slots(&[1, 2, 3, 4]));
        // 2 goes, 5 comes; 5 goes and its place is used again at once; 2 comes back; 9 was never there.
        let parts = alloc::vec![whole(), changes(&[5], &[2, 9], 4), changes(&[5], &[5, 3], 3), changes(&[2], &[], 4)];
        assert_eq!(merge(parts).unwrap().slots, slots(&[1, 2, 4, 5]));
        assert!(merge(alloc::vec![whole(), changes(&[5], &[], 4)]).is_none(), "counts that do not fit");
        assert!(merge(alloc::vec![changes(&[5], &[], 1)]).is_none(), "changes of nothing");
        assert!(merge(alloc::vec![whole(), whole()]).is_none());
        assert!(merge(Vec::new()).is_none());
    }
}
