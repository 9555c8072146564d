//! Threads that each want their record on the device.

use super::Job;
use super::together::together;
use crate::Result;
use crate::data::{EXTRA, Record, records, to_load};
use crate::engine::Engine;
use crate::rows::GROUP;
use crate::sample::{Times, expect_equal};

pub(super) fn run<E: Engine>(job: &Job) -> Result<()> {
    let scale = job.scale_for::<E>();
    let engine: E = job.open()?;
    // A store that is in use, but small enough that the load does not matter.
    let loaded = to_load(&crate::scale::Scale { records: scale.records.min(100_000), ..scale.clone() });
    engine.load(loaded.iter().map(Record::pair))?;
    engine.settle()?;

    let records = records(EXTRA, GROUP * scale.group_puts);
    let (took, parts) = together(records.chunks(scale.group_puts), |part| {
        let mut times = Times::new()?;
        part.iter().try_for_each(|record| times.of(|| engine.put_durable(&record.key, &record.value)))?;
        Ok(times)
    })?;
    let mut times = Times::new()?;
    parts.iter().try_for_each(|part| times.add(part))?;
    expect_equal("len", engine.len()?, (loaded.len() + records.len()) as u64)?;
    job.durable_sink::<E>().time("group_commit", took, records.len(), GROUP * job.scale.group_puts)?;
    job.durable_sink::<E>().latency("group_commit", &times)?;
    engine.close()
}
