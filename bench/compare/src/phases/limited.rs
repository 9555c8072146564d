//! More data than memory: the process runs in a control group whose limit counts the page cache, too.

use super::Job;
use crate::Result;
use crate::data::{Key, Random, key, shuffled};
use crate::engine::{Engine, OpenOptions};
use crate::rows::LIMITED;
use crate::sample::{Times, expect_equal};
use std::time::{Duration, Instant};

/// Records of one commit.
const BATCH: usize = 1_000;

pub(super) fn run<E: Engine>(job: &Job) -> Result<()> {
    if E::FACTS.value_max < LIMITED {
        return Ok(());
    }
    let scale = job.scale_for::<E>();
    // A quarter for the engine's own caches leaves as much for the page cache, and room for an index.
    let engine: E = job.open_with(&OpenOptions { cache: scale.memory_limit / 4, ..job.options() })?;
    let numbers: Vec<u64> = (0..scale.limited_records as u64).collect();
    let mut took = Duration::ZERO;
    for batch in numbers.chunks(BATCH) {
        // Made batch by batch, outside of the clock: all of it would not fit into the limit.
        let records: Vec<(Key, Vec<u8>)> = batch.iter().map(|number| (key(*number), value(*number))).collect();
        let start = Instant::now();
        engine.batch_durable(records.iter().map(|(key, value)| (key.as_slice(), value.as_slice())))?;
        took += start.elapsed();
    }
    job.durable_sink::<E>().time("limited_load", took, numbers.len(), job.scale.limited_records)?;
    engine.settle()?;

    let keys: Vec<Key> = shuffled(&numbers, 1).into_iter().take(scale.limited_reads).map(key).collect();
    let mut times = Times::new()?;
    let mut hits = 0;
    let start = Instant::now();
    for key in &keys {
        // Most reads wait for the device: the clock does not matter.
        hits += usize::from(times.of(|| engine.get(key, |value| assert_eq!(value.len(), LIMITED)))?);
    }
    let took = start.elapsed();
    expect_equal("hits", hits, keys.len())?;
    job.sink.time("limited_reads", took, keys.len(), job.scale.limited_reads)?;
    job.sink.latency("limited_reads", &times)?;
    engine.close()
}

fn value(number: u64) -> Vec<u8> {
    let mut value = vec![0; LIMITED];
    Random::new(number).fill(&mut value);
    value
}
