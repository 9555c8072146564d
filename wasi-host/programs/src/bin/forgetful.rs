//! Writes a record and ends without dropping its bucket, as programs with a garbage collector do: `forgetful STORE KEY`.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit/deps/keyvalue-draft", world: "wasi:keyvalue/imports" });

use wasi::keyvalue::store;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, name, key] = args.as_slice() else {
        eprintln!("usage: forgetful STORE KEY");
        std::process::exit(2);
    };
    let written = store::open(name).and_then(|bucket| {
        let written = bucket.set(key, &[7; 150]);
        std::mem::forget(bucket);
        written
    });
    if let Err(error) = written {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
