//! The machinery of the evidence that pipkin loses nothing. The suites are in `tests/`, one file each; what they share, and
//! what the suite of planted bugs calls with a small budget, is here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

pub mod arena;
pub mod check;
pub mod counting;
pub mod disk;
pub mod drive;
pub mod followers;
pub mod forge;
pub mod fuzz;
pub mod medium;
pub mod model;
pub mod mount;
pub mod parallel;
pub mod quota;
pub mod rng;
pub mod salts;
pub mod suite;
pub mod tape;
pub mod victim;
pub mod watched;
pub mod whole;
pub mod witness;
