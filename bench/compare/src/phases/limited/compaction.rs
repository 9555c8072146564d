//! A full compaction under limited memory, while a thread reads.

use super::Store;
use super::device::Device;
use crate::Result;
use crate::data::{Random, key, sum};
use crate::engine::Engine;
use crate::rows::READS_BESIDE;
use crate::sample::{Times, expect_equal, timed};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) fn run<E: Engine>(store: &Store<'_>) -> Result<()> {
    let engine: E = store.open()?;
    let done = AtomicBool::new(false);
    let device = Device::before(&store.job.folder)?;
    let (compacted, read) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_until(store, &engine, &done));
        let compacted = timed(|| engine.compact_beside());
        done.store(true, Ordering::Relaxed);
        (compacted, reader.join())
    });
    let (took, ()) = compacted?;
    let (reads, reading, times) = read.map_err(|_| "the reading thread has panicked")??;
    let row = store.shape.row("compaction");
    store.job.sink.time(&row, took, 1, 1)?;
    let beside = store.shape.row("compaction_reads");
    store.job.sink.time(&beside, reading, reads, READS_BESIDE)?;
    store.job.sink.latency(&beside, &times)?;
    device.total(&store.job.sink, &row)?;
    engine.close()
}

fn read_until<E: Engine>(store: &Store<'_>, engine: &E, done: &AtomicBool) -> Result<(usize, Duration, Times)> {
    let mut random = Random::new(4);
    let mut times = Times::new()?;
    let (took, reads) = timed(|| {
        let (mut reads, mut total) = (0, 0);
        while reads == 0 || !done.load(Ordering::Relaxed) {
            let key = key(random.next() % store.records);
            let found = times.of(|| engine.get(&key, |value| total += sum(value)))?;
            expect_equal("a record", found, true)?;
            reads += 1;
        }
        std::hint::black_box(total);
        Ok(reads)
    })?;
    Ok((reads, took, times))
}
