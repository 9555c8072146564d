//! `pipkin backup`

use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::new_file::NewFile;
use crate::output::{self, human_bytes, records};
use crate::progress::{Progress, Unit};
use crate::store::Store;
use crate::verbs::counting::Counting;
use clap::Args;
use pipkin::storage::{NativeOptions, NativeStorage};
use pipkin::{BackupReport, Storage};
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example:
  pipkin backup app.pipkin app-monday.pipkin

Every record is checked as it is copied; damage ends the backup. The copy is a \
store like any other, but for the snapshot of the index: opening it reads all of \
it, until it has one of its own. It appears under its name when it is whole and \
on the device.";

/// Arguments of `backup`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BackupArgs {
    /// The store file
    source: PathBuf,
    /// The copy to create; it must not exist
    target: PathBuf,
}

#[derive(Serialize)]
struct Report {
    target: String,
    records: u64,
    /// Includes dead records and tombstones: a backup copies the log.
    log_records: u64,
    bytes: u64,
}

pub(crate) fn run(global: Global, args: &BackupArgs) -> Outcome {
    let store = Store::back_up(&args.source)?;
    let stats = store.db().stats().map_err(|error| store.failure(&error))?;
    let new_file = NewFile::new(&args.target, &args.source, false)?;
    let copied = {
        let total = stats.live_bytes.saturating_add(stats.dead_bytes);
        let progress = Progress::start(global.progress, Unit::Bytes, "backup", Some(total));
        copy(&store, &new_file, &progress)?
    };
    new_file.finish()?;
    let target = args.target.display().to_string();
    let report = Report { target, records: stats.records, log_records: copied.records, bytes: copied.bytes };
    let plain = format!("{} copied to {}, {}", records(report.records), report.target, human_bytes(report.bytes));
    output::report(global.json, &report, &plain)?;
    Ok(Exit::Done)
}

/// Like `Db::backup_to`, but into a file that this command creates, so that the copied bytes can be counted for the bar.
fn copy(store: &Store, target: &NewFile, progress: &Progress) -> Outcome<BackupReport> {
    let to_target = |error: pipkin::Error| Failure::store(target.target(), &error);
    let options = NativeOptions { mmap: false, ..NativeOptions::default() };
    let storage = target.make(|part| NativeStorage::open(part, options)).map_err(to_target)?;
    let storage = Counting::new(storage, |bytes| progress.advance(bytes));
    let copied = store.db().backup_to_storage(&storage);
    let report = copied.map_err(|error| Failure::copy(store.path(), target.target(), &error))?;
    storage.sync().map_err(|error| to_target(error.into()))?;
    Ok(report)
}
