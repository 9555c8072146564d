//! The request distribution of YCSB: a few keys are asked for very often.
//!
//! "Quickly Generating Billion-Record Synthetic Databases", Gray et al., SIGMOD 1994, as YCSB uses it, with its usual skew of 0.99.

use crate::data::Random;

const SKEW: f64 = 0.99;

/// Ranks from 0, the most popular one, to `count - 1`.
#[derive(Debug)]
pub(crate) struct Zipf {
    count: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    pub(crate) fn new(count: usize) -> Self {
        let zeta = (1..=count).map(|rank| (rank as f64).powf(-SKEW)).sum::<f64>();
        let zeta_two = 1.0 + 2f64.powf(-SKEW);
        let count = count as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - SKEW)) / (1.0 - zeta_two / zeta);
        Self { count, alpha: 1.0 / (1.0 - SKEW), zeta, eta }
    }

    pub(crate) fn rank(&self, random: &mut Random) -> usize {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(SKEW) {
            return 1;
        }
        let rank = self.count * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as usize).min(self.count as usize - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_thousand_gets_about_an_eighth() {
        let zipf = Zipf::new(1000);
        let mut random = Random::new(1);
        let ranks: Vec<usize> = (0..100_000).map(|_| zipf.rank(&mut random)).collect();
        let first = ranks.iter().filter(|rank| **rank == 0).count();
        assert!((11_000..15_000).contains(&first), "{first}");
        assert!(ranks.iter().all(|rank| *rank < 1000));
        assert!(ranks.iter().any(|rank| *rank > 900));
    }
}
