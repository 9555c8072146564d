//! Events: appended in their order, read in their order. A key-value store keys them by their number.

use super::Job;
use crate::Result;
use crate::data::{VALUE_LEN, shuffled, sum, values};
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

    let mut numbers = shuffled(&(0..events.len()).collect::<Vec<_>>(), 6);
    numbers.truncate(scale.reads);
    let expected = (numbers.len(), numbers.iter().filter_map(|&number| events.get(number)).map(|event| sum(event)).sum::<u64>());
    let read_some = || {
        let (mut hits, mut total) = (0, 0);
        for &number in &numbers {
            hits += usize::from(engine.get_event(number as u64, |event| total += sum(event))?);
        }
        Ok((hits, total))
    };
    expect_equal("single events", read_some()?, expected)?;
    let (took, found) = timed(read_some)?;
    expect_equal("single events", found, expected)?;
    job.sink.time("event_reads", took, numbers.len(), numbers.len())?;
    engine.close()
}
