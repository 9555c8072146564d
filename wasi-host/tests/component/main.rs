//! The component as it is shipped, through the host's verbs: what it stores, what it survives, what it refuses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a failed step is a failed test"
)]

#[path = "../support/build.rs"]
mod build;

mod blocks;
mod compression;
mod expiry;
mod followers;
mod golden;
mod handles;
mod hostile;
mod machine;
mod places;
mod sealed;
mod stops;
mod two_instances;
mod verbs;

use pipkin_wasi_host::{Db, Host, Options};
use std::path::Path;

/// A host for the component, which is compiled once for all.
fn host(directory: &Path) -> Host {
    builder(directory).build().unwrap()
}

fn builder(directory: &Path) -> pipkin_wasi_host::Builder {
    Host::builder().component(build::product()).directory(directory).cache(build::folder().join("cache"))
}

/// A store with small segments, so that few records make many of them.
fn open(host: &Host, name: &str) -> Db {
    host.open_with(name, small()).unwrap()
}

fn small() -> Options {
    Options { segment_bytes: 16 * 1024, ..Options::default() }
}

/// Numbers that look random and are the same in every run.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
