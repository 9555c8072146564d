//! Stores that a host calls, one call for each operation: the component by its Rust methods, the peers by the interface of the measurement.

use crate::Outcome;
use crate::data::VALUE_LEN;
use crate::peer::{Entry, Peer};
use pipkin_wasi_host::Db;

/// Records of a page when the host walks over all.
const PAGE: u32 = 1000;

/// What the host asks of a store in its sandbox.
pub(crate) trait Called {
    fn put(&mut self, entry: &Entry) -> Outcome;
    fn put_many(&mut self, entries: &[Entry]) -> Outcome;
    fn get(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>>;
    fn get_many(&mut self, keys: &[Vec<u8>]) -> Outcome<Vec<Option<Vec<u8>>>>;
    /// Bytes of all values.
    fn walk(&mut self) -> Outcome<usize>;
}

impl Called for Db {
    fn put(&mut self, (key, value): &Entry) -> Outcome {
        Ok(self.insert(key, value)?)
    }

    fn put_many(&mut self, entries: &[Entry]) -> Outcome {
        Ok(self.insert_many(entries.iter().map(|(key, value)| (key, value)))?)
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(Db::get(self, key)?)
    }

    fn get_many(&mut self, keys: &[Vec<u8>]) -> Outcome<Vec<Option<Vec<u8>>>> {
        Ok(Db::get_many(self, keys)?)
    }

    fn walk(&mut self) -> Outcome<usize> {
        Ok(self.scan(b"")?.try_fold(0, |bytes, entry| entry.map(|entry| bytes + entry.value.len()))?)
    }
}

impl Called for Peer {
    fn put(&mut self, (key, value): &Entry) -> Outcome {
        Peer::put(self, key, value)
    }

    fn put_many(&mut self, entries: &[Entry]) -> Outcome {
        Peer::put_many(self, entries)
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Peer::get(self, key)
    }

    fn get_many(&mut self, keys: &[Vec<u8>]) -> Outcome<Vec<Option<Vec<u8>>>> {
        Peer::get_many(self, keys)
    }

    fn walk(&mut self) -> Outcome<usize> {
        let (mut bytes, mut behind) = (0, None::<Vec<u8>>);
        loop {
            let page = self.page(behind.as_deref(), PAGE)?;
            bytes += page.iter().map(|(_, value)| value.len()).sum::<usize>();
            match page.into_iter().next_back() {
                Some((key, _)) => behind = Some(key),
                None => return Ok(bytes),
            }
        }
    }
}

/// A store that answers wrongly has no figure.
pub(crate) fn complete(bytes: usize, records: usize) -> Outcome {
    if bytes == records * VALUE_LEN { Ok(()) } else { Err(format!("{bytes} bytes came for {records} records").into()) }
}
