//! `table.md`.

use super::format::{self, Notes};
use super::summary::{Cell, Line, Summary};

pub(super) fn page(summary: &Summary) -> String {
    let mut notes = Notes::default();
    let mut out = String::from("# pipkin and its peers\n\n");
    out += &head(summary);
    for (name, lines) in format::groups(summary) {
        out += &format!("\n## {name}\n\n{}", table(summary, &lines, &mut notes));
    }
    out += "\n## Single operations\n\n";
    out += &latencies(summary);
    out += "\n## Notes\n\n";
    for (number, note) in notes.all() {
        out += &format!("{number}. {note}\n");
    }
    out += "\n## Engines\n\n| | version | set up | a put without flush, when the process is killed |\n|---|---|---|---|\n";
    for engine in &summary.machine.engines {
        out += &format!("| {} | {} | {} | {} |\n", engine.name, engine.version, engine.tuning, engine.unflushed);
    }
    out
}

fn head(summary: &Summary) -> String {
    let rounds = summary.machine.scale.rounds;
    let mut out = format!(
        "Medians of {rounds} round(s), each engine in a process of its own. **Bold**: the best peer. `pipkin / best`: below 1 pipkin is\n\
         ahead. `limit / pipkin`: the share of what the machine could do. How it is measured: README.md of bench/compare.\n\n"
    );
    out += "| | |\n|---|---|\n";
    for (name, value) in &summary.machine.facts {
        out += &format!("| {name} | {value} |\n");
    }
    out
}

fn table(summary: &Summary, lines: &[&Line], notes: &mut Notes) -> String {
    let names: Vec<&str> = summary.machine.engines.iter().map(|engine| engine.name.as_str()).collect();
    let (head, rule) = if summary.follows { (" now / before |", "---:|") } else { ("", "") };
    let mut out = format!("| | | {} | pipkin / best | limit / pipkin |{head}\n", names.join(" | "));
    out += &format!("|---|---|{}---:|---:|{rule}\n", "---:|".repeat(names.len()));
    for line in lines {
        let cells: Vec<String> = line.cells.iter().enumerate().map(|(place, cell)| figure(line, place, cell, notes)).collect();
        let ratio = line.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let share = line.share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0));
        let change = line.change.map(|change| format!("{change:.2}")).unwrap_or_default();
        let change = if summary.follows { format!(" {change} |") } else { String::new() };
        let unit = format::unit(line.row.unit);
        out += &format!("| {} | {unit} | {} | {ratio} | {share} |{change}\n", line.row.title, cells.join(" | "));
    }
    out
}

fn figure(line: &Line, place: usize, cell: &Cell, notes: &mut Notes) -> String {
    let mut text = cell.value.map_or_else(|| "-".to_owned(), |value| format::value(value, line.row.unit));
    if line.best == Some(place) {
        text = format!("**{text}**");
    }
    if let Some(note) = &cell.note {
        text += &format!(" [{}]", notes.number(note));
    }
    text
}

fn latencies(summary: &Summary) -> String {
    let mut out = String::from("| | | p50 | p99 | p99.9 | longest |\n|---|---|---:|---:|---:|---:|\n");
    for line in &summary.lines {
        for (engine, cell) in summary.machine.engines.iter().zip(&line.cells) {
            if let Some(latency) = &cell.latency {
                let figures = format::percentiles(latency).join(" | ");
                out += &format!("| {} | {} | {figures} |\n", line.row.title, engine.name);
            }
        }
    }
    out
}
