//! Exports `watcher` of the standard: of each change of a store that it is told it keeps a line, in the store `told` of the host, under a number
//! that counts them. It deletes what is set under `undo`, of which it is told, too.
#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a program that a test runs; what is generated has its documents in the WIT"
)]

wit_bindgen::generate!({ path: "../../wit/deps/keyvalue-draft2", world: "wasi:keyvalue/watch-service" });

use exports::wasi::keyvalue::watcher::Guest;
use wasi::keyvalue::atomics;
use wasi::keyvalue::store::{self, Bucket};

struct Watching;

impl Guest for Watching {
    fn on_set(bucket: Bucket, key: String, value: Vec<u8>) {
        let newest = bucket.get(&key).ok().flatten();
        let is_newest = newest.as_ref() == Some(&value);
        keep(&format!("set {key} {}{}", String::from_utf8_lossy(&value), if is_newest { "" } else { ", and changed since" }));
        if key == "undo" {
            bucket.delete(&key).expect("it may write");
        }
    }

    fn on_delete(bucket: Bucket, key: String) {
        assert!(!bucket.exists(&key).expect("it may read"), "told of a delete before it was made");
        keep(&format!("delete {key}"));
    }
}

fn keep(line: &str) {
    let told = store::open("told").expect("the host lists it");
    let number = atomics::increment(&told, "count", 1).expect("it counts");
    told.set(&format!("{number:06}"), line.as_bytes()).expect("it may write");
}

export!(Watching);

/// Nothing runs it: the host calls the exports.
fn main() {}
