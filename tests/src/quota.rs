//! Trials are counted, and a suite that did fewer than it promised fails: a suite that quietly tests nothing is a defect.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Counts the trials of one suite, from any number of threads.
#[derive(Debug)]
pub struct Quota {
    suite: &'static str,
    least: u64,
    trials: AtomicU64,
    started: Instant,
}

impl Quota {
    /// A suite that owes `least` trials.
    pub fn new(suite: &'static str, least: u64) -> Self {
        Self { suite, least, trials: AtomicU64::new(0), started: Instant::now() }
    }

    /// Counts `trials` more and returns the new total.
    pub fn add(&self, trials: u64) -> u64 {
        self.trials.fetch_add(trials, Ordering::Relaxed) + trials
    }

    /// Trials so far.
    pub fn count(&self) -> u64 {
        self.trials.load(Ordering::Relaxed)
    }

    /// True once the quota is met.
    pub fn met(&self) -> bool {
        self.count() >= self.least
    }

    /// Seconds since the suite began.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Prints the total and fails the test if the quota was missed. `notes` is printed beside it.
    pub fn finish(&self, notes: impl fmt::Display) {
        let trials = self.count();
        println!("{}: {trials} trials (quota {}) in {:.1} s; {notes}", self.suite, self.least, self.seconds());
        assert!(
            trials >= self.least,
            "{} did {trials} trials, its quota is {}: the suite does not test what it claims",
            self.suite,
            self.least
        );
    }
}

/// A number from the environment, or `default`.
pub fn env_u64(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            let digits = text.trim().replace('_', "");
            let parsed = match digits.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => digits.parse(),
            };
            parsed.unwrap_or_else(|_| panic!("{name}={text} is not a number"))
        }
        Err(_) => default,
    }
}
