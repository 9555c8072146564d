//! `wasi:keyvalue@0.2.0-draft`, which Wasmtime and wasmCloud use: cursors and counters are unsigned numbers.

pub(super) mod wit {
    #![allow(missing_docs, clippy::all, reason = "generated; the WIT has the documents")]
    wasmtime::component::bindgen!({
        path: "wit/deps/keyvalue-draft",
        world: "wasi:keyvalue/watch-service",
        with: { "wasi:keyvalue/store.bucket": crate::keyvalue::Bucket },
    });
}

super::wire::serve_store!("0.2.0-draft", u64, u64);
super::wire::serve_batch!("0.2.0-draft", Option<Record>, |key, value| Some((key, value?)));

fn from_cursor(cursor: u64) -> Result<u64, Refused> {
    Ok(cursor)
}

fn to_cursor(cursor: u64) -> u64 {
    cursor
}

impl atomics::Host for WasiKeyValue<'_> {
    fn increment(&mut self, bucket: Resource<Bucket>, key: String, delta: u64) -> Result<u64, Error> {
        Ok(self.bucket(&bucket)?.increment(&key, |old: u64| old.checked_add(delta))?)
    }
}
