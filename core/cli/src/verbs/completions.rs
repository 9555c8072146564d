//! `pipkin completions`

use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use clap::{Args, Command};
use clap_complete::Shell;
use serde::Serialize;
use std::io::{self, Write};

const EXAMPLES: &str = "\
Examples:
  pipkin completions bash > ~/.local/share/bash-completion/completions/pipkin
  pipkin completions zsh > ~/.zfunc/_pipkin
  pipkin completions fish > ~/.config/fish/completions/pipkin.fish";

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Serialize)]
struct Report<'a> {
    shell: String,
    script: &'a str,
}

/// Prints the script for a shell that completes `command`.
pub(crate) fn run(global: Global, args: &CompletionsArgs, mut command: Command) -> Outcome {
    // Into memory first: the generator panics when stdout is closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "pipkin", &mut script);
    if global.json {
        let report = Report { shell: args.shell.to_string(), script: &String::from_utf8_lossy(&script) };
        output::report(true, &report, "")?;
    } else {
        let mut out = io::stdout().lock();
        out.write_all(&script).and_then(|()| out.flush()).map_err(|error| Failure::stdout(&error))?;
    }
    Ok(Exit::Done)
}
