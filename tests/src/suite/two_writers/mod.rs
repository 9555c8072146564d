//! Two sessions on one file that nobody can lock, as under WASI, under a scheduler that decides before every call of the storage who goes on.
//!
//! The story: `wasmtime serve` runs each request in an instance of its own. Two of them wrote to one store, lost updates, and left a file
//! that never opened again.
//!
//! Each run is two scripts and a plan: how many calls of its storage one session makes before the other one goes on, again and again; it may be
//! killed there, or the power may go. Whatever the plan: the file opens, nothing in it is damaged, what a session was told is flushed is there, and a
//! session that was overtaken says so in its own words.

mod check;
mod explore;
mod scheduler;
mod session;
mod trial;

pub use check::{Report, run_one};
pub use explore::{Budget, Counts, random, run};
pub use trial::{Host, Op, Plan, Start, Trial, Turn, parse};
