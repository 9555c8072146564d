//! pipkin in a browser: the store in one file of the origin private file system (OPFS), inside a dedicated worker.
//!
//! Only dedicated workers have synchronous file handles, so everything here runs in one. Other targets see an empty crate.
#![cfg(all(target_arch = "wasm32", target_os = "unknown"))]

mod error;
mod handles;
mod host;
mod storage;

pub use host::{entropy, origin_directory};
pub use storage::{Access, OpfsStorage};
