//! The real `pipkin` binary, as a user meets it: every verb, its answers, its exit codes and what it leaves behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod all_namespaces;
mod damage;
mod data;
mod errors;
mod events;
mod expiry;
mod export;
mod foreign;
mod help;
mod import;
#[cfg(unix)]
mod interrupt;
mod keys;
mod manage;
mod sealed;
mod support;
mod watch;
