//! Changes a store of the host as it is told on stdin, through the standard `wasi:keyvalue` and nothing else: `editor STORE`. A line `key TAB value`
//! sets, a line without a tab deletes, an empty one does nothing. Both are text, with the escapes that `pipkin-host scan` writes.
#![allow(missing_docs, reason = "a program; what is generated has its documents in the WIT")]

wit_bindgen::generate!({ path: "../../wit/deps/keyvalue-draft2", world: "wasi:keyvalue/imports" });

use std::io::BufRead;
use wasi::keyvalue::store::{self, Bucket};
use wasi::keyvalue::{atomics, batch};

/// Records that travel in one call.
const BATCH: usize = 1000;

#[derive(Default)]
struct Changes {
    sets: Vec<(String, Vec<u8>)>,
    deletes: Vec<String>,
}

impl Changes {
    /// Makes them, and counts them in the store itself, under a key that it deletes at the end.
    fn make(&mut self, bucket: &Bucket) -> Result<i64, String> {
        let count = (self.sets.len() + self.deletes.len()) as i64;
        let made = batch::set_many(bucket, &self.sets)
            .and_then(|()| batch::delete_many(bucket, &self.deletes))
            .and_then(|()| atomics::increment(bucket, COUNTER, count));
        (self.sets, self.deletes) = Default::default();
        made.map_err(|error| format!("{error:?}"))
    }
}

const COUNTER: &str = "editor: changes";

fn edit() -> Result<i64, String> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let bucket = store::open(&name).map_err(|error| format!("{error:?}"))?;
    let mut changes = Changes::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        if line.is_empty() {
            continue;
        }
        match line.split_once('\t') {
            Some((key, value)) => changes.sets.push((unescaped(key)?, unescaped(value)?.into_bytes())),
            None => changes.deletes.push(unescaped(&line)?),
        }
        if changes.sets.len() + changes.deletes.len() == BATCH {
            changes.make(&bucket)?;
        }
    }
    let all = changes.make(&bucket)?;
    bucket.delete(COUNTER).map_err(|error| format!("{error:?}"))?;
    Ok(all)
}

/// Text without its escapes.
fn unescaped(text: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let plain = match (byte, (byte == b'\\').then(|| rest.next()).flatten()) {
            (b'\\', Some(b't')) => b'\t',
            (b'\\', Some(b'n')) => b'\n',
            (b'\\', Some(b'r')) => b'\r',
            (b'\\', Some(b'x')) => {
                let digits = [rest.next(), rest.next()].map(|digit| digit.and_then(|digit| char::from(digit).to_digit(16)));
                let [Some(high), Some(low)] = digits else { return Err(format!("{text}: \\x wants two hexadecimal digits")) };
                (high * 16 + low) as u8
            }
            (b'\\', Some(other @ (b'\\' | b'\'' | b'"'))) => other,
            (b'\\', other) => return Err(format!("{text}: no such escape: {other:?}")),
            (other, _) => other,
        };
        bytes.push(plain);
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn main() {
    match edit() {
        Ok(changes) => println!("{changes} changes"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
