//! One measured figure, as it goes from the process that measured it to the one that reports.

use crate::Result;
use crate::numbers::count;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::time::{Duration, Instant};

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Ms,
    Bytes,
    /// Bytes for each record.
    BytesEach,
    /// Bytes written for each byte stored.
    Ratio,
    /// A plain number.
    Count,
}

/// Times of single operations in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

/// A line of `results.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) engine: String,
    /// The name of a row of [`crate::rows`].
    pub(crate) row: String,
    pub(crate) round: usize,
    /// `None` where the engine has nothing to measure; `note` says why.
    pub(crate) value: Option<f64>,
    pub(crate) unit: Unit,
    /// Operations in `value`.
    pub(crate) ops: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Percentiles>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// False for a figure that was got by promising less than the others: shown, never the best.
    pub(crate) counts: bool,
}

impl Sample {
    /// No figure, and why.
    pub(crate) fn absent(engine: &str, row: &str, round: usize, unit: Unit, why: &str) -> Self {
        let (engine, row, note) = (engine.to_owned(), row.to_owned(), Some(why.to_owned()));
        Self { engine, row, round, value: None, unit, ops: 1, latency: None, note, counts: true }
    }
}

/// Where the phases put what they measured.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) engine: String,
    pub(crate) round: usize,
    /// What the engine does not promise although the row asks for it.
    pub(crate) gap: Option<&'static str>,
}

impl Sink {
    fn sample(&self, row: &str, unit: Unit) -> Sample {
        Sample {
            engine: self.engine.clone(),
            row: row.to_owned(),
            round: self.round,
            value: None,
            unit,
            ops: 1,
            latency: None,
            note: self.gap.map(|gap| format!("does not count: {gap}")),
            counts: self.gap.is_none(),
        }
    }

    /// A line at once, so that a process that dies later has still said what it knew.
    fn put(&self, sample: &Sample) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(sample)?)?;
        Ok(out.flush()?)
    }

    /// The time of `ops` operations. `wanted` is how many the row is about: what an engine did for fewer is scaled up.
    pub(crate) fn time(&self, row: &str, took: Duration, ops: usize, wanted: usize) -> Result<()> {
        let mut sample = self.sample(row, Unit::Ms);
        sample.value = Some(took.as_secs_f64() * 1e3 * wanted as f64 / ops.max(1) as f64);
        sample.ops = wanted;
        if ops != wanted {
            let scaled = format!("scaled up from {}", count(ops));
            sample.note = Some(sample.note.map_or(scaled.clone(), |note| format!("{note}; {scaled}")));
        }
        self.put(&sample)
    }

    pub(crate) fn number(&self, row: &str, value: f64, unit: Unit) -> Result<()> {
        let mut sample = self.sample(row, unit);
        sample.value = Some(value);
        self.put(&sample)
    }

    /// The times of single operations belong to a row that has, or will have, a value of its own.
    pub(crate) fn latency(&self, row: &str, times: &Times) -> Result<()> {
        let mut sample = self.sample(row, Unit::Ms);
        sample.latency = Some(times.percentiles());
        self.put(&sample)
    }
}

/// Times one run.
pub(crate) fn timed<T>(body: impl FnOnce() -> Result<T>) -> Result<(Duration, T)> {
    let start = Instant::now();
    let result = body()?;
    Ok((start.elapsed(), result))
}

/// Times of single operations, to three digits.
#[derive(Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, 3_600_000_000_000, 3)?))
    }

    /// Runs `body` with the clock around it.
    pub(crate) fn of<T>(&mut self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let (took, result) = timed(body)?;
        self.0.saturating_record(took.as_nanos() as u64);
        Ok(result)
    }

    pub(crate) fn add(&mut self, other: &Self) -> Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        let at = |quantile| self.0.value_at_quantile(quantile);
        Percentiles { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: self.0.max() }
    }
}

/// Fails unless all that should be found was found.
pub(crate) fn expect_equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found:?} instead of {expected:?}").into())
}
