//! `pipkin persist`

use crate::args::{FormArgs, Global, NamespaceArg};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::store::Store;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example:
  pipkin persist app.pipkin draft

Lets records live for ever that would expire. Exits with 1 if one of the keys \
was not there; the others are kept all the same.";

/// Arguments of `persist`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PersistArgs {
    /// The store file
    store: PathBuf,
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    namespace: NamespaceArg,
}

#[derive(Serialize)]
struct Report {
    /// Records that would have expired.
    persisted: u64,
    missing: u64,
}

pub(crate) fn run(global: Global, args: &PersistArgs) -> Outcome {
    let form = args.form.form();
    let keys = args.keys.iter().map(|key| form.parse_argument(key)).collect::<Outcome<Vec<_>>>()?;
    let store = Store::change(&args.store, &args.namespace)?;
    let mut report = Report { persisted: 0, missing: 0 };
    let mut first_missing = None;
    for key in &keys {
        if store.records().persist(key).map_err(|error| store.failure(&error))? {
            report.persisted = report.persisted.saturating_add(1);
        } else if !store.records().contains_key(key).map_err(|error| store.failure(&error))? {
            report.missing = report.missing.saturating_add(1);
            first_missing = first_missing.or(Some(key));
        }
    }
    store.flush_and_close()?;
    if let Some(key) = first_missing {
        let what = format!("{} of the keys not in the store, the first is {}", report.missing, form.plain(key));
        return Err(Failure::new(Exit::No, "key-not-found", what));
    }
    output::report(global.json, &report, "")?;
    Ok(Exit::Done)
}
