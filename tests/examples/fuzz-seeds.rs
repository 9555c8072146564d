//! Writes the stores that the fuzz target `open_bytes` starts from into a folder:
//! `cargo run --release -p pipkin-tests --example fuzz-seeds -- tests/fuzz/corpus/open_bytes`.
#![allow(clippy::expect_used, reason = "a failed step ends the program")]

use pipkin_tests::fuzz::seed_stores;
use std::path::PathBuf;

fn main() {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("the folder for the stores"));
    std::fs::create_dir_all(&folder).expect("the folder cannot be created");
    for (i, store) in seed_stores().iter().enumerate() {
        std::fs::write(folder.join(format!("store-{i}")), store).expect("the folder cannot be written to");
        println!("store-{i}: {} bytes", store.len());
    }
}
