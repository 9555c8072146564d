//! Reads in the order of the keys, and what that order costs those who write.

use super::{Job, read, write};
use crate::Result;
use crate::data::{Key, Record, keys, shuffled, sum, to_load};
use crate::engine::{Engine, OpenOptions, Reader};
use crate::rows::{RANGE, SCAN};
use crate::sample::{expect_equal, timed};

pub(super) fn run<E: Engine>(job: &Job) -> Result<()> {
    if !E::FACTS.ordered {
        return Ok(());
    }
    let scale = job.scale_for::<E>();
    let mut records = to_load(&scale);
    let engine: E = job.open_with(&OpenOptions { ordered: true, ..job.options() })?;
    let (took, ()) = timed(|| engine.load(records.iter().map(Record::pair)))?;
    job.durable_sink::<E>().time("ordered_load", took, records.len(), job.scale.records)?;
    engine.settle()?;

    let starts = shuffled(&keys(&records), 2);
    records.sort_unstable_by_key(|record| record.key);
    for (row, number, of, len) in
        [("ranges", scale.ranges, job.scale.ranges, RANGE), ("scans", scale.scans(), job.scale.scans(), SCAN)]
    {
        let starts = starts.get(..number).unwrap_or(&starts);
        let found = ranges(&engine, starts, len)?; // warms the caches, and is checked
        if !E::FACTS.is_limits() {
            expect_equal("records and sum of the ranges", found, expected(&records, starts, len))?;
        }
        let (took, again) = timed(|| ranges(&engine, starts, len))?;
        expect_equal("records and sum of the ranges", again, found)?;
        job.sink.time(row, took, starts.len(), of)?;
    }
    drop(records);

    write::removals(job, &engine, &starts, "ordered_removals")?;
    engine.settle()?;
    let engine = if E::FACTS.compacts {
        let (took, compacted) = timed(|| engine.compact())?;
        job.sink.time("ordered_compaction", took, scale.records, job.scale.records)?;
        compacted
    } else {
        engine
    };
    read::removed(&engine, &starts)?;
    engine.close()
}

/// Records and bytes of the `len` records from each key on.
fn ranges<E: Engine>(engine: &E, starts: &[Key], len: usize) -> Result<(usize, u64)> {
    let mut reader = engine.reader()?;
    let (mut hits, mut total) = (0, 0);
    for start in starts {
        hits += reader.range(start, len, |key, value| total += sum(value) + key.len() as u64)?;
    }
    Ok((hits, total))
}

fn expected(sorted: &[Record], starts: &[Key], len: usize) -> (usize, u64) {
    let (mut hits, mut total) = (0, 0);
    for start in starts {
        let from = sorted.partition_point(|record| record.key < *start);
        for record in sorted.iter().skip(from).take(len) {
            hits += 1;
            total += sum(&record.value) + record.key.len() as u64;
        }
    }
    (hits, total)
}
