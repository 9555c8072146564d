//! pipkin for programs that embed Wasmtime, in both directions. The stores are files of the same format that the crate `pipkin` reads
//! and writes.
//!
//! - [`keyvalue`] gives the components that you run a persistent store: it serves the standard `wasi:keyvalue`, and pipkin's own
//!   `pipkin:kv`, out of the native engine.
//! - [`Host`] runs the engine itself as a component, inside a sandbox that sees one directory and has limits on memory and fuel. It needs
//!   the component: `cargo xtask component` in the repository builds it.
//!
//! For anything that touches a file the first is faster. Choose the second to confine the code that parses files from untrusted sources to
//! a sandbox, or to run the same component everywhere.
//!
//! # Which Wasmtime
//!
//! The types of two versions of Wasmtime do not fit together, so this crate is built for the one that your program uses. By default that is
//! 50; for another one, name it in `Cargo.toml`:
//!
//! ```toml
//! pipkin-wasi-host = { version = "0.1", default-features = false, features = ["wasmtime-48"] }
//! wasmtime = "48"
//! ```
//!
//! # Stores that nobody closes
//!
//! Acknowledged writes are in the file, however a program or an instance ends. But a store that was not closed opens more slowly: the end
//! of its log is read again. [`Host`] and [`keyvalue`] close their stores when the last handle is dropped. A program that is composed with
//! the component of pipkin must do so itself: it should drop its buckets, or close its stores, before its instance ends. An embedder that
//! runs such a program cannot do it for the program.

#[cfg(not(any(feature = "wasmtime-48", feature = "wasmtime-49", feature = "wasmtime-50")))]
compile_error!(
    "choose the major version of Wasmtime that your program uses: the feature `wasmtime-48`, `wasmtime-49` or `wasmtime-50`"
);
#[cfg(any(
    all(feature = "wasmtime-48", feature = "wasmtime-49"),
    all(feature = "wasmtime-48", feature = "wasmtime-50"),
    all(feature = "wasmtime-49", feature = "wasmtime-50"),
))]
compile_error!(
    "features for two major versions of Wasmtime are on: choose one, and turn the default one off with `default-features = false`"
);

#[cfg(all(feature = "wasmtime-48", not(feature = "wasmtime-50")))]
pub extern crate wasmtime48 as wasmtime;
#[cfg(all(feature = "wasmtime-49", not(any(feature = "wasmtime-48", feature = "wasmtime-50"))))]
pub extern crate wasmtime49 as wasmtime;
#[cfg(all(feature = "wasmtime-48", not(feature = "wasmtime-50")))]
pub extern crate wasmtime_wasi48 as wasmtime_wasi;
#[cfg(all(feature = "wasmtime-49", not(any(feature = "wasmtime-48", feature = "wasmtime-50"))))]
pub extern crate wasmtime_wasi49 as wasmtime_wasi;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The front page of the repository.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct FrontPage;

mod bindings;
mod compiled;
mod db;
mod error;
mod files;
mod host;
pub mod keyvalue;
mod lock;
mod machine;
mod options;
mod packed;
mod records;
mod sandbox;
mod scan;
mod session;

/// The Wasmtime that this crate was built for: a program that uses this re-export cannot pick another version by mistake.
#[cfg(feature = "wasmtime-50")]
pub use {wasmtime, wasmtime_wasi};

pub use bindings::exports::pipkin::kv::admin::{Report, Stats, Step};
pub use bindings::exports::pipkin::kv::types::{
    Compression, Durability, Entry, Error as StoreError, Length, Location, Op, Reason, Ttl, Version, Versioned,
};
pub use db::Db;
pub use error::{Error, Result};
pub use files::add_files_to_linker;
pub use host::{Builder, Host};
pub use options::Options;
pub use pipkin::Error as NativeError;
pub use records::Records;
pub use sandbox::{Sandbox, engine, linker};
pub use scan::Scan;
