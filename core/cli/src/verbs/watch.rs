//! `pipkin watch`

use crate::args::{FormArgs, Global};
use crate::bytes::{Form, KeyJson, RecordJson, hex};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, json_line};
use crate::store::Store;
use clap::{ArgGroup, Args};
use pipkin::{Change, Changes, ChangesBuilder, Commit, Consumer, Error, Position, Snapshot};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often a store that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  pipkin watch app.pipkin --from start
  pipkin watch app.pipkin --from 1a05000000000000c3d2e1f0a9b8c7d6 --prefix order/
  pipkin watch app.pipkin --consumer mailer | while read -r line; do ...; done
  pipkin watch app.pipkin --initial --consumer mirror
  pipkin watch app.pipkin --initial --follow --prefix order/

One line of JSON per commit, in the order of the log: its position and all \
that it has changed. With --initial lines with \"record\" come first, one for \
each record that is there now. The last line is {\"end\":POSITION}: --from goes \
on there. A consumer goes on by itself: its place is kept in the store, once \
everything was written to stdout. Prints what there is and ends: a store is \
open in one process at a time, so nothing is written while this runs. With \
--follow it looks again whenever another process has written and closed the \
store, until Ctrl-C.

If the changes after a position are no longer kept the exit code is 1, and the \
failure names the oldest position from which they are.";

/// Arguments of `watch`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("begin").required(true).multiple(true))]
pub(crate) struct WatchArgs {
    /// The store file
    store: PathBuf,
    /// Begin after this position: 32 hexadecimal digits, or `start` for everything that is kept
    #[arg(long, value_name = "POSITION", group = "begin", conflicts_with_all = ["initial", "consumer"])]
    from: Option<String>,
    /// Begin with the records that are there now
    #[arg(long, group = "begin")]
    initial: bool,
    /// Go on where the consumer of this name has ended; a new one begins with what is written from now on
    #[arg(long, value_name = "NAME", group = "begin")]
    consumer: Option<String>,
    /// Forget the consumer instead, and let go of what is kept for it
    #[arg(long, requires = "consumer", conflicts_with = "initial")]
    forget: bool,
    /// Wait for more, until Ctrl-C; the store is open only while this prints
    #[arg(long, conflicts_with = "consumer")]
    follow: bool,
    /// Only keys that begin with these bytes
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// Only this namespace; the empty name is the default one
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    form: FormArgs,
}

#[derive(Serialize)]
struct CommitJson<'a> {
    position: String,
    changes: Vec<ChangeJson<'a>>,
}

#[derive(Serialize)]
struct ChangeJson<'a> {
    change: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(flatten)]
    record: Option<RecordJson<'a>>,
    #[serde(flatten)]
    key: Option<KeyJson<'a>>,
}

#[derive(Serialize)]
struct StateJson<'a> {
    record: RecordJson<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
}

#[derive(Serialize)]
struct EndJson {
    end: String,
}

/// Who reads: with a name, or without.
enum Reader {
    Plain(Changes),
    Named(Consumer),
}

impl Reader {
    fn next(&mut self) -> pipkin::Result<Option<Commit>> {
        match self {
            Self::Plain(changes) => changes.try_next(),
            Self::Named(consumer) => consumer.try_next(),
        }
    }

    fn position(&self) -> Position {
        match self {
            Self::Plain(changes) => changes.position(),
            Self::Named(consumer) => consumer.position(),
        }
    }
}

pub(crate) fn run(_global: Global, args: &WatchArgs) -> Outcome {
    let form = args.form.form();
    let prefix = args.prefix.as_deref().map(|prefix| form.parse_argument(prefix)).transpose()?.unwrap_or_default();
    let mut from = args.from.as_deref().map(parse_position).transpose()?;
    if args.forget {
        return forget(args);
    }
    if !args.follow {
        print_once(args, &prefix, from)?;
        return Ok(Exit::Done);
    }
    loop {
        let seen = Stamp::of(&args.store);
        match print_once(args, &prefix, from) {
            Ok(end) => {
                from = Some(end);
                seen.wait_for_another(&args.store);
            }
            // Whoever has it open is writing: what that comes to is there once it is closed.
            Err(failure) if failure.is(Exit::Locked) => std::thread::sleep(LOOK_EVERY),
            Err(failure) => return Err(failure),
        }
    }
}

fn forget(args: &WatchArgs) -> Outcome {
    let store = Store::change(&args.store, &crate::args::NamespaceArg::default())?;
    let name = args.consumer.as_deref().unwrap_or_default();
    let was_there = store.db().remove_consumer(name).map_err(|error| failed(&store, &error))?;
    store.flush_and_close()?;
    Ok(if was_there { Exit::Done } else { Exit::No })
}

