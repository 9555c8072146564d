//! `pipkin scan`

use crate::args::{FormArgs, Global, ReadArgs};
use crate::bytes::{Form, KeyJson, RecordJson};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, json_line};
use crate::store::Store;
use crate::verbs::select::SelectArgs;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pipkin scan app.pipkin --limit 10
  pipkin scan app.pipkin --prefix user/ --sort --keys-only
  pipkin scan app.pipkin --group user.7 --count
  pipkin scan app.pipkin --range 2026-01..2026-02 --reverse --limit 10
  pipkin scan app.pipkin --json | jq -r .key

Plain lines are key TAB value, with \\\\, \\t, \\n, \\r and \\xNN for a backslash, \
for control characters and for bytes that are not UTF-8. With --json each line \
is what `pipkin import --format ndjson` reads back. Without --sort the records \
come in no particular order.";

/// Arguments of `scan`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ScanArgs {
    /// The store file
    store: PathBuf,
    /// Leave the values out
    #[arg(long, short)]
    keys_only: bool,
    /// Print only how many records there are
    #[arg(long, conflicts_with = "keys_only")]
    count: bool,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Serialize)]
struct CountReport {
    records: u64,
}

pub(crate) fn run(global: Global, args: &ScanArgs) -> Outcome {
    let form = args.form.form();
    let selection = args.select.selection(args.form)?;
    let store = Store::read_as(&args.store, &args.read)?;
    if args.count {
        let mut report = CountReport { records: 0 };
        selection.keys(&store, |_| {
            report.records = report.records.saturating_add(1);
            Ok(())
        })?;
        output::report(global.json, &report, &report.records.to_string())?;
        return Ok(Exit::Done);
    }
    let mut out = output::stdout();
    if args.keys_only {
        selection.keys(&store, |key| write_key(&mut out, global.json, form, key).map_err(|error| Failure::stdout(&error)))?;
    } else {
        selection.records(&store, |key, value, expires_ms| {
            let json = RecordJson::new(form, key, value).expiring(expires_ms);
            let written = if global.json { json_line(&mut out, &json) } else { write_record(&mut out, form, key, value) };
            written.map_err(|error| Failure::stdout(&error))
        })?;
    }
    output::finish(out)?;
    Ok(Exit::Done)
}

fn write_key(out: &mut dyn Write, json: bool, form: Form, key: &[u8]) -> io::Result<()> {
    if json { json_line(out, &KeyJson::new(form, key)) } else { writeln!(out, "{}", form.plain(key)) }
}

fn write_record(out: &mut dyn Write, form: Form, key: &[u8], value: &[u8]) -> io::Result<()> {
    writeln!(out, "{}\t{}", form.plain(key), form.plain(value))
}
