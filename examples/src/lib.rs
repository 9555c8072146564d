//! The page of the crate `pipkin`: `cargo test -p pipkin-examples --doc` runs its examples.
#![doc = include_str!("../../core/README.md")]
