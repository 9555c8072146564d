//! `pipkin sweep`

use crate::args::{Global, NamespaceArg};
use crate::exit::{Exit, Outcome};
use crate::output::{self, human_count};
use crate::store::Store;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example:
  pipkin sweep app.pipkin && pipkin compact app.pipkin

Forgets the records that have expired. No verb shows them anyway; `compact` \
gives their space back.";

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SweepArgs {
    /// The store file
    store: PathBuf,
}

#[derive(Serialize)]
struct Report {
    swept: u64,
    records: u64,
}

pub(crate) fn run(global: Global, args: &SweepArgs) -> Outcome {
    let store = Store::change(&args.store, &NamespaceArg::default())?;
    let swept = store.db().sweep_expired().map_err(|error| store.failure(&error))?;
    if swept > 0 {
        // The index that the next open reads is without them.
        store.db().checkpoint().map_err(|error| store.failure(&error))?;
    }
    let records = store.db().stats().map_err(|error| store.failure(&error))?.records;
    store.flush_and_close()?;
    let plain = format!("{} expired records forgotten, {} left", human_count(swept), human_count(records));
    output::report(global.json, &Report { swept, records }, &plain)?;
    Ok(Exit::Done)
}
