//! Figures as a person reads them.

use super::summary::{Line, Summary};
use crate::numbers::count;
use crate::sample::{Percentiles, Unit};

/// Three digits are more than such measurements are good for.
pub(super) fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => count(value.round() as usize),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.01 || value == 0.0 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}

pub(super) fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ms => digits(value),
        Unit::Bytes => digits(value / f64::from(1 << 20)),
        Unit::BytesEach | Unit::Ratio => digits(value),
        Unit::Count => count(value as usize),
    }
}

pub(super) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ms => "ms",
        Unit::Bytes => "MiB",
        Unit::BytesEach => "bytes",
        Unit::Ratio => "x",
        Unit::Count => "",
    }
}

/// Nanoseconds in the unit that fits.
pub(super) fn time(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{} us", digits(value / 1e3)),
        _ => format!("{} ms", digits(value / 1e6)),
    }
}

pub(super) fn percentiles(latency: &Percentiles) -> [String; 4] {
    [latency.p50, latency.p99, latency.p999, latency.max].map(time)
}

/// Notes are numbered, because most are shared by many cells.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    pub(super) fn number(&mut self, note: &str) -> usize {
        let known = self.0.iter().position(|known| known == note);
        known.map_or_else(
            || {
                self.0.push(note.to_owned());
                self.0.len()
            },
            |place| place + 1,
        )
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &str)> {
        self.0.iter().enumerate().map(|(place, note)| (place + 1, note.as_str()))
    }
}

/// Groups of lines, in their order.
pub(super) fn groups(summary: &Summary) -> Vec<(&'static str, Vec<&Line>)> {
    let mut groups: Vec<(&'static str, Vec<&Line>)> = Vec::new();
    for line in &summary.lines {
        match groups.iter_mut().find(|(name, _)| *name == line.row.group) {
            Some((_, lines)) => lines.push(line),
            None => groups.push((line.row.group, vec![line])),
        }
    }
    groups
}
