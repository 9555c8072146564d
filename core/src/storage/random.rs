//! A seeded pseudorandom generator for tests on every host: the same seed, the same sequence.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): eight bytes of state, good enough
/// to choose faults, never to make keys.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A sequence that depends on nothing but `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A second sequence, independent of what this one yields later.
    pub fn split(&mut self) -> Self {
        Self::new(self.next_u64() ^ 0x5851_F42D_4C95_7F2D)
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product is uniform up to a bias of bound / 2^64 (Lemire 2019).
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1)))
    }

    /// True in `share` of `whole` cases.
    pub fn chance(&mut self, share: u64, whole: u64) -> bool {
        self.below(whole) < share
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for piece in out.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            for (target, source) in piece.iter_mut().zip(bytes) {
                *target = source;
            }
        }
    }
}
