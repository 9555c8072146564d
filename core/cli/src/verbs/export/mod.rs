//! `pipkin export`

mod sink;

use crate::args::{FormArgs, Global, NamespaceArg};
use crate::choices::Choices;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, human_bytes, records};
use crate::progress::{Progress, Unit};
use crate::store::Store;
use crate::verbs::import::source::Format;
use crate::verbs::select::{SelectArgs, Selection};
use clap::Args;
use pipkin::SnapshotNamespace;
use serde::Serialize;
use sink::{Refused, Sink};
use std::fs;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pipkin export app.pipkin app.ndjson
  pipkin export app.pipkin app.csv --sort
  pipkin export app.pipkin ./photos --format dir --prefix 2026/
  pipkin export app.pipkin - | gzip > app.ndjson.gz
  pipkin export app.pipkin whole.ndjson --all-namespaces

ndjson (.ndjson, .jsonl; the default on stdout)
  {\"key\":\"...\",\"value\":\"...\"} per line. Bytes that are not UTF-8 are base64,
  with \"key_encoding\":\"base64\" or \"value_encoding\":\"base64\" beside them.
  A record that expires has \"expires_ms\", in milliseconds since 1970.
  With --all-namespaces a line {\"namespace\":\"...\"} begins each but the
  default one, with \"default_ttl_ms\" where its records expire by default,
  \"ordered\" where it says whether its keys are kept in order and
  \"compression\" where its values are compressed, and its records have
  \"namespace\", too.
csv (.csv; .tsv with tabs)
  The columns key, value, key_encoding and value_encoding; an encoding is
  empty for UTF-8 text.
dir (an empty directory, or a name that ends in /)
  One file per record, the key as its path. A key that is no path within the
  directory (empty, absolute, with .. or //) ends the export, or is passed
  over with --skip-invalid.

`pipkin import` reads each of them back, every byte the same. A file appears \
under its name when it is whole. Only the chosen namespace is exported, \
or, with --all-namespaces, all of them as they are at one moment. With - \
the report goes to stderr.";

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    /// The store file
    store: PathBuf,
    /// The file or directory to create, or - for stdout
    target: PathBuf,
    /// The format; by default that of the target's extension
    #[arg(long, short, value_enum)]
    format: Option<Format>,
    /// Replace the target file if it exists; where it is a link, the file that the link leads to
    #[arg(long)]
    force: bool,
    /// To a directory: pass over keys that cannot be file names, and count them, instead of stopping
    #[arg(long)]
    skip_invalid: bool,
    /// All namespaces, with how long their records live by default; ndjson only, and no selection of records
    #[arg(long, conflicts_with_all = ["namespace", "prefix", "group", "range", "limit"])]
    all_namespaces: bool,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    namespace: NamespaceArg,
}

#[derive(Default, Serialize)]
struct Report {
    records: u64,
    payload_bytes: u64,
    skipped: u64,
    /// Of an export of all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespaces: Option<u64>,
    /// Records that expire, in a format that does not say so.
    #[serde(skip_serializing_if = "is_none")]
    unsaid_expiries: u64,
    /// Logs of events, which an export of all namespaces does not hold.
    #[serde(skip_serializing_if = "is_none")]
    left_out_event_logs: u64,
}

const fn is_none(count: &u64) -> bool {
    *count == 0
}

pub(crate) fn run(global: Global, args: &ExportArgs) -> Outcome {
    let format = format(args)?;
    if args.all_namespaces && format != Format::Ndjson {
        let what =
            "only ndjson says of each record in which namespace it is; say --format ndjson, or export one namespace at a time";
        return Err(Failure::usage(what));
    }
    let selection = args.select.selection(args.form)?;
    let store = Store::read(&args.store, &args.namespace)?;
    refuse_the_store_itself(&args.store, &args.target)?;
    let sink = Sink::create(&args.store, &args.target, format, args.form.form(), args.force)?;
    let total = if args.all_namespaces { store.db().stats().ok().map(|stats| stats.records) } else { selection.total(&store) };
    let mut export = Export { args, format, sink, report: Report::default() };
    {
        let progress = Progress::start(global.progress, Unit::Records, "export", total);
        progress.say(selection.first_step());
        if args.all_namespaces {
            export.all_namespaces(&store, &selection, &progress)?;
        } else {
            selection.records(&store, |key, value, expires_ms| export.record(&progress, key, value, expires_ms))?;
        }
    }
    export.sink.finish()?;
    tell(global, args, &export.report)?;
    Ok(Exit::Done)
}

/// A running export.
struct Export<'a> {
    args: &'a ExportArgs,
    format: Format,
    sink: Sink,
    report: Report,
}

impl Export<'_> {
    /// Every namespace, as all of them are at one moment: the default one first, the others in the order of their names.
    fn all_namespaces(&mut self, store: &Store, selection: &Selection, progress: &Progress) -> Outcome<()> {
        self.report.left_out_event_logs = u64::try_from(store.db().list_events().len()).unwrap_or(u64::MAX);
        let snapshot = store.db().snapshot();
        let mut names = snapshot.list_namespaces().map_err(|error| store.failure(&error))?;
        names.sort_unstable();
        self.namespace(store, selection, progress, "", &snapshot.default_namespace())?;
        for name in names {
            if let Some(records) = snapshot.namespace(&name).map_err(|error| store.failure(&error))? {
                self.namespace(store, selection, progress, &name, &records)?;
            }
        }
        Ok(())
    }

    fn namespace(
        &mut self,
        store: &Store,
        selection: &Selection,
        progress: &Progress,
        name: &str,
        records: &SnapshotNamespace,
    ) -> Outcome<()> {
        let space = if name.is_empty() { Some(store.db().default_namespace()) } else { store.db().find_namespace(name) };
        self.sink.begin_namespace(name, space.map_or_else(Choices::default, |space| Choices::of(&space)))?;
        self.report.namespaces = Some(self.report.namespaces.unwrap_or_default().saturating_add(1));
        selection.records_of(store, records, |key, value, expires_ms| self.record(progress, key, value, expires_ms))
    }

    fn record(&mut self, progress: &Progress, key: &[u8], value: &[u8], expires_ms: Option<u64>) -> Outcome<()> {
        let report = &mut self.report;
        if report.records == 0 {
            progress.say("");
        }
        match self.sink.write(key, value, expires_ms) {
            Ok(()) => {
                let is_unsaid = expires_ms.is_some() && self.format != Format::Ndjson;
                report.unsaid_expiries = report.unsaid_expiries.saturating_add(u64::from(is_unsaid));
                report.records = report.records.saturating_add(1);
                let payload = key.len().saturating_add(value.len());
                report.payload_bytes = report.payload_bytes.saturating_add(u64::try_from(payload).unwrap_or(u64::MAX));
            }
            Err(Refused::Key(_)) if self.args.skip_invalid => report.skipped = report.skipped.saturating_add(1),
            Err(Refused::Key(what)) => {
                return Err(Failure::bad_input(what).and("export to NDJSON or CSV, or pass over it with --skip-invalid"));
            }
            Err(Refused::Failed(failure)) => return Err(failure),
        }
        progress.advance(1);
        Ok(())
    }
}

