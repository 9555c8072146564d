//! pipkin in a browser: the store in one file of the origin private file system (OPFS), inside a dedicated worker.
//!
//! Only dedicated workers have synchronous file handles, so everything here runs in one. Other targets see an empty crate.
//! `npm/` is what a web page uses.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg(all(target_arch = "wasm32", target_os = "unknown"))]

extern crate alloc;

mod calls;
mod cut;
mod error;
mod exports;
mod failure;
mod hold;
#[cfg(feature = "std")]
mod host;
mod json;
mod newest;
mod order;
mod requests;
mod room;
mod run;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed step is a failed test")]
mod run_tests;
#[cfg(not(feature = "std"))]
mod runtime;
mod shared;
mod storage;
mod wire;

// For the tests of all modules: without it, a browser passes them over.
#[cfg(test)]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_dedicated_worker);

#[cfg(feature = "std")]
pub use host::{Access, entropy, origin_directory};
pub use storage::{OpfsStorage, cached};
