//! pipkin in a browser: the store in one file of the origin private file system (OPFS), inside a dedicated worker.
//!
//! Only dedicated workers have synchronous file handles, so everything here runs in one. Other targets see an empty crate.
//! `npm/` is what a web page uses.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg(all(target_arch = "wasm32", target_os = "unknown"))]

extern crate alloc;

mod cache;
mod error;
mod failure;
mod handles;
mod host;
mod newest;
mod order;
mod requests;
mod run;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed step is a failed test")]
mod run_tests;
#[cfg(not(feature = "std"))]
mod runtime;
mod storage;
mod store;
mod wire;

pub use cache::CachedStorage;
pub use host::{entropy, origin_directory};
pub use storage::{Access, OpfsStorage};
pub use store::{Store, verify_file};
