//! The code that all texts of the standard share, except for the generated types.

/// Implements `store` of a draft, and adds it with `atomics`. The module must have the generated `wit`, `from_cursor` and `to_cursor`.
macro_rules! serve_store {
    ($version:literal, $cursor:ty, $counter:ty) => {
        use super::bucket::{Bucket, Refused};
        use super::off_thread::{Later, off_thread};
        use super::view::{View, WasiKeyValue};
        use wasmtime::Result as Outcome;
        use wasmtime::StoreContextMut;
        use wasmtime::component::{Linker, Resource};
        use wit::wasi::keyvalue::atomics;
        use wit::wasi::keyvalue::store::{self, Error, KeyResponse};

        impl From<Refused> for Error {
            fn from(refused: Refused) -> Self {
                match refused {
                    Refused::NoSuchStore => Self::NoSuchStore,
                    Refused::AccessDenied => Self::AccessDenied,
                    Refused::Other(words) => Self::Other(words),
                }
            }
        }

        pub(super) fn add_to_linker<T: Send + 'static>(
            linker: &mut Linker<T>,
            view: fn(&mut T) -> WasiKeyValue<'_>,
        ) -> Outcome<()> {
            store::add_to_linker::<_, View>(linker, view)?;
            atomics::add_to_linker::<_, View>(linker, view)
        }

        /// Replaces the functions that wait for the device by ones that wait in another thread.
        pub(super) fn add_async_to_linker<T: Send + 'static>(
            linker: &mut Linker<T>,
            view: fn(&mut T) -> WasiKeyValue<'_>,
        ) -> Outcome<()> {
            type Answer<A, E = Error> = (Result<A, E>,);
            let mut instance = linker.instance(concat!("wasi:keyvalue/store@", $version))?;
            instance.func_wrap_async(
                "open",
                move |mut store: StoreContextMut<'_, T>, (identifier,): (String,)| -> Later<'_, Answer<Resource<Bucket>>> {
                    let found = Bucket::find(view(store.data_mut()).ctx, &identifier);
                    Box::new(async move {
                        // Whether the store is open already is not known; handing the call to a thread costs little beside opening it.
                        let bucket = off_thread(true, move || Bucket::open(found?)).await;
                        Ok((bucket.and_then(|bucket| Ok(view(store.data_mut()).table.push(bucket)?)).map_err(Error::from),))
                    })
                },
            )?;
            instance.func_wrap_async(
                "[method]bucket.set",
                move |mut store: StoreContextMut<'_, T>,
                      (bucket, key, value): (Resource<Bucket>, String, Vec<u8>)|
                      -> Later<'_, Answer<()>> {
                    let bucket = view(store.data_mut()).bucket(&bucket).cloned();
                    Box::new(async move {
                        let syncs = bucket.as_ref().is_ok_and(Bucket::syncs);
                        Ok((off_thread(syncs, move || bucket?.set(&key, &value)).await.map_err(Error::from),))
                    })
                },
            )?;
            instance.func_wrap_async(
                "[method]bucket.delete",
                move |mut store: StoreContextMut<'_, T>, (bucket, key): (Resource<Bucket>, String)| -> Later<'_, Answer<()>> {
                    let bucket = view(store.data_mut()).bucket(&bucket).cloned();
                    Box::new(async move {
                        let syncs = bucket.as_ref().is_ok_and(Bucket::syncs);
                        Ok((off_thread(syncs, move || bucket?.delete(&key)).await.map_err(Error::from),))
                    })
                },
            )?;
            let mut instance = linker.instance(concat!("wasi:keyvalue/atomics@", $version))?;
            instance.func_wrap_async(
                "increment",
                move |mut store: StoreContextMut<'_, T>,
                      (bucket, key, delta): (Resource<Bucket>, String, $counter)|
                      -> Later<'_, Answer<$counter>> {
                    let bucket = view(store.data_mut()).bucket(&bucket).cloned();
                    Box::new(async move {
                        let syncs = bucket.as_ref().is_ok_and(Bucket::syncs);
                        let add = move |old: $counter| old.checked_add(delta);
                        Ok((off_thread(syncs, move || bucket?.increment(&key, add)).await.map_err(Error::from),))
                    })
                },
            )
        }

        impl store::Host for WasiKeyValue<'_> {
            fn open(&mut self, identifier: String) -> Result<Resource<Bucket>, Error> {
                let bucket = Bucket::open(Bucket::find(self.ctx, &identifier)?)?;
                Ok(self.table.push(bucket).map_err(Refused::from)?)
            }
        }

        impl store::HostBucket for WasiKeyValue<'_> {
            fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Option<Vec<u8>>, Error> {
                Ok(self.bucket(&bucket)?.get(&key)?)
            }

            fn set(&mut self, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Result<(), Error> {
                Ok(self.bucket(&bucket)?.set(&key, &value)?)
            }

            fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Result<(), Error> {
                Ok(self.bucket(&bucket)?.delete(&key)?)
            }

            fn exists(&mut self, bucket: Resource<Bucket>, key: String) -> Result<bool, Error> {
                Ok(self.bucket(&bucket)?.exists(&key)?)
            }

            fn list_keys(&mut self, bucket: Resource<Bucket>, cursor: Option<$cursor>) -> Result<KeyResponse, Error> {
                let from = cursor.map(from_cursor).transpose()?;
                let (keys, next) = self.bucket(&bucket)?.list_keys(from)?;
                Ok(KeyResponse { keys, cursor: next.map(to_cursor) })
            }

            fn drop(&mut self, bucket: Resource<Bucket>) -> Outcome<()> {
                self.table.delete(bucket)?;
                Ok(())
            }
        }
    };
}
pub(super) use serve_store;

