//! `results.jsonl`: a line of facts, then a line for each sample.

use crate::Result;
use crate::facts::Machine;
use crate::sample::Sample;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

const NAME: &str = "results.jsonl";

/// Grows line by line, so that a run that is cut short leaves what it had.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    pub(crate) fn create(out: &Path) -> Result<Self> {
        Ok(Self(File::create(out.join(NAME))?))
    }

    pub(crate) fn facts(&mut self, machine: &Machine) -> Result<()> {
        Ok(writeln!(self.0, "{}", serde_json::to_string(machine)?)?)
    }

    pub(crate) fn add(&mut self, sample: &Sample) -> Result<()> {
        Ok(writeln!(self.0, "{}", serde_json::to_string(sample)?)?)
    }
}

pub(super) fn read(out: &Path) -> Result<(Machine, Vec<Sample>)> {
    let text = fs::read_to_string(out.join(NAME))?;
    let mut lines = text.lines();
    let machine = serde_json::from_str(lines.next().unwrap_or_default())?;
    let samples = lines.map(serde_json::from_str).collect::<std::result::Result<_, _>>()?;
    Ok((machine, samples))
}
