//! Random numbers that repeat from a seed: the same on every machine, so that a printed seed replays for ever.

pub use pipkin::storage::random::Rng;
use std::collections::VecDeque;

/// A sequence for one use of a seed, so that two uses of one seed share nothing.
pub fn derive(seed: u64, stream: u64) -> Rng {
    let mut rng = Rng::new(seed ^ stream.wrapping_mul(0xA24B_AED4_963E_E407));
    rng.split()
}

/// Where choices come from: the numbers of a seed, or the bytes of a fuzzer, which so steers whatever a seed can.
pub trait Choices {
    /// A number below `bound`; 0 when `bound` is 0.
    fn below(&mut self, bound: u64) -> u64;
    /// Any number.
    fn next_u64(&mut self) -> u64;
    /// Fills `out`.
    fn fill(&mut self, out: &mut [u8]);
    /// True in `share` of `whole` cases.
    fn chance(&mut self, share: u64, whole: u64) -> bool {
        self.below(whole) < share
    }
}

impl Choices for Rng {
    fn below(&mut self, bound: u64) -> u64 {
        Rng::below(self, bound)
    }

    fn next_u64(&mut self) -> u64 {
        Rng::next_u64(self)
    }

    fn fill(&mut self, out: &mut [u8]) {
        Rng::fill(self, out);
    }
}

/// The bytes of a fuzzer as choices, one byte for each as long as it has no more than 256 outcomes: a changed byte changes one
/// choice. Behind the end every choice is the first.
#[derive(Clone, Debug)]
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// A script that begins at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is not used up.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl Choices for Script<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        let bits = u64::BITS - bound.saturating_sub(1).leading_zeros();
        let mut bytes = [0; 8];
        self.fill(&mut bytes[..bits.div_ceil(8) as usize]);
        u64::from_le_bytes(bytes).checked_rem(bound).unwrap_or(0)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill(&mut self, out: &mut [u8]) {
        let (now, rest) = self.0.split_at(out.len().min(self.0.len()));
        out[..now.len()].copy_from_slice(now);
        out[now.len()..].fill(0);
        self.0 = rest;
    }
}

/// The choices of a script as long as it has any, then those of a seed.
#[derive(Clone, Debug)]
pub struct Scripted {
    script: VecDeque<u8>,
    then: Rng,
}

impl Scripted {
    /// What the bytes choose, then the seed.
    pub fn new(script: &[u8], then: Rng) -> Self {
        Self { script: script.iter().copied().collect(), then }
    }

    /// The script is used up.
    pub fn is_empty(&self) -> bool {
        self.script.is_empty()
    }

    /// Passes the choice on to the script, or to the seed.
    fn ask<T>(&mut self, script: impl FnOnce(&mut Script<'_>) -> T, seed: impl FnOnce(&mut Rng) -> T) -> T {
        if self.is_empty() {
            return seed(&mut self.then);
        }
        let mut asked = Script::new(self.script.make_contiguous());
        let (answer, left) = (script(&mut asked), asked.rest().len());
        self.script.drain(..self.script.len() - left);
        answer
    }
}

impl From<Rng> for Scripted {
    fn from(then: Rng) -> Self {
        Self::new(&[], then)
    }
}

impl Choices for Scripted {
    fn below(&mut self, bound: u64) -> u64 {
        self.ask(|script| script.below(bound), |rng| rng.below(bound))
    }

    fn next_u64(&mut self) -> u64 {
        self.ask(|script| script.next_u64(), Rng::next_u64)
    }

    /// Contents choose nothing: they come from the seed.
    fn fill(&mut self, out: &mut [u8]) {
        self.then.fill(out);
    }
}

/// An index below `len`.
pub fn index(rng: &mut impl Choices, len: usize) -> usize {
    rng.below(len as u64) as usize
}

/// One of the choices.
pub fn choose<T: Copy>(rng: &mut impl Choices, choices: &[T]) -> T {
    choices[index(rng, choices.len())]
}
