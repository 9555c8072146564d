//! `pipkin salvage`

use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::new_file::NewFile;
use crate::output::{self, records};
use crate::progress::{Progress, Unit};
use crate::store::open_damaged;
use crate::unlock;
use crate::verbs::verify::{DamageJson, describe};
use clap::Args;
use pipkin::{Db, SalvageOptions, SalvageReport};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pipkin salvage app.pipkin mended.pipkin
  pipkin salvage app.pipkin mended.pipkin --unfinished --json

Works on stores that do not open. The damaged store is never changed; the new \
one appears under its name when it is whole. Exits with 0 if there was no \
damage and with 3 if there was some: the new store then holds everything else.

Of a sealed store, with its key: everything that is authentic. The new one is \
sealed by the same key, or plain with --plain. If the page of keys or both \
superblocks are lost, --key-page helps, if `pipkin keys export` was run before.";

/// Arguments of `salvage`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SalvageArgs {
    /// The damaged store
    source: PathBuf,
    /// The store to create; it must not exist
    target: PathBuf,
    /// Keep the whole records of a commit that was cut off at the end of the log
    #[arg(long)]
    unfinished: bool,
    /// Leave a key out rather than take an older version of it in place of a damaged one
    #[arg(long)]
    no_older: bool,
    /// Bring back records that were removed, where what says so is damaged
    #[arg(long)]
    removed: bool,
    /// Copy records that an unclean end has cut off, though the log has gone on elsewhere since
    #[arg(long)]
    stranded: bool,
    /// Write the records of a sealed store into a plain one, which everybody can read
    #[arg(long)]
    plain: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    target: String,
    records: u64,
    removed: u64,
    /// Records of the log with a correct checksum. Those not in `records` were replaced, removed, or are of one of the kinds below.
    log_records: u64,
    unfinished: u64,
    superseded: u64,
    revived: u64,
    stranded: u64,
    unsure: u64,
    /// Of a sealed store: nothing shows that this is its newest state.
    history_unproven: bool,
    /// Of a store that is being made plain: nothing shows who has written what is plain in it.
    unauthenticated: bool,
    damage: Vec<DamageJson<'a>>,
}

pub(crate) fn run(global: Global, args: &SalvageArgs) -> Outcome {
    let source = open_damaged(&args.source)?;
    let new_file = NewFile::new(&args.target, &args.source, false)?;
    let salvaged = {
        let progress = Progress::start(global.progress, Unit::Bytes, "salvage", Some(0));
        let mut show = |done: u64, total: u64| {
            progress.set_total(total);
            progress.set(done);
        };
        copy(args, &source, &new_file, &mut show)?
    };
    new_file.finish()?;
    let report = Report {
        target: args.target.display().to_string(),
        records: salvaged.records,
        removed: salvaged.removed,
        log_records: salvaged.read,
        unfinished: salvaged.unfinished,
        superseded: salvaged.superseded,
        revived: salvaged.revived,
        stranded: salvaged.stranded,
        unsure: salvaged.unsure,
        history_unproven: salvaged.history_unproven,
        unauthenticated: salvaged.unauthenticated,
        damage: DamageJson::list(&salvaged.damage),
    };
    let mut plain = describe(&salvaged.damage);
    plain.push_str(&explain(args, &salvaged));
    let _ = write!(plain, "{} copied to {}", records(report.records), report.target);
    output::report(global.json, &report, &plain)?;
    Ok(if report.damage.is_empty() { Exit::Done } else { Exit::Damage })
}

/// A line for each kind of salvaged or omitted records that may surprise the user.
fn explain(args: &SalvageArgs, salvaged: &SalvageReport) -> String {
    let mut text = String::new();
    let mut line = |count: u64, what: &str, fate: &str| {
        if count > 0 {
            let _ = writeln!(text, "{} {what}: {fate}", records(count));
        }
    };
    let fate = |is_kept: bool, otherwise: &'static str| if is_kept { "copied" } else { otherwise };
    let unfinished = fate(args.unfinished, "left out; `--unfinished` copies them");
    line(salvaged.unfinished, "of a commit without its end", unfinished);
    line(salvaged.superseded, "whose newer version is damaged", fate(!args.no_older, "left out"));
    let removed = fate(args.removed, "left out; `--removed` copies them");
    line(salvaged.revived, "had been removed, and what says so is damaged", removed);
    let stranded = fate(args.stranded, "left out; `--stranded` copies them");
    line(salvaged.stranded, "were cut off by an unclean end", stranded);
    line(salvaged.unsure, "may be older versions or had been removed", "copied");
    if salvaged.history_unproven {
        text.push_str("nothing shows that this is the newest state: some records may be older ones, or had been removed\n");
    }
    if salvaged.unauthenticated {
        text.push_str("the store was being made plain: nothing shows who has written what it got since\n");
    }
    text
}

fn copy(
    args: &SalvageArgs,
    source: &dyn pipkin::Storage,
    new_file: &NewFile,
    show: &mut dyn FnMut(u64, u64),
) -> Outcome<SalvageReport> {
    let to_target = |error: pipkin::Error| Failure::store(&args.target, &error);
    let builder = || if args.plain { Db::builder() } else { unlock::builder_of_new() };
    let target = new_file.make(|part| builder().path(part).open()).map_err(to_target)?;
    let options = SalvageOptions::default()
        .unfinished(args.unfinished)
        .superseded(!args.no_older)
        .revived(args.removed)
        .stranded(args.stranded);
    let copied = unlock::builder().salvage(source, &target, options, show);
    let report = copied.map_err(|error| Failure::copy(&args.source, &args.target, &error))?;
    target.flush().map_err(to_target)?;
    target.close().map_err(to_target)?;
    Ok(report)
}
