//! One file per verb: its arguments, its help and what it does.

pub(crate) mod backup;
pub(crate) mod compact;
pub(crate) mod completions;
mod counting;
pub(crate) mod digest;
pub(crate) mod export;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod namespaces;
pub(crate) mod put;
pub(crate) mod rm;
pub(crate) mod salvage;
pub(crate) mod scan;
mod select;
pub(crate) mod stats;
pub(crate) mod verify;

use crate::args::{Cli, Verb};
use crate::exit::Outcome;
use crate::interrupt;

/// Does what the command line asks for.
pub(crate) fn run(cli: &Cli) -> Outcome {
    let global = cli.global;
    interrupt::install(global.json)?;
    match &cli.verb {
        Verb::Put(args) => put::run(global, args),
        Verb::Get(args) => get::run(global, args),
        Verb::Rm(args) => rm::run(global, args),
        Verb::Scan(args) => scan::run(global, args),
        Verb::Stats(args) => stats::run(global, args),
        Verb::Verify(args) => verify::run(global, args),
        Verb::Salvage(args) => salvage::run(global, args),
        Verb::Compact(args) => compact::run(global, args),
        Verb::Backup(args) => backup::run(global, args),
        Verb::Import(args) => import::run(global, args),
        Verb::Export(args) => export::run(global, args),
        Verb::Digest(args) => digest::run(global, args),
        Verb::Namespaces(args) => namespaces::run(global, args),
        Verb::Completions(args) => completions::run(global, args),
    }
}
