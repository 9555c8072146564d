//! One tape for every host: a fixed sequence of operations, and the content that a store must have when it has been played.
//!
//! A host opens a store, calls [`Tape::begin`] and drops the store; opens the same file, calls [`Tape::resume`] and drops it
//! again; opens it a third time and calls [`Tape::finish`]. Natively, under Wasmtime and in a browser the answers must be equal,
//! and each must be able to read the file that another one wrote ([`digest`]).
#![no_std]

extern crate alloc;

pub mod compressed;
mod digest;
pub mod expiring;
pub mod kinds;
mod model;
mod step;

pub use digest::{Digest, digest};
pub use step::{Change, Step};

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use model::Model;
use pipkin::{Db, Durability};
use step::{first_half, second_half};

/// The tape, in one of two sizes. The operations are the same.
#[derive(Clone, Copy, Debug)]
pub struct Tape {
    /// Long keys and values are this many times shorter.
    divisor: usize,
}

impl Tape {
    /// Values up to 5 MiB: longer than a segment, than what a host moves in one call, than its buffers.
    pub const FULL: Self = Self { divisor: 1 };
    /// Values up to 50 KiB, for stores with small segments: the golden files hold this one.
    pub const SMALL: Self = Self { divisor: 100 };

    /// Plays the first half of the tape into a new store and flushes it. Returns the durability that the flush achieved.
    pub fn begin(self, db: &Db) -> Result<Durability, String> {
        expect(db, &[], "a new store")?;
        play(db, &first_half(self.divisor))
    }

    /// Checks that the store, opened again, holds what the first half left, plays the second half and flushes.
    pub fn resume(self, db: &Db) -> Result<Durability, String> {
        expect(db, &first_half(self.divisor), "opened after the first half")?;
        play(db, &second_half(self.divisor))
    }

    /// Checks that the store, opened a third time, holds what the whole tape left, and checks every byte of it.
    pub fn finish(self, db: &Db) -> Result<Digest, String> {
        let found = expect(db, &self.steps(), "opened after the second half")?;
        verified(db)?;
        Ok(found)
    }

    /// What a store holds once the tape has been played.
    pub fn expected(self) -> Digest {
        Model::after(&self.steps()).digest()
    }

    /// What a store holds after each step of the tape, from none to all: a crash must leave one of these.
    pub fn prefixes(self) -> Vec<Digest> {
        let mut model = Model::default();
        let mut digests = alloc::vec![model.digest()];
        digests.extend(self.steps().iter().map(|step| {
            model.apply(step);
            model.digest()
        }));
        digests
    }

    /// The operations, for hosts that do not hold the engine itself: the store is closed and opened between the two halves.
    pub fn halves(self) -> [Vec<Step>; 2] {
        [first_half(self.divisor), second_half(self.divisor)]
    }

    fn steps(self) -> Vec<Step> {
        self.halves().into_iter().flatten().collect()
    }
}

/// Fails unless every byte of the store is as it was written.
pub fn verified(db: &Db) -> Result<(), String> {
    let report = db.verify().map_err(|error| format!("verify: {error}"))?;
    if report.is_ok() { Ok(()) } else { Err(format!("verify found damage: {:?}", report.damage)) }
}

fn play(db: &Db, steps: &[Step]) -> Result<Durability, String> {
    for (number, step) in steps.iter().enumerate() {
        step.apply(db).map_err(|error| format!("step {number} of the tape, {}: {error}", step.name()))?;
    }
    db.flush().map_err(|error| format!("flush: {error}"))
}

fn expect(db: &Db, steps: &[Step], when: &str) -> Result<Digest, String> {
    let found = digest(db)?;
    let wanted = Model::after(steps).digest();
    if found == wanted { Ok(found) } else { Err(format!("{when}: the store holds {found:?} instead of {wanted:?}")) }
}
