//! The tables, in markdown.

use crate::args::Args;
use crate::plan::{CALLED, Place, SERVED, Sample, WITHIN};

pub(crate) fn page(args: &Args, samples: &[Sample]) -> String {
    let figures = Figures(samples);
    let mut out = format!(
        "Nanoseconds for each record, medians of {} rounds with {} operations each. Keys of 24 bytes, values of 150, {} records, nothing synced.\n",
        args.rounds, args.count, args.records
    );
    for (table, columns) in [
        (CALLED, ["pipkin", "redb", "SQLite"].as_slice()),
        (WITHIN, &["pipkin", "redb", "SQLite"]),
        (SERVED, &["native call", "pipkin", "in memory"]),
    ] {
        out += &figures.table(table, columns);
    }
    out + &figures.ratios()
}

struct Figures<'a>(&'a [Sample]);

impl Figures<'_> {
    fn table(&self, table: &'static str, columns: &[&'static str]) -> String {
        let mut out = format!("\n| {table} | {} |\n|---|{}\n", columns.join(" | "), "---:|".repeat(columns.len()));
        let mut lines: Vec<&'static str> = Vec::new();
        for sample in self.0.iter().filter(|sample| sample.place.0 == table) {
            if !lines.contains(&sample.place.1) {
                lines.push(sample.place.1);
            }
        }
        for line in lines {
            let cell = |&column: &&'static str| {
                self.samples((table, line, column)).map_or("-".to_owned(), |taken| format!("{:.0}", median(taken)))
            };
            out += &format!("| {line} | {} |\n", columns.iter().map(cell).collect::<Vec<_>>().join(" | "));
        }
        out
    }

    /// What a user would ask first, each beside the number that it is held against.
    fn ratios(&self) -> String {
        let own = |table, line| self.samples((table, line, "pipkin"));
        let redb = |table, line| self.samples((table, line, "redb"));
        let native = |line| sum(self.samples((SERVED, line, "native call"))?, own(SERVED, "empty call")?);
        let mut out = "\n| pipkin beside another | ratio |\n|---|---:|\n".to_owned();
        let mut row = |what: &str, mine: Option<Vec<f64>>, other: Option<Vec<f64>>| {
            if let (Some(mine), Some(other)) = (mine, other) {
                let each = mine.iter().zip(&other).map(|(mine, other)| mine / other).collect();
                out += &format!("| {what} | {:.2} |\n", median(each));
            }
        };
        let (alone, many, together, gathered) = ("put", "put, 100 in a commit", "put, together", "put, gathered");
        let hundred = "get, 100 in a call";
        row(
            "put of the component, gathered, called by the host / put of redb in a transaction",
            own(CALLED, gathered),
            redb(WITHIN, together),
        );
        row("puts in one call within the sandbox / put of redb in a transaction", own(WITHIN, together), redb(WITHIN, together));
        row("put within the sandbox, gathered / put of redb in a transaction", own(WITHIN, gathered), redb(WITHIN, together));
        row("100 puts in a commit within the sandbox / the same of redb", own(WITHIN, many), redb(WITHIN, many));
        row("put of its own within the sandbox / the same of redb", own(WITHIN, alone), redb(WITHIN, alone));
        row("100 puts in a commit, called by the host / put of redb in a transaction", own(CALLED, many), redb(WITHIN, together));
        row("100 puts in a commit, called by the host / the same of redb", own(CALLED, many), redb(CALLED, many));
        row("get within the sandbox / the same of redb", own(WITHIN, "get"), redb(WITHIN, "get"));
        row("100 gets in a call within the sandbox / the same of redb", own(WITHIN, hundred), redb(WITHIN, hundred));
        row("walk within the sandbox / the same of redb", own(WITHIN, "walk"), redb(WITHIN, "walk"));
        row("get, called by the host / the same of redb", own(CALLED, "get"), redb(CALLED, "get"));
        row("wasi:keyvalue set / native call and empty call", own(SERVED, "put"), native("put"));
        row("wasi:keyvalue get / native call and empty call", own(SERVED, "get"), native("get"));
        for (what, line) in [("set", "put"), ("get", "get"), ("increment", "increment")] {
            let memory = self.samples((SERVED, line, "in memory"));
            row(&format!("wasi:keyvalue {what} / the same in memory"), own(SERVED, line), memory);
        }
        out
    }

    fn samples(&self, place: Place) -> Option<Vec<f64>> {
        Some(self.0.iter().find(|sample| sample.place == place)?.taken.clone())
    }
}

fn sum(some: Vec<f64>, others: Vec<f64>) -> Option<Vec<f64>> {
    Some(some.iter().zip(&others).map(|(one, other)| one + other).collect())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
