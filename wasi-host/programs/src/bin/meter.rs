//! Measures calls of `wasi:keyvalue` from the inside: `meter STORE VERB COUNT` prints the nanoseconds that so many calls took. Keys have 24
//! bytes, values 150.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    reason = "a program that measures and may fail; what is generated has its documents in the WIT"
)]

wit_bindgen::generate!({ path: "../../wit/deps/keyvalue-draft", world: "wasi:keyvalue/imports" });

use std::time::Instant;
use wasi::keyvalue::store::{self, Bucket, Error};
use wasi::keyvalue::{atomics, batch};

/// Different keys.
const KEYS: u64 = 10_000;

fn key(number: u64) -> String {
    format!("{:024x}", number.wrapping_mul(7919) % KEYS)
}

fn call(bucket: &Bucket, verb: &str, keys: &[String]) -> Result<(), Error> {
    let value = [7; 150];
    match verb {
        "set" => keys.iter().try_for_each(|key| bucket.set(key, &value)),
        "get" => keys.iter().try_for_each(|key| bucket.get(key).map(drop)),
        "increment" => keys.iter().try_for_each(|key| atomics::increment(bucket, key.get(..8).unwrap_or_default(), 1).map(drop)),
        "missing" => keys.iter().try_for_each(|key| bucket.exists(key.get(1..).unwrap_or_default()).map(drop)),
        "set-many" => {
            let records: Vec<(String, Vec<u8>)> = keys.iter().map(|key| (key.clone(), value.to_vec())).collect();
            records.chunks(100).try_for_each(|records| batch::set_many(bucket, records))
        }
        "get-many" => keys.chunks(100).try_for_each(|keys| batch::get_many(bucket, keys).map(drop)),
        _ => Err(Error::Other(format!("there is no verb {verb}"))),
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, store, verb, count] = args.as_slice() else { panic!("usage: meter STORE VERB COUNT") };
    let keys: Vec<String> = (0..count.parse().expect("COUNT is a number")).map(key).collect();
    let bucket = store::open(store).expect("the host lists the store");
    // What opening has left to be built when it is first needed, and what has to come into caches, is not what this is about.
    call(&bucket, "get", &(0..KEYS).map(key).collect::<Vec<_>>()).expect("the store works");
    let start = Instant::now();
    call(&bucket, verb, &keys).expect("the store works");
    println!("{}", start.elapsed().as_nanos());
}
