//! `pipkin import`: one thread parses, the other writes whole batches and checks for Ctrl-C between two of them.

mod batch;
mod csv;
pub(crate) mod dir;
mod foreign;
pub(crate) mod lines;
mod ndjson;
mod pipeline;
mod quotes;
pub(crate) mod source;

use crate::args::{CompressArgs, Global, NamespaceArg, NewStoreArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::{self, human_bytes, records};
use crate::progress::{Progress, Unit};
use crate::store::{Store, durability_name};
use clap::Args;
use pipeline::{Ended, Imported};
use serde::Serialize;
use source::{Format, RecordSource};
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  pipkin import app.pipkin records.ndjson
  pipkin import app.pipkin words.ndjson --key word
  pipkin import app.pipkin cities.csv --key id --value name
  pipkin import app.pipkin ./photos
  pipkin import copy.pipkin whole.ndjson --all-namespaces
  zcat log.ndjson.gz | pipkin import app.pipkin - --format ndjson --key id
  pipkin import app.pipkin old.redb --from redb

The store is created if it is not there; a record that is there already is \
overwritten.

ndjson (.ndjson, .jsonl)
  Without --key and --value: lines as `export` writes them,
  {\"key\":\"...\",\"value\":\"...\"}, where \"key_encoding\" and \"value_encoding\"
  may say \"base64\" or \"hex\". With --key alone the value is the whole line
  without its line break. A string is stored as its text, anything else as
  its JSON text. Blank lines are passed over. With --all-namespaces a line's
  \"namespace\" names the one that the record goes into, and a line
  {\"namespace\":\"...\"} makes one, and sets what it says with
  \"default_ttl_ms\":... and \"ordered\":true; a record without \"expires_ms\"
  lives for ever there, too.
csv (.csv; .tsv with tabs)
  Without --key and --value: the columns `key` and `value`, and
  `key_encoding` and `value_encoding` if they are there. With --key alone the
  value is the row as a JSON object, {\"column\":\"cell\",...}; with --no-header,
  as a JSON array.
dir (any directory)
  Every file below it; the key is its path from there, with / between the
  names. Links and special files are left out.

--from (a store of another engine)
  Its files stay as they are. The table that the engine has without a name
  becomes the default namespace, each other one a namespace of its name; of
  one --table the records go into --namespace or the default one. Close the
  other store before; emdb, leveldb and sled are read from a copy in the
  folder for temporary files. Of SQLite --key and --value are columns: by
  default the primary key, and the other column of a table of two, else the
  row as a JSON object. Integers as keys (redb, SQLite) are written with the
  largest byte first and the sign reversed, so that they keep their order.
  A table with several values for a key, or with keys or values whose bytes
  are not known, is an error; --table chooses another.

Records are written in batches of 1000 or 1 MiB; a batch is in the store \
wholly or not at all. Ctrl-C stops behind a batch, makes it durable, says how \
far it came and exits with 130.";

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// The store file
    store: PathBuf,
    /// A file, a directory, or - for stdin
    source: PathBuf,
    /// The format; by default that of the file's extension
    #[arg(long, short, value_enum)]
    format: Option<Format>,
    /// Read a store of this engine instead
    #[arg(long, value_enum, value_name = "ENGINE", conflicts_with_all = ["format", "delimiter", "no_header", "all_namespaces"])]
    from: Option<foreign::From>,
    /// With --from: only this table, tree, database or column family
    #[arg(long, value_name = "NAME", requires = "from")]
    table: Option<String>,
    /// The JSON field or column that is the key
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// The JSON field or column that is the value
    #[arg(long, value_name = "FIELD")]
    value: Option<String>,
    /// CSV: the separator between cells
    #[arg(long, value_name = "CHAR")]
    delimiter: Option<char>,
    /// CSV: there is no header row; columns are numbers from 1
    #[arg(long, requires = "key")]
    no_header: bool,
    /// Pass over lines, rows and files that cannot be imported, and count them, instead of stopping
    #[arg(long)]
    skip_invalid: bool,
    /// NDJSON that `export --all-namespaces` wrote: each record goes into the namespace that its line names
    #[arg(long, conflicts_with_all = ["namespace", "key", "value", "compression"])]
    all_namespaces: bool,
    /// Make every batch durable before the next one is written, instead of all of them in the end
    #[arg(long)]
    durable: bool,
    #[command(flatten)]
    new_store: NewStoreArgs,
    #[command(flatten)]
    compress: CompressArgs,
    #[command(flatten)]
    namespace: NamespaceArg,
}

#[derive(Serialize)]
struct Report {
    records: u64,
    payload_bytes: u64,
    skipped: u64,
    batches: u64,
    seconds: f64,
    durability: &'static str,
}

/// An input that was opened, with its format determined.
struct Input {
    records: Box<dyn RecordSource>,
    /// Where they go, if not to the namespace of the command line.
    namespace: Option<String>,
    total: Option<u64>,
    left_out: u64,
}

pub(crate) fn run(global: Global, args: &ImportArgs) -> Outcome {
    // Before the store is opened: a misspelt source must not leave an empty store behind.
    let input = match args.from {
        Some(engine) => foreign::open(engine, args)?,
        None => vec![open(args)?],
    };
    let start = Instant::now();
    let builder = args.new_store.builder().compress_sealed(args.compress.compress_sealed);
    let store = Store::fill(builder, &args.store, &args.namespace)?;
    store.keep_compression(args.compress)?;
    interrupt::stop_politely();
    let (imported, left_out) = import_all(global, args, &store, input)?;
    // However the import ended: first make durable what was written, then report the end.
    let durability = store.flush_and_close();
    let report = Report {
        records: imported.records,
        payload_bytes: imported.payload,
        skipped: imported.skipped.saturating_add(left_out),
        batches: imported.batches,
        seconds: start.elapsed().as_secs_f64(),
        durability: durability.as_ref().map_or("none", |durability| durability_name(*durability)),
    };
    finish(global, args, report, imported, durability.map(drop))
}

/// Imports one input after the other, until one fails; also returns how much of them was left out.
fn import_all(global: Global, args: &ImportArgs, store: &Store, inputs: Vec<Input>) -> Outcome<(Imported, u64)> {
    let (mut imported, mut left_out) = (Imported::default(), 0_u64);
    for input in inputs {
        let other = input.namespace.as_deref().map(|name| store.with_namespace(Some(name))).transpose()?;
        let progress = Progress::start(global.progress, Unit::Bytes, "import", input.total);
        let into = other.as_ref().unwrap_or(store);
        imported = imported.and(pipeline::run(input.records, into, args.skip_invalid, args.durable, &progress));
        left_out = left_out.saturating_add(input.left_out);
        if !matches!(imported.ended, Ended::Done) {
            break;
        }
    }
    Ok((imported, left_out))
}

fn finish(global: Global, args: &ImportArgs, report: Report, imported: Imported, closed: Outcome<()>) -> Outcome {
    let came_so_far = |failure: Failure| {
        let verb = if report.records == 1 { "is" } else { "are" };
        failure
            .and(format!("{} from before {verb} in the store", records(report.records)))
            .with("records", report.records)
            .with("position", imported.position)
    };
    match imported.ended {
        Ended::Done => {}
        Ended::Interrupted => {
            closed?;
            let what = format!(
                "interrupted; {} from the first {} of the source are in the store, and it is good",
                records(report.records),
                human_bytes(imported.position)
            );
            let failure = Failure::new(Exit::Interrupted, "interrupted", what);
            return Err(failure.with("records", report.records).with("position", imported.position));
        }
        Ended::BadRecord(what) => {
            closed?;
            return Err(came_so_far(Failure::bad_input(what).and("fix it, or skip it with --skip-invalid")));
        }
        Ended::Failed(failure) => return Err(came_so_far(failure)),
    }
    closed?;
    output::report(global.json, &report, &plain(&report, args))?;
    Ok(Exit::Done)
}

fn plain(report: &Report, args: &ImportArgs) -> String {
    let seconds = report.seconds.max(1e-6);
    let rate = report.records as f64 / seconds;
    let skipped = match report.skipped {
        0 => String::new(),
        skipped => format!(", {skipped} passed over"),
    };
    format!(
        "{} ({}) imported into {} in {seconds:.2} s, {rate:.0} a second{skipped}",
        records(report.records),
        human_bytes(report.payload_bytes),
        args.store.display()
    )
}

fn open(args: &ImportArgs) -> Outcome<Input> {
    let path = &args.source;
    let from_stdin = path.as_os_str() == "-";
    let is_dir = !from_stdin && path.is_dir();
    let format = match args.format {
        Some(format) => format,
        None if is_dir => Format::Dir,
        None => Format::from_name(path).ok_or_else(|| {
            let what = format!("cannot tell the format of {} from its name; say --format ndjson or --format csv", path.display());
            Failure::usage(what)
        })?,
    };
    if format != Format::Csv && (args.no_header || args.delimiter.is_some()) {
        return Err(Failure::usage("--no-header and --delimiter are for CSV"));
    }
    if args.all_namespaces && format != Format::Ndjson {
        return Err(Failure::usage("--all-namespaces is for ndjson, which says of each record in which namespace it is"));
    }
    match format {
        Format::Dir => open_dir(args, from_stdin),
        Format::Ndjson => {
            let (input, total) = source::open(path)?;
            let fields = match (&args.key, &args.value) {
                (None, None) if args.all_namespaces => ndjson::Fields::AllNamespaces,
                (None, None) => ndjson::Fields::Own,
                (key, value) => {
                    ndjson::Fields::Named { key: key.clone().unwrap_or_else(|| "key".to_owned()), value: value.clone() }
                }
            };
            Ok(Input { records: Box::new(ndjson::Ndjson::new(input, fields)), namespace: None, total, left_out: 0 })
        }
        Format::Csv => {
            let (input, total) = source::open(path)?;
            let columns = csv::Columns {
                key: args.key.as_deref(),
                value: args.value.as_deref(),
                delimiter: delimiter(args)?,
                has_header: !args.no_header,
            };
            Ok(Input { records: Box::new(csv::Csv::new(input, &columns)?), namespace: None, total, left_out: 0 })
        }
    }
}

fn open_dir(args: &ImportArgs, from_stdin: bool) -> Outcome<Input> {
    if from_stdin {
        return Err(Failure::usage("a directory cannot come from stdin; pipe NDJSON or CSV"));
    }
    if args.key.is_some() || args.value.is_some() {
        return Err(Failure::usage("--key and --value are for NDJSON and CSV; of a directory the key is the path"));
    }
    let found = dir::Tree::find(&args.source, &args.store)?;
    Ok(Input { records: Box::new(found.tree), namespace: None, total: Some(found.total), left_out: found.left_out })
}

fn delimiter(args: &ImportArgs) -> Outcome<u8> {
    let Some(delimiter) = args.delimiter else {
        return Ok(source::default_delimiter(&args.source));
    };
    let byte = u8::try_from(delimiter).ok().filter(|byte| byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n'));
    byte.ok_or_else(|| Failure::usage(format!("{delimiter:?} cannot separate cells; use one ASCII character such as ; or |")))
}
