//! The command `pipkin-host`: the main verbs of `pipkin`, done by the WebAssembly component. Nothing but the folder of the store is within
//! its reach, so it is the command for files from strangers.

mod edit;
mod escape;
mod exit;
mod keys;
mod run;
mod sandbox;
mod verbs;

use clap::Parser;
use exit::{exit_code, is_closed_pipe};
use std::io::{self, Write};
use std::process::ExitCode;

/// Reads, fills and checks pipkin stores inside a WebAssembly sandbox
#[derive(Debug, Parser)]
#[command(name = "pipkin-host", version, max_term_width = 120, disable_help_subcommand = true)]
#[command(
    after_help = "Exit codes are those of `pipkin`: 0 done, 1 no such key, 2 usage, 3 damage, 4 locked, 5 no space, 6 no store, 7 other failures."
)]
struct Cli {
    #[command(flatten)]
    sandbox: sandbox::Sandbox,
    #[command(subcommand)]
    verb: verbs::Verb,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.verb.run(&cli.sandbox) {
        Ok(code) => code.into(),
        Err(error) if is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when stderr is gone; the exit code still says it.
            let _ = writeln!(io::stderr(), "pipkin-host: {error}");
            exit_code(&*error).into()
        }
    }
}