/// Prints what there is; returns where that ends. From another position than the beginning on, the present state was printed before.
fn print_once(args: &WatchArgs, prefix: &[u8], from: Option<Position>) -> Outcome<Position> {
    let form = args.form.form();
    let none = crate::args::NamespaceArg::default();
    // Only a consumer changes the store.
    let store = if args.consumer.is_some() { Store::change(&args.store, &none) } else { Store::read(&args.store, &none) }?;
    let (state, mut reader) = begin(&store, args, prefix.to_vec(), from).map_err(|error| failed(&store, &error))?;
    let mut out = output::stdout();
    if let Some(state) = state {
        print_state(&store, &state, args, prefix, &mut out)?;
    }
    while let Some(commit) = reader.next().map_err(|error| failed(&store, &error))? {
        let changes = commit.changes().iter().map(|change| change_json(form, change)).collect();
        let line = CommitJson { position: hex(&commit.position().to_bytes()), changes };
        json_line(&mut out, &line).map_err(|error| Failure::stdout(&error))?;
    }
    let end = reader.position();
    if !args.follow {
        json_line(&mut out, &EndJson { end: hex(&end.to_bytes()) }).map_err(|error| Failure::stdout(&error))?;
    }
    output::finish(out)?;
    // What nobody has got comes again.
    if let Reader::Named(consumer) = reader {
        consumer.ack(end).map_err(|error| failed(&store, &error))?;
        drop(consumer);
        store.flush_and_close()?;
    }
    Ok(end)
}

/// By what a file that was written since can be told.
#[derive(PartialEq, Eq)]
struct Stamp(Option<(u64, SystemTime)>);

impl Stamp {
    fn of(path: &Path) -> Self {
        Self(std::fs::metadata(path).ok().and_then(|file| Some((file.len(), file.modified().ok()?))))
    }

    /// Waits until the file has another one, and then until nobody writes to it: who opens it in between two writers may be in their way.
    fn wait_for_another(self, path: &Path) {
        let mut last = self;
        let mut is_another = false;
        loop {
            std::thread::sleep(LOOK_EVERY);
            let now = Self::of(path);
            if now == last && is_another {
                return;
            }
            is_another |= now != last;
            last = now;
        }
    }
}

fn begin(store: &Store, args: &WatchArgs, prefix: Vec<u8>, from: Option<Position>) -> pipkin::Result<(Option<Snapshot>, Reader)> {
    if let Some(name) = &args.consumer {
        let mut consumer = store.db().consumer(name).prefix(prefix);
        if let Some(namespace) = &args.namespace {
            consumer = consumer.namespace(namespace);
        }
        if !args.initial {
            return Ok((None, Reader::Named(consumer.start()?)));
        }
        let (state, consumer) = consumer.with_state()?;
        return Ok((Some(state), Reader::Named(consumer)));
    }
    let mut changes: ChangesBuilder = store.db().changes().prefix(prefix);
    if let Some(namespace) = &args.namespace {
        changes = changes.namespace(namespace);
    }
    if args.initial && from.is_none() {
        let (state, changes) = changes.with_state()?;
        return Ok((Some(state), Reader::Plain(changes)));
    }
    Ok((None, Reader::Plain(changes.from(from.unwrap_or(Position::START)).start()?)))
}

fn print_state(store: &Store, state: &Snapshot, args: &WatchArgs, prefix: &[u8], out: &mut dyn Write) -> Outcome<()> {
    let failed = |error: Error| failed(store, &error);
    let named = state.list_namespaces().map_err(failed)?;
    for name in [String::new()].into_iter().chain(named) {
        if args.namespace.as_ref().is_some_and(|asked| *asked != name) {
            continue;
        }
        let records = if name.is_empty() { Some(state.default_namespace()) } else { state.namespace(&name).map_err(failed)? };
        let records = records.as_ref();
        for record in records.into_iter().flat_map(|records| records.iter()) {
            let (key, value) = record.map_err(failed)?;
            if key.starts_with(prefix) {
                let expires_at = records.map_or(Ok(None), |records| records.expires_at(&key)).map_err(failed)?;
                let record = RecordJson::new(args.form.form(), &key, &value).expiring(expires_at);
                let line = StateJson { record, namespace: &name };
                json_line(out, &line).map_err(|error| Failure::stdout(&error))?;
            }
        }
    }
    Ok(())
}

fn change_json(form: Form, change: &Change) -> ChangeJson<'_> {
    let namespace = change.namespace();
    let plain = |change| ChangeJson { change, namespace, record: None, key: None };
    match change {
        Change::Put { key, value, expires_at, .. } => {
            ChangeJson { record: Some(RecordJson::new(form, key, value).expiring(*expires_at)), ..plain("put") }
        }
        Change::Remove { key, .. } => ChangeJson { key: Some(KeyJson::new(form, key)), ..plain("remove") },
        Change::Clear { .. } => plain("clear"),
        _ => plain("drop"),
    }
}

fn parse_position(text: &str) -> Outcome<Position> {
    if text == "start" {
        return Ok(Position::START);
    }
    let bytes = Form::Hex.decode(text.as_bytes()).ok().and_then(|bytes| <[u8; 16]>::try_from(&*bytes).ok());
    let wrong = || Failure::usage(format!("{text:?} is no position: it has 32 hexadecimal digits, or is `start`"));
    bytes.map(Position::from_bytes).ok_or_else(wrong)
}

/// The failure for an error of the engine; one about positions names the position that helps.
fn failed(store: &Store, error: &Error) -> Failure {
    match error {
        Error::Compacted { oldest } => {
            let oldest = hex(&oldest.to_bytes());
            let message = format!(
                "{}: {error}, with --initial, or from the oldest position that is kept, {oldest}",
                store.path().display()
            );
            Failure::new(Exit::No, "compacted", message).with("oldest", oldest)
        }
        _ => store.failure(error),
    }
}
