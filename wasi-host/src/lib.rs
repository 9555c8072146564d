//! pipkin for programs that embed Wasmtime, in both directions. The stores are files of the one format that the crate `pipkin` reads and
//! writes, too.
//!
//! - [`keyvalue`] gives the components that you run a store that remembers: it serves the standard `wasi:keyvalue`, and pipkin's own
//!   `pipkin:kv`, out of the native engine.
//! - [`Host`] runs the engine itself as a component, inside a sandbox that sees one directory and has limits of memory and fuel. It needs
//!   the component: `cargo xtask component` in the repository makes it.
//!
//! For anything that touches a file the first is quicker. The second is for those who want a parser of files from strangers to be unable to
//! do harm, or who want to run the same component everywhere.
//!
//! # What is left open
//!
//! What was acknowledged is in the file, however a program or an instance ends. But a store that nobody has closed opens less quickly: the
//! end of its log is read again. [`Host`] and [`keyvalue`] close their stores when the last handle is dropped. Inside a component only the
//! program can: whoever composes one with the component of pipkin should have it drop its buckets, or close its stores, before its instance
//! ends, and an embedder that runs such programs cannot do it for them.

mod bindings;
mod compiled;
mod db;
mod error;
mod files;
mod host;
pub mod keyvalue;
mod lock;
mod options;
mod packed;
mod records;
mod sandbox;
mod scan;

pub use bindings::exports::pipkin::kv::admin::{Report, Stats, Step};
pub use bindings::exports::pipkin::kv::types::{
    Durability, Entry, Error as StoreError, Length, Location, Op, Reason, Version, Versioned,
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
