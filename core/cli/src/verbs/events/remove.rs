//! `pipkin events truncate`

use super::{existing, failed};
use crate::args::{Global, NamespaceArg};
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::store::Store;
use clap::{ArgGroup, Args};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `events truncate`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true))]
pub(crate) struct TruncateArgs {
    /// The store file
    store: PathBuf,
    /// The log of events
    log: String,
    /// The stream
    stream: String,
    /// Remove those in front of this version
    #[arg(long, value_name = "VERSION", group = "which")]
    before: Option<u64>,
    /// Remove all but the last so many
    #[arg(long, value_name = "COUNT", group = "which")]
    keep: Option<u64>,
    /// Remove all
    #[arg(long, group = "which")]
    all: bool,
}

#[derive(Serialize)]
struct Report {
    removed: u64,
}

pub(crate) fn run(global: Global, args: &TruncateArgs) -> Outcome {
    let store = Store::change(&args.store, &NamespaceArg::default())?;
    let log = existing(&store, &args.log)?;
    let removed = match (args.before, args.keep) {
        (Some(before), _) => log.truncate(&args.stream, before),
        (_, Some(keep)) => log.keep_last(&args.stream, keep),
        _ => log.delete_stream(&args.stream),
    };
    let removed = removed.map_err(|error| failed(&store, &error))?;
    drop(log);
    store.flush_and_close()?;
    let plain = if removed == 1 { "1 event removed".to_owned() } else { format!("{removed} events removed") };
    output::report(global.json, &Report { removed }, &plain)?;
    Ok(Exit::Done)
}
