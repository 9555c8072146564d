//! From samples to a table that a person reads.

mod format;
mod html;
mod log;
mod markdown;
mod summary;

pub(crate) use log::Log;

use crate::Result;
use std::fs;
use std::path::Path;

/// Writes `table.md` and `report.html` beside `results.jsonl`.
pub(crate) fn from_file(out: &Path) -> Result<()> {
    let (machine, samples) = log::read(out)?;
    let summary = summary::Summary::new(machine, &samples);
    fs::write(out.join("table.md"), markdown::page(&summary))?;
    fs::write(out.join("report.html"), html::page(&summary))?;
    Ok(())
}
