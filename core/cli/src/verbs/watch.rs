//! `pipkin watch`

use crate::args::{FormArgs, Global, NamespaceArg};
use crate::bytes::{Form, KeyJson, RecordJson, hex};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, json_line};
use crate::store::Store;
use clap::{ArgGroup, Args};
use pipkin::{Change, Changes, ChangesBuilder, Commit, Consumer, Error, Position, Snapshot};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

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
everything was written to stdout. Prints what there is and ends. With --follow \
it reads beside the process that writes, and prints each commit once it is \
flushed, until Ctrl-C.

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
    /// Wait for more, until Ctrl-C, beside a process that has the store open
    #[arg(long, conflicts_with = "consumer")]
    follow: bool,
    /// Print commits that are not flushed yet, too: a power cut may take them back
    #[arg(long, requires = "follow")]
    appended: bool,
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
    let prefix = args.prefix.as_deref().map(|prefix| args.form.form().parse_argument(prefix)).transpose()?.unwrap_or_default();
    let from = args.from.as_deref().map(parse_position).transpose()?;
    if args.forget {
        return forget(args);
    }
    let none = NamespaceArg::default();
    let store = match &args.consumer {
        // Only a consumer changes the store.
        Some(_) => Store::change(&args.store, &none),
        None if args.follow => Store::follow(&args.store, &none),
        None => Store::read(&args.store, &none),
    }?;
    let (state, reader) = begin(&store, args, &prefix, from).map_err(|error| failed(&store, &error))?;
    let mut out = output::stdout();
    if let Some(state) = state {
        print_state(&store, &state, args, &prefix, &mut out)?;
    }
    match reader {
        Reader::Plain(changes) if args.follow => follow(&store, changes, args.form.form(), &mut out)?,
        reader => print_all(store, reader, args.form.form(), out)?,
    }
    Ok(Exit::Done)
}

fn forget(args: &WatchArgs) -> Outcome {
    let store = Store::change(&args.store, &NamespaceArg::default())?;
    let name = args.consumer.as_deref().unwrap_or_default();
    let was_there = store.db().remove_consumer(name).map_err(|error| failed(&store, &error))?;
    store.flush_and_close()?;
    Ok(if was_there { Exit::Done } else { Exit::No })
}

/// Prints what there is, and where that ends.
fn print_all(store: Store, mut reader: Reader, form: Form, mut out: impl Write) -> Outcome<()> {
    while let Some(commit) = reader.next().map_err(|error| failed(&store, &error))? {
        print_commit(&mut out, form, &commit)?;
    }
    let end = reader.position();
    json_line(&mut out, &EndJson { end: hex(&end.to_bytes()) }).map_err(|error| Failure::stdout(&error))?;
    output::finish(out)?;
    // What nobody has got comes again.
    if let Reader::Named(consumer) = reader {
        consumer.ack(end).map_err(|error| failed(&store, &error))?;
        drop(consumer);
        store.flush_and_close()?;
    }
    Ok(())
}

/// Prints what there is and what comes, until the process is ended.
fn follow(store: &Store, mut changes: Changes, form: Form, out: &mut dyn Write) -> Outcome<()> {
    loop {
        while let Some(commit) = changes.try_next().map_err(|error| failed(store, &error))? {
            print_commit(out, form, &commit)?;
        }
        out.flush().map_err(|error| Failure::stdout(&error))?;
        match changes.next() {
            Some(commit) => print_commit(out, form, &commit.map_err(|error| failed(store, &error))?)?,
            None => return Ok(()),
        }
    }
}

fn print_commit(out: &mut dyn Write, form: Form, commit: &Commit) -> Outcome<()> {
    let changes = commit.changes().iter().map(|change| change_json(form, change)).collect();
    let line = CommitJson { position: hex(&commit.position().to_bytes()), changes };
    json_line(out, &line).map_err(|error| Failure::stdout(&error))
}

fn begin(store: &Store, args: &WatchArgs, prefix: &[u8], from: Option<Position>) -> pipkin::Result<(Option<Snapshot>, Reader)> {
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
    changes = changes.appended(args.appended);
    if args.initial {
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
