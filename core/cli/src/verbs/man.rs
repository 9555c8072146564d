//! `pipkin man`

use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use clap::{Args, Command};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pipkin man ~/.local/share/man/man1
  pipkin man ./man1 && man ./man1/pipkin-import.1

One page for the command and one for each verb; pages that are there already \
are replaced.";

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// The directory to write the pages to; created if it is not there
    directory: PathBuf,
}

#[derive(Serialize)]
struct Report {
    directory: String,
    pages: usize,
}

/// Writes the manual pages of `command`.
pub(crate) fn run(global: Global, args: &ManArgs, command: Command) -> Outcome {
    let failed = |error: std::io::Error| Failure::io("write", &args.directory, &error);
    fs::create_dir_all(&args.directory).map_err(failed)?;
    // The verb `help` that clap adds gets a page, too, and one below it for each verb; they would say nothing.
    let command = command.disable_help_subcommand(true);
    let pages = command.get_subcommands().map(|verb| verb.get_subcommands().count().saturating_add(1)).sum::<usize>();
    clap_mangen::generate_to(command, &args.directory).map_err(failed)?;
    let report = Report { directory: args.directory.display().to_string(), pages: pages.saturating_add(1) };
    let plain = format!("{} pages written to {}", report.pages, report.directory);
    output::report(global.json, &report, &plain)?;
    Ok(Exit::Done)
}
