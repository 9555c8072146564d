//! `pipkin ttl`

use crate::args::{FormArgs, Global, ReadArgs};
use crate::bytes::KeyJson;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::store::Store;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pipkin ttl app.pipkin session/7
  pipkin ttl app.pipkin session/7 --json | jq .expires_ms

Writes how many seconds the record still lives, or \"never\" if it does not \
expire. Exits with 1 if the key is not there. `put --ttl` sets the time.";

/// Arguments of `ttl`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TtlOfArgs {
    /// The store file
    store: PathBuf,
    /// The key
    key: OsString,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    key: KeyJson<'a>,
    /// Milliseconds.
    ttl_ms: Option<u64>,
    expires_ms: Option<u64>,
}

pub(crate) fn run(global: Global, args: &TtlOfArgs) -> Outcome {
    let form = args.form.form();
    let key = form.parse_argument(&args.key)?;
    let store = Store::read_as(&args.store, &args.read)?;
    let records = store.records();
    let left = records.ttl(&key).map_err(|error| store.failure(&error))?;
    let expires_ms = records.expires_at(&key).map_err(|error| store.failure(&error))?;
    // Asked last: a record that expires meanwhile is not there.
    if !records.contains_key(&key).map_err(|error| store.failure(&error))? {
        return Err(Failure::new(Exit::No, "key-not-found", format!("the key {} is not in the store", form.plain(&key))));
    }
    let ttl_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    let plain = left.map_or_else(|| "never".to_owned(), |left| left.as_secs().to_string());
    output::report(global.json, &Report { key: KeyJson::new(form, &key), ttl_ms, expires_ms }, &plain)?;
    Ok(Exit::Done)
}
