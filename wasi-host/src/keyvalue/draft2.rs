//! `wasi:keyvalue@0.2.0-draft2` as it was published: cursors are strings, counters signed, and there is a swap of a value that nobody has
//! changed.

pub(super) mod wit {
    #![allow(missing_docs, clippy::all, reason = "generated; the WIT has the documents")]
    wasmtime::component::bindgen!({
        path: "wit/deps/keyvalue-draft2",
        world: "wasi:keyvalue/watch-service",
        with: {
            "wasi:keyvalue/store.bucket": crate::keyvalue::Bucket,
            "wasi:keyvalue/atomics.cas": crate::keyvalue::Cas,
        },
    });
}

super::wire::serve_store!("0.2.0-draft2", String, i64);
super::wire::serve_batch!("0.2.0-draft2", Option<Record>, |key, value| Some((key, value?)));

use super::context::Kept;
use atomics::CasError;
use pipkin::Version;

/// The version of a key's record when the guest read it, in the resource table of the embedder. The value is not kept: a guest can have
/// very many of these.
pub struct Cas {
    bucket: Bucket,
    key: String,
    seen: Option<Version>,
    _kept: Kept,
}

impl Cas {
    fn swap(&self, value: &[u8]) -> Result<bool, Refused> {
        self.bucket.swap(&self.key, self.seen, value)
    }
}

/// As [`add_async_to_linker`], for the swap, which only this draft has.
pub(super) fn add_async_swap_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> WasiKeyValue<'_>,
) -> Outcome<()> {
    linker.instance("wasi:keyvalue/atomics@0.2.0-draft2")?.func_wrap_async(
        "swap",
        move |mut store: StoreContextMut<'_, T>, (cas, value): (Resource<Cas>, Vec<u8>)| -> Later<'_, (Result<(), CasError>,)> {
            let cas = view(store.data_mut()).table.delete(cas).map_err(Refused::from);
            Box::new(async move {
                let syncs = cas.as_ref().is_ok_and(|cas| cas.bucket.syncs());
                let swap = move || {
                    let cas = cas?;
                    Ok((!cas.swap(&value)?).then_some((cas.bucket, cas.key)))
                };
                let failed = |refused: Refused| CasError::StoreError(refused.into());
                Ok((match off_thread(syncs, swap).await {
                    Ok(None) => Ok(()),
                    Ok(Some((bucket, key))) => {
                        Err(view(store.data_mut()).look(bucket, key).map_or_else(failed, CasError::CasFailed))
                    }
                    Err(refused) => Err(failed(refused)),
                },))
            })
        },
    )
}

fn from_cursor(cursor: String) -> Result<u64, Refused> {
    cursor.parse().map_err(|_| Refused::Other("this cursor did not come from `list-keys`".to_owned()))
}

fn to_cursor(cursor: u64) -> String {
    cursor.to_string()
}

impl WasiKeyValue<'_> {
    fn look(&mut self, bucket: Bucket, key: String) -> Result<Resource<Cas>, Refused> {
        let seen = bucket.get_versioned(&key)?.map(|(_, version)| version);
        let kept = self.ctx.keep(key.len())?;
        Ok(self.table.push(Cas { bucket, key, seen, _kept: kept })?)
    }
}

impl atomics::HostCas for WasiKeyValue<'_> {
    fn new(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Resource<Cas>, Error> {
        let bucket = self.bucket(&bucket)?.clone();
        Ok(self.look(bucket, key)?)
    }

    /// Reads the current value, also one written since the handle was made; the swap fails then.
    fn current(&mut self, cas: Resource<Cas>) -> Result<Option<Vec<u8>>, Error> {
        let cas = self.table.get(&cas).map_err(Refused::from)?;
        Ok(cas.bucket.get(&cas.key)?)
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
        let cas = self.table.delete(cas).map_err(|error| failed(error.into()))?;
        if cas.swap(&value).map_err(failed)? {
            return Ok(());
        }
        Err(self.look(cas.bucket, cas.key).map_or_else(failed, CasError::CasFailed))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use crate::keyvalue::WasiKeyValueCtx;
    use atomics::{Host, HostCas};
    use wasmtime::component::ResourceTable;

    #[test]
    fn handles_to_swap_keep_no_values_and_few_keys() {
        let folder = tempfile::tempdir().unwrap();
        let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("").build();
        let mut table = ResourceTable::new();
        let mut view = WasiKeyValue::new(&ctx, &mut table);
        let bucket = store::Host::open(&mut view, String::new()).unwrap();
        let own = || Resource::new_own(bucket.rep());
        view.bucket(&bucket).unwrap().set("k", b"old").unwrap();
        let cas = HostCas::new(&mut view, own(), "k".to_owned()).unwrap();
        view.bucket(&bucket).unwrap().set("k", b"new").unwrap();
        assert_eq!(view.current(Resource::new_own(cas.rep())).unwrap().unwrap(), b"new", "read now, not kept");
        let Err(CasError::CasFailed(fresh)) = view.swap(cas, b"x".to_vec()) else { panic!("the value was changed") };
        assert!(view.swap(fresh, b"x".to_vec()).is_ok());

        let long = "k".repeat(64 << 10);
        let handles: Vec<_> = (0..1024).map(|_| HostCas::new(&mut view, own(), long.clone()).unwrap()).collect();
        let words = HostCas::new(&mut view, own(), long.clone()).map(drop).unwrap_err();
        assert!(matches!(words, Error::Other(words) if words.contains("the handles of this component")));
        // The limit used to be shared by all guests: one guest could use up the handles of every other.
        let (other, mut table) = (ctx.clone(), ResourceTable::new());
        let mut others = WasiKeyValue::new(&other, &mut table);
        let bucket = store::Host::open(&mut others, String::new()).unwrap();
        HostCas::new(&mut others, bucket, long.clone()).unwrap();
        handles.into_iter().for_each(|handle| HostCas::drop(&mut view, handle).unwrap());
        HostCas::new(&mut view, own(), long).unwrap();
    }

    #[test]
    fn a_guest_has_so_many_handles_and_no_more() {
        let ctx = WasiKeyValueCtx::builder().store_in_memory("").handles_per_guest(10).build();
        let mut table = ResourceTable::new();
        let mut view = WasiKeyValue::new(&ctx, &mut table);
        let mut buckets: Vec<_> = (0..10).map(|_| store::Host::open(&mut view, String::new()).unwrap()).collect();
        let words = store::Host::open(&mut view, String::new()).map(drop).unwrap_err();
        assert!(matches!(words, Error::Other(words) if words.contains("handles")));
        store::HostBucket::drop(&mut view, buckets.pop().unwrap()).unwrap();
        store::Host::open(&mut view, String::new()).unwrap();
    }
}
