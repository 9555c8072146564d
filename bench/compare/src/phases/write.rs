//! Phases that write.

use super::Job;
use crate::Result;
use crate::data::{EXTRA, KEY_LEN, Key, Record, VALUE_LEN, records};
use crate::engine::Engine;
use crate::process;
use crate::sample::{Times, Unit, timed};
use crate::scale::Scale;

/// The numbers of the records that these phases add.
const DURABLE: u64 = EXTRA;
const BATCHED: u64 = EXTRA + (1 << 30);
const UNFLUSHED: u64 = EXTRA + (2 << 30);
const UNFLUSHED_TIMED: u64 = EXTRA + (3 << 30);

pub(super) fn load<E: Engine>(job: &Job, engine: &E, records: &[Record]) -> Result<()> {
    let before = Written::now(job)?;
    let (took, ()) = timed(|| engine.load(records.iter().map(Record::pair)))?;
    job.durable_sink::<E>().time("load", took, records.len(), job.scale.records)?;
    engine.settle()?; // what the load leaves to the background is written for it, too
    before.report(job, engine, "load", records.len())
}

pub(super) fn durable_puts<E: Engine>(job: &Job, engine: &E, scale: &Scale) -> Result<()> {
    let records = records(DURABLE, scale.durable_puts);
    let before = Written::now(job)?;
    // Each put waits for the device: next to that the clock costs nothing, so one pass serves for both figures.
    let mut times = Times::new()?;
    let put_all = || records.iter().try_for_each(|record| times.of(|| engine.put_durable(&record.key, &record.value)));
    let (took, ()) = timed(put_all)?;
    job.durable_sink::<E>().time("durable_puts", took, records.len(), job.scale.durable_puts)?;
    job.durable_sink::<E>().latency("durable_puts", &times)?;
    before.report(job, engine, "puts", records.len())
}

pub(super) fn batches<E: Engine>(job: &Job, engine: &E, scale: &Scale) -> Result<()> {
    let records = records(BATCHED, scale.batches * scale.batch_size);
    let before = Written::now(job)?;
    let mut times = Times::new()?;
    let batches = || {
        let mut batches = records.chunks(scale.batch_size);
        batches.try_for_each(|batch| times.of(|| engine.batch_durable(batch.iter().map(Record::pair))))
    };
    let (took, ()) = timed(batches)?;
    job.durable_sink::<E>().time("batches", took, scale.batches, job.scale.batches)?;
    job.durable_sink::<E>().latency("batches", &times)?;
    before.report(job, engine, "batches", records.len())
}

pub(super) fn unflushed_puts<E: Engine>(job: &Job, engine: &E, scale: &Scale) -> Result<()> {
    let sink = job.unflushed_sink::<E>();
    engine.sync_commits(false)?;
    let first = records(UNFLUSHED, scale.unflushed_puts);
    let put_all = || first.iter().try_for_each(|record| engine.put(&record.key, &record.value));
    let (took, ()) = timed(put_all)?;
    sink.time("unflushed_puts", took, first.len(), job.scale.unflushed_puts)?;

    let second = records(UNFLUSHED_TIMED, scale.unflushed_puts);
    let mut times = Times::new()?;
    second.iter().try_for_each(|record| times.of(|| engine.put(&record.key, &record.value)))?;
    sink.latency("unflushed_puts", &times)?;
    engine.sync_commits(true)
}

/// How many records are there after all of these.
pub(super) fn written(scale: &Scale) -> u64 {
    (scale.records + scale.durable_puts + scale.batches * scale.batch_size + 2 * scale.unflushed_puts) as u64
}

/// Removes the first half, for a row.
pub(super) fn removals<E: Engine>(job: &Job, engine: &E, shuffled: &[Key], row: &str) -> Result<()> {
    let half = shuffled.get(..shuffled.len() / 2).unwrap_or_default();
    let (took, ()) = timed(|| engine.remove(half))?;
    job.durable_sink::<E>().time(row, took, half.len(), job.scale.records / 2)
}

/// What had been written at some moment. The process's own count is blind to others, but charges a whole folio of the page cache for
/// one byte that changes in a map; the device's count is exact, but counts everybody.
struct Written {
    process: u64,
    device: Option<u64>,
}

impl Written {
    fn now(job: &Job) -> Result<Self> {
        Ok(Self { process: process::written()?, device: process::traffic(&job.folder).map(|traffic| traffic.written) })
    }

    fn report<E: Engine>(&self, job: &Job, engine: &E, phase: &str, records: usize) -> Result<()> {
        engine.flush()?;
        let now = Self::now(job)?;
        let stored = (records * (KEY_LEN + VALUE_LEN)) as f64;
        if !E::FACTS.served {
            job.sink.number(&format!("written_{phase}"), (now.process - self.process) as f64 / stored, Unit::Ratio)?;
        }
        if let (Some(before), Some(after)) = (self.device, now.device) {
            job.sink.number(&format!("device_{phase}"), (after - before) as f64 / stored, Unit::Ratio)?;
        }
        Ok(())
    }
}
