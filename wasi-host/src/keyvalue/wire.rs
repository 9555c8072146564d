//! What is the same in both drafts of the standard but for the generated types.

/// Implements `store` and `batch` of a draft. The module has `wit`, the generated one, `from_cursor` and `to_cursor`.
macro_rules! serve {
    ($cursor:ty) => {
        use super::bucket::{Bucket, Record, Refused};
        use super::{View, WasiKeyValue};
        use wasmtime::Result as Outcome;
        use wasmtime::component::{Linker, Resource};
        use wit::wasi::keyvalue::store::{self, Error, KeyResponse};
        use wit::wasi::keyvalue::{atomics, batch};

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
            atomics::add_to_linker::<_, View>(linker, view)?;
            batch::add_to_linker::<_, View>(linker, view)
        }

        impl store::Host for WasiKeyValue<'_> {
            fn open(&mut self, identifier: String) -> Result<Resource<Bucket>, Error> {
                let bucket = Bucket::open(self.ctx, &identifier)?;
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

        impl batch::Host for WasiKeyValue<'_> {
            fn get_many(&mut self, bucket: Resource<Bucket>, keys: Vec<String>) -> Result<Vec<Option<Record>>, Error> {
                Ok(self.bucket(&bucket)?.get_many(keys)?)
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
pub(super) use serve;
