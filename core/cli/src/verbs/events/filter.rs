//! Which events, and how one is printed.

use crate::bytes::{Form, hex};
use crate::exit::{Failure, Outcome};
use crate::output::json_line;
use clap::Args;
use pipkin::{Condition, Event, EventReader, Events};
use serde::Serialize;
use std::borrow::Cow;
use std::io::Write;

/// Which events.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only those of this stream
    #[arg(long, conflicts_with_all = ["types", "tags"])]
    stream: Option<String>,
    /// Only those of this type; may be repeated for one of several
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only those with this tag; may be repeated for all of several
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

impl FilterArgs {
    pub(super) fn reader(&self, log: &Events) -> EventReader {
        match &self.stream {
            Some(stream) => log.stream(stream),
            None if self.types.is_empty() && self.tags.is_empty() => log.all(),
            None => log.matching(&Condition::new(&self.types, &self.tags)),
        }
    }
}

#[derive(Serialize)]
struct EventJson<'a> {
    number: u64,
    stream: &'a str,
    version: u64,
    #[serde(rename = "type")]
    kind: &'a str,
    payload: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_encoding: Option<&'static str>,
    tags: Vec<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    metadata: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_encoding: Option<&'static str>,
    id: String,
    /// Milliseconds since 1970.
    time_ms: u64,
}

pub(super) fn print(out: &mut dyn Write, event: &Event) -> Outcome<()> {
    let (payload, payload_encoding) = Form::Text.marked(event.payload());
    let (metadata, metadata_encoding) = Form::Text.marked(event.metadata());
    let line = EventJson {
        number: event.number(),
        stream: event.stream(),
        version: event.version(),
        kind: event.kind(),
        payload,
        payload_encoding,
        tags: event.tags().collect(),
        metadata,
        metadata_encoding,
        id: hex(&event.id()),
        time_ms: event.time_ms(),
    };
    json_line(out, &line).map_err(|error| Failure::stdout(&error))
}
