//! `pipkin verify`

use crate::args::Global;
use crate::bytes::{Form, KeyJson};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, human_bytes, records};
use crate::progress::{Progress, Unit};
use crate::store::{open_damaged, reading};
use crate::unlock;
use crate::verbs::counting::Counting;
use clap::Args;
use pipkin::{Damage, Storage};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pipkin verify app.pipkin
  pipkin verify app.pipkin --json | jq -c '.damage[]'

Reads the whole file and checks every checksum, also of a store that does not \
open. Nothing is changed. Exits with 0 if all is well, and with 3 if there is \
damage, or if records stand behind the place where an unclean end has cut the \
log: a power cut leaves such records, and so does a damaged bit. They do not \
count; `pipkin salvage` copies the store, and `pipkin compact --drop-stranded` \
gives them up.";

/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// The store file
    store: PathBuf,
}

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    /// Includes dead records and tombstones.
    log_records: u64,
    bytes_checked: u64,
    segments: u64,
    damage: Vec<DamageJson<'a>>,
    /// Records after the point at which an unclean end has cut the log, their bytes, and the offset of the first.
    stranded_records: u64,
    stranded_bytes: u64,
    stranded_at: Option<u64>,
    /// False for a sealed store that was read without its key.
    authenticated: bool,
}

/// A damaged range of the file, in reports.
#[derive(Serialize)]
pub(crate) struct DamageJson<'a> {
    offset: u64,
    len: u64,
    what: &'static str,
    #[serde(flatten)]
    key: Option<KeyJson<'a>>,
}

impl<'a> DamageJson<'a> {
    pub(crate) fn list(damage: &'a [Damage]) -> Vec<Self> {
        let json = |place: &'a Damage| Self {
            offset: place.offset,
            len: place.len,
            what: place.what,
            key: place.key.as_deref().map(|key| KeyJson::new(Form::Text, key)),
        };
        damage.iter().map(json).collect()
    }
}

/// One line per damaged range, as plain text.
pub(crate) fn describe(damage: &[Damage]) -> String {
    let mut text = String::new();
    for place in damage {
        let _ = write!(text, "damage at byte {}, {} bytes: {}", place.offset, place.len, place.what);
        let _ = match &place.key {
            Some(key) => writeln!(text, ", key {}", Form::Text.plain(key)),
            None => writeln!(text),
        };
    }
    text
}

pub(crate) fn run(global: Global, args: &VerifyArgs) -> Outcome {
    let failure = |error: pipkin::Error| Failure::store(&args.store, &error);
    let checked = if unlock::secret().is_some() {
        // With its key a sealed store is read as those read it who have it: every tag is checked, too.
        reading(&args.store).open().and_then(|db| db.verify()).map_err(failure)?
    } else {
        let storage = open_damaged(&args.store)?;
        let total = storage.len().map_err(|error| failure(error.into()))?;
        let progress = Progress::start(global.progress, Unit::Bytes, "verify", Some(total));
        let storage = Counting::new(storage, |bytes| progress.advance(bytes));
        pipkin::verify_storage(&storage).map_err(failure)?
    };
    let report = Report {
        ok: checked.is_ok() && checked.stranded_records == 0,
        log_records: checked.records,
        bytes_checked: checked.bytes_checked,
        segments: checked.segments,
        damage: DamageJson::list(&checked.damage),
        stranded_records: checked.stranded_records,
        stranded_bytes: checked.stranded_bytes,
        stranded_at: checked.stranded_at,
        authenticated: !checked.unauthenticated,
    };
    let mut plain = describe(&checked.damage);
    if let Some(at) = report.stranded_at {
        let (stranded, bytes) = (records(report.stranded_records), human_bytes(report.stranded_bytes));
        let _ = writeln!(plain, "stranded behind an unclean end of the log, from byte {at}: {stranded}, {bytes}");
    }
    let (good, bytes) = (records(report.log_records), human_bytes(report.bytes_checked));
    let _ = if report.ok {
        write!(plain, "all is well: {good} in the log, {bytes} checked")
    } else if checked.is_ok() {
        write!(
            plain,
            "{good} in the log are good, {bytes} checked; what is stranded does not count. Copy the store with `pipkin salvage {} NEW_FILE`, or \
             give it up with `pipkin compact --drop-stranded`",
            args.store.display()
        )
    } else {
        let places = if report.damage.len() == 1 { "place" } else { "places" };
        write!(
            plain,
            "{} damaged {places}, {good} in the log are good; copy them with `pipkin salvage {} NEW_FILE`",
            report.damage.len(),
            args.store.display()
        )
    };
    if checked.unauthenticated {
        plain.push_str(
            "; the store is sealed and was not authenticated: checksums alone were checked, give its key to check the rest",
        );
    }
    output::report(global.json, &report, &plain)?;
    Ok(if report.ok { Exit::Done } else { Exit::Damage })
}
