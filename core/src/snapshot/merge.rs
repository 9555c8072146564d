//! Merging the parts of a shard: the first part has the whole shard, the later ones have changes.

use super::parts::ShardPart;
use crate::index::{ShardImage, Slot};
use crate::sorted::sort_by_key;
use alloc::vec::Vec;

/// A slot that a part after the first one mentions.
#[derive(Clone, Copy)]
struct Mention {
    slot: Slot,
    /// The mention with the lowest rank decides. Even if the part adds the slot, odd if it removes it.
    rank: u32,
}

/// `None` when they do not match: the first is not a whole shard, a later one is, or the counts by namespace do not add up to the slots.
pub(super) fn merge(parts: Vec<ShardPart>) -> Option<ShardImage> {
    let mut parts = parts.into_iter();
    let Some(ShardPart::Whole(mut image)) = parts.next() else { return None };
    let changes = parts.map(|part| if let ShardPart::Changes(changes) = part { Some(changes) } else { None });
    let changes = changes.collect::<Option<Vec<_>>>()?;
    if let Some(newest) = changes.last() {
        image.counts.clone_from(&newest.counts);
    }
    let mut mentions: Vec<Mention> = Vec::new();
    // The newest part first, and its added slots before its removed ones: a reused offset may be in both.
    for (rank, changes) in (0..).step_by(2).zip(changes.iter().rev()) {
        mentions.extend(changes.added.iter().map(|&slot| Mention { slot, rank }));
        mentions.extend(changes.removed.iter().map(|&slot| Mention { slot, rank: rank + 1 }));
    }
    if !mentions.is_empty() {
        sort_by_key(&mut mentions, |mention| mention.slot.bits());
        mentions.dedup_by(|other, kept| {
            let is_same = other.slot == kept.slot;
            if is_same {
                kept.rank = kept.rank.min(other.rank);
            }
            is_same
        });
        image.slots = with(image.slots, mentions);
    }
    // The sum of the counts of a forged file may overflow.
    let counted = image.counts.iter().try_fold(0_u64, |sum, &(_, count)| sum.checked_add(count));
    (counted == Some(image.slots.len() as u64)).then_some(image)
}

/// Applies the mentions to the slots. Both are sorted.
fn with(slots: Vec<Slot>, mentions: Vec<Mention>) -> Vec<Slot> {
    let mut merged = Vec::with_capacity(slots.len() + mentions.len());
    let mut slots = slots.into_iter().peekable();
    for mention in mentions {
        while let Some(slot) = slots.next_if(|slot| *slot < mention.slot) {
            merged.push(slot);
        }
        slots.next_if_eq(&mention.slot);
        if mention.rank % 2 == 0 {
            merged.push(mention.slot);
        }
    }
    merged.extend(slots);
    merged
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
        let (added, removed) = (slots(added), slots(removed));
        ShardPart::Changes(ShardChanges { added, removed, counts: alloc::vec![(0, count)], expiring: Vec::new() })
    }

    #[test]
    fn the_newest_part_that_mentions_a_slot_decides() {
        let image = || ShardImage { slots: slots(&[1, 2, 3, 4]), counts: alloc::vec![(0, 4)], expiring: Vec::new() };
        let whole = || ShardPart::Whole(image());
        assert_eq!(merge(alloc::vec![whole()]).unwrap().slots, slots(&[1, 2, 3, 4]));
        // 2 is removed, 5 is added; 5 is removed and its offset reused at once; 2 is added again; 9 never existed.
        let parts = alloc::vec![whole(), changes(&[5], &[2, 9], 4), changes(&[5], &[5, 3], 3), changes(&[2], &[], 4)];
        assert_eq!(merge(parts).unwrap().slots, slots(&[1, 2, 4, 5]));
        assert!(merge(alloc::vec![whole(), changes(&[5], &[], 4)]).is_none(), "counts that do not fit");
        assert!(merge(alloc::vec![changes(&[5], &[], 1)]).is_none(), "changes of nothing");
        assert!(merge(alloc::vec![whole(), whole()]).is_none());
        assert!(merge(Vec::new()).is_none());
    }
}