fn tell(global: Global, args: &ExportArgs, report: &Report) -> Outcome<()> {
    let skipped = match report.skipped {
        0 => String::new(),
        skipped => format!(", {skipped} passed over"),
    };
    let skipped = match report.namespaces {
        Some(count) => format!("{skipped}, of {count} namespaces"),
        None => skipped,
    };
    let skipped = match report.unsaid_expiries {
        0 => skipped,
        some => format!("{skipped}; {some} of them expire, which only ndjson says"),
    };
    let skipped = match report.left_out_event_logs {
        0 => skipped,
        some => format!("{skipped}; logs of events are not in it, {some} here: `pipkin events read` prints one"),
    };
    if is_stdout(&args.target) {
        let plain = format!("{} ({}) exported{skipped}", records(report.records), human_bytes(report.payload_bytes));
        output::report_beside_data(global.json, report, &plain);
        return Ok(());
    }
    let target = args.target.display();
    let plain = format!("{} ({}) exported to {target}{skipped}", records(report.records), human_bytes(report.payload_bytes));
    output::report(global.json, report, &plain)
}

fn format(args: &ExportArgs) -> Outcome<Format> {
    let target = &args.target;
    let named = args.format.or_else(|| match target {
        target if is_stdout(target) => Some(Format::Ndjson),
        target if target.is_dir() || target.as_os_str().as_encoded_bytes().ends_with(b"/") => Some(Format::Dir),
        target => Format::from_name(target),
    });
    match named {
        Some(Format::Dir) if is_stdout(target) => {
            Err(Failure::usage("a directory cannot go to stdout; name one, or choose ndjson or csv"))
        }
        Some(format) => Ok(format),
        None => Err(Failure::usage(format!(
            "cannot tell the format of {} from its name; say --format ndjson, --format csv or --format dir",
            target.display()
        ))),
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses to export a store over itself, which `--force` would allow otherwise.
fn refuse_the_store_itself(store: &Path, target: &Path) -> Outcome<()> {
    match (fs::canonicalize(store), fs::canonicalize(target)) {
        (Ok(store), Ok(same)) if store == same => {
            Err(Failure::usage(format!("{} is the store itself; name another file for the export", target.display())))
        }
        _ => Ok(()),
    }
}
