//! Values of 64 KiB.

use super::Job;
use crate::Result;
use crate::data::{Key, key, shuffled, sum, values};
use crate::engine::Engine;
use crate::rows::LARGE;
use crate::sample::{expect_equal, timed};

pub(super) fn run<E: Engine>(job: &Job) -> Result<()> {
    if E::FACTS.value_max < LARGE {
        return Ok(());
    }
    let scale = job.scale_for::<E>();
    let keys: Vec<Key> = (0..).take(scale.large_values).map(key).collect();
    let values = values(scale.large_values, LARGE);
    let engine: E = job.open()?;
    let pairs = keys.iter().zip(&values).map(|(key, value)| (key.as_slice(), value.as_slice()));
    let (took, ()) = timed(|| engine.load(pairs))?;
    job.durable_sink::<E>().time("large_load", took, keys.len(), job.scale.large_values)?;
    engine.settle()?;

    let expected = (keys.len(), values.iter().map(|value| sum(value)).sum::<u64>());
    let shuffled = shuffled(&keys, 1);
    expect_equal("large values", super::read::one_by_one(&engine, &shuffled)?, expected)?;
    let (took, found) = timed(|| super::read::one_by_one(&engine, &shuffled))?;
    expect_equal("large values", found, expected)?;
    job.sink.time("large_reads", took, keys.len(), job.scale.large_values)?;
    engine.close()
}
