//! pipkin under Wasmtime beside redb and SQLite in the same sandbox, and beside Wasmtime's own provider of `wasi:keyvalue`.
//!
//! `cargo xtask bench --wasi` builds the guests and runs this; README.md says what is measured and how.

mod args;
mod data;
mod host;
mod native;
mod peer;
mod plan;
mod report;

use std::process::ExitCode;

/// A failure ends the run: a table with holes is not what was asked for.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let done = args::Args::parse().and_then(|args| {
        let folder = tempfile::tempdir_in(&args.folder)?;
        let mut samples = plan::all(&args, folder.path())?;
        for round in 1..=args.rounds {
            eprintln!("round {round} of {}", args.rounds);
            samples.iter_mut().try_for_each(plan::Sample::take)?;
        }
        print!("{}", report::page(&args, &samples));
        Ok(())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pipkin-compare-wasi: {error}");
            ExitCode::FAILURE
        }
    }
}
