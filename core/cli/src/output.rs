//! Standard output: a report as plain text or as one JSON object.

use crate::exit::{Failure, Outcome};
use serde::Serialize;
use std::io::{self, BufWriter, StdoutLock, Write};

/// A buffered stdout for verbs that write much. Call [`finish`] at the end: dropping it would hide write errors.
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 * 1024, io::stdout().lock())
}

/// Flushes the buffer and reports a failure.
pub(crate) fn finish(mut out: impl Write) -> Outcome<()> {
    out.flush().map_err(|error| Failure::stdout(&error))
}

/// Writes one JSON object and a line break.
pub(crate) fn json_line(out: &mut dyn Write, object: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, object)?;
    out.write_all(b"\n")
}

/// Prints the result of a verb on stdout: `report` as JSON, else `plain`, which may be empty.
pub(crate) fn report(json: bool, report: &impl Serialize, plain: &str) -> Outcome<()> {
    print_to(&mut io::stdout().lock(), json, report, plain).map_err(|error| Failure::stdout(&error))
}

/// Like [`report`], on stderr: for verbs whose data went to stdout.
pub(crate) fn report_beside_data(json: bool, report: &impl Serialize, plain: &str) {
    // Errors are ignored: a closed stderr does not make the verb fail.
    let _ = print_to(&mut io::stderr().lock(), json, report, plain);
}

fn print_to(out: &mut dyn Write, json: bool, report: &impl Serialize, plain: &str) -> io::Result<()> {
    if json {
        json_line(out, report)?;
    } else if !plain.is_empty() {
        writeln!(out, "{plain}")?;
    }
    out.flush()
}

/// Formats a number of bytes for people: `186.2 MiB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// Formats a number for people: `1,000,000`.
pub(crate) fn human_count(count: u64) -> String {
    indicatif::HumanCount(count).to_string()
}

/// `1 record`, `2 records`.
pub(crate) fn records(count: u64) -> String {
    let noun = if count == 1 { "record" } else { "records" };
    format!("{} {noun}", human_count(count))
}
