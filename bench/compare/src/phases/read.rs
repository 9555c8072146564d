//! Phases that read. Before the first of them everything is read once without a clock, so that every cache is warm.

use super::together::together;
use super::{Job, write};
use crate::Result;
use crate::data::{Key, MISSING, key, sum};
use crate::engine::{Engine, Reader};
use crate::rows::{MULTI, THREADS};
use crate::sample::{Times, expect_equal, timed};
use crate::scale::Scale;

pub(super) fn len<E: Engine>(job: &Job, engine: &E, scale: &Scale) -> Result<()> {
    let (took, found) = timed(|| engine.len())?;
    expect_equal("len", found, write::written(scale))?;
    job.sink.time("len", took, 1, 1)
}

/// Hits, and the sum of all bytes of the values.
type Found = (usize, u64);

/// The keys to read, and what must come out when all of them are.
pub(super) struct Reads<'a> {
    pub(super) scale: &'a Scale,
    pub(super) keys: &'a [Key],
    pub(super) shuffled: &'a [Key],
    pub(super) expected: u64,
}

impl Reads<'_> {
    pub(super) fn run<E: Engine>(&self, job: &Job, engine: &E) -> Result<()> {
        self.check(one_by_one(engine, self.shuffled)?)?;
        self.single(job, engine, "reads_insertion", self.keys)?;
        self.single(job, engine, "reads_shuffled", self.shuffled)?;
        job.sink.latency("reads_shuffled", &one_by_one_timed(engine, take(self.shuffled, self.scale.timed_ops))?)?;
        for threads in THREADS {
            self.together(job, engine, threads)?;
        }
        self.multi(job, engine)?;
        self.missing(job, engine)
    }

    pub(super) fn unchecked<E: Engine>(&self, job: &Job, engine: &E) -> Result<()> {
        self.check(one_by_one(engine, self.shuffled)?)?;
        self.single(job, engine, "reads_unchecked", self.shuffled)
    }

    /// The sum is known for all keys together; a part of them can only be counted.
    fn check(&self, (hits, total): Found) -> Result<()> {
        let known = if hits == self.keys.len() { self.expected } else { total };
        expect_equal("sum of the values", total, known)
    }

    fn checked(&self, keys: usize, found: Found) -> Result<()> {
        expect_equal("hits", found.0, keys)?;
        self.check(found)
    }

    fn single<E: Engine>(&self, job: &Job, engine: &E, row: &str, keys: &[Key]) -> Result<()> {
        let keys = take(keys, self.scale.reads);
        let (took, found) = timed(|| one_by_one(engine, keys))?;
        self.checked(keys.len(), found)?;
        job.sink.time(row, took, keys.len(), job.scale.reads)
    }

    /// Each thread reads its own part of the keys.
    fn together<E: Engine>(&self, job: &Job, engine: &E, threads: usize) -> Result<()> {
        let keys = take(self.shuffled, self.scale.reads);
        let (took, found) = together(keys.chunks(keys.len().div_ceil(threads)), |part| one_by_one(engine, part))?;
        let found = found.iter().fold((0, 0), |all, part| (all.0 + part.0, all.1 + part.1));
        self.checked(keys.len(), found)?;
        job.sink.time(&format!("reads_{threads}_threads"), took, keys.len(), job.scale.reads)
    }

    fn multi<E: Engine>(&self, job: &Job, engine: &E) -> Result<()> {
        let keys = take(self.shuffled, self.scale.reads);
        let (took, found) = timed(|| {
            let mut reader = engine.reader()?;
            let (mut hits, mut total) = (0, 0);
            for keys in keys.chunks(MULTI) {
                hits += reader.get_many(keys, |value| total += sum(value))?;
            }
            Ok((hits, total))
        })?;
        self.checked(keys.len(), found)?;
        job.sink.time("multi_get", took, keys.len(), job.scale.reads)
    }

    fn missing<E: Engine>(&self, job: &Job, engine: &E) -> Result<()> {
        let keys: Vec<Key> = (MISSING..).take(self.scale.missing).map(key).collect();
        let (took, found) = timed(|| one_by_one(engine, &keys))?;
        expect_equal("hits of missing keys", found, (0, 0))?;
        job.sink.time("missing", took, keys.len(), job.scale.missing)
    }
}

/// After the removals: the first half is gone, the second is there.
pub(super) fn removed<E: Engine>(engine: &E, shuffled: &[Key]) -> Result<()> {
    let (gone, kept) = shuffled.split_at(shuffled.len() / 2);
    expect_equal("hits of removed keys", one_by_one(engine, gone)?.0, 0)?;
    expect_equal("hits of kept keys", one_by_one(engine, kept)?.0, kept.len())
}

fn take(keys: &[Key], count: usize) -> &[Key] {
    keys.get(..count).unwrap_or(keys)
}

pub(super) fn one_by_one<E: Engine>(engine: &E, keys: &[Key]) -> Result<Found> {
    let mut reader = engine.reader()?;
    let (mut hits, mut total) = (0, 0);
    for key in keys {
        hits += usize::from(reader.get(key, |value| total += sum(value))?);
    }
    Ok((hits, total))
}

fn one_by_one_timed<E: Engine>(engine: &E, keys: &[Key]) -> Result<Times> {
    let mut reader = engine.reader()?;
    let mut times = Times::new()?;
    let (mut hits, mut total) = (0, 0);
    for key in keys {
        hits += usize::from(times.of(|| reader.get(key, |value| total += sum(value)))?);
    }
    expect_equal("hits", hits, keys.len())?;
    std::hint::black_box(total);
    Ok(times)
}
