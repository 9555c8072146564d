//! varvedb: an event store on LMDB. It takes part in the rows about events only.
//!
//! Tuning: events of a fixed size through the serializer that allocates nothing, a batch for each commit, the map large enough never to be
//! resized, and the iterator over all events, which spares the look-up that the one over a stream makes for each.

use crate::Result;
use crate::data::{Key, Pair, VALUE_LEN};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use rkyv::{Archive, Serialize};
use std::path::Path;
use std::sync::Mutex;
use varvedb::{GlobalSequence, Stream, StreamId, StreamSequence, Varve, VarveConfig};

/// Address space, not memory.
const MAP_SIZE: usize = 64 << 30;
/// Bytes that an event may take when it is serialized.
const BUFFER: usize = 512;
const STREAM: StreamId = StreamId(1);
/// Where records are, and the number of the first stream of several.
const RECORDS: u64 = 2;
const OWN: u64 = 3;

#[derive(Archive, Serialize)]
struct Event {
    bytes: [u8; VALUE_LEN],
}

pub(crate) struct VarveEngine {
    store: Varve,
    stream: Mutex<Stream<Event, BUFFER>>,
}

fn events_only<T>() -> Result<T> {
    Err("varvedb stores events only".into())
}

impl VarveEngine {
    fn append<'e>(&mut self, stream: u64, events: impl Iterator<Item = &'e [u8]>) -> Result<()> {
        let events: Vec<Event> =
            events.map(|event| event.try_into().map(|bytes| Event { bytes })).collect::<std::result::Result<_, _>>()?;
        let to = self.stream.get_mut().map_err(|_| "a writer has panicked")?;
        to.append_batch(StreamId(stream), &events)?;
        Ok(())
    }
}

impl Engine for VarveEngine {
    const FACTS: Facts = Facts {
        pairs: false,
        compacts: false,
        unflushed: Unflushed::Kept("every commit syncs"),
        ..Facts::peer("varvedb", "varvedb", "on LMDB; events of fixed size, a batch for each commit, iterator over all events")
    };

    type Reader<'a> = View;

    fn open(folder: &Path, _: &OpenOptions) -> Result<Self> {
        let setup = VarveConfig { map_size: MAP_SIZE, ..VarveConfig::default() };
        let mut store = Varve::with_config(folder, setup)?;
        let stream = Mutex::new(store.stream("events")?);
        Ok(Self { store, stream })
    }

    fn load<'r>(&self, _: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        events_only()
    }

    fn put_durable(&self, _: &[u8], _: &[u8]) -> Result<()> {
        events_only()
    }

    fn batch_durable<'r>(&self, _: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        events_only()
    }

    fn put(&self, _: &[u8], _: &[u8]) -> Result<()> {
        events_only()
    }

    fn remove(&self, _: &[Key]) -> Result<()> {
        events_only()
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.store.next_global_seq().0)
    }

    fn reader(&self) -> Result<View> {
        events_only()
    }

    fn compact(self) -> Result<Self> {
        Ok(self)
    }

    fn append_events(&mut self, _: u64, events: &[Vec<u8>]) -> Result<()> {
        self.append(STREAM.0, events.iter().map(Vec::as_slice))
    }

    fn get_event(&self, number: u64, found: impl FnOnce(&[u8])) -> Result<bool> {
        let mut reader = self.stream.lock().map_err(|_| "a writer has panicked")?.reader();
        let event = reader.get_bytes(STREAM, StreamSequence(number))?;
        let is_there = event.is_some();
        event.map(found);
        Ok(is_there)
    }

    fn each_event(&self, _: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut hits = 0;
        self.store.global_reader().iter_from(GlobalSequence(0))?.for_each(|event| {
            each(&event.payload);
            hits += 1;
        })?;
        Ok(hits)
    }

    fn append_to(&mut self, stream: u64, _: u64, events: &[Vec<u8>]) -> Result<()> {
        self.append(OWN + stream, events.iter().map(Vec::as_slice))
    }

    fn append_among(&mut self, stream: u64, _: u64, event: &[u8], records: &[(Key, &[u8])]) -> Result<()> {
        self.append(OWN + stream, std::iter::once(event))?;
        self.append(RECORDS, records.iter().map(|(_, value)| *value))
    }

    fn each_of(&self, stream: u64, _: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let reader = self.stream.lock().map_err(|_| "a writer has panicked")?.reader();
        let mut hits = 0;
        reader.iter_stream(StreamId(OWN + stream), None)?.for_each(|_, event| {
            each(event);
            hits += 1;
        })?;
        Ok(hits)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

pub(crate) struct View;

impl Reader for View {
    fn get(&mut self, _: &[u8], _: impl FnOnce(&[u8])) -> Result<bool> {
        events_only()
    }
}
