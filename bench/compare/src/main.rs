//! Measures pipkin and its peers side by side in one run. See README.md.

#[cfg(not(target_os = "linux"))]
compile_error!("the comparison reads Linux's /proc and its control groups");

mod args;
mod cgroup;
mod data;
mod engine;
mod engines;
mod facts;
mod numbers;
mod phases;
mod process;
mod report;
mod rows;
mod run;
mod sample;
mod scale;
mod shapes;
mod ycsb;
mod zipf;

use args::Command;
use std::process::ExitCode;

/// Any engine's error: all of them are only reported.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

fn main() -> ExitCode {
    let command = args::parse(std::env::args().skip(1));
    let done = command.and_then(|command| match command {
        Command::Help => {
            println!("{}", args::HELP);
            Ok(true)
        }
        Command::Run(options) => run::run(&options),
        Command::Report { out, before } => report::from_file(&out, before.as_deref()).map(|()| true),
        Command::Child(child) => child.run().map(|()| true),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("pipkin-compare: {error}");
            ExitCode::FAILURE
        }
    }
}
