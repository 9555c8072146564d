//! `pipkin digest`

use crate::args::{Global, NamespaceArg};
use crate::bytes::hex;
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::progress::{Progress, Unit};
use crate::store::Store;
use crate::verbs::select::Selection;
use clap::Args;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

const DEFINITION: &str = "\
The digest is the SHA-256 of this, for every record of the namespace in \
ascending order of the keys (compared as unsigned bytes, a shorter key before \
its continuations), one behind the other and nothing in between:

  length of the key in bytes      8 bytes, unsigned, little endian
  the key
  length of the value in bytes    8 bytes, unsigned, little endian
  the value

It says nothing about the file: order of writing, overwritten values, \
compaction and other namespaces do not change it. The digest of no records is \
that of the empty string. All keys are held in memory.

Example:
  pipkin digest app.pipkin";

/// Arguments of `digest`.
#[derive(Debug, Args)]
#[command(after_help = DEFINITION)]
pub(crate) struct DigestArgs {
    /// The store file
    store: PathBuf,
    #[command(flatten)]
    namespace: NamespaceArg,
}

#[derive(Serialize)]
struct Report {
    sha256: String,
    records: u64,
    key_bytes: u64,
    value_bytes: u64,
}

pub(crate) fn run(global: Global, args: &DigestArgs) -> Outcome {
    let store = Store::read(&args.store, &args.namespace)?;
    let selection = Selection::all_sorted();
    let mut hasher = Sha256::new();
    let mut report = Report { sha256: String::new(), records: 0, key_bytes: 0, value_bytes: 0 };
    {
        let progress = Progress::start(global.progress, Unit::Records, "digest", selection.total(&store));
        progress.say(selection.first_step());
        selection.records(&store, |key, value, _| {
            if report.records == 0 {
                progress.say("");
            }
            report.key_bytes = report.key_bytes.saturating_add(update(&mut hasher, key));
            report.value_bytes = report.value_bytes.saturating_add(update(&mut hasher, value));
            report.records = report.records.saturating_add(1);
            progress.advance(1);
            Ok(())
        })?;
    }
    report.sha256 = hex(hasher.finalize().as_slice());
    let plain = format!("{}  {}", report.sha256, args.store.display());
    output::report(global.json, &report, &plain)?;
    Ok(Exit::Done)
}

fn update(hasher: &mut Sha256, bytes: &[u8]) -> u64 {
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    hasher.update(len.to_le_bytes());
    hasher.update(bytes);
    len
}
