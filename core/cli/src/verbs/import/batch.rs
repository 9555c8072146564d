//! A batch of records on its way from the parser to the store: one buffer, used again and again.

use crate::choices::Choices;
use crate::exit::Failure;
use pipkin::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};

/// A batch is written when it holds this many records ...
const RECORDS_MAX: usize = 1000;
/// ... or this many bytes, whichever comes first.
const BYTES_MAX: usize = 1024 * 1024;
/// A larger buffer, grown by a large value, is freed instead of reused.
const KEPT_CAPACITY_MAX: usize = 8 * BYTES_MAX;

/// Concatenated keys and values, and the length of each.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Length of key and value of each record.
    records: Vec<(usize, usize)>,
    /// When some of them expire, by their place in `records`: milliseconds since 1970.
    expiries: Vec<(usize, u64)>,
    /// From these places in `records` on, records are of this namespace; an empty name is that of the default one. None before the first.
    spaces: Vec<(usize, String)>,
    /// Namespaces that the source says are there, and what they say of their records.
    pub(crate) named: Vec<(String, Choices)>,
    /// Lines, rows or files skipped since the previous batch.
    pub(crate) skipped: u64,
    /// How far the source was read at the end of this batch, in bytes.
    pub(crate) position: u64,
}

/// Why a record was not taken.
pub(crate) enum Trouble {
    /// This one cannot be imported; the next one may.
    Skippable(String),
    /// The source cannot be read any further.
    Fatal(Failure),
}

impl Batch {
    /// Adds a record; fails if it exceeds the limits of a store.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        check_len(key.len(), value.len())?;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.records.push((key.len(), value.len()));
        Ok(())
    }

    /// Adds a record that expires then.
    pub(crate) fn push_expiring(&mut self, key: &[u8], value: &[u8], expires_ms: u64) -> Result<(), String> {
        self.push(key, value)?;
        self.expiries.push((self.records.len().saturating_sub(1), expires_ms));
        Ok(())
    }

    /// Says that the next records are of this namespace.
    pub(crate) fn enter(&mut self, name: &str) {
        if self.spaces.last().is_none_or(|(_, last)| last != name) {
            self.spaces.push((self.records.len(), name.to_owned()));
        }
    }

    /// True if the records say which namespace they are of.
    pub(crate) fn has_namespaces(&self) -> bool {
        !self.spaces.is_empty() || !self.named.is_empty()
    }

    /// From which places on records are of which namespace.
    pub(crate) fn spaces(&self) -> &[(usize, String)] {
        &self.spaces
    }

    /// True if one of the records expires.
    pub(crate) fn has_expiring(&self) -> bool {
        !self.expiries.is_empty()
    }

    /// Key, value and expiry of each record, in order.
    pub(crate) fn iter_expiring(&self) -> impl Iterator<Item = (&[u8], &[u8], Option<u64>)> {
        let mut expiries = self.expiries.iter().peekable();
        self.iter().enumerate().map(move |(place, (key, value))| {
            let expiry = expiries.next_if(|(expiring, _)| *expiring == place).map(|(_, expiry)| *expiry);
            (key, value, expiry)
        })
    }

    /// Adds a record whose value `read` appends to the buffer. After an error the batch is unchanged.
    pub(crate) fn push_read<E>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Result<(), String>, E> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let value_start = self.bytes.len();
        let outcome = read(&mut self.bytes);
        let value_len = self.bytes.len().saturating_sub(value_start);
        let checked = check_len(key.len(), value_len);
        if outcome.is_ok() && checked.is_ok() {
            self.records.push((key.len(), value_len));
        } else {
            self.bytes.truncate(start);
        }
        outcome.map(|()| checked)
    }

    /// True when it is time to write.
    pub(crate) fn is_full(&self) -> bool {
        self.records.len() >= RECORDS_MAX || self.named.len() >= RECORDS_MAX || self.bytes.len() >= BYTES_MAX
    }

    pub(crate) fn len(&self) -> u64 {
        u64::try_from(self.records.len()).unwrap_or(u64::MAX)
    }

    /// Bytes of keys and values.
    pub(crate) fn payload(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }

    /// Key and value of each record, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.records.iter().map_while(move |(key_len, value_len)| {
            let (key, behind) = rest.split_at_checked(*key_len)?;
            let (value, behind) = behind.split_at_checked(*value_len)?;
            rest = behind;
            Some((key, value))
        })
    }

    /// Empties the batch for the next records.
    pub(crate) fn reset(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY_MAX);
        self.records.clear();
        self.expiries.clear();
        self.spaces.clear();
        self.named.clear();
        self.skipped = 0;
    }
}

/// Checks the engine's limits early, so that the message can name the line or file.
pub(crate) fn check_len(key_len: usize, value_len: usize) -> Result<(), String> {
    if key_len > KEY_LEN_MAX {
        return Err(pipkin::Error::KeyTooLong { len: key_len }.to_string());
    }
    if value_len > VALUE_LEN_MAX {
        return Err(pipkin::Error::ValueTooLong { len: value_len }.to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn records_come_back_in_order_with_empty_keys_and_values() {
        let mut batch = Batch::default();
        batch.push(b"a", b"1").unwrap();
        batch.push(b"", b"").unwrap();
        batch.push(b"", b"only a value").unwrap();
        let read: Result<_, ()> = batch.push_read(b"file", |bytes| {
            bytes.extend_from_slice(b"content");
            Ok(())
        });
        read.unwrap().unwrap();
        let records: Vec<_> = batch.iter().collect();
        assert_eq!(records, [(&b"a"[..], &b"1"[..]), (b"", b""), (b"", b"only a value"), (b"file", b"content")]);
    }

    #[test]
    fn a_record_that_fails_leaves_the_batch_as_it_was() {
        let mut batch = Batch::default();
        batch.push(b"a", b"1").unwrap();
        assert!(batch.push(&vec![0; KEY_LEN_MAX + 1], b"").is_err());
        let read = batch.push_read(b"file", |bytes| {
            bytes.extend_from_slice(b"half of it");
            Err("read failed")
        });
        assert!(read.is_err());
        batch.push(b"b", b"2").unwrap();
        assert_eq!(batch.iter().collect::<Vec<_>>(), [(&b"a"[..], &b"1"[..]), (b"b", b"2")]);
    }

    #[test]
    fn a_batch_is_full_by_records_or_by_bytes() {
        let mut batch = Batch::default();
        (0..RECORDS_MAX).for_each(|_| batch.push(b"", b"").unwrap());
        assert!(batch.is_full());
        batch.reset();
        assert!(!batch.is_full());
        batch.push(b"", &vec![0; BYTES_MAX]).unwrap();
        assert!(batch.is_full());
    }
}
