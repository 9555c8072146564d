//! `pipkin events import`

use super::append::parse_id;
use super::failed;
use crate::args::{Global, NamespaceArg, NewStoreArgs};
use crate::bytes::decode;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::progress::{Progress, Unit};
use crate::store::Store;
use crate::verbs::import::lines::Lines;
use crate::verbs::import::source;
use clap::Args;
use pipkin::{Error, Events, Expected, NewEvent};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::PathBuf;

/// Most events of a commit.
const COMMIT_EVENTS_MAX: usize = 1000;
/// A commit with so many bytes takes no further event.
const COMMIT_BYTES: usize = 1024 * 1024;

/// The latest time of an event: the file has 48 bits for it.
const TIME_MS_MAX: u64 = (1 << 48) - 1;

/// Arguments of `events import`.
#[derive(Debug, Args)]
pub(crate) struct ImportEventsArgs {
    /// The store file; created if it is missing
    store: PathBuf,
    /// The log of events; created if it is missing
    log: String,
    /// A file with lines as `events read` prints them, or - for stdin
    source: PathBuf,
    /// Give the events the next versions of their streams instead of those in the lines: for streams whose first events were removed. Lines that
    /// are imported twice are there twice then
    #[arg(long)]
    new_versions: bool,
    #[command(flatten)]
    new: NewStoreArgs,
}

#[derive(Serialize)]
struct Report {
    events: u64,
    /// They had been imported before.
    repeated: u64,
}

/// What is read of a line.
#[derive(Deserialize)]
struct Line {
    stream: String,
    version: Option<u64>,
    #[serde(rename = "type")]
    kind: String,
    payload: String,
    payload_encoding: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    metadata: String,
    metadata_encoding: Option<String>,
    id: Option<String>,
    time_ms: Option<u64>,
}

/// An event that waits for the commit.
struct Waiting {
    /// Of the line, from 1.
    number: u64,
    stream: String,
    expected: Expected,
    event: NewEvent<'static>,
}

/// A running import.
struct Import<'a> {
    args: &'a ImportEventsArgs,
    store: &'a Store,
    log: Events,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    report: Report,
}

pub(crate) fn run(global: Global, args: &ImportEventsArgs) -> Outcome {
    // Before the store is opened: a misspelt source must not leave an empty store behind.
    let (input, total) = source::open(&args.source)?;
    let store = Store::fill(args.new.builder(), &args.store, &NamespaceArg::default())?;
    let log = store.db().events(&args.log).map_err(|error| failed(&store, &error))?;
    let report = Report { events: 0, repeated: 0 };
    let mut import = Import { args, store: &store, log, waiting: Vec::new(), waiting_bytes: 0, report };
    let ended = {
        let progress = Progress::start(global.progress, Unit::Bytes, "import", total);
        import.all(&mut Lines::new(input), &progress)
    };
    let Import { report, log, .. } = import;
    drop(log);
    // However it ended: what was appended is made durable.
    let closed = store.flush_and_close();
    let came_so_far = |failure: Failure| {
        failure.and(format!("{} from before are in the store", events(report.events))).with("events", report.events)
    };
    ended.map_err(came_so_far)?;
    closed?;
    let repeated = match report.repeated {
        0 => String::new(),
        some => format!(", {some} of them had been there already"),
    };
    output::report(global.json, &report, &format!("{} imported into {}{repeated}", events(report.events), args.store.display()))?;
    Ok(Exit::Done)
}

fn events(count: u64) -> String {
    if count == 1 { "1 event".to_owned() } else { format!("{count} events") }
}

impl Import<'_> {
    fn all(&mut self, lines: &mut Lines, progress: &Progress) -> Outcome<()> {
        loop {
            let more = lines.advance();
            if !more.map_err(|error| Failure::new(Exit::Io, "io", format!("cannot read the input: {error}")))? {
                return self.commit();
            }
            if lines.line().trim_ascii().is_empty() {
                continue;
            }
            let waiting = match self.parse(lines) {
                Ok(waiting) => waiting,
                Err(what) => {
                    self.commit()?;
                    return Err(Failure::bad_input(format!("line {}: {what}", lines.number())));
                }
            };
            self.waiting.push(waiting);
            self.waiting_bytes = self.waiting_bytes.saturating_add(lines.line().len());
            if self.waiting.len() >= COMMIT_EVENTS_MAX || self.waiting_bytes >= COMMIT_BYTES {
                self.commit()?;
                progress.set(lines.position());
            }
        }
    }

    fn parse(&self, lines: &Lines) -> Result<Waiting, String> {
        let line: Line = serde_json::from_slice(lines.line()).map_err(|error| format!("this is no event: {error}"))?;
        let expected = match line.version {
            _ if self.args.new_versions => Expected::Any,
            Some(version) if version > 0 => Expected::Version(version.saturating_sub(1)),
            _ => return Err("it has no version; say --new-versions if its stream is to go on".to_owned()),
        };
        let bytes = |field: &str, text: &str, encoding: Option<&str>| {
            decode(text.as_bytes().into(), encoding).map(Cow::into_owned).map_err(|what| format!("its {field}: {what}"))
        };
        let payload = bytes("payload", &line.payload, line.payload_encoding.as_deref())?;
        let metadata = bytes("metadata", &line.metadata, line.metadata_encoding.as_deref())?;
        let event = line.tags.into_iter().fold(NewEvent::new(line.kind, payload).metadata(metadata), NewEvent::tag);
        let event = match &line.id {
            Some(id) => event.id(parse_id(id)?),
            None => event,
        };
        let event = match line.time_ms {
            Some(time) if time > TIME_MS_MAX => return Err(format!("its time_ms is {time}, the most is {TIME_MS_MAX}")),
            Some(time) => event.time_ms(time),
            None => event,
        };
        Ok(Waiting { number: lines.number(), stream: line.stream, expected, event })
    }

    /// Appends what waits: as one commit, or, where a stream is not as expected, one by one, so that those which had been imported before are
    /// passed over.
    fn commit(&mut self) -> Outcome<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let batch = waiting.iter().fold(self.store.db().batch(), |batch, next| {
            batch.append(&self.log, &*next.stream, next.expected, [next.event.clone()])
        });
        match batch.commit() {
            Ok(_) => {
                let count = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
                self.report.events = self.report.events.saturating_add(count);
                Ok(())
            }
            Err(Error::AppendRefused { .. } | Error::InvalidArgument(_) | Error::ValueTooLong { .. }) => {
                waiting.into_iter().try_for_each(|next| self.append(next))
            }
            Err(error) => Err(failed(self.store, &error)),
        }
    }

    fn append(&mut self, next: Waiting) -> Outcome<()> {
        let appended = self.log.append(&next.stream, next.expected, [next.event]).map_err(|error| {
            let failure = match &error {
                Error::InvalidArgument(what) => Failure::bad_input(format!("line {}: {what}", next.number)),
                Error::AppendRefused { .. } => {
                    let what = format!("line {}: {error}", next.number);
                    Failure::new(Exit::No, "append-refused", what).and("--new-versions lets the stream go on from there")
                }
                _ => failed(self.store, &error),
            };
            failure.with("line", next.number)
        })?;
        self.report.events = self.report.events.saturating_add(1);
        self.report.repeated = self.report.repeated.saturating_add(u64::from(appended.repeated));
        Ok(())
    }
}
