//! pipkin as a WebAssembly component: the engine over `wasi:filesystem`, with no other import.
//!
//! Built for `wasm32-wasip2` without the standard library, which alone would import ten interfaces of `wasi:cli`, and whose
//! files write through streams that cost ten times as much as a positional write.
#![cfg_attr(target_family = "wasm", no_std)]

#[cfg(all(target_os = "wasi", target_env = "p2"))]
extern crate alloc;

#[cfg(all(target_os = "wasi", target_env = "p2"))]
mod proof;
#[cfg(all(target_os = "wasi", target_env = "p2"))]
mod runtime;
#[cfg(all(target_os = "wasi", target_env = "p2"))]
mod storage;
