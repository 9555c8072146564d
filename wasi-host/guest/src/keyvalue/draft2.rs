//! `wasi:keyvalue@0.2.0-draft2`: cursors are strings, counters signed, and there is a swap of a value that nobody has changed. What
//! `get-many` answers differs between the text that was published and the one that Spin has.

#[cfg(not(feature = "spin"))]
super::bucket_of_draft!(exports::wasi::keyvalue0_2_0_draft2, String, Option<Record>, |key, value| Some((key, value?)));
#[cfg(feature = "spin")]
super::bucket_of_draft!(spin::exports::wasi::keyvalue, String, (String, Option<Vec<u8>>), |key, value| (key, value));

use alloc::string::ToString;
use pipkin::Version;
use wit::atomics::{CasError, GuestCas};

fn from_cursor(cursor: String) -> Result<u64, Refused> {
    cursor.parse().map_err(|_| Refused::Other("this cursor did not come from `list-keys`".to_string()))
}

fn to_cursor(cursor: u64) -> String {
    cursor.to_string()
}

/// The version of a key's record when the handle was made; `None` if the key had none.
pub(crate) struct Cas {
    bucket: bucket::Bucket,
    key: String,
    seen: Option<Version>,
}

impl Cas {
    fn look(bucket: bucket::Bucket, key: String) -> Result<wit::atomics::Cas, Error> {
        let seen = bucket.get_versioned(&key)?.map(|(_, version)| version);
        Ok(wit::atomics::Cas::new(Self { bucket, key, seen }))
    }
}

impl GuestCas for Cas {
    fn new(bucket: BucketBorrow<'_>, key: String) -> Result<wit::atomics::Cas, Error> {
        Self::look(inner(&bucket).clone(), key)
    }

    /// Reads the current value, also one written since the handle was made; the swap fails then.
    fn current(&self) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.bucket.get(&self.key)?)
    }
}

impl wit::atomics::Guest for Component {
    type Cas = Cas;

    fn increment(bucket: BucketBorrow<'_>, key: String, delta: i64) -> Result<i64, Error> {
        Ok(inner(&bucket).increment(&key, |old: i64| old.checked_add(delta))?)
    }

    fn swap(cas: wit::atomics::Cas, value: Vec<u8>) -> Result<(), CasError> {
        let Cas { bucket, key, seen } = cas.into_inner();
        let swapped = bucket.swap(&key, seen, &value);
        if swapped.map_err(|refused| CasError::StoreError(refused.into()))? {
            return Ok(());
        }
        Err(Cas::look(bucket, key).map_or_else(CasError::StoreError, CasError::CasFailed))
    }
}
