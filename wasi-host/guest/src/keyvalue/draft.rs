//! `wasi:keyvalue@0.2.0-draft`: cursors and counters are unsigned numbers.

super::bucket_of_draft!(exports::wasi::keyvalue0_2_0_draft, u64, Option<Record>, |key, value| Some((key, value?)));

fn from_cursor(cursor: u64) -> Result<u64, Refused> {
    Ok(cursor)
}

fn to_cursor(cursor: u64) -> u64 {
    cursor
}

impl wit::atomics::Guest for Component {
    fn increment(bucket: BucketBorrow<'_>, key: String, delta: u64) -> Result<u64, Error> {
        Ok(inner(&bucket).increment(&key, |old: u64| old.checked_add(delta))?)
    }
}
