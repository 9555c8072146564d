//! `wasi:keyvalue`: the same buckets for both drafts of the standard.

mod bucket;
mod draft;
mod draft2;

/// The code that both drafts share, except for the generated types: errors, buckets, batches.
macro_rules! bucket_of_draft {
    ($($package:ident)::+, $cursor:ty, $found:ty, $answer:expr) => {
        use $crate::bindings::$($package)::+ as wit;
        use $crate::keyvalue::bucket::{self, Record, Refused};
        use $crate::Component;
        use alloc::string::String;
        use alloc::vec::Vec;
        use wit::store::{BucketBorrow, Error, KeyResponse};

        impl From<Refused> for Error {
            fn from(refused: Refused) -> Self {
                match refused {
                    Refused::NoSuchStore => Self::NoSuchStore,
                    Refused::Other(words) => Self::Other(words),
                }
            }
        }

        /// A bucket as the resource type of this draft.
        pub(crate) struct Bucket(bucket::Bucket);

        fn inner<'a>(bucket: &'a BucketBorrow<'_>) -> &'a bucket::Bucket {
            &bucket.get::<Bucket>().0
        }

        impl wit::store::Guest for Component {
            type Bucket = Bucket;

            fn open(identifier: String) -> Result<wit::store::Bucket, Error> {
                Ok(wit::store::Bucket::new(Bucket(bucket::Bucket::open(&identifier)?)))
            }
        }

        impl wit::store::GuestBucket for Bucket {
            fn get(&self, key: String) -> Result<Option<Vec<u8>>, Error> {
                Ok(self.0.get(&key)?)
            }

            fn set(&self, key: String, value: Vec<u8>) -> Result<(), Error> {
                Ok(self.0.set(&key, &value)?)
            }

            fn delete(&self, key: String) -> Result<(), Error> {
                Ok(self.0.delete(&key)?)
            }

            fn exists(&self, key: String) -> Result<bool, Error> {
                Ok(self.0.exists(&key)?)
            }

            fn list_keys(&self, cursor: Option<$cursor>) -> Result<KeyResponse, Error> {
                let (keys, next) = self.0.list_keys(cursor.map(from_cursor).transpose()?)?;
                Ok(KeyResponse { keys, cursor: next.map(to_cursor) })
            }
        }

        impl wit::batch::Guest for Component {
            fn get_many(bucket: BucketBorrow<'_>, keys: Vec<String>) -> Result<Vec<$found>, Error> {
                Ok(inner(&bucket).get_many(keys, $answer)?)
            }

            fn set_many(bucket: BucketBorrow<'_>, key_values: Vec<Record>) -> Result<(), Error> {
                Ok(inner(&bucket).set_many(&key_values)?)
            }

            fn delete_many(bucket: BucketBorrow<'_>, keys: Vec<String>) -> Result<(), Error> {
                Ok(inner(&bucket).delete_many(&keys)?)
            }
        }
    };
}
use bucket_of_draft;
