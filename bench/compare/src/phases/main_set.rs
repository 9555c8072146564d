//! One store from its load to its end, in the order that the benchmarks of LMDB, redb and emdb have made usual.

use super::{Job, read, write};
use crate::data::{keys, shuffled, to_load};
use crate::engine::{Engine, OpenOptions};
use crate::sample::{Unit, timed};
use crate::{Result, data, process};

pub(super) fn run<E: Engine>(job: &Job) -> Result<()> {
    let scale = job.scale_for::<E>();
    let records = to_load(&scale);
    let engine: E = job.open()?;
    write::load(job, &engine, &records)?;
    engine.settle()?;
    job.size(&engine, "size_loaded")?;
    write::durable_puts(job, &engine, &scale)?;
    write::batches(job, &engine, &scale)?;
    write::unflushed_puts(job, &engine, &scale)?;
    engine.flush()?;
    engine.settle()?;
    job.size(&engine, "size_written")?;

    let keys = keys(&records);
    let shuffled = shuffled(&keys, 1);
    let expected = data::total(&records);
    drop(records);
    let reads = read::Reads { scale: &scale, keys: &keys, shuffled: &shuffled, expected };
    read::len(job, &engine, &scale)?;
    reads.run(job, &engine)?;
    engine.close()?;

    let unchecked: E = job.open_with(&OpenOptions { verify: false, ..job.options() })?;
    reads.unchecked(job, &unchecked)?;
    unchecked.close()?;

    let mut engine: E = job.open()?;
    write::removals(job, &engine, &shuffled, "removals")?;
    engine.settle()?;
    job.size(&engine, "size_removed")?;
    if E::FACTS.compacts {
        let (took, compacted) = timed(|| engine.compact())?;
        engine = compacted;
        job.sink.time("compaction", took, scale.records, job.scale.records)?;
        job.size(&engine, "size_compacted")?;
    }
    read::removed(&engine, &shuffled)?;
    engine.close()?;
    if E::FACTS.is_limits() {
        return Ok(()); // its file was prepared in one piece
    }
    job.sink.number("size_closed", process::size(&job.folder)?.allocated as f64, Unit::Bytes)
}
