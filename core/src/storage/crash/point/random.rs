//! A random image: what a power cut could leave.

use super::assemble::{Pick, copy_range, low};
use super::{CrashPoint, Event};
use crate::storage::crash::image::CrashImage;
use crate::storage::crash::pages::{SECTOR_LEN, Sector};
use crate::storage::random::Rng;

impl CrashPoint {
    /// One of the images that a power cut could leave: see the [model](crate::storage::crash). Images differ in character, from nearly everything
    /// kept to nearly everything lost, in write order or not, with and without torn sectors.
    pub fn random_image(&self, rng: &mut Rng) -> CrashImage {
        let kept = self.random_len_change(rng);
        let len = self.random_len(rng, kept);
        let temper = Temper::random(rng, self.ops.len());
        self.assemble(kept, len, |point, sector, events| {
            let low = low(events, kept);
            let new = temper.version(rng, low, events);
            if new > low && rng.chance(temper.torn_share, 16) {
                let old = rng.between(low as u64, new as u64 - 1) as usize;
                let mut content = point.version(sector, events, old, kept);
                tear(rng, &mut content, &point.version(sector, events, new, kept));
                return Pick::Bytes(content);
            }
            if new == events.len() {
                Pick::Kept
            } else if new == low {
                Pick::Lost
            } else {
                Pick::Bytes(point.version(sector, events, new, kept))
            }
        })
    }

    /// A [`random_image`](Self::random_image) with one bit flipped among the bytes that were safely synced, and where; `None` when
    /// there are none.
    pub fn rotten_image(&self, rng: &mut Rng) -> Option<(CrashImage, u64)> {
        let len = self.lens.iter().map(|change| change.len).fold(self.durable.len(), u64::min);
        let offset = (0..64).map(|_| rng.below(len)).find(|offset| self.is_synced(*offset))?;
        let image = self.random_image(rng);
        image.flip_bit(offset, rng.below(8) as u32).then_some((image, offset))
    }

    fn random_len_change(&self, rng: &mut Rng) -> usize {
        match rng.below(4) {
            0 => 0,
            1 => rng.below(self.lens.len() as u64 + 1) as usize,
            _ => self.lens.len(),
        }
    }

    /// The length after the kept changes, or a bit on the way to the next one.
    fn random_len(&self, rng: &mut Rng, kept: usize) -> u64 {
        let len = self.len_after(kept);
        match self.lens.get(kept) {
            Some(next) if next.len > len && rng.chance(1, 4) => {
                let sectors = (next.len - len).div_ceil(SECTOR_LEN as u64);
                let boundary = (len / SECTOR_LEN as u64 + rng.below(sectors + 1)) * SECTOR_LEN as u64;
                boundary.clamp(len, next.len)
            }
            _ => len,
        }
    }
}

/// The character of one random image.
struct Temper {
    /// Sixteenths of the sectors that are kept.
    kept_share: u64,
    /// Sixteenths of the sectors that hold a version in between.
    stale_share: u64,
    /// Sixteenths of the kept sectors that are torn.
    torn_share: u64,
    /// Sectors hold their content after this many operations; the shares above apply to the exceptions.
    prefix: Option<usize>,
}

impl Temper {
    fn random(rng: &mut Rng, ops: usize) -> Self {
        let choose = |rng: &mut Rng, choices: [u64; 4]| {
            let index = rng.below(4) as usize;
            choices.into_iter().nth(index).unwrap_or_default()
        };
        Self {
            kept_share: choose(rng, [2, 8, 8, 14]),
            stale_share: choose(rng, [0, 1, 4, 8]),
            torn_share: choose(rng, [0, 0, 2, 8]),
            prefix: rng.chance(1, 3).then(|| rng.below(ops as u64 + 1) as usize),
        }
    }

    /// How many of the sector's events reached the medium.
    fn version(&self, rng: &mut Rng, low: usize, events: &[Event]) -> usize {
        if let Some(ops) = self.prefix
            && rng.chance(15, 16)
        {
            return events.iter().take_while(|event| event.op < ops).count().max(low);
        }
        if rng.chance(self.stale_share, 16) {
            return rng.between(low as u64, events.len() as u64) as usize;
        }
        if rng.chance(self.kept_share, 16) { events.len() } else { low }
    }
}

/// Writes a part of `new` over `content`: a front, a back, or some of its 8-byte words.
fn tear(rng: &mut Rng, content: &mut Sector, new: &Sector) {
    match rng.below(3) {
        0 => copy_range(content, new, 0, rng.below(SECTOR_LEN as u64) as usize),
        1 => copy_range(content, new, rng.between(1, SECTOR_LEN as u64) as usize, SECTOR_LEN),
        _ => {
            let words = rng.next_u64();
            for word in (0..SECTOR_LEN / 8).filter(|word| words >> word & 1 == 1) {
                copy_range(content, new, word * 8, word * 8 + 8);
            }
        }
    }
}
