//! `wasi:keyvalue@0.2.0-draft2`, which Spin speaks: cursors are strings, counters signed, and there is a swap of a value that nobody has
//! changed.

mod wit {
    #![allow(missing_docs, clippy::all, reason = "generated; the WIT has the documents")]
    wasmtime::component::bindgen!({
        path: "../wit/deps/keyvalue-draft2",
        world: "wasi:keyvalue/imports",
        with: {
            "wasi:keyvalue/store.bucket": crate::keyvalue::Bucket,
            "wasi:keyvalue/atomics.cas": crate::keyvalue::Cas,
        },
    });
}

super::wire::serve!(String);

use atomics::CasError;
use pipkin::Version;

/// The record that a key had when the guest looked, in the resource table of the embedder.
pub struct Cas {
    bucket: Bucket,
    key: String,
    seen: Option<(Vec<u8>, Version)>,
}

fn from_cursor(cursor: String) -> Result<u64, Refused> {
    cursor.parse().map_err(|_| Refused::Other("this cursor did not come from `list-keys`".to_owned()))
}

fn to_cursor(cursor: u64) -> String {
    cursor.to_string()
}

impl WasiKeyValue<'_> {
    fn look(&mut self, bucket: Bucket, key: String) -> Result<Resource<Cas>, Refused> {
        let seen = bucket.get_versioned(&key)?;
        Ok(self.table.push(Cas { bucket, key, seen })?)
    }
}

impl atomics::HostCas for WasiKeyValue<'_> {
    fn new(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Resource<Cas>, Error> {
        let bucket = self.bucket(&bucket)?.clone();
        Ok(self.look(bucket, key)?)
    }

    fn current(&mut self, cas: Resource<Cas>) -> Result<Option<Vec<u8>>, Error> {
        let cas = self.table.get(&cas).map_err(Refused::from)?;
        Ok(cas.seen.as_ref().map(|(value, _)| value.clone()))
    }

    fn drop(&mut self, cas: Resource<Cas>) -> Outcome<()> {
        self.table.delete(cas)?;
        Ok(())
    }
}

impl atomics::Host for WasiKeyValue<'_> {
    fn increment(&mut self, bucket: Resource<Bucket>, key: String, delta: i64) -> Result<i64, Error> {
        Ok(self.bucket(&bucket)?.increment(&key, |old: i64| old.checked_add(delta))?)
    }

    fn swap(&mut self, cas: Resource<Cas>, value: Vec<u8>) -> Result<(), CasError> {
        let failed = |refused: Refused| CasError::StoreError(refused.into());
        let Cas { bucket, key, seen } = self.table.delete(cas).map_err(|error| failed(error.into()))?;
        if bucket.swap(&key, seen.map(|(_, version)| version), &value).map_err(failed)? {
            return Ok(());
        }
        Err(self.look(bucket, key).map_or_else(failed, CasError::CasFailed))
    }
}
