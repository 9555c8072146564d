//! A [`Peer`] behind the interface that the host calls.

use crate::bindings::exports::pipkin::peers::peer::{GuestStore, Store, Work};
use crate::data::{VALUE_LEN, key, shuffled};
use crate::{Entry, Peer, Record, Result};
use std::time::Instant;

const BATCH: usize = 100;
const VALUE: [u8; VALUE_LEN] = [7; VALUE_LEN];

/// An open store.
pub struct Exported<P> {
    peer: P,
    records: u32,
}

impl<P: Peer> GuestStore for Exported<P>
where
    Self: Sized,
{
    fn open(records: u32) -> Result<Store> {
        let opened = Self { peer: P::create()?, records };
        let keys: Vec<String> = (0..records).map(|number| key(number.into())).collect();
        for keys in keys.chunks(1000) {
            opened.peer.commit(puts(keys))?;
        }
        opened.read(&keys)?;
        Ok(Store::new(opened))
    }

    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        self.peer.commit([(key.as_slice(), value.as_slice())].into_iter())
    }

    fn put_many(&self, entries: Vec<Entry>) -> Result<()> {
        self.peer.commit(entries.iter().map(|(key, value)| (key.as_slice(), value.as_slice())))
    }

    fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.peer.get_each([key.as_slice()].into_iter(), |value| found = value.map(<[u8]>::to_vec))?;
        Ok(found)
    }

    fn get_many(&self, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        self.peer.get_batch(&keys, |value| values.push(value.map(<[u8]>::to_vec)))?;
        Ok(values)
    }

    fn page(&self, behind: Option<Vec<u8>>, count: u32) -> Result<Vec<Entry>> {
        let mut page = Vec::new();
        self.peer.walk(behind.as_deref(), |key, value| {
            page.push((key.to_vec(), value.to_vec()));
            page.len() < count as usize
        })?;
        Ok(page)
    }

    fn measure(&self, work: Work, count: u32) -> Result<u64> {
        let keys: Vec<String> = shuffled(self.records.into(), count.into()).take(count as usize).map(key).collect();
        let start = Instant::now();
        match work {
            Work::PutTogether => self.peer.put_together(puts(&keys))?,
            Work::PutGathered => self.peer.put_gathered(puts(&keys))?,
            Work::PutAlone => keys.chunks(1).try_for_each(|key| self.peer.commit(puts(key)))?,
            Work::PutBatches => keys.chunks(BATCH).try_for_each(|keys| self.peer.commit(puts(keys)))?,
            Work::Get => self.read(&keys)?,
            Work::GetBatches => self.read_batches(&keys)?,
            Work::Walk => return self.walk(start),
            Work::Increment => return self.increment(&keys),
            Work::Nothing if !self.peer.call_nothing(count) => return Ok(0),
            Work::Nothing => {}
        }
        Ok(nanoseconds(start))
    }
}

impl<P: Peer> Exported<P> {
    fn read(&self, keys: &[String]) -> Result<()> {
        let mut bytes = 0;
        self.peer.get_each(keys.iter().map(String::as_bytes), |value| bytes += value.map_or(0, <[u8]>::len))?;
        complete(bytes, keys.len())
    }

    fn read_batches(&self, keys: &[String]) -> Result<()> {
        let mut bytes = 0;
        for keys in keys.chunks(BATCH) {
            let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
            self.peer.get_batch(&keys, |value| bytes += value.map_or(0, <[u8]>::len))?;
        }
        complete(bytes, keys.len())
    }

    /// Counters beside the records, which are there before the clock starts.
    fn increment(&self, keys: &[String]) -> Result<u64> {
        let counters: Vec<String> = keys.iter().map(|key| format!("n{key}")).collect();
        let add = || self.peer.increment(counters.iter().map(String::as_str));
        if !add()? {
            return Ok(0);
        }
        let start = Instant::now();
        add()?;
        Ok(nanoseconds(start))
    }

    /// The whole store, whatever it holds: the time is that of as many records as were asked for.
    fn walk(&self, start: Instant) -> Result<u64> {
        let mut bytes = 0;
        self.peer.walk(None, |_, value| {
            bytes += value.len();
            true
        })?;
        complete(bytes, self.records as usize)?;
        Ok(nanoseconds(start))
    }
}

fn puts(keys: &[String]) -> impl Iterator<Item = Record<'_>> {
    keys.iter().map(|key| (key.as_bytes(), VALUE.as_slice()))
}

/// A store that answers wrongly has no figure.
fn complete(bytes: usize, records: usize) -> Result<()> {
    if bytes == records * VALUE_LEN { Ok(()) } else { Err(format!("{bytes} bytes came for {records} records")) }
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
