//! `pipkin salvage`

use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::new_file::NewFile;
use crate::output::{self, records};
use crate::progress::{Progress, Unit};
use crate::store::open_damaged;
use crate::verbs::verify::{DamageJson, describe};
use clap::Args;
use pipkin::{Db, SalvageReport};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example:
  pipkin salvage app.pipkin mended.pipkin

Works on stores that do not open. The damaged store is never changed; the new \
one appears under its name when it is whole. Exits with 0 if there was no \
damage and with 3 if there was some: the new store then holds everything else.";

/// Arguments of `salvage`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SalvageArgs {
    /// The damaged store
    source: PathBuf,
    /// The store to create; it must not exist
    target: PathBuf,
}

#[derive(Serialize)]
struct Report<'a> {
    target: String,
    records: u64,
    removed: u64,
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
        damage: DamageJson::list(&salvaged.damage),
    };
    let mut plain = describe(&salvaged.damage);
    let _ = write!(plain, "{} copied to {}", records(report.records), report.target);
    output::report(global.json, &report, &plain)?;
    Ok(if report.damage.is_empty() { Exit::Done } else { Exit::Damage })
}

fn copy(
    args: &SalvageArgs,
    source: &dyn pipkin::Storage,
    new_file: &NewFile,
    show: &mut dyn FnMut(u64, u64),
) -> Outcome<SalvageReport> {
    let to_target = |error: pipkin::Error| Failure::store(&args.target, &error);
    let target = new_file.make(|part| Db::builder().path(part).open()).map_err(to_target)?;
    let copied = pipkin::salvage(source, &target, show);
    let report = copied.map_err(|error| Failure::copy(&args.source, &args.target, &error))?;
    target.flush().map_err(to_target)?;
    target.close().map_err(to_target)?;
    Ok(report)
}