/// Implements `batch` of a draft, whose `get-many` returns a list of `$found`: `$answer` makes one from a key and its value.
macro_rules! serve_batch {
    ($version:literal, $found:ty, $answer:expr) => {
        use super::bucket::Record;
        use wit::wasi::keyvalue::batch;

        pub(super) fn add_batch_to_linker<T: Send + 'static>(
            linker: &mut Linker<T>,
            view: fn(&mut T) -> WasiKeyValue<'_>,
        ) -> Outcome<()> {
            batch::add_to_linker::<_, View>(linker, view)
        }

        /// As `add_async_to_linker`, for `batch`.
        pub(super) fn add_async_batch_to_linker<T: Send + 'static>(
            linker: &mut Linker<T>,
            view: fn(&mut T) -> WasiKeyValue<'_>,
        ) -> Outcome<()> {
            let mut instance = linker.instance(concat!("wasi:keyvalue/batch@", $version))?;
            instance.func_wrap_async(
                "set-many",
                move |mut store: StoreContextMut<'_, T>,
                      (bucket, records): (Resource<Bucket>, Vec<Record>)|
                      -> Later<'_, (Result<(), Error>,)> {
                    let bucket = view(store.data_mut()).bucket(&bucket).cloned();
                    Box::new(async move {
                        let syncs = bucket.as_ref().is_ok_and(Bucket::syncs);
                        Ok((off_thread(syncs, move || bucket?.set_many(&records)).await.map_err(Error::from),))
                    })
                },
            )?;
            instance.func_wrap_async(
                "delete-many",
                move |mut store: StoreContextMut<'_, T>,
                      (bucket, keys): (Resource<Bucket>, Vec<String>)|
                      -> Later<'_, (Result<(), Error>,)> {
                    let bucket = view(store.data_mut()).bucket(&bucket).cloned();
                    Box::new(async move {
                        let syncs = bucket.as_ref().is_ok_and(Bucket::syncs);
                        Ok((off_thread(syncs, move || bucket?.delete_many(&keys)).await.map_err(Error::from),))
                    })
                },
            )
        }

        impl batch::Host for WasiKeyValue<'_> {
            fn get_many(&mut self, bucket: Resource<Bucket>, keys: Vec<String>) -> Result<Vec<$found>, Error> {
                Ok(self.bucket(&bucket)?.get_many(keys, $answer)?)
            }

            fn set_many(&mut self, bucket: Resource<Bucket>, key_values: Vec<Record>) -> Result<(), Error> {
                Ok(self.bucket(&bucket)?.set_many(&key_values)?)
            }

            fn delete_many(&mut self, bucket: Resource<Bucket>, keys: Vec<String>) -> Result<(), Error> {
                Ok(self.bucket(&bucket)?.delete_many(&keys)?)
            }
        }
    };
}
pub(super) use serve_batch;
