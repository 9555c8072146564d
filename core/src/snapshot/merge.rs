//! The parts of a shard put together: everything that its first part has, with the changes of those behind it.

use super::parts::ShardPart;
use crate::index::{ShardImage, Slot};
use crate::sorted::sort_by_key;
use alloc::vec::Vec;

/// A slot that a part behind the first one mentions.
#[derive(Clone, Copy)]
struct Mention {
    slot: Slot,
    /// The mention with the lowest one decides. Even where the part says that it is there.
    rank: u32,
}

/// `None` when they do not fit together: the first is not whole, another one is, or the counts by namespace are not those of the slots.
pub(super) fn merge(parts: Vec<ShardPart>) -> Option<ShardImage> {
    let mut parts = parts.into_iter();
    let Some(ShardPart::Whole(mut image)) = parts.next() else { return None };
    let changes = parts.map(|part| if let ShardPart::Changes(changes) = part { Some(changes) } else { None });
    let changes = changes.collect::<Option<Vec<_>>>()?;
    if let Some(newest) = changes.last() {
        image.counts.clone_from(&newest.counts);
    }
    let mut mentions: Vec<Mention> = Vec::new();
    // The newest part first, and what it added in front of what it removed: a place that was used again may be in both.
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
    // Counts of a forged file may add up to more than a number holds.
    let counted = image.counts.iter().try_fold(0_u64, |sum, &(_, count)| sum.checked_add(count));
    (counted == Some(image.slots.len() as u64)).then_some(image)
}

/// The slots as the mentions leave them. Both are in order.
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
