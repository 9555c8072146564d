//! pipkin in a browser: the store in one file of the origin private file system (OPFS), inside a dedicated worker.
//!
//! Only dedicated workers have synchronous file handles, so everything here runs in one. On other targets the crate is empty.
//! Web pages use `npm/`; `wasm-pack build` makes a package of this crate alone.
#![cfg_attr(all(target_arch = "wasm32", target_os = "unknown", not(test)), no_std)]
#![cfg(all(target_arch = "wasm32", target_os = "unknown"))]

extern crate alloc;

mod clock;
mod compression;
mod cut;
mod error;
#[cfg(feature = "full")]
mod events;
mod exports;
mod failure;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod files;
mod followers;
mod held;
mod hold;
mod json;
mod newest;
mod one_thread;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step is a failed test")]
mod opfs_tests;
mod order;
#[cfg(feature = "sealed")]
mod random;
mod records;
mod requests;
mod room;
mod run;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed step is a failed test")]
mod run_changes_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed step is a failed test")]
mod run_expiry_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed step is a failed test")]
mod run_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed step is a failed test")]
mod run_transaction_tests;
#[cfg(not(test))]
mod runtime;
mod secret;
mod shared;
mod storage;
mod transactions;
#[cfg(feature = "full")]
mod walks;
mod wire;

// For the tests of all modules: without this line, a browser skips them.
#[cfg(test)]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_dedicated_worker);

pub use exports::{Store, answer, check_key, failure, room, verify_file};
