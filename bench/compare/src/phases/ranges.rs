//! Reads in the order of the keys.

use super::Job;
use crate::Result;
use crate::data::{Record, keys, shuffled, sum, to_load};
use crate::engine::{Engine, OpenOptions, Reader};
use crate::rows::RANGE;
use crate::sample::{expect_equal, timed};

pub(super) fn run<E: Engine>(job: &Job) -> Result<()> {
    if !E::FACTS.ordered {
        return Ok(());
    }
    let scale = job.scale_for::<E>();
    let mut records = to_load(&scale);
    let engine: E = job.open_with(&OpenOptions { ordered: true, ..job.options() })?;
    engine.load(records.iter().map(Record::pair))?;
    engine.settle()?;

    let starts = shuffled(&keys(&records), 2);
    let starts = starts.get(..scale.ranges).unwrap_or(&starts);
    records.sort_unstable_by_key(|record| record.key);
    let expected = expected(&records, starts);
    let found = ranges(&engine, starts)?; // warms the caches, and is checked
    if !E::FACTS.is_limits() {
        expect_equal("records and sum of the ranges", found, expected)?;
    }
    let (took, again) = timed(|| ranges(&engine, starts))?;
    expect_equal("records and sum of the ranges", again, found)?;
    job.sink.time("ranges", took, starts.len(), job.scale.ranges)?;
    engine.close()
}

fn ranges<E: Engine>(engine: &E, starts: &[crate::data::Key]) -> Result<(usize, u64)> {
    let mut reader = engine.reader()?;
    let (mut hits, mut total) = (0, 0);
    for start in starts {
        hits += reader.range(start, RANGE, |key, value| total += sum(value) + key.len() as u64)?;
    }
    Ok((hits, total))
}

fn expected(sorted: &[Record], starts: &[crate::data::Key]) -> (usize, u64) {
    let (mut hits, mut total) = (0, 0);
    for start in starts {
        let from = sorted.partition_point(|record| record.key < *start);
        for record in sorted.iter().skip(from).take(RANGE) {
            hits += 1;
            total += sum(&record.value) + record.key.len() as u64;
        }
    }
    (hits, total)
}
