//! The enumeration of images: which sectors are lost, for each length that the medium could have got to.

use super::image::CrashImage;
use super::point::{CrashPoint, Pick};
use alloc::vec;
use alloc::vec::Vec;

/// Iterator over images, made by [`CrashPoint::images`]. The order is always the same, so an image can be named by its number.
pub struct Images<'a> {
    point: &'a CrashPoint,
    sectors_max: u32,
    exhaustive: bool,
    /// Numbers of the length changes still to enumerate, the next one last.
    later: Vec<usize>,
    kept: usize,
    choices: Choices,
    left: u64,
}

/// Which of the free sectors are lost, from one image to the next.
enum Choices {
    /// Bit `i` of `next`: free sector `i` is lost.
    Masks {
        next: u64,
        end: u64,
    },
    /// Rank by rank: `picked` are the sectors lost, or the only ones kept.
    Ranks {
        free: usize,
        rank_max: usize,
        picked: Vec<usize>,
        lost: bool,
    },
    Done,
}

impl CrashPoint {
    /// Every image in which each unsynced sector is lost or kept, for each change of the length that the medium could have got to,
    /// each once: up to 2^`sectors_max` images per length. The first is the latest state.
    ///
    /// With more unsynced sectors than that the list is not exhaustive: it has the latest and the synced length, and for these the
    /// images with few sectors lost and those with few kept, by rising number (at least 0 and 1) as far as the budget goes.
    pub fn images(&self, sectors_max: u32) -> Images<'_> {
        Images::new(self, sectors_max)
    }
}

impl<'a> Images<'a> {
    fn new(point: &'a CrashPoint, sectors_max: u32) -> Self {
        // A mask has 64 bits; 2^32 images are more than any test can run.
        let sectors_max = sectors_max.min(32);
        let changes = point.len_changes();
        let exhaustive = (0..=changes).all(|kept| point.free_sectors(kept) <= sectors_max as usize);
        let later: Vec<usize> = match (exhaustive, changes) {
            (true, _) => (0..=changes).collect(),
            (false, 0) => vec![0],
            (false, _) => vec![0, changes],
        };
        let left = later.iter().map(|kept| count(point.free_sectors(*kept), sectors_max)).fold(0, u64::saturating_add);
        let mut images = Self { point, sectors_max, exhaustive, later, kept: 0, choices: Choices::Done, left };
        images.next_len();
        images
    }

    /// True when the list has every subset of the unsynced sectors, for every length.
    pub fn is_exhaustive(&self) -> bool {
        self.exhaustive
    }

    /// Number of images left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Moves to the next length. False if there is none.
    fn next_len(&mut self) -> bool {
        let Some(kept) = self.later.pop() else { return false };
        self.kept = kept;
        let free = self.point.free_sectors(kept);
        self.choices = if free <= self.sectors_max as usize {
            Choices::Masks { next: 0, end: 1 << free }
        } else {
            Choices::Ranks { free, rank_max: rank_max(free, self.sectors_max), picked: Vec::new(), lost: true }
        };
        true
    }

    fn image(&self) -> Option<CrashImage> {
        let mut position = 0;
        let lose = |is_lost: bool| if is_lost { Pick::Lost } else { Pick::Kept };
        let len = self.point.len_after(self.kept);
        match &self.choices {
            Choices::Masks { next, end } if next < end => Some(self.point.assemble(self.kept, len, |_, _, _| {
                position += 1;
                lose(next >> (position - 1) & 1 == 1)
            })),
            Choices::Ranks { picked, lost, .. } => {
                let mut picked = picked.iter().peekable();
                Some(self.point.assemble(self.kept, len, |_, _, _| {
                    position += 1;
                    let is_picked = picked.next_if(|index| **index == position - 1).is_some();
                    lose(is_picked == *lost)
                }))
            }
            _ => None,
        }
    }
}

impl Iterator for Images<'_> {
    type Item = CrashImage;

    fn next(&mut self) -> Option<CrashImage> {
        loop {
            if let Some(image) = self.image() {
                self.choices.advance();
                self.left = self.left.saturating_sub(1);
                return Some(image);
            }
            if !self.next_len() {
                return None;
            }
        }
    }
}

impl Choices {
    fn advance(&mut self) {
        match self {
            Self::Masks { next, .. } => *next += 1,
            Self::Ranks { free, rank_max, picked, lost } => {
                if next_combination(picked, *free) {
                    return;
                }
                // Each rank is enumerated twice: its sectors lost, then its sectors kept; then the next rank.
                let rank = picked.len() + usize::from(!*lost);
                if rank > *rank_max {
                    *self = Self::Done;
                    return;
                }
                *lost = !*lost;
                picked.clear();
                picked.extend(0..rank);
            }
            Self::Done => {}
        }
    }
}

/// Advances to the next combination of the same size out of `free` items, in lexicographic order. False after the last.
fn next_combination(picked: &mut [usize], free: usize) -> bool {
    let mut limit = free;
    let mut position = picked.len();
    while let Some(index) = position.checked_sub(1) {
        limit -= 1;
        match picked.get_mut(index..) {
            Some([first, rest @ ..]) if *first < limit => {
                *first += 1;
                let mut following = *first;
                for pick in rest {
                    following += 1;
                    *pick = following;
                }
                return true;
            }
            _ => position = index,
        }
    }
    false
}

fn count(free: usize, sectors_max: u32) -> u64 {
    if free <= sectors_max as usize {
        return 1 << free;
    }
    (0..=rank_max(free, sectors_max)).map(|rank| 2 * binomial(free, rank)).fold(0, u64::saturating_add)
}

/// The highest rank that is enumerated, so that all ranks together stay within the budget. It stays below half of `free`, so that
/// no image comes twice, once as few lost and once as few kept.
fn rank_max(free: usize, sectors_max: u32) -> usize {
    let budget = 1_u64 << sectors_max;
    let mut total = 2_u64;
    let mut rank = 0;
    while rank + 1 < free.div_ceil(2) {
        total = total.saturating_add(2 * binomial(free, rank + 1).min(budget));
        if rank > 0 && total > budget {
            break;
        }
        rank += 1;
    }
    rank
}

fn binomial(n: usize, k: usize) -> u64 {
    (0..k as u64).fold(1_u64, |product, i| product.saturating_mul(n as u64 - i) / (i + 1)).min(u64::MAX / 4)
}
