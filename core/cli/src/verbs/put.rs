//! `pipkin put`

use crate::args::{FormArgs, Global, NamespaceArg, NewStoreArgs};
use crate::bytes::{KeyJson, os_bytes};
use crate::exit::{Exit, Failure, Outcome};
use crate::expiry::TtlArgs;
use crate::output;
use crate::store::{Store, durability_name};
use clap::Args;
use pipkin::limits::VALUE_LEN_MAX;
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pipkin put app.pipkin greeting hello
  pipkin put app.pipkin photo/1 --file photo.jpg
  pipkin put app.pipkin session/7 ada --ttl 2h
  tar c docs | pipkin put app.pipkin docs.tar -
  pipkin put app.pipkin --hex 00ff2a 'a binary key'

The store is created if it is not there. When the command ends, the record is on the device.";

/// Arguments of `put`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PutArgs {
    /// The store file
    store: PathBuf,
    /// The key, up to 64 KiB
    key: OsString,
    /// The value, up to 1 GiB, or - to read it from stdin
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    value: Option<OsString>,
    /// Take the bytes of a file as the value
    #[arg(long, short, value_name = "PATH")]
    file: Option<PathBuf>,
    #[command(flatten)]
    ttl: TtlArgs,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    new_store: NewStoreArgs,
    #[command(flatten)]
    namespace: NamespaceArg,
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    key: KeyJson<'a>,
    value_bytes: usize,
    durability: &'static str,
}

pub(crate) fn run(global: Global, args: &PutArgs) -> Outcome {
    let form = args.form.form();
    let key = form.parse_argument(&args.key)?;
    let ttl = args.ttl.ttl()?;
    // Read before the store is opened: a slow pipe must not keep the store locked, and a failed read must not create one.
    let value = read_value(args)?;
    let store = Store::fill(args.new_store.builder().background(false), &args.store, &args.namespace)?;
    store.records().insert_with_ttl(&key, &value, ttl).map_err(|error| store.failure(&error))?;
    let durability = durability_name(store.flush_and_close()?);
    output::report(global.json, &Report { key: KeyJson::new(form, &key), value_bytes: value.len(), durability }, "")?;
    Ok(Exit::Done)
}

fn read_value(args: &PutArgs) -> Outcome<Vec<u8>> {
    if let Some(path) = &args.file {
        let file = File::open(path).map_err(|error| Failure::io("open", path, &error))?;
        return read_all(file, path);
    }
    match &args.value {
        Some(value) if value == "-" => read_all(io::stdin().lock(), Path::new("standard input")),
        Some(value) => os_bytes(value)
            .map(<[u8]>::to_vec)
            .ok_or_else(|| Failure::usage("the value is not valid Unicode; give it by --file or on stdin")),
        None => Err(Failure::usage("no value was given")),
    }
}

/// Reads at most one byte more than the engine accepts, so that an endless input ends in the engine's error.
fn read_all(input: impl Read, path: &Path) -> Outcome<Vec<u8>> {
    let mut value = Vec::new();
    let limit = u64::try_from(VALUE_LEN_MAX).unwrap_or(u64::MAX).saturating_add(1);
    input.take(limit).read_to_end(&mut value).map_err(|error| Failure::io("read", path, &error))?;
    Ok(value)
}
