//! Events: appended in their order, read in their order. A key-value store keys them by their number.

use super::Job;
use crate::Result;
use crate::data::{VALUE_LEN, sum, values};
use crate::engine::{Engine, OpenOptions};
use crate::sample::{Times, expect_equal, timed};

/// Events of one commit.
const BATCH: usize = 1_000;

pub(super) fn run<E: Engine>(job: &Job) -> Result<()> {
    let scale = job.scale_for::<E>();
    let events = values(scale.events, VALUE_LEN);
    let mut engine: E = job.open_with(&OpenOptions { ordered: true, ..job.options() })?;
    let mut times = Times::new()?;
    let (took, ()) = timed(|| {
        let mut first = 0;
        for batch in events.chunks(BATCH) {
            times.of(|| engine.append_events(first, batch))?;
            first += batch.len() as u64;
        }
        Ok(())
    })?;
    job.durable_sink::<E>().time("event_batches", took, events.len(), job.scale.events)?;
    job.durable_sink::<E>().latency("event_batches", &times)?;
    engine.settle()?;

    let expected = (events.len(), events.iter().map(|event| sum(event)).sum::<u64>());
    let read_all = || {
        let mut total = 0;
        let hits = engine.each_event(events.len(), |event| total += sum(event))?;
        Ok((hits, total))
    };
    expect_equal("events", read_all()?, expected)?;
    let (took, found) = timed(read_all)?;
    expect_equal("events", found, expected)?;
    job.sink.time("event_iteration", took, events.len(), job.scale.events)?;
    engine.close()
}
