//! From samples to a table that a person reads.

mod csv;
mod format;
mod html;
mod log;
mod markdown;
mod summary;

pub(crate) use log::Log;

use crate::Result;
use std::fs;
use std::path::Path;

/// Writes `table.md`, `report.html` and `results.csv` beside `results.jsonl`; `before` is the folder of another run, whose figures of pipkin stand
/// beside those of this one.
pub(crate) fn from_file(out: &Path, before: Option<&Path>) -> Result<()> {
    let (machine, samples) = log::read(out)?;
    fs::write(out.join("results.csv"), csv::page(&samples)?)?;
    let before = before.map(log::read).transpose()?;
    let before = before.map(|(machine, samples)| summary::Summary::new(machine, &samples, None));
    let summary = summary::Summary::new(machine, &samples, before.as_ref());
    fs::write(out.join("table.md"), markdown::page(&summary))?;
    fs::write(out.join("report.html"), html::page(&summary))?;
    Ok(())
}
