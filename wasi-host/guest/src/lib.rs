//! pipkin as a WebAssembly component: the engine over `wasi:filesystem`, with no other imports than a clock, which
//! that interface needs for its timestamps, and a source of randomness.
//!
//! Built for `wasm32-wasip2` without the standard library, which alone would import ten interfaces of `wasi:cli`, and whose
//! file writes go through streams that cost ten times as much as a positional write.
//!
//! The interfaces are in `wit/`. The feature `proof` adds the ones that only tests call.
#![cfg_attr(target_family = "wasm", no_std)]
#![cfg(all(target_os = "wasi", target_env = "p2"))]

extern crate alloc;

mod admin;
mod bindings;
mod changes;
mod clock;
mod convert;
mod events;
mod kept;
mod keyvalue;
mod open;
#[cfg(feature = "proof")]
mod proof;
mod records;
mod runtime;
mod secret;
mod snapshots;
mod storage;
mod store;
mod transactions;

/// The type for which every interface of the world is implemented.
struct Component;
