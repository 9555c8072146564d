//! Medians over the rounds, and what follows from them.

use crate::facts::{EngineFacts, Machine};
use crate::rows::{self, Row};
use crate::sample::{Percentiles, Sample};
use std::collections::BTreeMap;

const OWN: &str = "pipkin";
const LIMITS: &str = "limits";

/// What is reported of one engine in one row.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// Median of the rounds.
    pub(super) value: Option<f64>,
    /// Smallest and largest of the rounds.
    pub(super) range: (f64, f64),
    /// Medians of the rounds' percentiles.
    pub(super) latency: Option<Percentiles>,
    pub(super) note: Option<String>,
    /// Whether it may be the best.
    pub(super) counts: bool,
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) row: Row,
    /// In the order of the engines.
    pub(super) cells: Vec<Cell>,
    /// The peer with the best figure.
    pub(super) best: Option<usize>,
    /// pipkin's figure over that of the best peer: below 1 pipkin is ahead.
    pub(super) ratio: Option<f64>,
    /// The limit's figure over pipkin's: 1 is all that the machine has.
    pub(super) share: Option<f64>,
    /// pipkin's figure over that of the run before.
    pub(super) change: Option<f64>,
}

#[derive(Debug)]
pub(super) struct Summary {
    pub(super) machine: Machine,
    pub(super) lines: Vec<Line>,
    /// Whether there is a run before this one.
    pub(super) follows: bool,
}

impl Summary {
    pub(super) fn new(machine: Machine, samples: &[Sample], before: Option<&Self>) -> Self {
        let mut groups: BTreeMap<(&str, &str), Vec<&Sample>> = BTreeMap::new();
        for sample in samples {
            groups.entry((&sample.row, &sample.engine)).or_default().push(sample);
        }
        let line = |row: Row| {
            let cell = |engine: &EngineFacts| groups.get(&(row.id.as_str(), engine.name.as_str())).map(|all| Cell::new(all));
            let cells: Vec<Cell> = machine.engines.iter().map(|engine| cell(engine).unwrap_or_default()).collect();
            let own = before.and_then(|before| before.own(&row));
            Line::new(row, cells, &machine.engines, own)
        };
        let lines = rows::all(&machine.scale).into_iter().map(line);
        let lines = lines.filter(|line| line.cells.iter().any(|cell| cell.value.is_some() || cell.note.is_some())).collect();
        Self { machine, lines, follows: before.is_some() }
    }

    /// pipkin's figure in a row, if it was about as many operations.
    fn own(&self, row: &Row) -> Option<f64> {
        let place = self.machine.engines.iter().position(|engine| engine.name == OWN)?;
        let same = |line: &&Line| line.row.id == row.id && line.row.title == row.title;
        self.lines.iter().find(same)?.cells.get(place)?.value
    }
}

impl Line {
    fn new(row: Row, cells: Vec<Cell>, engines: &[EngineFacts], before: Option<f64>) -> Self {
        // The more survivors the better, but there is nothing to be the best in: it is a check.
        let compared = row.unit != crate::sample::Unit::Count;
        let of = |name: &str| engines.iter().position(|engine| engine.name == name).and_then(|place| cells.get(place)?.value);
        let peers = engines.iter().zip(&cells).enumerate().filter(|(_, (engine, cell))| engine.peer && cell.counts);
        let best = peers
            .filter_map(|(place, (_, cell))| Some((place, cell.value?)))
            .min_by(|one, other| one.1.total_cmp(&other.1))
            .filter(|_| compared);
        let ratio = best.and_then(|(_, best)| quotient(of(OWN)?, best));
        let share = if compared { of(LIMITS).zip(of(OWN)).and_then(|(limit, own)| quotient(limit, own)) } else { None };
        let change = before.and_then(|before| quotient(of(OWN)?, before));
        Self { row, cells, best: best.map(|(place, _)| place), ratio, share, change }
    }
}

fn quotient(one: f64, other: f64) -> Option<f64> {
    (other > 0.0).then(|| one / other)
}

impl Cell {
    fn new(samples: &[&Sample]) -> Self {
        let values: Vec<f64> = samples.iter().filter_map(|sample| sample.value).collect();
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = values.iter().copied().fold(0.0, f64::max);
        let latencies: Vec<Percentiles> = samples.iter().filter_map(|sample| sample.latency).collect();
        let of = |field: fn(&Percentiles) -> u64| median(latencies.iter().map(|latency| field(latency) as f64).collect());
        let latency = of(|latency| latency.p50).map(|p50| Percentiles {
            p50: p50 as u64,
            p99: of(|latency| latency.p99).unwrap_or_default() as u64,
            p999: of(|latency| latency.p999).unwrap_or_default() as u64,
            max: of(|latency| latency.max).unwrap_or_default() as u64,
        });
        Self {
            value: median(values),
            range: (smallest, largest),
            latency,
            note: samples.iter().find_map(|sample| sample.note.clone()),
            counts: samples.iter().all(|sample| sample.counts),
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(middle);
    }
    Some((middle + *values.get(values.len() / 2 - 1)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn who_promises_less_is_never_the_best() {
        let engine = |name: &str, peer| EngineFacts {
            name: name.to_owned(),
            version: String::new(),
            tuning: String::new(),
            peer,
            unflushed: String::new(),
        };
        let engines = [engine(OWN, false), engine(LIMITS, false), engine("a", true), engine("b", true)];
        let cell = |value, counts| Cell { value: Some(value), counts, ..Cell::default() };
        let cells = vec![cell(10.0, true), cell(5.0, true), cell(1.0, false), cell(20.0, true)];
        let row = Row { id: "load".into(), group: "", title: String::new(), unit: crate::sample::Unit::Ms, set: "main" };
        let line = Line::new(row, cells, &engines, Some(20.0));
        assert_eq!((line.best, line.ratio, line.share, line.change), (Some(3), Some(0.5), Some(0.5), Some(0.5)));
    }
}
