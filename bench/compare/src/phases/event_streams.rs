//! Events among records, and events of many streams. A store of pairs keys them by their stream and their version.

use super::Job;
use crate::Result;
use crate::data::{KEY_LEN, Key, VALUE_LEN, shuffled, sum, values};
use crate::engine::{Engine, OpenOptions};
use crate::rows::{BETWEEN, OF_STREAM};
use crate::sample::{expect_equal, timed};

/// The stream of all events that are among records.
const ONE: u64 = 0;

fn open<E: Engine>(job: &Job) -> Result<E> {
    job.open_with(&OpenOptions { ordered: true, ..job.options() })
}

/// Ten puts between two events of one stream, to keys that come again: nine in ten records are dead in the end.
pub(super) fn mixed<E: Engine>(job: &Job) -> Result<()> {
    let wanted = job.scale.events_mixed;
    let count = wanted.min(E::FACTS.records_max);
    let (events, records) = (values(count, VALUE_LEN), values(BETWEEN, VALUE_LEN));
    let mut engine: E = open(job)?;
    let (took, ()) = timed(|| {
        let mut key = 0_usize;
        for (version, event) in events.iter().enumerate() {
            let puts: Vec<(Key, &[u8])> = records
                .iter()
                .map(|record| {
                    // A step that has no divisor in common with the number of keys, unless that is a multiple of it.
                    key = (key + 7919) % count;
                    (record_key(key), record.as_slice())
                })
                .collect();
            engine.append_among(ONE, version as u64, event, &puts)?;
        }
        engine.flush()
    })?;
    job.unflushed_sink::<E>().time("mixed_events", took, count, wanted)?;
    engine.settle()?;
    let expected = (count, events.iter().map(|event| sum(event)).sum::<u64>());
    let read = |engine: &E, row: &str| {
        let all = || {
            let mut total = 0;
            let hits = engine.each_of(ONE, count, |event| total += sum(event))?;
            Ok((hits, total))
        };
        expect_equal("events", all()?, expected)?;
        let (took, found) = timed(all)?;
        expect_equal("events", found, expected)?;
        job.sink.time(row, took, count, wanted)
    };
    read(&engine, "mixed_iteration")?;
    if E::FACTS.compacts {
        engine = engine.compact()?;
        read(&engine, "mixed_compacted")?;
    }
    engine.close()
}

fn record_key(number: usize) -> Key {
    let mut key = [0xff; KEY_LEN];
    key[..8].copy_from_slice(&(u64::MAX - number as u64).to_be_bytes());
    key
}

/// Many streams of ten events, each appended in one commit; then each of them read, in any order.
pub(super) fn streams<E: Engine>(job: &Job) -> Result<()> {
    let wanted = job.scale.event_streams;
    let count = wanted.min(E::FACTS.records_max / OF_STREAM);
    let events = values(OF_STREAM, VALUE_LEN);
    let mut engine: E = open(job)?;
    let (took, ()) = timed(|| (0..count as u64).try_for_each(|stream| engine.append_to(stream, 0, &events)))?;
    job.durable_sink::<E>().time("stream_appends", took, count, wanted)?;
    engine.settle()?;
    let order = shuffled(&(0..count).collect::<Vec<_>>(), 7);
    let expected = (OF_STREAM * count, count as u64 * events.iter().map(|event| sum(event)).sum::<u64>());
    let read_all = || {
        let (mut hits, mut total) = (0, 0_u64);
        for &stream in &order {
            hits += engine.each_of(stream as u64, OF_STREAM, |event| total += sum(event))?;
        }
        Ok((hits, total))
    };
    expect_equal("events of streams", read_all()?, expected)?;
    let (took, found) = timed(read_all)?;
    expect_equal("events of streams", found, expected)?;
    job.sink.time("stream_reads", took, count, wanted)?;
    if let Some(bytes) = engine.index_bytes() {
        job.sink.number("stream_bytes", bytes as f64 / count as f64, crate::sample::Unit::BytesEach)?;
    }
    engine.close()
}
