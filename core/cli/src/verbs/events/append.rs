//! `pipkin events append`

use super::failed;
use crate::args::{Global, NamespaceArg, NewStoreArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::store::Store;
use clap::Args;
use pipkin::{Expected, NewEvent};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

/// Arguments of `events append`.
#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    /// The store file; created if it is missing
    store: PathBuf,
    /// The log of events; created if it is missing
    log: String,
    /// The stream
    stream: String,
    /// The type of the event
    #[arg(value_name = "TYPE")]
    kind: String,
    /// The payload; read from stdin without it
    payload: Option<OsString>,
    /// A tag, by which the event is found; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// What the stream must have: `any`, `none` (never an event), `exists` (an event), the version of its newest event, or `anew` (no event
    /// that is left; versions begin with 1 again)
    #[arg(long, value_name = "WHAT", default_value = "any", value_parser = parse_expected)]
    expect: Expected,
    /// Bytes beside the payload
    #[arg(long)]
    metadata: Option<OsString>,
    /// The event's id, 32 hexadecimal digits: the same append, done again, succeeds and writes nothing
    #[arg(long, value_name = "HEX", value_parser = parse_id)]
    id: Option<[u8; 16]>,
    #[command(flatten)]
    new: NewStoreArgs,
}

#[derive(Serialize)]
struct Report {
    number: u64,
    version: u64,
    repeated: bool,
}

fn parse_expected(text: &str) -> Result<Expected, String> {
    match text {
        "any" => Ok(Expected::Any),
        "none" => Ok(Expected::NoStream),
        "exists" => Ok(Expected::Exists),
        "anew" => Ok(Expected::Anew),
        version => {
            version.parse().map(Expected::Version).map_err(|_| "give `any`, `none`, `exists`, `anew` or a version".to_owned())
        }
    }
}

pub(super) fn parse_id(text: &str) -> Result<[u8; 16], String> {
    let wrong = || "an id has 32 hexadecimal digits".to_owned();
    let id = u128::from_str_radix(text, 16).map_err(|_| wrong())?;
    if text.len() == 32 { Ok(id.to_be_bytes()) } else { Err(wrong()) }
}

fn bytes_of(text: &OsString) -> Outcome<Vec<u8>> {
    crate::bytes::Form::Text.parse_argument(text)
}

pub(crate) fn run(global: Global, args: &AppendArgs) -> Outcome {
    let payload = match &args.payload {
        Some(payload) => bytes_of(payload)?,
        None => {
            let mut payload = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut payload);
            read.map_err(|error| Failure::new(Exit::Io, "io", format!("cannot read the payload from stdin: {error}")))?;
            payload
        }
    };
    let mut event = args.tags.iter().fold(NewEvent::new(&*args.kind, payload), |event, tag| event.tag(&**tag));
    if let Some(metadata) = &args.metadata {
        event = event.metadata(bytes_of(metadata)?);
    }
    if let Some(id) = args.id {
        event = event.id(id);
    }
    let store = Store::fill(args.new.builder(), &args.store, &NamespaceArg::default())?;
    let appended = store.db().events(&args.log).and_then(|log| log.append(&args.stream, args.expect, [event]));
    let appended = appended.map_err(|error| failed(&store, &error))?;
    store.flush_and_close()?;
    let report = Report { number: appended.last_number, version: appended.version, repeated: appended.repeated };
    output::report(global.json, &report, &format!("event {}, version {}", report.number, report.version))?;
    Ok(Exit::Done)
}
