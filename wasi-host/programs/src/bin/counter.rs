//! Counts how often it was run, in a store of the host, through the standard `wasi:keyvalue` and nothing else.
//!
//! Build it with `cargo build -p pipkin-wasi-programs --bin counter --target wasm32-wasip2` and run it twice with the example `embedder`.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit/deps/keyvalue-draft", world: "wasi:keyvalue/imports" });

use wasi::keyvalue::{atomics, store};

fn main() {
    let counted = store::open("").and_then(|bucket| atomics::increment(&bucket, "runs", 1));
    match counted {
        Ok(runs) => println!("run {runs}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
