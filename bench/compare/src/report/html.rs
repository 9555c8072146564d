//! `report.html`: a page without anything from outside, a bar for each engine in each row.

use super::format;
use super::summary::{Cell, Line, Summary};

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
    h3{margin:1.6rem 0 .3rem;font-size:1rem}table{border-collapse:collapse}td{padding:.1rem .8rem .1rem 0;vertical-align:top}\
    svg{display:block;font:12px system-ui,sans-serif}.own{fill:#b5542d}.peer{fill:#6b8fb3}.limits{fill:#b9c4a0}.less{fill:#ccc}\
    p.ratio{margin:.2rem 0;color:#555}text{fill:#222}\
    @media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1b}text{fill:#ddd}p.ratio{color:#aaa}.less{fill:#555}}";

const NAME_WIDTH: f64 = 90.0;
const BAR_WIDTH: f64 = 480.0;
const NOTE_WIDTH: f64 = 330.0;
const HEIGHT: f64 = 18.0;
/// Bars end here, in multiples of the longest that matters: one that is a hundred times as long would leave nothing to see of the others.
const CLIP: f64 = 6.0;
/// Characters of a note; all of it shows when the pointer rests on it.
const NOTE: usize = 40;

pub(super) fn page(summary: &Summary) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>pipkin and its peers</title>\n<style>{STYLE}</style>\n\
         <h1>pipkin and its peers</h1>\n<p>Medians of {} round(s). Shorter is better in every row. Thin lines: from the smallest to the \
         largest round. Grey: promises less than the row asks for, or is no peer.</p>\n",
        summary.machine.scale.rounds
    );
    out += "<table>\n";
    for (name, value) in &summary.machine.facts {
        out += &format!("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value));
    }
    for engine in &summary.machine.engines {
        out += &format!("<tr><td>{} {}</td><td>{}</td></tr>\n", escaped(&engine.name), engine.version, escaped(&engine.tuning));
    }
    out += "</table>\n";
    for (name, lines) in format::groups(summary) {
        out += &format!("<h2>{}</h2>\n", escaped(name));
        lines.iter().for_each(|line| out += &chart(summary, line));
    }
    out + "</html>\n"
}

fn chart(summary: &Summary, line: &Line) -> String {
    let unit = format::unit(line.row.unit);
    let mut out =
        format!("<h3>{}{}</h3>\n", escaped(&line.row.title), if unit.is_empty() { String::new() } else { format!(" ({unit})") });
    let ratio = line.ratio.map(|ratio| format!("pipkin / best peer {ratio:.2}"));
    let share = line.share.map(|share| format!("{:.0} % of the limit", share * 100.0));
    let change = line.change.map(|change| format!("{change:.2} of the run before"));
    let about: Vec<String> = ratio.into_iter().chain(share).chain(change).collect();
    if !about.is_empty() {
        out += &format!("<p class=\"ratio\">{}</p>\n", about.join(", "));
    }
    let longest = line.cells.iter().filter_map(|cell| cell.value).fold(0.0, f64::max);
    let longest = interest(summary, line).map_or(longest, |interest| longest.min(interest * CLIP));
    let (width, height) = (NAME_WIDTH + BAR_WIDTH + NOTE_WIDTH, HEIGHT * line.cells.len() as f64);
    out += &format!("<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n");
    for (place, (engine, cell)) in summary.machine.engines.iter().zip(&line.cells).enumerate() {
        let class = match (engine.peer, engine.name.as_str()) {
            _ if !cell.counts => "less",
            (true, _) => "peer",
            (false, "limits") => "limits",
            (false, "pipkin") => "own",
            (false, _) => "less",
        };
        out += &bar(&engine.name, class, HEIGHT * place as f64, cell, line, longest);
    }
    out + "</svg>\n"
}

/// The longer of pipkin's bar and that of the best peer.
fn interest(summary: &Summary, line: &Line) -> Option<f64> {
    let own = summary.machine.engines.iter().position(|engine| engine.name == "pipkin");
    let value = |place: usize| line.cells.get(place)?.value;
    let (own, best) = (own.and_then(value), line.best.and_then(value));
    own.into_iter().chain(best).reduce(f64::max).filter(|longer| *longer > 0.0)
}

fn bar(name: &str, class: &str, top: f64, cell: &Cell, line: &Line, longest: f64) -> String {
    let scale = if longest > 0.0 { BAR_WIDTH / longest } else { 0.0 };
    let middle = top + HEIGHT / 2.0;
    let mut out = format!("<text x=\"0\" y=\"{:.1}\">{}</text>", middle + 4.0, escaped(name));
    let mut label_at = NAME_WIDTH;
    if let Some(value) = cell.value {
        let (smallest, largest) = ((cell.range.0 * scale).min(BAR_WIDTH), (cell.range.1 * scale).min(BAR_WIDTH));
        let width = (value * scale).clamp(1.0, BAR_WIDTH);
        out += &format!(
            "<rect class=\"{class}\" x=\"{NAME_WIDTH}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
            top + 2.0,
            HEIGHT - 4.0
        );
        out += &format!(
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\" stroke=\"currentColor\"/>",
            NAME_WIDTH + smallest,
            NAME_WIDTH + largest
        );
        label_at += width.max(largest) + 6.0;
    }
    let figure = cell.value.map_or_else(|| "not available".to_owned(), |value| format::value(value, line.row.unit));
    let latency =
        cell.latency.as_ref().map(format::percentiles).map(|[p50, p99, p999, _]| format!("p50 {p50}, p99 {p99}, p99.9 {p999}"));
    let clipped = cell.value.is_some_and(|value| value > longest).then(|| "longer than shown".to_owned());
    let note = cell
        .note
        .as_ref()
        .map(|note| if note.chars().count() > NOTE { note.chars().take(NOTE).collect::<String>() + "..." } else { note.clone() });
    let words: Vec<String> = std::iter::once(figure).chain(clipped).chain(latency).chain(note).collect();
    let title = escaped(cell.note.as_deref().unwrap_or_default());
    let words = escaped(&words.join("; "));
    out + &format!("<text x=\"{label_at:.1}\" y=\"{:.1}\">{words}<title>{title}</title></text>\n", middle + 4.0)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
