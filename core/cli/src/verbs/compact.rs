//! `pipkin compact`

use crate::args::{CompressArgs, Global, NamespaceArg};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, human_bytes, human_count};
use crate::progress::{Progress, Unit};
use crate::store::Store;
use clap::Args;
use serde::Serialize;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pipkin compact app.pipkin
  pipkin compact app.pipkin --compression on-compaction

With --compression the values of the namespace are compressed from now on, each \
by itself, with a dictionary that fits all of them; the store keeps that. A \
sealed store compresses only with --compress-sealed, each time.

May be interrupted at any moment; what was given back by then stays so. The \
end of the file is cut off; space in the middle becomes holes where the file \
system can, and is used for new records.";

/// Arguments of `compact`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompactArgs {
    /// The store file
    store: PathBuf,
    /// Give up the records behind unclean ends of the log that `verify` counts
    #[arg(long)]
    drop_stranded: bool,
    #[command(flatten)]
    compress: CompressArgs,
    #[command(flatten)]
    namespace: NamespaceArg,
}

#[derive(Serialize)]
struct Report {
    segments_retired: u64,
    records_copied: u64,
    bytes_copied: u64,
    bytes_freed: u64,
    file_bytes_before: u64,
    file_bytes_after: u64,
    disk_bytes_before: u64,
    disk_bytes_after: u64,
}

pub(crate) fn run(global: Global, args: &CompactArgs) -> Outcome {
    let store = Store::compress(&args.store, &args.namespace, args.compress.compress_sealed)?;
    let before = about(&args.store)?;
    store.keep_compression(args.compress)?;
    let compacted = {
        let progress = Progress::start(global.progress, Unit::Segments, "compact", Some(0));
        let show = |now: pipkin::CompactProgress| {
            progress.set_total(now.segments_total);
            progress.set(now.segments_done);
        };
        let db = store.db();
        let compacted = if args.drop_stranded { db.drop_stranded() } else { db.compact_with(show) };
        compacted.map_err(|error| store.failure(&error))?
    };
    store.flush_and_close()?;
    let after = about(&args.store)?;
    let report = Report {
        segments_retired: compacted.segments_retired,
        records_copied: compacted.records_copied,
        bytes_copied: compacted.bytes_copied,
        bytes_freed: compacted.bytes_freed,
        file_bytes_before: before.len(),
        file_bytes_after: after.len(),
        disk_bytes_before: disk_bytes(&before),
        disk_bytes_after: disk_bytes(&after),
    };
    let plain = format!(
        "{} segments retired; the file took {} on disk and takes {}",
        human_count(report.segments_retired),
        human_bytes(report.disk_bytes_before),
        human_bytes(report.disk_bytes_after)
    );
    output::report(global.json, &report, &plain)?;
    Ok(Exit::Done)
}

fn about(path: &Path) -> Outcome<Metadata> {
    std::fs::metadata(path).map_err(|error| Failure::io("look at", path, &error))
}

/// The space of the file on disk, without holes. Free segments in the middle are holes, so the length of the file is more than this.
#[cfg(unix)]
fn disk_bytes(file: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(file).saturating_mul(512)
}

#[cfg(not(unix))]
fn disk_bytes(file: &Metadata) -> u64 {
    file.len()
}
