//! The `pipkin` command: read, fill, check, repair and copy pipkin stores from a terminal.

mod args;
mod bytes;
mod choices;
mod command;
mod exit;
mod expiry;
mod file_kind;
mod interrupt;
mod new_file;
mod output;
mod progress;
mod secret;
mod store;
mod terminal;
mod unlock;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    match command::parse() {
        Ok(cli) => exit::finish(command::run(&cli), cli.global.json),
        Err(code) => code,
    }
}
