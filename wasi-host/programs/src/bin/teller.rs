//! Reads a store of the host through the standard `wasi:keyvalue` and nothing else: `teller STORE`. For each line of stdin, a key, it writes the
//! value, or that there is none. A line `key TAB value` it tries to set.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit/deps/keyvalue-draft2", world: "wasi:keyvalue/imports" });

use std::io::BufRead;
use wasi::keyvalue::store;

fn tell() -> Result<(), String> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let bucket = store::open(&name).map_err(|error| format!("{error:?}"))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let told = match line.split_once('\t') {
            Some((key, value)) => bucket.set(key, value.as_bytes()).map(|()| "set".to_owned()),
            None => bucket
                .get(&line)
                .map(|value| value.map_or("none".to_owned(), |value| String::from_utf8_lossy(&value).into_owned())),
        };
        println!("{}", told.unwrap_or_else(|error| format!("{error:?}")));
    }
    Ok(())
}

fn main() {
    if let Err(error) = tell() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
