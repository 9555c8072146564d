//! Opening a store that another process has closed, or was killed over; and the memory that an engine takes for a record.

use super::{Job, read};
use crate::Result;
use crate::data::{EXTRA, Key, Record, keys, records, shuffled, to_load};
use crate::engine::{Engine, Unflushed};
use crate::process::own_memory;
use crate::rows::WARM_READS;
use crate::sample::{Unit, expect_equal, timed};
use std::io::Write;
use std::time::{Duration, Instant};

/// The processes of this set, one after the other, over one store.
pub(crate) const STEPS: [&str; 4] = ["reopen-load", "reopen-clean", KILLED_STEP, "reopen-killed"];
/// The one that does not end by itself: it says [`READY`] and waits to be killed.
pub(crate) const KILLED_STEP: &str = "reopen-kill";
pub(crate) const READY: &str = "ready";

pub(super) fn run<E: Engine>(job: &Job, step: &str) -> Result<()> {
    match step {
        "reopen-load" => load::<E>(job),
        "reopen-clean" => clean::<E>(job),
        KILLED_STEP => kill::<E>(job),
        "reopen-killed" => killed::<E>(job),
        other => Err(format!("there is no set of phases named {other}").into()),
    }
}

fn load<E: Engine>(job: &Job) -> Result<()> {
    let records = to_load(&job.scale_for::<E>());
    let before = own_memory()?;
    let engine: E = job.open()?;
    engine.load(records.iter().map(Record::pair))?;
    engine.settle()?;
    let taken = own_memory()?.saturating_sub(before);
    job.sink.number("memory_loaded", taken as f64 / records.len() as f64, Unit::BytesEach)?;
    if let Some(bytes) = engine.index_bytes() {
        job.sink.number("index_bytes", bytes as f64 / records.len() as f64, Unit::BytesEach)?;
    }
    engine.close()
}

fn clean<E: Engine>(job: &Job) -> Result<()> {
    let keys = shuffled(&keys(&to_load(&job.scale_for::<E>())), 1);
    let before = own_memory()?;
    let engine: E = opened(job, "reopen_clean", &keys)?;
    expect_equal("hits", read::one_by_one(&engine, &keys)?.0, keys.len())?;
    expect_equal("len", engine.len()?, keys.len() as u64)?;
    let taken = own_memory()?.saturating_sub(before);
    job.sink.number("memory_reopened", taken as f64 / keys.len() as f64, Unit::BytesEach)?;
    engine.close()
}

/// Writes and then stands still, open, until it is killed.
fn kill<E: Engine>(job: &Job) -> Result<()> {
    let records = records(EXTRA, job.scale_for::<E>().unflushed_puts);
    let engine: E = job.open()?;
    engine.sync_commits(false)?;
    records.iter().try_for_each(|record| engine.put(&record.key, &record.value))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{READY}")?;
    out.flush()?;
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn killed<E: Engine>(job: &Job) -> Result<()> {
    let scale = job.scale_for::<E>();
    let keys = shuffled(&keys(&to_load(&scale)), 1);
    let unflushed = self::keys(&records(EXTRA, scale.unflushed_puts));
    let engine: E = opened(job, "reopen_killed", &keys)?;
    expect_equal("hits", read::one_by_one(&engine, &keys)?.0, keys.len())?;
    if E::FACTS.is_limits() {
        return engine.close(); // it knows the places of loaded records only
    }
    let survivors = read::one_by_one(&engine, &unflushed)?.0;
    if matches!(E::FACTS.unflushed, Unflushed::Kept(_)) {
        expect_equal("survivors of the kill", survivors, unflushed.len())?;
    }
    job.unflushed_sink::<E>().number("survivors", survivors as f64, Unit::Count)?;
    engine.close()
}

/// Times opening until the first answer, and until a thousand: what an engine puts off at opening shows in the second figure.
fn opened<E: Engine>(job: &Job, row: &str, keys: &[Key]) -> Result<E> {
    let first = keys.get(..1).unwrap_or_default();
    let warm = keys.get(..WARM_READS).unwrap_or(keys);
    let start = Instant::now();
    let engine: E = job.open()?;
    expect_equal("hits", read::one_by_one(&engine, first)?.0, first.len())?;
    let first_answer = start.elapsed();
    let (more, found) = timed(|| read::one_by_one(&engine, warm))?;
    expect_equal("hits", found.0, warm.len())?;
    job.sink.time(row, first_answer, 1, 1)?;
    job.sink.time(&format!("{row}_warm"), first_answer + more, 1, 1)?;
    Ok(engine)
}
